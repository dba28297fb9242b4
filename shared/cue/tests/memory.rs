//! How far a process grows for one evaluation: by what its limit says and little more, whatever
//! the text is. Each text is evaluated in a process of its own, whose peak the kernel knows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking; the child tells its numbers"
)]

use cue::{Limits, Packages, Program};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Tells the child that it is one, and its limit.
const LIMIT: &str = "CUE_MEMORY_LIMIT";
/// What the child writes before its numbers.
const MARK: &str = "grown:";
const MIB: u64 = 1 << 20;
/// Beyond the limit: the program, pages of the allocator, growth between two measurements.
const OVERHEAD: u64 = 12 * MIB;

/// Bytes of the largest resident set so far.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Not a test by itself: what the process of one text does.
#[test]
fn child() {
    let Ok(limit) = std::env::var(LIMIT) else { return };
    let text = std::io::read_to_string(std::io::stdin()).unwrap();
    let limits = Limits { bytes: limit.parse().unwrap(), time: None, ..Limits::default() };
    let run = move || {
        let before = peak();
        let outcome = match Program::compile("in.cue", &text, &Packages::std()) {
            Err(errors) => errors.to_string(),
            Ok(program) => {
                let mut evaluation = program.evaluate(&[], &limits);
                let root = evaluation.root();
                match evaluation.export(root) {
                    Ok(_) => "exported".to_owned(),
                    Err(errors) => errors.list().first().map(ToString::to_string).unwrap(),
                }
            }
        };
        let outcome: String = outcome.chars().take(100).collect();
        println!("{MARK}{}:{outcome}", peak() - before);
    };
    // As deep as the stacks of the pool.
    std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap().join().unwrap();
}

