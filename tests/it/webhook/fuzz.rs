//! Reviews that nobody would send, by the thousand, from a deterministic generator.

use fastrand::Rng;
use serde_json::{Value, json};
use vela_tests::load::{self, MUTATE, VALIDATE};

use super::{Own, good};

const PATHS: [&str; 7] = [
    VALIDATE,
    MUTATE,
    "/validating-core-oam-dev-v1beta1-componentdefinitions",
    "/mutating-core-oam-dev-v1beta1-componentdefinitions",
    "/validating-core-oam-dev-v1beta1-traitdefinitions",
    "/validating-core-oam-dev-v1beta1-policydefinitions",
    "/validating-core-oam-dev-v1beta1-workflowstepdefinitions",
];

fn application() -> Value {
    let mut review = load::review("default", &load::components(1));
    let spec = &mut review["request"]["object"]["spec"];
    spec["components"][0]["dependsOn"] = json!(["other"]);
    spec["components"][0]["inputs"] = json!([{ "from": "x.y", "parameterKey": "ports[0].port" }]);
    spec["policies"] = json!([
        { "name": "t", "type": "topology", "properties": { "clusters": ["local"], "namespace": "x" } },
        { "name": "o", "type": "override", "properties": { "components": [
            { "type": "webservice", "properties": { "image": "x" }, "traits": [{ "type": "scaler", "disable": true }] } ] } },
        { "name": "g", "type": "garbage-collect", "properties": { "rules": [{ "selector": { "componentNames": ["a"] }, "strategy": "never" }] } },
    ]);
    spec["workflow"] = json!({ "mode": { "steps": "DAG" }, "steps": [
        { "name": "d", "type": "deploy", "properties": { "policies": ["t", "o"] }, "if": "status.g.succeeded" },
        { "type": "step-group", "timeout": "1m", "subSteps": [
            { "name": "s", "type": "suspend", "dependsOn": ["d"], "outputs": [{ "name": "x", "valueFrom": "output.y" }] } ] },
        { "name": "n", "type": "notification", "properties": { "slack": { "url": { "value": "x" } } } },
    ] });
    review["request"]["oldObject"] = review["request"]["object"].clone();
    review["request"]["operation"] = json!("UPDATE");
    review["request"]["object"]["metadata"]["annotations"] =
        json!({ "app.oam.dev/publishVersion": "v1", "app.oam.dev/username": "x" });
    review
}

fn definition(kind: &str, template: &str) -> Value {
    let mut review = load::review("default", &json!([]));
    review["request"]["object"] = json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": kind,
        "metadata": { "name": "fuzz", "namespace": "default", "annotations": { "definitionrevision.oam.dev/name": "1" } },
        "spec": {
            "workload": { "type": "deployments.apps" },
            "appliesToWorkloads": ["*"],
            "schematic": { "cue": { "template": template } },
            "status": { "healthPolicy": "isHealth: true", "customStatus": "message: \"x\"" },
        },
    });
    review
}

fn seeds() -> Vec<Value> {
    vec![
        application(),
        serde_json::from_slice(&good()).unwrap(),
        definition(
            "ComponentDefinition",
            "output: {apiVersion: \"v1\", kind: \"ConfigMap\", data: {for k, v in parameter.data {\"\\(k)\": v}}}\nparameter: {data: [string]: string, n?: int}",
        ),
        definition("TraitDefinition", "patch: spec: replicas: parameter.n\nparameter: n: *1 | int"),
        definition("PolicyDefinition", "parameter: {enabled: *true | bool}"),
        definition(
            "WorkflowStepDefinition",
            "import \"vela/op\"\nx: op.#Log & {data: parameter.d}\nparameter: d: string",
        ),
    ]
}

/// Values that do not belong where they are put.
fn odd(random: &mut Rng) -> Value {
    match random.u8(0..14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(1e300),
        4 => json!(u64::MAX),
        5 => json!(""),
        6 => json!("\u{0}\u{1f600}\"\\"),
        7 => json!("a".repeat(random.usize(1..5000))),
        8 => json!([]),
        9 => json!({}),
        10 => (0..random.usize(1..60)).fold(json!(1), |value, _| json!([value])),
        11 => (0..random.usize(1..60)).fold(json!(1), |value, _| json!({ "properties": value })),
        12 => json!("webservice@v1.2.3"),
        _ => json!("{\"_\": _|_, x: [...], for a in b {}}"),
    }
}

