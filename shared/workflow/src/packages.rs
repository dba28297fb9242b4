//! The packages a step template may import besides CUE's own: declarations of provider calls.
//!
//! The texts are ours; names, calls and parameters are those of the reference. `vela/ql` is the
//! older form of `vela/query`.

use cue::Packages;

use crate::messages;

/// Import paths and their texts.
const TEXTS: [(&str, &str); 15] = [
    ("vela/builtin", include_str!("../packages/builtin.cue")),
    ("vela/config", include_str!("../packages/config.cue")),
    ("vela/email", include_str!("../packages/email.cue")),
    ("vela/helm", include_str!("../packages/helm.cue")),
    ("vela/http", include_str!("../packages/http.cue")),
    ("vela/kube", include_str!("../packages/kube.cue")),
    ("vela/metrics", include_str!("../packages/metrics.cue")),
    ("vela/multicluster", include_str!("../packages/multicluster.cue")),
    ("vela/oam", include_str!("../packages/oam.cue")),
    ("vela/op", include_str!("../packages/op.cue")),
    ("vela/ql", include_str!("../packages/ql.cue")),
    ("vela/query", include_str!("../packages/query.cue")),
    ("vela/terraform", include_str!("../packages/terraform.cue")),
    ("vela/time", include_str!("../packages/time.cue")),
    ("vela/util", include_str!("../packages/util.cue")),
];

/// The template of the step type `suspend`: it counts whatever definition of that name a cluster has.
pub const SUSPEND: &str = "import \"vela/builtin\"\n\nsuspend: builtin.#Suspend & {\n\t$params: parameter\n}\nparameter: {\n\tduration?: string\n\tmessage?:  string\n}\n";

/// The packages of step templates.
#[must_use]
pub fn packages() -> Packages {
    let mut packages = Packages::std();
    for (path, text) in TEXTS {
        packages.register(path, text);
    }
    packages
}

/// What a template of a step asks for that nobody here answers, as a message for people: such a step can never run. For
/// admission, and for the step itself.
#[must_use]
pub fn missing(template: &str) -> Vec<String> {
    let (file, _) = cue_syntax::parse("template", template, &cue_syntax::ParseLimits::default());
    let known = |path: &str| TEXTS.iter().any(|(known, _)| *known == path);
    file.imports
        .iter()
        .map(|import| file.ast.str(import.path).split(':').next().unwrap_or_default())
        .filter(|path| path.starts_with("vela/") && !known(path))
        .map(messages::no_package)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_template_of_suspend_compiles() {
        assert!(crate::compile(SUSPEND).is_ok());
        assert!(missing(SUSPEND).is_empty());
    }

    #[test]
    fn what_needs_something_that_is_not_there_is_named() {
        let template = "import (\n\t\"strings\"\n\th \"vela/helm\"\n\t\"vela/ql\"\n\t\"vela/workspace\"\n)\nx: h.#Render\n";
        let missing = missing(template);
        assert_eq!(missing.len(), 1);
        assert!(missing[0].contains("\"vela/workspace\""), "{missing:?}");
        assert!(super::missing("not CUE {").is_empty());
    }

    /// One cloud resource in one environment; its Secret is there or not.
    struct Cloud {
        secret: bool,
        calls: Vec<String>,
    }

    impl crate::Providers for Cloud {
        fn call(&mut self, call: &crate::ProviderCall<'_>) -> crate::Reply {
            let at = |path: &str| {
                let found = call.params.pointer(path).and_then(Value::as_str);
                found.unwrap_or_default().to_owned()
            };
            let target = at("/value/metadata/namespace") + "/" + &at("/value/metadata/name");
            let name = if call.function == "component-apply" { at("/value/name") } else { target };
            self.calls.push(format!("{} {name}", call.function));
            let db = json!({"name": "db", "type": "rds", "properties": {
                "size": 1, "writeConnectionSecretToRef": {"name": "conn"}}});
            let web = json!({"name": "web", "type": "webservice"});
            crate::Reply::Returns(match call.function {
                "load-policies" => json!({"value": {"p": {"name": "p", "type": "env-binding",
                    "properties": {"envs": [{"name": "test"}]}}}}),
                "make-placement-decisions" => {
                    json!({"outputs": {"decisions": [{"cluster": "local", "namespace": "n"}]}})
                }
                "patch-application" => json!({"outputs": {"spec": {"components": [db, web]}}}),
                "load-terraform-components" => json!({"outputs": {"components": [db]}}),
                "read" if self.secret => {
                    json!({"value": {"type": "Opaque", "data": {"password": "cHc="}}})
                }
                "read" => json!({"err": "not found"}),
                _ => Value::Null,
            })
        }
    }

    fn cloud(step: &str, secret: bool) -> (String, Vec<String>) {
        let template = format!(
            "import \"vela/op\"\napp: op.#{step} & {{env: \"test\", policy: \"\", namespace: \"home\", name: \"app\", \
             if parameter.placements != _|_ {{placements: parameter.placements}}}}\n"
        );
        let program = crate::compile(&template).unwrap();
        let limits = crate::Limits::default();
        let step = crate::StepRun {
            id: "id",
            previous: None,
            context: &json!({}),
            parameter: &if step == "ShareCloudResource" {
                json!({"placements": [{"namespace": "other"}]})
            } else {
                json!({})
            },
            outputs: &[],
            now: jiff::Timestamp::UNIX_EPOCH,
            limits: &limits,
            dump: false,
        };
        let mut providers = Cloud { secret, calls: Vec::new() };
        let mut notes = crate::Notes::new();
        let result =
            crate::run(&program, &step, &serde_json::Map::new(), &mut notes, &mut providers);
        let outcome = result.outcome;
        (format!("{:?}: {}", outcome.verdict, outcome.message), providers.calls)
    }

    #[test]
    fn cloud_resources_are_made_once_for_an_environment_and_their_secrets_shared() {
        let prepared = [
            "load-policies /",
            "make-placement-decisions /",
            "patch-application /",
            "load-terraform-components /",
        ];
        let with = |more: &[&'static str]| [&prepared, more].concat();
        let (verdict, calls) = cloud("DeployCloudResource", false);
        assert_eq!(verdict, "Wait: waiting for Secret conn-test of component db");
        assert_eq!(calls, with(&["component-apply db-test", "read home/conn-test"]));
        let (verdict, calls) = cloud("DeployCloudResource", true);
        assert_eq!(verdict, "Succeeded: ");
        let copied = ["component-apply db-test", "read home/conn-test", "apply n/conn"];
        assert_eq!(calls, with(&copied));
        let (verdict, calls) = cloud("ShareCloudResource", true);
        assert_eq!(verdict, "Succeeded: ");
        assert_eq!(calls, with(&["read home/conn-test", "apply other/conn"]));
    }

    #[test]
    fn every_package_is_cue() {
        for (path, text) in TEXTS {
            let result = cue::Program::compile(path, text, &Packages::std());
            assert!(
                result.is_ok(),
                "{path}: {}",
                result.err().map(|e| e.to_string()).unwrap_or_default()
            );
        }
    }
}
