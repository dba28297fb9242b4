//! Time and allocated bytes of a render with our own definitions, warm and cold:
//! `cargo xtask bench render`, or `cargo bench -p vela-render`.
//!
//! The reference needs 5.3 ms and allocates 2.7 MB for one webservice without traits
//! (`recordings/perf` of the conformance material).

#![allow(clippy::expect_used, reason = "a benchmark may fail")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use divan::{AllocProfiler, Bencher, black_box};
use serde_json::{Value, json};
use vela_render::{
    App, ClusterVersion, Component, Definition, Kind, NoHost, Renderer, Target, Trait, contract,
};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

fn definition(kind: Kind, name: &str) -> &'static Definition {
    static ALL: OnceLock<HashMap<(Kind, String), Definition>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/vela-core/definitions");
        let mut all = HashMap::new();
        for folder in ["component", "trait"] {
            for entry in std::fs::read_dir(root.join(folder)).expect("a folder").flatten() {
                let text = std::fs::read_to_string(entry.path()).expect("a definition");
                let object = vela_render::file::load("definition", &text).expect("a definition");
                let definition = Definition::from_object(&object).expect("a definition");
                all.insert((definition.kind, definition.name.clone()), definition);
            }
        }
        all
    });
    all.get(&(kind, name.to_owned())).expect("a built-in definition")
}

struct Case {
    app: App,
    target: Target,
    properties: Value,
    traits: Vec<(&'static str, Value)>,
}

impl Case {
    fn new(properties: Value, traits: Vec<(&'static str, Value)>) -> Self {
        let app = App {
            name: "shop".into(),
            namespace: "prod".into(),
            revision: "shop-v7".into(),
            labels: [("team".to_owned(), "blue".to_owned())].into(),
            annotations: [("owner".to_owned(), "a@example.com".to_owned())].into(),
            components: vec![json!({"name": "web", "type": "webservice", "properties": properties})],
        };
        let cluster_version = ClusterVersion {
            major: "1".into(),
            minor: "34".into(),
            git_version: "v1.34.0".into(),
            platform: "linux/amd64".into(),
        };
        let target = Target {
            revision: "web-v3".into(),
            cluster: "local".into(),
            cluster_version,
            ..Target::default()
        };
        Self { app, target, properties, traits }
    }

    fn render(&self, renderer: &Renderer) -> usize {
        let component = Component {
            name: "web",
            kind: "webservice",
            definition: definition(Kind::Component, "webservice"),
            properties: Some(&self.properties),
            traits: self
                .traits
                .iter()
                .map(|(kind, properties)| Trait {
                    kind,
                    definition: definition(Kind::Trait, kind),
                    properties: Some(properties),
                })
                .collect(),
            patch: None,
        };
        let mut rendered = renderer
            .render(&self.app, &self.target, &component, &mut NoHost)
            .expect("the component renders");
        contract::apply(&mut rendered, &self.app, "web", "webservice");
        rendered.auxiliaries.len()
    }
}

fn webservice() -> Value {
    json!({
        "image": "nginx:1.27",
        "ports": [{"port": 80, "expose": true}],
        "cpu": "100m",
        "memory": "128Mi",
        "env": [{"name": "MODE", "value": "fast"}, {"name": "LEVEL", "value": "info"}],
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
    })
}

fn three_traits() -> Vec<(&'static str, Value)> {
    vec![
        ("scaler", json!({"replicas": 3})),
        ("gateway", json!({"domain": "shop.example.com", "http": {"/": 80, "/api": 8080}})),
        ("sidecar", json!({"name": "log", "image": "fluent:1", "cmd": ["/run"]})),
    ]
}

fn warm(bencher: Bencher<'_, '_>, case: &Case) {
    let renderer = Renderer::default();
    case.render(&renderer);
    bencher.bench_local(|| black_box(case.render(&renderer)));
}

#[divan::bench]
fn webservice_warm(bencher: Bencher<'_, '_>) {
    warm(bencher, &Case::new(webservice(), Vec::new()));
}

#[divan::bench]
fn webservice_and_three_traits_warm(bencher: Bencher<'_, '_>) {
    warm(bencher, &Case::new(webservice(), three_traits()));
}

#[divan::bench]
fn webservice_and_three_traits_cold(bencher: Bencher<'_, '_>) {
    let case = Case::new(webservice(), three_traits());
    case.render(&Renderer::default());
    bencher.bench_local(|| black_box(case.render(&Renderer::default())));
}
