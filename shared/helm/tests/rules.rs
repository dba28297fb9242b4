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
        file("doc", "hi"),
        file("templates/t.yaml", template),
    ];
    let chart = Chart::from_directory(files, &Limits::default()).unwrap();
    let budget = Budget { stack: 1 << 20, ..Budget::default() };
    let release =
        Release { name: "r".into(), namespace: "n".into(), is_upgrade: false, revision: 1 };
    let capabilities = Capabilities::without_cluster(KubeVersion::parse("v1.34.0").unwrap());
    let prepared = prepare(&chart, &Table::new(), Options::default(), &budget)?;
    let mut texts = prepared.texts(&release, &capabilities, Box::new(Still), &budget)?;
    Ok(texts.remove("c/templates/t.yaml").unwrap().into_string())
}

/// The files that a chart of these renders, by their paths.
fn rendered(files: &[(&str, &str)]) -> Vec<String> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    let chart = Chart::from_directory(files, &Limits::default()).unwrap();
    let budget = Budget { stack: 1 << 20, ..Budget::default() };
    let release =
        Release { name: "r".into(), namespace: "n".into(), is_upgrade: false, revision: 1 };
    let capabilities = Capabilities::without_cluster(KubeVersion::parse("v1.34.0").unwrap());
    let prepared = prepare(&chart, &Table::new(), Options::default(), &budget).unwrap();
    let texts = prepared.texts(&release, &capabilities, Box::new(Still), &budget).unwrap();
    texts.into_keys().collect()
}

/// Helm has the subcharts of a chart once, however many copies of it take part: they belong to the last copy.
#[test]
fn subcharts_of_copies_belong_to_the_last_one() {
    for (listed, wanted) in [
        // The chart lists something, so that its copies take its subcharts over.
        ("dependencies: [{name: other, version: '*'}]", "c/charts/second/charts/g/templates/v.txt"),
        // It lists nothing, and keeps them.
        ("", "c/charts/s/charts/g/templates/v.txt"),
    ] {
        let chart = "apiVersion: v2\nname: c\nversion: 0.1.0\ndependencies:\n\
            - {name: s, version: '*', alias: first}\n- {name: s, version: '*', alias: second}\n";
        let sub = format!("apiVersion: v2\nname: s\nversion: 0.1.0\n{listed}\n");
        let files = rendered(&[
            ("Chart.yaml", chart),
            ("charts/s/Chart.yaml", &sub),
            ("charts/s/charts/g/Chart.yaml", "apiVersion: v2\nname: g\nversion: 0.1.0\n"),
            ("charts/s/charts/g/templates/v.txt", "x"),
        ]);
        assert_eq!(files, [wanted]);
    }
}

