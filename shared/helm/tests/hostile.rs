//! The checks of the fuzz targets on mutations of a few inputs, the same at each run.
//! `HOSTILE_CASES` is the number for each check.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[path = "../../../tests/fuzz/helm.rs"]
#[allow(unreachable_pub, clippy::panic, reason = "shared with the fuzz targets")]
mod checks;

use std::io::Read as _;

/// A sequence of numbers that depends on its seed alone.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % most.max(1)
    }
}

const PIECES: [&str; 40] = [
    "{{",
    "}}",
    " ",
    "\n",
    "- ",
    ": ",
    "a",
    ".Values",
    "range",
    "end",
    "with",
    "define \"a\"",
    "include \"a\" .",
    "tpl",
    "toYaml",
    "\"",
    "'",
    "|",
    "(",
    ")",
    "$x",
    ":=",
    "1",
    "1e999",
    "null",
    "&a",
    "*a",
    "<<",
    "[",
    "]",
    "{",
    "}",
    "!!binary",
    "\t",
    "\u{feff}",
    "\u{0}",
    "---",
    "\n@@\n",
    "printf \"%[3]*.*d\"",
    "é",
];

fn mutated(dice: &mut Dice, seeds: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].to_vec();
    for _ in 0..=dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(5) {
            0 => {
                let piece = PIECES[dice.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            1 => {
                let end = (at + dice.below(12)).min(bytes.len());
                bytes.drain(at..end);
            }
            2 => {
                let other = seeds[dice.below(seeds.len())];
                let from = dice.below(other.len() + 1);
                let to = (from + dice.below(40)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            3 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
            _ => {
                let end = (at + dice.below(20)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

fn check(seeds: &[&[u8]], check: impl Fn(&[u8]) + Send) {
    let cases =
        std::env::var("HOSTILE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let run = move || {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        seeds.iter().for_each(|seed| check(seed));
        for _ in 0..cases {
            check(&mutated(&mut dice, seeds));
        }
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(32 << 20)
            .spawn_scoped(scope, run)
            .unwrap()
            .join()
            .unwrap();
    });
}

fn texts(seeds: &[&str], one: fn(&str)) {
    let seeds: Vec<&[u8]> = seeds.iter().map(|text| text.as_bytes()).collect();
    check(&seeds, |bytes| one(&String::from_utf8_lossy(bytes)));
}

#[test]
fn any_template_renders_or_is_refused() {
    texts(
        &[
            "{{- range $k, $v := .Values.m }}\n{{ $k }}: {{ $v | quote }}{{ else }}none{{ end }}\n@@\n{{ define \"a\" }}{{ . | toJson }}{{ end }}\n@@\nm: {a: 1, b: [x, null]}\n",
            "a: {{ include \"a\" (dict \"x\" .Values) | nindent 2 }}{{ tpl \"{{ .x }}\" (dict \"x\" 1) }}\n@@\n{{ define \"a\" }}{{ toYaml .x }}{{ end }}\n@@\nx: 'a: b'\n",
            "{{ printf \"%-10.3f|%+v|%#v|%T\" 1.5 (list 1 nil) (dict) \"x\" | trunc 20 | upper }}{{ with $x := .Values.a.b }}{{ break }}{{ end }}",
            "{{ regexReplaceAll \"(a)(b)?\" \"abab\" \"${2}x\" }}{{ semverCompare \">1.2 || ~2\" \"v1.3.0-rc.1\" }}{{ toDate \"2006\" \"2020\" | date \"Jan\" }}",
            "{{ merge (dict \"a\" (dict)) .Values | fromYaml }}{{ index (list 1 2) 1 }}{{ slice (list 1 2 3) 1 2 }}{{ required \"m\" .Values.x }}\n@@\n\n@@\nx: 1\n",
        ],
        checks::template,
    );
}

#[test]
fn any_values_are_put_together_or_refused() {
    texts(
        &[
            "s: {a: null, global: {x: 1}}\nglobal: {y: 2}\n@@\ns: {a: {b: 1}}\nb: {c: 1}\n@@\na: {b: 2, d: null}\nexports: {x: {q: 1}}\n",
            "a: 1\n@@\n{}\n@@\n{}\n@@\napiVersion: v2\nname: c\nversion: 0.1.0\ndependencies: [{name: s, version: '>0', alias: z, condition: 'z.on,s.on', tags: [t]}]\n@@\n{\"type\": \"object\", \"properties\": {\"a\": {\"type\": [\"string\", \"null\"]}}, \"$defs\": {\"d\": {\"pattern\": \"^a+$\"}}}",
            "a: x\n@@\na: {}\n@@\n\n@@\n\n@@\n{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"required\": [\"a\"], \"$ref\": \"#/definitions/d\", \"definitions\": {\"d\": {\"oneOf\": [{\"minLength\": 2}, {\"type\": \"number\"}]}}}",
        ],
        checks::values,
    );
}

#[test]
fn any_document_is_read_or_refused() {
    texts(
        &[
            "a: &x {b: [1, 0x1F, 017, 1_000, .5, 1e3, -.inf, ~, yes, 2001-12-14]}\nc: *x\n<<: *x\n? k\n: v\n",
            "- |+2\n   text\n\n- >-\n  folded\n  more\n\n   indented\n- \"q\\n\\x41\\u00e9\\\n  z\"\n- 'it''s'\n- !!str 1\n- !!binary aGVsbG8=\n",
            "%YAML 1.1\n--- # c\nk: plain text # comment\n  continued: no\n...\n---\nsecond\n",
            "x: \"\"\ny: ' lead'\nz: 'a: b'\nw: '#'\nlong: aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbb cccccccccccccccccccccc ddddddddddddddd eeeeeee\n\"key\\twith tab\": 1\n",
        ],
        checks::document,
    );
}

const RECORD: &str = r#"{"name":"a","namespace":"n","version":3,"info":{"status":"deployed","notes":"x","first_deployed":"2024-01-01T00:00:00Z"},"chart":{"metadata":{"name":"c","version":"1"},"templates":[{"name":"t","data":"eA=="}]},"config":{"a":1},"manifest":"---\n# Source: c/t\nkind: A\n","hooks":[{"name":"h","weight":1,"events":["pre-install"],"last_run":{"phase":"Succeeded"}}]}"#;

#[test]
fn any_record_is_read_or_refused() {
    use base64::Engine as _;
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(RECORD.as_bytes(), flate2::Compression::fast())
        .read_to_end(&mut packed)
        .unwrap();
    check(&[RECORD.as_bytes(), &packed], |bytes| checks::release(&encode(bytes)));
    texts(&[&encode(&packed), &encode(RECORD.as_bytes())], checks::release);
}

#[test]
fn any_archive_is_read_or_refused() {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, text) in [
        ("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
        ("c/templates/a.yaml", "{{ .Files.Get \"x\" }}{{ .Values | toYaml }}"),
        ("c/values.yaml", "a: 1\n"),
        ("c/x", "x"),
        ("c/charts/s/Chart.yaml", "name: s\nversion: 0.1.0\n"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    let plain = tar.into_inner().unwrap();
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(plain.as_slice(), flate2::Compression::fast())
        .read_to_end(&mut packed)
        .unwrap();
    check(&[&plain, &packed], checks::archive);
}