/// Bytes by which a process grew for a text, and what came out.
fn grown(text: &str, limit: u64) -> (u64, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(LIMIT, limit.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = output.lines().find_map(|line| line.split_once(MARK)).expect(&output).1;
    let (bytes, outcome) = line.split_once(':').unwrap();
    (bytes.parse().unwrap(), outcome.to_owned())
}

fn ranged(body: &str) -> String {
    format!("import \"list\"\nr: list.Range(0, 60000, 1)\nx: {body}\n")
}

#[test]
fn a_process_grows_by_no_more_than_the_limit() {
    let unicode = r#"x: [for i in list.Range(0, 64, 1) {"x" =~ "\(i)(\\pL{60}){5}"}]"#;
    let texts: Vec<(&str, String)> = vec![
        ("a list of structs", ranged("[for i in r {a: i}]")),
        ("a list of numbers", ranged("list.Range(0, 400000, 1)")),
        ("a sorted list", ranged("list.Sort([for i in r {60000 - i}], list.Ascending)")),
        ("a struct of many fields", ranged(r#"{for i in r {"k\(i)": i}}"#)),
        ("long names of fields", ranged(r#"{for i in r {"\(1000*"k")\(i)": i}}"#)),
        ("many conjuncts", ranged("{for i in r {a: int}}")),
        ("iterations without a result", ranged("[for i in r for j in r if i < 0 {i}]")),
        ("structs within structs", ranged("[for i in r {a: b: c: d: e: f: i}]")),
        ("long strings", ranged(r#"[for i in list.Range(0, 100, 1) {(8000000+i)*"ab"}]"#)),
        ("strings in data", ranged(r#"[for i in r {"\(i)" + 1000*"b"}]"#)),
        ("errors that show a long text", format!("import \"list\"\ns: 8000000*\"ab\"\n{}", "x: [for i in list.Range(0, 1000, 1) {s + i}]")),
        ("an error that shows a list of long texts", "import \"list\"\ns: 8000000*\"ab\"\nl: [for i in list.Range(0, 9000, 1) {s}]\nx: l + 1".to_owned()),
        ("repeated lists", ranged("[for i in list.Range(0, 400, 1) {list.Repeat(r, 1)}]")),
        ("flattened lists", ranged("list.FlattenN([for i in list.Range(0, 400, 1) {r}], -1)")),
        ("a list that is searched", ranged("list.Contains([for i in r {a: i}], 7)")),
        ("unique elements", ranged(r#"list.UniqueItems([for i in r {"\(i)" + 2000*"b"}])"#)),
        ("alternatives", ranged("[for i in r {{a: i} | {b: i} | *{c: i}}]")),
        ("regular expressions", ranged(r#"[for i in list.Range(0, 64, 1) {"x" =~ "\(i)(a[ab]{1000}){20}"}]"#)),
        ("regular expressions of letters", format!("import \"list\"\n{unicode}")),
        ("long numbers", ranged("[for i in list.Range(0, 100000, 1) {(1000000000000000000000000000000000*1000000000000000000000000000000000 + i) div 1}]")),
        ("YAML", "import \"encoding/yaml\"\nx: yaml.Unmarshal(400000*\"- a\\n\")".to_owned()),
        ("YAML of structs", "import \"encoding/yaml\"\nx: yaml.Unmarshal(400000*\"- {a: 1}\\n\")".to_owned()),
        ("JSON", r#"import "encoding/json", x: json.Unmarshal("[" + 400000*"{\"a\":[1]}," + "1]")"#.replace(", x", "\nx")),
        ("TOML", "import \"encoding/toml\"\nx: toml.Unmarshal(\"a = [\" + 400000*\"{a = 1},\" + \"1]\")".to_owned()),
        ("CSV", "import \"encoding/csv\"\nx: csv.Decode(400000*\"a,b,c\\n\")".to_owned()),
        ("parts of a text", "import \"strings\"\nx: strings.Split(499999*\"a,\", \",\")".to_owned()),
        ("characters", "import \"strings\"\nx: strings.Runes(490000*\"a\")".to_owned()),
        ("a text that is written again and again", ranged(r#"[for i in list.Range(0, 100, 1) {json.Marshal([for j in list.Range(0, 1000, 1) {s}])}], s: 8000*"ab""#).replace("\"list\"", "\"list\"\nimport \"encoding/json\"")),
        ("a template", "import \"text/template\"\nx: template.Execute(\"{{range $i := .}}{{printf \\\"%s%s%s%s\\\" $ $ $ $}}{{end}}\", [for i in [1, 2, 3, 4] {2000000*\"ab\"}])".to_owned()),
        ("replaced parts", "import \"strings\"\nx: strings.Replace(4000000*\"a\", \"a\", 1000*\"b\", -1)".to_owned()),
        ("matches", "import \"regexp\"\nx: regexp.FindAllSubmatch(\"(a)(b)\", 240000*\"ab\", -1)".to_owned()),
        ("tokens", format!("x: [{}]", "1,".repeat(140_000))),
        ("fields", format!("x: {{{}}}", (0..60_000).map(|i| format!("a{i}:{{}},")).collect::<String>())),
        ("nested fields", (0..900).map(|i| format!("a{i}: {}1\n", "b: ".repeat(150))).collect()),
        ("operators", format!("x: 1{}", "+1".repeat(140_000))),
        ("comprehensions", "if true {a: 1}\n".repeat(60_000)),
        ("many strings", "x: \"a\\(1)b\"\n".repeat(40_000)),
    ];
    let only = std::env::var("CUE_MEMORY_ONLY").unwrap_or_default();
    // One of so many texts.
    let sample = std::env::var("VELA_SAMPLE").ok().and_then(|number| number.parse().ok());
    let limit = 32 * MIB;
    let mut wrong = Vec::new();
    for (name, text) in
        texts.iter().step_by(sample.unwrap_or(1).max(1)).filter(|(name, _)| name.contains(&only))
    {
        let (bytes, outcome) = grown(text, limit);
        let line = format!("{:>3} of {} MiB  {name}: {outcome}", bytes / MIB, limit / MIB);
        println!("{line}");
        if bytes > limit + OVERHEAD {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
