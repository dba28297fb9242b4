//! Hostile charts end at a budget, with an error that names chart, file, line and bound.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

#[allow(unreachable_pub, reason = "shared by tests")]
mod still;

use vela_helm::{
    Budget, Capabilities, Chart, KubeVersion, Limits, Options, Release, RenderError, prepare,
    values::Table, yaml,
};

use still::Still;

/// Smaller than the default, so that a test is quick without optimisation.
fn budget() -> Budget {
    Budget {
        steps: 400_000,
        file: 1 << 20,
        total: 2 << 20,
        work: 64 << 20,
        elements: 20_000,
        keys: 2,
        tpl_text: 1 << 16,
        stack: 24 << 20,
        ..Budget::default()
    }
}

fn chart(files: &[(&str, &str)]) -> Chart {
    let mut all = vec![(
        "Chart.yaml".to_owned(),
        b"apiVersion: v2\nname: hostile\nversion: 0.1.0\n".to_vec(),
    )];
    all.extend(files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())));
    Chart::from_directory(all, &Limits::default()).unwrap()
}

fn render(files: Vec<(&'static str, String)>, values: &str) -> Result<(), RenderError> {
    let values = values.to_owned();
    let run = move || {
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let chart = chart(&files);
        let values: Table = yaml::read_values(&values).unwrap();
        let prepared = prepare(&chart, &values, Options::default(), &budget())?;
        let release =
            Release { name: "r".into(), namespace: "n".into(), is_upgrade: false, revision: 1 };
        let capabilities = Capabilities::without_cluster(KubeVersion::parse("v1.34.0").unwrap());
        prepared.render(&release, &capabilities, Box::new(Still), &budget()).map(drop)
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap().join().unwrap()
}

/// The second line of a template is the hostile one.
fn refused(line: &str, bound: &str) {
    let text = format!("# line one\n{line}\n");
    let error = render(vec![("templates/t.yaml", text)], "{}").unwrap_err().to_string();
    let at = "hostile/templates/t.yaml:2:";
    assert!(
        error.starts_with(at) && error.contains(bound),
        "{line}: want {at} and {bound}: {error}"
    );
}

#[test]
fn endless_templates_end() {
    refused("{{ range until 20000 }}{{ range until 20000 }}{{ . }}{{ end }}{{ end }}", "steps");
    refused("{{ range until 9000 }}{{ range until 9000 }}{{ end }}{{ end }}", "steps");
    refused(
        "{{ tpl \"{{ range until 20000 }}{{ range until 20000 }}{{ end }}{{ end }}\" . }}",
        "steps",
    );
}

#[test]
fn a_template_that_includes_itself_ends() {
    let helper = "{{ define \"a\" }}\n{{ include \"a\" . }}{{ end }}".to_owned();
    let files = vec![
        ("templates/_h.tpl", helper),
        ("templates/t.yaml", "{{ include \"a\" . }}".to_owned()),
    ];
    let error = render(files, "{}").unwrap_err().to_string();
    assert!(
        error.contains("hostile/templates/_h.tpl:2:") && error.contains("nested reference name: a"),
        "{error}"
    );
    // Two that include each other are counted apart: each may be a thousand deep.
    let helper = "{{ define \"a\" }}{{ include \"b\" . }}{{ end }}{{ define \"b\" }}{{ include \"a\" . }}{{ end }}".to_owned();
    let files = vec![
        ("templates/_h.tpl", helper),
        ("templates/t.yaml", "{{ include \"a\" . }}".to_owned()),
    ];
    let error = render(files, "{}").unwrap_err().to_string();
    assert!(error.contains("hostile/templates/_h.tpl:1:"), "{error}");
}

#[test]
fn exponential_includes_end() {
    let mut helper = String::from("{{ define \"t0\" }}x{{ end }}");
    for at in 1..40 {
        let below = at - 1;
        helper += &format!(
            "\n{{{{ define \"t{at}\" }}}}{{{{ include \"t{below}\" . }}}}{{{{ include \"t{below}\" . }}}}{{{{ end }}}}"
        );
    }
    let files = vec![
        ("templates/_h.tpl", helper),
        ("templates/t.yaml", "{{ include \"t39\" . }}".to_owned()),
    ];
    let error = render(files, "{}").unwrap_err().to_string();
    assert!(error.starts_with("hostile/templates/_h.tpl:") && error.contains("steps"), "{error}");
}

#[test]
fn tpl_within_tpl_ends() {
    let values = "t: '{{ tpl .Values.t . }}'";
    let text = "# one\n{{ tpl .Values.t . }}".to_owned();
    let error = render(vec![("templates/t.yaml", text)], values).unwrap_err().to_string();
    assert!(
        error.starts_with("hostile/templates/t.yaml:2:")
            && error.contains("tpl is nested deeper than 100"),
        "{error}"
    );
    refused("{{ tpl (repeat 100000 \"x\") . }}", "tpl is given more than 65536 bytes");
}

#[test]
fn functions_that_make_much_of_little_end() {
    for (call, bound) in [
        ("repeat 1000000000 \"x\"", "a text is longer than"),
        ("repeat 9223372036854775807 \"xy\"", "a text is longer than"),
        ("indent 1000000000 \"x\"", "a text is longer than"),
        ("nindent 1000000000 \"x\"", "a text is longer than"),
        ("until 1000000000", "a list has more than"),
        ("untilStep 0 1000000000 1", "a list has more than"),
        ("untilStep -9223372036854775808 9223372036854775807 1", "a list has more than"),
        ("seq 1000000000", "a list has more than"),
        ("seq 0 1 9223372036854775807", "a list has more than"),
        ("join (repeat 1000 \"x\") (until 20000)", "a text is longer than"),
        ("replace \"\" (repeat 1000 \"x\") (repeat 100000 \"y\")", "a text is longer than"),
        ("regexReplaceAll \"\" (repeat 100000 \"y\") (repeat 1000 \"x\")", "a text is longer than"),
        (
            "regexReplaceAll \"(.)\" (repeat 100000 \"y\") (repeat 100 \"${1}\")",
            "a text is longer than",
        ),
        (
            "regexReplaceAllLiteral \".\" (repeat 100000 \"y\") (repeat 1000 \"x\")",
            "a text is longer than",
        ),
        ("regexSplit \"\" (repeat 100000 \"y\") -1", "a list has more than"),
        ("regexFindAll \".\" (repeat 100000 \"y\") -1", "more than"),
        ("splitList \"\" (repeat 100000 \"y\")", "a list has more than"),
        ("split \",\" (repeat 100000 \",\")", "a list has more than"),
        ("wrapWith 1 (repeat 1000 \"x\") (repeat 100000 \"y\")", "a text is longer than"),
    ] {
        refused(&format!("{{{{ {call} | len }}}}"), bound);
    }
}

#[test]
fn widths_of_printf_end() {
    // Go takes no width beyond a million.
    for verb in ["%1000000000d", "%1000000001s", "%*d"] {
        let text = format!("# {{{{ printf \"{verb}\" 1000000000 1 }}}}");
        render(vec![("templates/t.txt", text)], "{}").map_err(|error| error.to_string()).unwrap();
    }
    refused("{{ range until 2000 }}{{ $x := printf \"%999999d\" 1 }}{{ end }}", "more than");
}

#[test]
fn quadratic_functions_end() {
    for call in [
        "range $i := until 19000 }}{{ $_ := set $ \"l\" (append ($.l | default list) $i) }}{{ end",
        "uniq (until 19000)",
        "range until 2000 }}{{ $_ := has -1 (until 19000) }}{{ end",
        "range until 2000 }}{{ $_ := without (until 19000) -1 }}{{ end",
        "range until 2000 }}{{ $_ := first (until 19000) }}{{ end",
        "range until 2000 }}{{ $_ := contains \"xy\" (repeat 100000 \"x\") }}{{ end",
        "range until 2000 }}{{ $_ := sha256sum (repeat 100000 \"x\") }}{{ end",
        "range until 2000 }}{{ $_ := regexMatch \"(a*)*b\" (repeat 10000 \"a\") }}{{ end",
        "range until 2000 }}{{ $_ := toJson (until 19000) }}{{ end",
        "range until 2000 }}{{ $_ := fromYaml (repeat 10000 \"- x\\n\") }}{{ end",
        "range until 2000 }}{{ $_ := htpasswd \"u\" \"p\" }}{{ end",
        "range until 2000 }}{{ $_ := derivePassword 1 \"long\" \"p\" \"u\" \"s\" }}{{ end",
    ] {
        let text = format!("# one\n{{{{ {call} }}}}");
        let error = match render(vec![("templates/t.yaml", text)], "{}") {
            Err(error) => error.to_string(),
            Ok(()) => panic!("{call}: no error"),
        };
        assert!(
            error.starts_with("hostile/templates/t.yaml:2:") && error.contains("more than"),
            "{call}: {error}"
        );
    }
}

#[test]
fn keys_are_few() {
    refused(
        "{{ range until 1000 }}{{ $_ := genPrivateKey \"ecdsa\" }}{{ end }}",
        "more than 2 private keys",
    );
}

#[test]
fn maps_that_hold_themselves_end() {
    for call in [
        "$d := dict }}{{ $_ := set $d \"a\" $d }}{{ toYaml $d",
        "$d := dict }}{{ $_ := set $d \"a\" $d }}{{ $e := dict }}{{ $_ := set $e \"a\" $e }}{{ merge $d $e",
        "$d := dict }}{{ $_ := set $d \"a\" $d }}{{ toJson $d",
        "$d := dict }}{{ $_ := set $d \"a\" $d }}{{ $d",
        "$d := dict }}{{ $_ := set $d \"a\" $d }}{{ printf \"%#v\" $d",
        "$d := dict }}{{ $_ := set $d \"a\" $d }}{{ toToml $d",
        "$d := dict }}{{ $_ := set $d \"a\" $d }}{{ deepCopy $d | toJson",
        "$d := dict }}{{ $_ := set $d \"a\" $d }}{{ quote $d",
    ] {
        let text = format!("# one\n{{{{ {call} }}}}");
        let error =
            render(vec![("templates/t.yaml", text)], "{}").map_err(|error| error.to_string());
        let error = error.expect_err(call);
        assert!(
            error.contains("hostile/templates/t.yaml:2:")
                && [" deeper than", "more than", " deep, or holds itself"]
                    .iter()
                    .any(|bound| error.contains(bound)),
            "{call}: {error}"
        );
    }
}

#[test]
fn documents_that_grow_when_they_are_read_end() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for at in 1..10 {
        let below = at - 1;
        bomb += &format!(
            "a{at}: &a{at} [*a{below}, *a{below}, *a{below}, *a{below}, *a{below}, *a{below}, *a{below}, *a{below}, *a{below}]\n"
        );
    }
    assert!(yaml::read(&bomb).unwrap_err().to_string().contains("excessive aliasing"));
    let deep = "[".repeat(100_000);
    assert!(
        yaml::read(&deep).unwrap_err().to_string().contains("depth"),
        "{:?}",
        yaml::read(&deep)
    );
    let deep = "- ".repeat(100_000);
    assert!(yaml::read(&deep).is_err());
    let deep = "{a: ".repeat(100_000);
    assert!(yaml::read(&deep).is_err());
}

#[test]
fn deep_templates_end() {
    let text = format!("{}1{}", "{{ if true }}".repeat(5000), "{{ end }}".repeat(5000));
    let error = render(vec![("templates/t.yaml", text)], "{}").unwrap_err().to_string();
    assert!(error.contains("hostile/templates/t.yaml:1"), "{error}");
    let text = format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000));
    let error = render(vec![("templates/t.yaml", text)], "{}").unwrap_err().to_string();
    assert!(error.contains("hostile/templates/t.yaml:1"), "{error}");
    let text =
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}\n{{ template \"a\" . }}".to_owned();
    let error = render(vec![("templates/t.yaml", text)], "{}").unwrap_err().to_string();
    assert!(error.contains("hostile/templates/t.yaml:1"), "{error}");
}

#[test]
fn large_results_end() {
    let error = render(
        vec![(
            "templates/t.yaml",
            "{{ range until 19 }}{{ repeat 100000 \"x\" }}{{ end }}".to_owned(),
        )],
        "{}",
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("hostile/templates/t.yaml") && error.contains("a text is longer than"),
        "{error}"
    );
    let many = "{{ range until 6000 }}\n---\nkind: A{{ end }}".to_owned();
    let error = render(vec![("templates/t.yaml", many)], "{}").unwrap_err().to_string();
    assert!(error.contains("more than 5000 objects"), "{error}");
}