/// Changes something somewhere below.
fn disturb(value: &mut Value, random: &mut Rng) {
    let descend = random.u8(0..10) < 8;
    match value {
        Value::Object(map) if descend && !map.is_empty() => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = &keys[random.usize(0..keys.len())];
            match random.u8(0..20) {
                0 => drop(map.remove(key)),
                1 => {
                    let moved = map.remove(key).unwrap_or_default();
                    map.insert(format!("{key}x"), moved);
                }
                2 => drop(map.insert("extra".to_owned(), odd(random))),
                _ => disturb(map.get_mut(key).unwrap_or(&mut Value::Null), random),
            }
        }
        Value::Array(items) if descend && !items.is_empty() => {
            let at = random.usize(0..items.len());
            match random.u8(0..10) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                2 => items.push(odd(random)),
                _ => disturb(&mut items[at], random),
            }
        }
        Value::String(text) if random.bool() => {
            let at = random.usize(0..=text.chars().count());
            let odd = ['"', '{', '\\', '(', '@', '.', '\u{301}', ' '][random.usize(0..8)];
            *text = text.chars().take(at).chain([odd]).chain(text.chars().skip(at)).collect();
        }
        other => *other = odd(random),
    }
}

fn body(seed: &Value, random: &mut Rng) -> Vec<u8> {
    let mut review = seed.clone();
    for _ in 0..random.usize(1..4) {
        let part = match random.u8(0..8) {
            0 => None,
            _ => review.pointer_mut("/request/object"),
        };
        match part {
            Some(object) => disturb(object, random),
            None => disturb(&mut review, random),
        }
    }
    let mut bytes = review.to_string().into_bytes();
    if random.u8(0..10) == 0 {
        for _ in 0..random.usize(1..5) {
            let at = random.usize(0..bytes.len().max(1));
            match random.u8(0..3) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), random.u8(..)),
                _ => {
                    bytes
                        .iter_mut()
                        .skip(at)
                        .take(1)
                        .for_each(|byte| *byte ^= 1 << random.u8(0..8));
                }
            }
        }
    }
    bytes
}

/// `VELA_FUZZ` says how many; the first ones are always the same.
#[tokio::test]
async fn fuzzed_reviews_are_all_answered() {
    let count = std::env::var("VELA_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(1500);
    let own = Own::start("webhook-fuzz", &[]).await;
    let seeds = seeds();
    let mut random = Rng::with_seed(20_260_101);
    let mut connection = own.target.connect().await.unwrap();
    let (mut admitted, mut denied) = (0, 0);
    for n in 0..count {
        let seed = &seeds[random.usize(0..seeds.len())];
        let path = PATHS[random.usize(0..PATHS.len())];
        // mostly the path that is for this kind
        let path = match seed["request"]["object"]["kind"].as_str() {
            Some("Application") if random.u8(0..8) > 0 => PATHS[random.usize(0..2)],
            Some(kind) if random.u8(0..8) > 0 => {
                let kind = format!("{}s", kind.to_lowercase());
                PATHS.into_iter().rfind(|path| path.ends_with(&kind)).unwrap_or(path)
            }
            _ => path,
        };
        let body = body(seed, &mut random);
        let answer = connection.post(path, &body).await.unwrap_or_else(|error| {
            panic!(
                "review {n} to {path} has no answer ({error:#}): {}",
                String::from_utf8_lossy(&body)
            )
        });
        assert_eq!(answer.status, 200, "review {n}");
        let response = answer.response();
        match response["allowed"].as_bool() {
            Some(true) => admitted += 1,
            Some(false) => {
                let code = response["status"]["code"].as_i64().unwrap_or_default();
                assert!(
                    (400..500).contains(&code),
                    "review {n} to {path}: {response}: {}",
                    String::from_utf8_lossy(&body)
                );
                denied += 1;
            }
            None => panic!("review {n} is answered by no review: {response}"),
        }
    }
    assert!(admitted > count / 20 && denied > count / 20, "{admitted} admitted, {denied} denied");
    own.assert_well().await;
}

#[test]
fn the_generator_is_deterministic() {
    let bodies = || {
        let mut random = Rng::with_seed(1);
        seeds().iter().map(|seed| body(seed, &mut random)).collect::<Vec<_>>()
    };
    assert_eq!(bodies(), bodies());
}
