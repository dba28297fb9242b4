//! Rules that generated charts showed, each as the real Helm has it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[allow(unreachable_pub, reason = "shared by tests")]
mod still;

use vela_helm::values::Table;
use vela_helm::{
    Budget, Capabilities, Chart, KubeVersion, Limits, Options, Release, RenderError, prepare,
};

use still::Still;

/// What a template makes.
fn output(template: &str) -> Result<String, RenderError> {
    let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    let files = [
        file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
        file("templates/t.yaml", template),
    ];
    let chart = Chart::from_directory(files, &Limits::default()).unwrap();
    let budget = Budget { stack: 1 << 20, ..Budget::default() };
    let release =
        Release { name: "r".into(), namespace: "n".into(), is_upgrade: false, revision: 1 };
    let capabilities = Capabilities::without_cluster(KubeVersion::parse("v1.34.0").unwrap());
    let prepared = prepare(&chart, &Table::new(), Options::default(), &budget)?;
    let mut texts = prepared.texts(&release, &capabilities, Box::new(Still), &budget)?;
    Ok(texts.remove("c/templates/t.yaml").unwrap())
}

#[test]
fn a_search_that_finds_nothing_gives_nil() {
    for function in ["regexFindAll", "mustRegexFindAll"] {
        let text = output(&format!(r#"{{{{ {function} "x" "abc" -1 | toJson }}}}"#)).unwrap();
        assert_eq!(text, "null", "{function}");
        let text = output(&format!(r#"{{{{ {function} "b" "abc" -1 | toJson }}}}"#)).unwrap();
        assert_eq!(text, r#"["b"]"#, "{function}");
    }
}

#[test]
fn a_version_is_written_in_its_full_form() {
    assert_eq!(output(r#"{{ semver "v1" | toJson }}"#).unwrap(), r#""1.0.0""#);
    assert_eq!(output(r#"{{ semver "1.2.3-a+b" | toYaml }}"#).unwrap(), "1.2.3-a+b");
}

#[test]
fn nothing_has_no_toml() {
    let error = output("{{ toToml .Values.a }}").unwrap_err().to_string();
    let text = "error calling toToml: reflect: call of reflect.Value.Type on zero Value";
    assert!(error.contains(text), "{error}");
}

#[test]
fn a_text_without_actions_is_its_own_template() {
    assert_eq!(output(r#"{{ tpl "a <no value>b }}" . }}"#).unwrap(), "a b }}");
    assert_eq!(output(r#"{{ tpl "" . }}|"#).unwrap(), "|");
}
