//! What people get wrong, and the answer they get: every problem at once, with the path, the value
//! given, what is expected there and the name that was probably meant.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use vela_render::{
    App, Component, Definition, DefinitionKind, Gates, NoHost, Renderer, Severity, Target, Trait,
};

mod builtin;

fn definition(kind: &str, name: &str) -> Definition {
    let all = builtin::definitions(&[kind]);
    all.into_iter().find(|definition| definition.name == name).expect("a built-in definition")
}

/// Checks a component with its traits and compares what is said.
fn reported(kind: &str, properties: &Value, traits: &[(&str, Value)], expected: &Expect) {
    reported_under(&Gates::default(), kind, properties, traits, expected);
}

fn reported_under(
    gates: &Gates,
    kind: &str,
    properties: &Value,
    traits: &[(&str, Value)],
    expected: &Expect,
) {
    let component = definition("component", kind);
    let definitions: Vec<Definition> =
        traits.iter().map(|(name, _)| definition("trait", name)).collect();
    let traits = traits
        .iter()
        .zip(&definitions)
        .map(|((name, properties), definition)| Trait {
            kind: name,
            definition,
            properties: Some(properties),
        })
        .collect();
    let component = Component {
        name: "web",
        kind,
        definition: &component,
        properties: Some(properties),
        traits,
        patch: None,
    };
    let app = App { name: "shop".into(), namespace: "prod".into(), ..App::default() };
    let checked = Renderer::default().check(&app, &component, gates);
    let mut text = String::new();
    for problem in checked.problems {
        let who = problem.trait_kind.as_deref().unwrap_or("component");
        let how = if problem.severity == Severity::Error { "" } else { " (warning)" };
        writeln!(text, "{who} {}{how}: {}", problem.path, problem.message).unwrap();
        for (what, value) in
            [("given", problem.given), ("expected", problem.expected), ("nearest", problem.nearest)]
        {
            if let Some(value) = value {
                writeln!(text, "    {what}: {value}").unwrap();
            }
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn a_text_instead_of_a_number() {
    reported(
        "webservice",
        &json!({"image": "nginx", "ports": [{"port": "80"}]}),
        &[],
        &expect![[r#"
            component properties.ports[0].port: conflicting values "80" and int (mismatched types string and int)
                given: "80"
                expected: int
        "#]],
    );
}

#[test]
fn a_number_instead_of_a_text() {
    reported(
        "webservice",
        &json!({"image": "nginx", "cpu": 1}),
        &[],
        &expect![[r#"
        component properties.cpu: conflicting values string and 1 (mismatched types string and int)
            given: 1
            expected: string
    "#]],
    );
}

#[test]
fn a_word_that_is_no_member_of_the_enumeration() {
    reported(
        "webservice",
        &json!({"image": "nginx", "imagePullPolicy": "always"}),
        &[],
        &expect![[r#"
            component properties.imagePullPolicy: 3 errors in empty disjunction:
                given: "always"
                expected: "Always" | "Never" | "IfNotPresent"
                nearest: Always
            component properties.imagePullPolicy: conflicting values "Always" and "always"
                given: "always"
                expected: "Always" | "Never" | "IfNotPresent"
                nearest: Always
            component properties.imagePullPolicy: conflicting values "Never" and "always"
                given: "always"
                expected: "Always" | "Never" | "IfNotPresent"
                nearest: Always
            component properties.imagePullPolicy: conflicting values "IfNotPresent" and "always"
                given: "always"
                expected: "Always" | "Never" | "IfNotPresent"
                nearest: Always
        "#]],
    );
}

#[test]
fn a_misspelt_name() {
    reported(
        "webservice",
        &json!({"image": "nginx", "prots": []}),
        &[],
        &expect![[r#"
        component properties.prots (warning): component "web": undeclared parameters: prots (did you mean ports?)
            given: []
            nearest: ports
    "#]],
    );
}

#[test]
fn a_misspelt_name_where_nothing_else_is_allowed() {
    reported(
        "webservice",
        &json!({"image": "nginx", "livenessProbe": {"httpget": {"path": "/", "port": 80}}}),
        &[],
        &expect![[r#"
            component properties.livenessProbe.httpget: field not allowed
                given: {"path":"/","port":80}
                nearest: httpGet
        "#]],
    );
}

#[test]
fn a_struct_instead_of_a_list() {
    reported(
        "webservice",
        &json!({"image": "nginx", "env": {"A": "1"}}),
        &[],
        &expect![[r#"
            component properties.env: conflicting values [...{ // +usage=Name of the variable name: string // +usage=Value of the variable value?: string // +usage=Where to read the value from valueFrom?: { // +usage=A key of a ConfigMap configMapKeyRef?: { // +usage=Key inside the ConfigMap key: string // +usage=Name of the ConfigMap in the namespace of the application name: string } // +usage=A key of a Secret secretKeyRef?: { // +usage=Key inside the Secret key: string // +usage=Name of the Secret in the namespace of the application name: string } } }] and {...} (mismatched types list and struct)
                given: {"A":"1"}
                expected: [...]
        "#]],
    );
}

#[test]
fn a_missing_value_is_told_behind_the_gate() {
    let gates = Gates { cue_validation: true, ..Gates::default() };
    reported_under(
        &gates,
        "webservice",
        &json!({}),
        &[],
        &expect![[r#"
        component properties.image: component "web": missing parameters: image
            expected: string
    "#]],
    );
}

#[test]
fn several_mistakes_of_component_and_traits() {
    reported(
        "webservice",
        &json!({"image": 5, "ports": [{"port": "x"}, {"port": 1, "protocol": "tcp"}]}),
        &[("scaler", json!({"replicas": "2"})), ("gateway", json!({"http": {"/": "80"}}))],
        &expect![[r#"
            component properties.image: conflicting values string and 5 (mismatched types string and int)
                given: 5
                expected: string
            component properties.ports[0].port: conflicting values "x" and int (mismatched types string and int)
                given: "x"
                expected: int
            component properties.ports[1].protocol: 3 errors in empty disjunction:
                given: "tcp"
                expected: *"TCP" | "UDP" | "SCTP"
                nearest: TCP
            component properties.ports[1].protocol: conflicting values "TCP" and "tcp"
                given: "tcp"
                expected: *"TCP" | "UDP" | "SCTP"
                nearest: TCP
            component properties.ports[1].protocol: conflicting values "UDP" and "tcp"
                given: "tcp"
                expected: *"TCP" | "UDP" | "SCTP"
                nearest: TCP
            component properties.ports[1].protocol: conflicting values "SCTP" and "tcp"
                given: "tcp"
                expected: *"TCP" | "UDP" | "SCTP"
                nearest: TCP
            scaler properties.replicas: 2 errors in empty disjunction:
                given: "2"
                expected: *1 | int
            scaler properties.replicas: conflicting values 1 and "2" (mismatched types int and string)
                given: "2"
                expected: *1 | int
            scaler properties.replicas: conflicting values int and "2" (mismatched types int and string)
                given: "2"
                expected: *1 | int
            gateway properties.http."/": conflicting values "80" and int (mismatched types string and int)
                given: "80"
                expected: int
        "#]],
    );
}

#[test]
fn a_trait_that_finds_no_container() {
    reported(
        "webservice",
        &json!({"image": "nginx"}),
        &[("env", json!({"containerName": "sidecar", "env": {"A": "1"}}))],
        &expect![[r#"
            env : evaluate template trait=env app=web: validation failed for trait env:

            User Errors:
              the workload has no container sidecar
        "#]],
    );
}

#[test]
fn a_quantity_out_of_form() {
    reported(
        "webservice",
        &json!({"image": "nginx"}),
        &[("resource", json!({"cpu": 1, "memory": "1 GB"}))],
        &expect![[r#"
            resource properties.memory: 2 errors in empty disjunction:
                given: "1 GB"
                expected: *"2048Mi" | =~"^([1-9][0-9]{0,63})(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$"
            resource properties.memory: conflicting values "2048Mi" and "1 GB"
                given: "1 GB"
                expected: *"2048Mi" | =~"^([1-9][0-9]{0,63})(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$"
            resource properties.memory: invalid value "1 GB" (out of bound =~"^([1-9][0-9]{0,63})(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$")
                given: "1 GB"
                expected: *"2048Mi" | =~"^([1-9][0-9]{0,63})(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$"
        "#]],
    );
}

#[test]
fn two_traits_that_want_different_things() {
    reported(
        "webservice",
        &json!({"image": "nginx"}),
        &[
            ("sidecar", json!({"name": "log", "image": "a"})),
            ("sidecar", json!({"name": "log", "image": "b"})),
        ],
        &expect![[r#"
            sidecar : evaluate template trait=sidecar app=web: invalid patch trait sidecar into workload: result check err: spec.template.spec.containers.1.image: conflicting values "b" and "a"
        "#]],
    );
}

/// What a definition of its own makes of a component.
fn refused(spec: &Value) -> String {
    let definition = Definition::from_spec(DefinitionKind::Component, "shop", spec);
    let component = Component {
        name: "web",
        kind: "shop",
        definition: &definition,
        properties: None,
        traits: Vec::new(),
        patch: None,
    };
    let app = App { name: "shop".into(), namespace: "prod".into(), ..App::default() };
    let rendered = Renderer::default().render(&app, &Target::default(), &component, &mut NoHost);
    rendered.expect_err("refused").message
}

#[test]
fn a_schematic_of_older_releases() {
    let helm = json!({"schematic": {"helm": {"release": {}, "repository": {}}}});
    expect![[r"
        evaluate base template app=shop in namespace=prod: spec.schematic.helm of definition shop is no longer supported: write spec.schematic.cue (for a chart, use the component helmchart)"]]
    .assert_eq(&refused(&helm));
    let kube = json!({"schematic": {"kube": {"template": {}, "parameters": []}}});
    expect![[r"
        evaluate base template app=shop in namespace=prod: spec.schematic.kube of definition shop is no longer supported: write spec.schematic.cue (for a chart, use the component helmchart)"]]
    .assert_eq(&refused(&kube));
}

#[test]
fn no_schematic_at_all() {
    expect![[r"
        cannot generate manifests from component web:

        Template errors:
          definition shop has no template: it has neither spec.schematic.cue nor spec.schematic.terraform
          field not found: output"]]
    .assert_eq(&refused(&json!({"workload": {"type": "deployments.apps"}})));
}

/// A running Application may have a definition that was stored before any check.
#[test]
fn a_template_that_does_not_compile() {
    let template = |text: &str| json!({"schematic": {"cue": {"template": text}}});
    expect![[r#"
        evaluate base template app=shop in namespace=prod: failed to compile workload web after merge parameter and context: output.data.v: reference "nowhere" not found (definition shop, line 3, column 11)"#]]
    .assert_eq(&refused(&template("output: {\n\tkind: \"X\"\n\tdata: v: nowhere.v\n}\n")));
    expect!["evaluate base template app=shop in namespace=prod: failed to compile workload web after merge parameter and context: expected '}', found 'EOF' (definition shop, at its end)"]
    .assert_eq(&refused(&template("output: {\n\tkind: \"X\"\n")));
}

#[test]
fn a_definition_at_admission() {
    let examined = |text: &str| Renderer::default().examine(text).errors.join("\n");
    expect![[r#"
        output.data.v: reference "nowhere" not found (spec.schematic.cue.template, line 3, column 11)"#]]
    .assert_eq(&examined("output: {\n\tkind: \"X\"\n\tdata: v: nowhere.v\n}\n"));
    expect![[r#"
        a: conflicting values 3 and 1 (spec.schematic.cue.template, line 1, column 4)
        b: conflicting values 2 and "x" (mismatched types int and string) (spec.schematic.cue.template, line 2, column 4)"#]]
    .assert_eq(&examined("a: 1\nb: 2\nb: \"x\"\na: 3"));
    let examined = |text: &str| Renderer::default().examine_status(text).join("\n");
    expect!["missing ',' in struct literal (text, at its end)"]
        .assert_eq(&examined("isHealth: context.output.x ==\n"));
}
