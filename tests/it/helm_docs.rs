//! The examples of docs/helm.md, and the command that they show compared with Helm's own.

use std::path::Path;
use std::process::Command;

use vela_tests::controlplane::Programs;
use vela_tests::deploy::Manifests;
use vela_tests::fixtures::binaries;
use vela_tests::material::workspace;

/// The blocks of the page in a language.
pub(super) fn blocks(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(workspace().join("docs/helm.md")).unwrap();
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn commands_print_what_the_page_shows() {
    let commands = blocks("console");
    assert!(!commands.is_empty());
    for block in commands {
        let (command, shown) = block.split_once('\n').unwrap();
        let words = command.strip_prefix("$ vela-controller ").unwrap().split(' ');
        let output = Command::new(&binaries().controller)
            .args(words)
            .current_dir(workspace())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), shown, "{command}");
    }
}

const HOOK: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, annotations: {helm.sh/hook: EVENT}}
";

/// A chart with something for every flag.
fn chart(folder: &Path) {
    let job = HOOK.replace("NAME", "job").replace("EVENT", "pre-install");
    let test = HOOK.replace("NAME", "check").replace("EVENT", "test");
    let map = r#"{{- if .Release.IsUpgrade }}
# an upgrade
{{- end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}
data: {{- toYaml .Values | nindent 2 }}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ .Capabilities.KubeVersion.Version }}-{{ .Capabilities.APIVersions.Has "a.test/v1" }}}
"#;
    for (path, text) in [
        ("Chart.yaml", "apiVersion: v2\nname: all\nversion: 1.0.0\n"),
        ("values.yaml", "a: {b: 1}\n"),
        ("values.schema.json", r#"{"properties": {"a": {"type": "object"}}}"#),
        ("crds/crd.yaml", "kind: CustomResourceDefinition\nmetadata: {name: x}\n"),
        ("templates/map.yaml", map),
        ("templates/job.yaml", &job),
        ("templates/test.yaml", &test),
        ("templates/NOTES.txt", "notes\n"),
        ("more.yaml", "a: {c: [1, 2.5, x]}\n"),
    ] {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// What a command printed, and the files it wrote.
fn outcome(program: &Path, words: &[&str], at: &Path) -> (bool, String, Vec<(String, String)>) {
    let output =
        Command::new(program).args(words).current_dir(at).env("HOME", at).output().unwrap();
    let out = at.join("out");
    let mut open = vec![out.clone()];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(&out).unwrap().to_string_lossy().into_owned();
                files.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    let _ = std::fs::remove_dir_all(out);
    (output.status.success(), String::from_utf8(output.stdout).unwrap(), files)
}

/// Tests deploy what our engine makes of our chart; so it must be what helm makes of it.
#[test]
fn our_own_chart_renders_as_helm_renders_it() {
    let helm = Programs::helm().unwrap();
    let rows: [&[&str]; 4] = [
        &[],
        &["authentication.enabled=false", "sharding.enabled=true"],
        &["multicluster.enabled=true", "replicaCount=3", "sharding.mode=auto"],
        &["fullnameOverride=other", "webhook.refObjects.rules=null"],
    ];
    for values in rows {
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        let ours = Manifests::render(&binaries(), &values).unwrap();
        assert_eq!(ours, Manifests::by_helm(&helm, &values).unwrap(), "{values:?}");
    }
}

#[test]
fn the_command_prints_what_helm_prints() {
    let helm = Programs::helm().unwrap();
    let ours = binaries().controller;
    let folder = tempfile::tempdir().unwrap();
    chart(&folder.path().join("all"));
    let rows = [
        "template rel all",
        "template all",
        "template rel all --namespace ns --kube-version v1.29.0 --api-versions a.test/v1",
        "template rel all -f all/more.yaml --set a.d=1,a.e={x,2} --set-string a.f=1",
        "template rel all --set-json a.g={\"x\":[1]} --set-file a.h=all/values.yaml",
        "template rel all --set-literal a.i=x,y={z}",
        "template rel all --set a.b=null --set-string a.b=2 --set-json a.b=3",
        "template rel all --include-crds --no-hooks",
        "template rel all --include-crds --skip-tests",
        "template rel all --is-upgrade -s templates/map.yaml",
        "template rel all -s templates/none.yaml",
        "template rel all --set a=1",
        "template rel all --set a=1 --skip-schema-validation",
        "template Rel all",
        "template rel none",
        "template rel all --output-dir out --include-crds",
        "template rel all --output-dir out --release-name --no-hooks",
    ];
    for row in rows {
        let mut words: Vec<&str> = row.split(' ').collect();
        if !row.contains("--kube-version") {
            // Helm's own default is set when it is released.
            words.extend(["--kube-version", "v1.34.0"]);
        }
        let theirs = outcome(&helm, &words, folder.path());
        words.insert(0, "helm");
        assert_eq!(outcome(&ours, &words, folder.path()), theirs, "{row}");
    }
}
