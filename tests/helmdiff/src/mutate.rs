//! Templates and charts of the conformance corpus with changes.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::case::{Case, TEMPLATE};

/// What is changed.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    /// Templates with their values.
    records: Vec<Case>,
    /// The files of charts.
    charts: Vec<BTreeMap<String, String>>,
    /// Actions of all templates.
    actions: Vec<String>,
}

/// Charts with larger archives are left out: a case of them takes long.
const MOST_BYTES: u64 = 24 << 10;

impl Corpus {
    /// Reads the records of `micro/` and the smaller charts.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let mut corpus = Self::default();
        let mut files: Vec<_> = std::fs::read_dir(folder.join("micro"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.sort();
        for path in files.iter().filter(|path| path.extension().is_some_and(|it| it == "jsonl")) {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            corpus.records.extend(text.lines().filter_map(record));
        }
        let mut charts: Vec<_> = std::fs::read_dir(folder.join("charts"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        charts.sort();
        for path in charts {
            if std::fs::metadata(&path)?.len() <= MOST_BYTES {
                let archive = std::fs::read(&path)?;
                let files = unpacked(&archive)?;
                let slow = |text: &String| {
                    ["genCA", "genS", "genPriv", "htpasswd"].iter().any(|word| text.contains(word))
                };
                if !files.values().any(slow) {
                    corpus.charts.push(files);
                }
            }
        }
        for case in &corpus.records {
            if let Some(text) = case.files.get(TEMPLATE) {
                corpus.actions.extend(actions(text).map(str::to_owned));
            }
        }
        Ok(corpus)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// A record with a few changes.
    pub(crate) fn record(&self, seed: u64) -> Option<Case> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut case = pick(&mut rng, &self.records)?.clone();
        let names: Vec<String> =
            case.files.keys().filter(|name| *name != "Chart.yaml").cloned().collect();
        let name = pick(&mut rng, &names)?;
        let mut text = case.files.get(name)?.clone();
        for _ in 0..=rng.usize(..3) {
            text = self.changed(&mut rng, &text);
        }
        case.files.insert(name.clone(), text);
        if rng.u32(..10) < 3 {
            case.values.clone_from(&pick(&mut rng, &self.records)?.values);
        }
        Some(case)
    }

    /// A chart with a change in one of its templates.
    pub(crate) fn chart(&self, seed: u64) -> Option<Case> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut files = pick(&mut rng, &self.charts)?.clone();
        let templates: Vec<String> =
            files.keys().filter(|name| name.contains("templates/")).cloned().collect();
        let name = pick(&mut rng, &templates)?;
        let text = self.changed(&mut rng, files.get(name)?);
        files.insert(name.clone(), text);
        if rng.bool() {
            let values = files.get("values.yaml")?;
            let changed = self.changed_values(&mut rng, values);
            files.insert("values.yaml".to_owned(), changed);
        }
        Some(Case { files, values: String::new(), is_upgrade: rng.u32(..10) == 0 })
    }

    fn changed_values(&self, rng: &mut fastrand::Rng, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let with_value: Vec<usize> = (0..lines.len())
            .filter(|at| {
                lines
                    .get(*at)
                    .is_some_and(|line| line.contains(": ") && !line.trim().starts_with('#'))
            })
            .collect();
        for _ in 0..=rng.usize(..3) {
            if let Some(at) = pick(rng, &with_value)
                && let Some(line) = lines.get_mut(*at)
            {
                let key = line.split(": ").next().unwrap_or_default().to_owned();
                let values = [
                    "true", "false", "null", "\"\"", "x", "3", "1.5", "[]", "{}", "[a, b]",
                    "{a: b}", "\"1\"", "1000000",
                ];
                let value = pick(rng, &values).copied().unwrap_or_default();
                *line = format!("{key}: {value}");
            }
        }
        lines.join("\n") + "\n"
    }

    fn changed(&self, rng: &mut fastrand::Rng, text: &str) -> String {
        let mut parts: Vec<String> = tokens(text).into_iter().map(str::to_owned).collect();
        if parts.is_empty() {
            return text.to_owned();
        }
        let at = rng.usize(..parts.len());
        // Near an action, where changes matter.
        let at = (at..parts.len())
            .find(|at| parts.get(*at).is_some_and(|part| part == "{{"))
            .map_or(at, |begin| (begin + rng.usize(..8)).min(parts.len() - 1));
        match rng.u32(..9) {
            0 => {
                parts.remove(at);
            }
            1 => {
                let part = parts.get(at).cloned().unwrap_or_default();
                parts.insert(at, part);
            }
            2 if parts.len() > 1 => {
                let other = rng.usize(..parts.len());
                parts.swap(at, other);
            }
            3 | 4 => {
                let words = [
                    "nil",
                    "true",
                    "0",
                    "1",
                    "-1",
                    "1.5",
                    "\"\"",
                    "\"a\"",
                    ".",
                    "$",
                    ".Values",
                    "(list 1 2)",
                    "(dict \"a\" 1)",
                    "toYaml",
                    "quote",
                    "upper",
                    "default",
                    "len",
                    "first",
                    "keys",
                    "int",
                    "b64enc",
                    "trunc",
                    "printf",
                    "index",
                    "not",
                    "-",
                    "(",
                    ")",
                    "|",
                    " ",
                    "\n",
                    "{{-",
                    "-}}",
                ];
                if let (Some(part), Some(word)) = (parts.get_mut(at), pick(rng, &words)) {
                    *part = (*word).to_owned();
                }
            }
            5 | 6 => {
                if let Some(action) = pick(rng, &self.actions) {
                    parts.insert(at, format!("{{{{{action}}}}}"));
                }
            }
            7 => {
                let end = (at + 1 + rng.usize(..6)).min(parts.len());
                parts.drain(at..end);
            }
            _ => {
                let functions = [
                    " | quote",
                    " | toYaml",
                    " | toString",
                    " | default 1",
                    " | upper",
                    " | nindent 2",
                    " | toJson",
                    " | int",
                    " | len",
                    " | trim",
                    " | b64enc",
                    " | squote",
                    " | first",
                    " | join \",\"",
                    " | kindOf",
                    " | typeOf",
                    " | empty",
                    " | sha256sum",
                    " | fromYaml",
                    " | title",
                    " | printf \"%v\"",
                    " | trunc 5",
                    " | float64",
                    " | not",
                ];
                if let Some(end) =
                    (at..parts.len()).find(|at| parts.get(*at).is_some_and(|part| part == "}}"))
                    && let Some(function) = pick(rng, &functions)
                {
                    parts.insert(end, (*function).to_owned());
                }
            }
        }
        parts.concat()
    }
}

fn pick<'a, T>(rng: &mut fastrand::Rng, list: &'a [T]) -> Option<&'a T> {
    if list.is_empty() { None } else { list.get(rng.usize(..list.len())) }
}

