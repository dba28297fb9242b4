//! Documents in rendered files: how they are separated, ordered, and which are hooks.

use std::collections::BTreeMap;

use super::Dice;
use crate::case::Case;

const KINDS: [&str; 22] = [
    "ConfigMap",
    "Secret",
    "Service",
    "Deployment",
    "Namespace",
    "CustomResourceDefinition",
    "Foo",
    "Bar",
    "Job",
    "Ingress",
    "APIService",
    "Role",
    "RoleBinding",
    "PriorityClass",
    "StatefulSet",
    "Pod",
    "PodDisruptionBudget",
    "ClusterRoleList",
    "IngressClass",
    "ValidatingWebhookConfiguration",
    "secret",
    "List",
];

/// A chart of a few files without actions.
pub(crate) fn grow(dice: &mut Dice) -> Case {
    let mut case = Case::template(file(dice), String::new());
    for name in [
        "templates/a.yaml",
        "templates/sub/b.yaml",
        "templates/c.json",
        "templates/_p.yaml",
        "templates/x.txt",
        "templates/NOTES.txt",
        "templates/n/NOTES.txt",
    ] {
        if dice.percent(25) {
            case.files.insert(name.to_owned(), file(dice));
        }
    }
    if dice.percent(20) {
        let mut sub = BTreeMap::new();
        sub.insert(
            "charts/s/Chart.yaml".to_owned(),
            "apiVersion: v2\nname: s\nversion: 1.0.0\n".to_owned(),
        );
        sub.insert("charts/s/templates/a.yaml".to_owned(), file(dice));
        sub.insert("charts/s/crds/a.yaml".to_owned(), file(dice));
        case.files.extend(sub);
    }
    if dice.percent(20) {
        case.files.insert(
            dice.one_of(&["crds/a.yaml", "crds/x/b.yml", "crds/c.txt", "crds/d.json"]).to_owned(),
            file(dice),
        );
    }
    case
}

fn file(dice: &mut Dice) -> String {
    let mut out = String::new();
    if dice.percent(30) {
        out += dice.one_of(&["---\n", "\n", "# c\n---\n", "--- # c\n", "%YAML 1.1\n---\n", " \n"]);
    }
    for at in 0..dice.up_to(4) {
        if at > 0 {
            out += dice.one_of(&[
                "---\n",
                "---\n",
                "\n---\n",
                "--- \n",
                "---  \n\n",
                "----\n",
                "---\t\n",
                "\n  ---\n",
                "---\r\n",
                "...\n---\n",
                "---x\n",
                "--- # c\n",
            ]);
        }
        out += &document(dice);
    }
    out
}

fn document(dice: &mut Dice) -> String {
    match dice.0.u32(..20) {
        0 => return "# only a comment\n".to_owned(),
        1 => {
            return dice
                .one_of(&[
                    "null\n",
                    "a\n",
                    "[]\n",
                    "{}\n",
                    "kind: [x]\n",
                    "metadata: x\n",
                    "kind: 1\n",
                    "~\n",
                ])
                .to_owned();
        }
        2 => return super::yaml::yaml(dice),
        _ => {}
    }
    let mut out = String::new();
    if dice.percent(90) {
        out +=
            &format!("apiVersion: {}\n", dice.one_of(&["v1", "apps/v1", "1", "\"v1\"", "x.io/v1"]));
    }
    if dice.percent(95) {
        out += &format!("kind: {}\n", dice.one_of(&KINDS));
    }
    out += "metadata:\n";
    out += &format!("  name: {}\n", dice.one_of(&["a", "b", "c", "1", "zz", "true"]));
    if dice.percent(45) {
        out += "  annotations:\n";
        if dice.percent(85) {
            out += &format!(
                "    helm.sh/hook: {}\n",
                dice.one_of(&[
                    "pre-install",
                    "post-install",
                    "pre-install,post-upgrade",
                    "\" Pre-Install , test \"",
                    "test-success",
                    "crd-install",
                    "nope",
                    "\"\"",
                    "pre-install,",
                    "pre-delete",
                    "true",
                    "pre-rollback",
                    "[x]",
                    "null",
                ])
            );
        }
        if dice.percent(50) {
            out += &format!(
                "    helm.sh/hook-weight: {}\n",
                dice.one_of(&[
                    "\"1\"",
                    "\"-5\"",
                    "3",
                    "x",
                    "\"+2\"",
                    "1.5",
                    "\" 1\"",
                    "\"0x1\"",
                    "\"99999999999999999999\"",
                    "010",
                    "true",
                    "1e2"
                ])
            );
        }
        if dice.percent(50) {
            out += &format!(
                "    helm.sh/hook-delete-policy: {}\n",
                dice.one_of(&[
                    "hook-succeeded",
                    "before-hook-creation,hook-failed",
                    "\" Hook-Failed \"",
                    "nope",
                    "\"\"",
                    "hook-succeeded,nope",
                    "true"
                ])
            );
        }
        if dice.percent(20) {
            out += &format!(
                "    other: {}\n",
                dice.one_of(&["x", "1", "1.10", "true", "null", "{a: 1}", "[1]", "1e3"])
            );
        }
    }
    if dice.percent(30) {
        out += &format!(
            "data:\n  k: {}\n",
            dice.one_of(&[
                "v",
                "|\n    a\n    b",
                "|+\n    a\n\n",
                "|\n    ---\n    x",
                "\"---\"",
                "|\n---\n"
            ])
        );
    }
    out
}