#[test]
fn a_text_of_nothing_is_one_piece_unless_the_pattern_is_nothing_too() {
    assert_eq!(output(r#"{{ mustRegexSplit "^" "" 2 | toJson }}"#).unwrap(), r#"[""]"#);
    assert_eq!(output(r#"{{ mustRegexSplit "" "" 2 | toJson }}"#).unwrap(), "[]");
}

#[test]
fn a_verb_that_is_not_of_texts_shows_what_a_time_consists_of() {
    assert_eq!(
        output(r#"{{ printf "%z" (toDate "" "") }}"#).unwrap(),
        "{%!z(uint64=0) %!z(int64=-31622400) %!z(*time.Location=&{UTC [] []  0 0 <nil>})}"
    );
}

#[test]
fn a_number_of_seconds_that_is_too_large_is_the_largest() {
    assert_eq!(output(r#"{{ duration "9223372036854775808" }}"#).unwrap(), "-1s");
    assert_eq!(output(r#"{{ duration "x" }}"#).unwrap(), "0s");
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

#[test]
fn structs_are_tables_of_toml() {
    let text = output("{{ toToml .Capabilities.KubeVersion }}").unwrap();
    assert_eq!(text, "Version = \"v1.34.0\"\nMajor = \"1\"\nMinor = \"34\"\n");
    let text = output("{{ toToml .Chart }}").unwrap();
    assert!(text.starts_with("Name = \"c\"\nHome = \"\"\nVersion = \"0.1.0\"\n"), "{text}");
    assert!(text.ends_with("Type = \"\"\nIsRoot = true\n"), "{text}");
    let text = output(
        r#"{{ toToml (dict "k" (dict "v" .Capabilities.KubeVersion) "s" (semver "1.2")) }}"#,
    );
    let want = "s = \"1.2.0\"\n\n[k]\n  [k.v]\n    Version = \"v1.34.0\"\n    Major = \"1\"\n    Minor = \"34\"\n";
    assert_eq!(text.unwrap(), want);
    let text = output("{{ toToml (list .Chart) }}").unwrap();
    assert_eq!(text, "toml: top-level values must be Go maps or structs");
}

#[test]
fn pretty_yaml_has_the_fields_of_structs_in_lower_case() {
    let text = output("{{ toYamlPretty .Capabilities.KubeVersion }}").unwrap();
    assert_eq!(text, "version: v1.34.0\nmajor: \"1\"\nminor: \"34\"");
    let text = output("{{ toYamlPretty .Chart }}").unwrap();
    let want = "metadata:\n  name: c\n  home: \"\"\n  sources: []\n  version: 0.1.0\n";
    assert!(text.starts_with(want), "{text}");
    assert!(text.contains("\n  annotations: {}\n") && text.ends_with("\nisroot: true"), "{text}");
    assert_eq!(output("{{ toYamlPretty (.Files.GetBytes \"none\") }}").unwrap(), "[]");
    let text = output(r#"{{ toYamlPretty (toDate "2006-01-02" "2020-01-02") }}"#).unwrap();
    assert_eq!(text, "2020-01-02T00:00:00Z");
}

#[test]
fn files_are_lists_of_numbers() {
    assert_eq!(output("{{ toToml .Files }}").unwrap(), "doc = [104, 105]\n");
    assert_eq!(output("{{ toYamlPretty .Files }}").unwrap(), "doc:\n  - 104\n  - 105");
}

#[test]
fn go_syntax_of_times_and_versions() {
    let text = output(r#"{{ printf "%#v" (toDate "2006-01-02" "2020-01-02") }}"#).unwrap();
    assert_eq!(text, "time.Date(2020, time.January, 2, 0, 0, 0, 0, time.Local)");
    let text = output(r#"{{ printf "%#v" (semver "1.2-a+b") }}"#).unwrap();
    let want = r#"&semver.Version{major:0x1, minor:0x2, patch:0x0, pre:"a", metadata:"b", original:"1.2-a+b"}"#;
    assert_eq!(text, want);
    let text = output(r#"{{ printf "%F" (semver "3.1") }}"#).unwrap();
    let want =
        "&{%!F(uint64=3) %!F(uint64=1) %!F(uint64=0) %!F(string=) %!F(string=) %!F(string=3.1)}";
    assert_eq!(text, want);
    assert_eq!(output(r#"{{ deepCopy (semver "2.3") }}"#).unwrap(), "0.0.0");
}

#[test]
fn pretty_yaml_escapes_what_is_beyond_the_basic_plane() {
    let text = output("{{ toYamlPretty (list \"\u{1f600}\" \"\u{1f600}\\b\") }}").unwrap();
    assert_eq!(text, "- \"\\U0001F600\"\n- \"\\U0001F600\\b\"");
}

#[test]
fn no_number_wins_over_others() {
    let text = output(r#"{{ maxf 0 "nan" }} {{ maxf "nan" 0 }} {{ minf 0 "nan" 1 }}"#).unwrap();
    assert_eq!(text, "NaN NaN NaN");
    let text = output("{{ toToml (list .none) }}").unwrap();
    assert_eq!(text, "toml: cannot encode array with nil element");
}

#[test]
fn chunks_of_a_negative_size() {
    let chunks = |size: i64, of: i64| output(&format!("{{{{ chunk {size} (until {of}) }}}}"));
    for (size, of, want) in
        [(-7, 1, "[[0]]"), (-2, 1, "[[0]]"), (-7, 2, "[]"), (-2, 3, "[]"), (-1, 2, "[]")]
    {
        assert_eq!(chunks(size, of).unwrap(), want, "{size} {of}");
    }
    for (size, of) in [(-7, 0), (-7, 9), (-2, 9), (-1, 1), (-1, 3)] {
        let error = chunks(size, of).unwrap_err().to_string();
        assert!(error.contains("makeslice: len out of range"), "{size} {of}: {error}");
    }
}

#[test]
fn only_the_capitals_that_begin_a_word_are_lowered() {
    for (text, want) in [("23PM", "23PM"), ("fooBAR", "FooBAR"), ("HTTP_SERVER", "HttpServer")] {
        assert_eq!(output(&format!("{{{{ camelcase {text:?} }}}}")).unwrap(), want);
    }
}

#[test]
fn pretty_json_of_what_has_none_is_empty() {
    assert_eq!(output(r#"{{ toPrettyJson (fromToml "a = inf") }}"#).unwrap(), "");
    assert!(output(r#"{{ mustToPrettyJson (fromToml "a = inf") }}"#).is_err());
}

#[test]
fn errors_of_toml_and_yaml_have_the_words_of_go() {
    for (text, want) in [
        ("[", "toml: line 1: unexpected end of table name (table names cannot be empty)"),
        (".", "toml: line 1: unexpected '.': keys cannot start with a '.'"),
        ("\\\"", "toml: line 1: unexpected EOF; expected '\"'"),
        ("'", "toml: line 1: unexpected EOF; expected \"'\""),
        ("=\\n1", "toml: line 1: unexpected '=': key name appears blank"),
        ("b==", "toml: line 1 (last key \"b\"): expected value but found '=' instead"),
        ("a=:", "toml: line 1 (last key \"a\"): expected value but found ':' instead"),
        ("[0", "toml: line 1: expected '.' or ']' to end table name, but got '\\x00' instead"),
        ("[a b]", "toml: line 1: expected '.' or ']' to end table name, but got 'b' instead"),
        ("[a..b]", "toml: line 1: unexpected table separator (table names cannot be empty)"),
        ("[a.", "toml: line 1: unexpected end of table name (table names cannot be empty)"),
        (
            "[[a]",
            "toml: line 1: expected end of table array name delimiter ']', but got '\\x00' instead",
        ),
        ("a.b.", "toml: line 1: unexpected '='"),
        ("b. =1", "toml: line 1: unexpected '='"),
        ("d=-", "toml: line 1 (last key \"d\"): expected a digit but got '\\x00'"),
    ] {
        let text = output(&format!("{{{{ (fromToml \"{text}\").Error }}}}"));
        assert_eq!(text.unwrap(), want);
    }
    let text = output(r#"{{ (fromYaml "null: 9223372036854775808").Error }}"#).unwrap();
    assert!(text.ends_with("key: <nil>, value: 0x8000000000000000"), "{text}");
}

/// A time without a zone is in that of the process. A text that is none gives Go's zero time, which is in UTC, as what says so is;
/// the zone of those is nil.
#[test]
fn times_in_utc_have_no_zone() {
    for (template, want) in [
        (
            r##"{{ printf "%#v" (toDate "2006" "1979") }}"##,
            "time.Date(1979, time.January, 1, 0, 0, 0, 0, time.Local)",
        ),
        (
            r##"{{ printf "%#v" (toDate "2006" "x") }}"##,
            "time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)",
        ),
        (
            r##"{{ printf "%#v" (date_modify "1h" (fromToml "a=1979-05-27T07:32:00Z").a) }}"##,
            "time.Date(1979, time.May, 27, 8, 32, 0, 0, time.UTC)",
        ),
        (
            r##"{{ printf "%t %d" (toDate "-02" "") (toDate "-02" "") }}"##,
            "{%!t(uint64=0) %!t(int64=0) %!t(*time.Location=<nil>)} {0 0 0}",
        ),
        (
            r##"{{ printf "%3t" (date_modify "1h" (toDate "2006" "2024")) }}"##,
            "{%!t(uint64=  0) %!t(int64=63839667600) %!t(*time.Location=&{UTC [] []       0   0 <nil>})}",
        ),
        (
            r##"{{ printf "%t" (toDate "2006" "0001") }}"##,
            "{%!t(uint64=0) %!t(int64=0) %!t(*time.Location=&{UTC [] []  0 0 <nil>})}",
        ),
        (r##"{{ (toDate "2006" "0001").IsZero }}"##, "true"),
    ] {
        assert_eq!(output(template).unwrap(), want, "{template}");
    }
}

/// An action prints a struct by the method of a pointer to it; functions are given a copy.
#[test]
fn functions_that_escape_print_the_fields_of_a_struct() {
    let text = output(
        "{{ .Capabilities.KubeVersion }} {{ html .Capabilities.KubeVersion }} {{ urlquery .Capabilities.KubeVersion }}",
    );
    assert_eq!(text.unwrap(), "v1.34.0 {v1.34.0 1 34} %7Bv1.34.0+1+34%7D");
}

/// Within a value a verb that has no address for a pointer is a wrong one, and shows what the pointer points to.
#[test]
fn verbs_that_pointers_do_not_have_are_named() {
    let text = output(r#"{{ printf "%c" (list (semver "3.0-0")) }}"#).unwrap();
    assert_eq!(text, "[%!c(*semver.Version=&{3 0 0 0  3.0-0})]");
    let text = output(r#"{{ printf "%5U" (tuple (semver "10")) }}"#).unwrap();
    assert_eq!(text, "[%!U(*semver.Version=&{   10     0     0                10})]");
}

/// Of two zeros the one with a sign is smaller.
#[test]
fn zeros_have_an_order() {
    assert_eq!(output("{{ minf 0 -0. 1 }} {{ maxf -0. 0 -1 }}").unwrap(), "-0 0");
}

/// A byte that is not of UTF-8 is escaped in JSON, the character that stands for it is not.
#[test]
fn broken_texts_are_escaped_as_json() {
    let template = r#"{{ trunc 2 "日" | toJson }} {{ list (trunc 2 "日\"") "\ufffd" | toJson }}"#;
    assert_eq!(output(template).unwrap(), r#""\ufffd\ufffd" ["\ufffd\ufffd","�"]"#);
}