/// Functions whose results differ each time.
const RANDOM: [&str; 14] = [
    "rand",
    "shuffle",
    "uuidv4",
    "gen",
    "htpasswd",
    "bcrypt",
    "encryptAES",
    "now",
    "ago",
    "date \"",
    "htmlDate",
    "keys",
    "values ",
    "lookup",
];

fn record(line: &str) -> Option<Case> {
    let json: Value = serde_json::from_str(line).ok()?;
    if json["expect"]["random"] == true || !json["expect"]["randomPaths"].is_null() {
        return None;
    }
    let (values, template) = match json["kind"].as_str()? {
        "gotemplate" => (&json["data"]["values"], json["template"].as_str()),
        _ => (&json["values"], None),
    };
    let values = if values.is_null() { String::new() } else { values.to_string() };
    let mut case = Case::template(String::new(), values);
    if let Some(chart) = json["chartYaml"].as_str() {
        case.files.insert("Chart.yaml".to_owned(), chart.to_owned());
    }
    match template {
        Some(text) => {
            case.files.insert(TEMPLATE.to_owned(), text.to_owned());
        }
        None => case.files.clear(),
    }
    for (name, text) in json["files"].as_object().into_iter().flatten() {
        case.files.insert(name.clone(), text.as_str()?.to_owned());
    }
    // Directories are read with .helmignore, which the oracle does not do.
    let odd = case.files.keys().any(|name| name.starts_with(".helm") || name.contains("/."));
    let random = case.files.values().any(|text| RANDOM.iter().any(|word| text.contains(word)));
    (!odd && !random).then_some(case)
}

fn unpacked(archive: &[u8]) -> Result<BTreeMap<String, String>> {
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let mut files = BTreeMap::new();
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some((_, name)) = name.split_once('/') else { continue };
        let name = name.to_owned();
        let mut data = Vec::new();
        entry.read_to_end(&mut data)?;
        if let Ok(text) = String::from_utf8(data)
            && !name.starts_with('.')
            && !name.contains("/.")
        {
            files.insert(name, text.trim_start_matches('\u{feff}').to_owned());
        }
    }
    Ok(files)
}

fn actions(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next())
}

/// Words, delimiters, runs of blanks; everything else by itself.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    let word = |char: char| char.is_alphanumeric() || "._$".contains(char);
    while let Some(first) = rest.chars().next() {
        let len = if ["{{", "}}", ":="].iter().any(|pair| rest.starts_with(pair)) {
            2
        } else if word(first) {
            rest.find(|char: char| !word(char)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(len);
        out.push(token);
        rest = after;
    }
    out
}
