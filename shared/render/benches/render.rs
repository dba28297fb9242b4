//! Time and allocated bytes of a render with our own definitions, warm and cold:
//! `cargo xtask bench render`, or `cargo bench -p vela-render`.
//!
//! The reference needs 5.3 ms and allocates 2.7 MB for one webservice without traits
//! (`recordings/perf` of the conformance material).

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports and may fail")]

#[path = "../tests/builtin/mod.rs"]
mod builtin;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::OnceLock;

use divan::{AllocProfiler, Bencher, black_box};
use serde_json::{Value, json};
use vela_render::{
    App, ClusterVersion, Component, Definition, DefinitionKind, NoHost, Options, Renderer, Target,
    Template, Trait, contract,
};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    compiled();
    divan::main();
}

/// What a compiled definition takes: the growth of this process when all built-in definitions are
/// compiled many times over, against the estimate the cache is bounded by.
fn compiled() {
    const ROUNDS: usize = 12;
    let renderer = Renderer::new(Options {
        cache: NonZeroUsize::new(100_000).expect("not zero"),
        cache_bytes: usize::MAX,
        ..Options::default()
    });
    let all: Vec<&Definition> = definitions().values().collect();
    let mut texts = 0;
    let mut before = 0;
    for round in 0..=ROUNDS {
        if round == 1 {
            // The first round warms the allocator.
            before = resident();
            texts = 0;
        }
        for definition in &all {
            let text = format!("{}\n// {round}\n", definition.template.text());
            texts += text.len();
            let template = Template::Cue(text.into());
            let definition = Definition { template, ..Definition::clone(definition) };
            renderer.compile(&definition).expect("a built-in definition compiles");
        }
    }
    let count = ROUNDS * all.len();
    let bytes = resident().saturating_sub(before);
    let (kept, estimate) = renderer.compiled();
    println!(
        "compiled definitions: {} kB each, {:.1} bytes for a byte of text (the cache reckons {} kB each)",
        bytes / count / 1000,
        bytes as f64 / texts as f64,
        estimate / kept / 1000,
    );
}

/// The memory of this process in bytes.
fn resident() -> usize {
    const PAGE: usize = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * PAGE
}

fn definition(kind: DefinitionKind, name: &str) -> &'static Definition {
    definitions().get(&(kind, name.to_owned())).expect("a built-in definition")
}

fn definitions() -> &'static HashMap<(DefinitionKind, String), Definition> {
    static ALL: OnceLock<HashMap<(DefinitionKind, String), Definition>> = OnceLock::new();
    ALL.get_or_init(|| {
        builtin::definitions(&["component", "trait"])
            .into_iter()
            .map(|definition| ((definition.kind, definition.name.clone()), definition))
            .collect()
    })
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
            components: vec![
                json!({"name": "web", "type": "webservice", "properties": properties}),
            ],
            ..App::default()
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
            definition: definition(DefinitionKind::Component, "webservice"),
            properties: Some(&self.properties),
            traits: self
                .traits
                .iter()
                .map(|(kind, properties)| Trait {
                    kind,
                    definition: definition(DefinitionKind::Trait, kind),
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
