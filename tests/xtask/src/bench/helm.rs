//! `cargo xtask bench helm`: our engine and Helm's packages on the same charts.
//!
//! Each is a program of its own (`tests/bench/rusthelm`, `tests/helmdiff/oracle`) that renders
//! charts of the conformance material, one case each, and prints CPU time and bytes. Here they are
//! built, run and compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value as Json, json};
use vela_tests::material;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Milliseconds for each measurement
    #[arg(long, default_value_t = 100)]
    budget: u64,
    /// Only cases whose id contains this
    #[arg(long)]
    only: Option<String>,
    /// Renders of each chart for the comparison of peak memory
    #[arg(long, default_value_t = 3)]
    renders: usize,
    /// Print every case, not only the largest
    #[arg(long)]
    all: bool,
}

/// How many of the largest charts count as such.
const LARGEST: usize = 40;
/// Of so many of them the peak of memory is measured.
const PEAKS: usize = 12;
/// The name of the chart that is made here.
const UMBRELLA: &str = "umbrella";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(material) = material::conformance() else {
        println!("SKIPPED: 0 charts measured: the conformance material is absent");
        return Ok(ExitCode::SUCCESS);
    };
    let go = build_go()?;
    let counting = build_ours("count", &["--features", "count"])?;
    let ours = build_ours("time", &[])?;
    let mut cases = cases(&material.join("corpus/helm"))?;
    cases.insert(UMBRELLA.to_owned(), umbrella()?);
    cases.retain(|id, _| args.only.as_ref().is_none_or(|only| id.contains(only)));
    let requests: String = cases.values().map(|case| format!("{case}\n")).collect();

    let budget = args.budget.to_string();
    let counted = results(Command::new(&counting).args(["--budget", "0"]), &requests)?;
    let timed = results(as_deployed(&ours).args(["--budget", &budget]), &requests)?;
    let theirs = results(
        Command::new(&go).args(["-bench", "-budget", &format!("{budget}ms")]).env("TZ", "UTC"),
        &requests,
    )?;
    let mut rows = Vec::new();
    let mut refused = 0;
    for (at, id) in cases.keys().enumerate() {
        let [counted, timed, theirs] =
            [&counted, &timed, &theirs].map(|list| list.get(at).cloned().unwrap_or_default());
        if !theirs["error"].is_null() || !timed["error"].is_null() {
            refused += 1;
            continue;
        }
        rows.push(Row::new(id, &counted, &timed, &theirs));
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    println!("{} charts, {refused} refused by one of both\n", rows.len());
    let umbrella = rows.iter().find(|row| row.id == UMBRELLA);
    if let Some(row) = umbrella {
        println!(
            "a chart of 2 MB, read and rendered: {:.1} ms\n",
            (row.load[0] + row.render[0]) / 1e6
        );
    }
    // How long the search for primes takes is luck, and it is nearly all of the time of these charts in both.
    let (keyed, rows): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.keys > 0.0);
    table(&rows, if args.all { rows.len() } else { LARGEST });
    summary("all", &rows);
    summary("largest", rows.get(..LARGEST.min(rows.len())).unwrap_or_default());
    println!("\n## Charts that generate private keys\n");
    keys(&keyed);
    Peaks { ours: &ours, go: &go, renders: args.renders.to_string() }.print(&cases, &rows)?;
    Ok(ExitCode::SUCCESS)
}

/// One chart: nanoseconds and bytes of a render and of reading the archive, ours and Helm's.
struct Row {
    id: String,
    bytes: u64,
    /// Private keys of a render, and what one of ours takes.
    keys: f64,
    key_ns: f64,
    /// A render whose keys were there before.
    without_keys: f64,
    render: [f64; 2],
    load: [f64; 2],
    render_bytes: [f64; 2],
    load_bytes: [f64; 2],
}

impl Row {
    fn new(id: &str, counted: &Json, timed: &Json, theirs: &Json) -> Self {
        let both = |ours: &Json, key: &str| {
            [ours, theirs].map(|line| line[key].as_f64().unwrap_or(f64::NAN).max(1.0))
        };
        Self {
            id: id.to_owned(),
            bytes: timed["bytes"].as_u64().unwrap_or_default(),
            keys: timed["keys"].as_f64().unwrap_or_default(),
            key_ns: timed["key_ns"].as_f64().unwrap_or_default(),
            without_keys: timed["render_without_keys_ns"].as_f64().unwrap_or_default(),
            render: both(timed, "render_ns"),
            load: both(timed, "load_ns"),
            render_bytes: both(counted, "render_bytes"),
            load_bytes: both(counted, "load_bytes"),
        }
    }
}

fn ratio([ours, theirs]: [f64; 2]) -> f64 {
    theirs / ours
}

fn table(rows: &[Row], most: usize) {
    println!(
        "{:<62} {:>9} {:>10} {:>10} {:>7} {:>7} {:>9} {:>9}",
        "chart", "output", "Helm us", "ours us", "time x", "load x", "bytes x", "l.bytes x"
    );
    for row in rows.iter().take(most) {
        println!(
            "{:<62} {:>9} {:>10.0} {:>10.0} {:>7.1} {:>7.1} {:>9.1} {:>9.1}",
            row.id,
            row.bytes,
            row.render[1] / 1e3,
            row.render[0] / 1e3,
            ratio(row.render),
            ratio(row.load),
            ratio(row.render_bytes),
            ratio(row.load_bytes),
        );
    }
    println!();
}

/// What a render takes with and without its keys.
fn keys(rows: &[Row]) {
    println!(
        "{:<62} {:>5} {:>10} {:>10} {:>7} {:>12} {:>13}",
        "chart", "keys", "Helm us", "ours us", "time x", "one key us", "without us"
    );
    for row in rows {
        println!(
            "{:<62} {:>5} {:>10.0} {:>10.0} {:>7.1} {:>12.0} {:>13.0}",
            row.id,
            row.keys,
            row.render[1] / 1e3,
            row.render[0] / 1e3,
            ratio(row.render),
            row.key_ns / 1e3,
            row.without_keys / 1e3,
        );
    }
    println!();
}

fn summary(of: &str, rows: &[Row]) {
    let line = |what: &str, part: fn(&Row) -> [f64; 2]| {
        let mut all: Vec<(f64, &str)> =
            rows.iter().map(|row| (ratio(part(row)), row.id.as_str())).collect();
        all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let median = all.get(all.len() / 2).map_or(f64::NAN, |(ratio, _)| *ratio);
        let (worst, id) = all.first().copied().unwrap_or((f64::NAN, ""));
        println!("{of:<8} {what:<12} median {median:>6.1}x, worst {worst:>6.1}x ({id})");
    };
    line("render", |row| row.render);
    line("load", |row| row.load);
    line("bytes", |row| row.render_bytes);
    line("load bytes", |row| row.load_bytes);
}

/// Processes whose peaks of memory are compared.
struct Peaks<'a> {
    ours: &'a Path,
    go: &'a Path,
    renders: String,
}

impl Peaks<'_> {
    /// Of processes that render nothing, one chart, and all of them: one after the other, and with all of them kept.
    fn print(&self, cases: &BTreeMap<String, Json>, largest: &[Row]) -> Result<()> {
        println!(
            "\n## Peak memory of processes that render each chart {} times, MiB\n",
            self.renders
        );
        println!(
            "{:<62} {:>7} {:>7} {:>7} {:>15} {:>7} {:>7}",
            "", "Helm", "ours", "x", "without nothing", "", "x"
        );
        let nothing = self.both("", &[])?;
        self.row("nothing", nothing, nothing);
        for row in largest.iter().take(PEAKS) {
            if let Some(case) = cases.get(&row.id) {
                self.row(&row.id, self.both(&format!("{case}\n"), &[])?, nothing);
            }
        }
        let all: String = cases.values().map(|case| format!("{case}\n")).collect();
        self.row("all charts, one after the other", self.both(&all, &[])?, nothing);
        self.row("all charts, kept", self.both(&all, &["keep"])?, nothing);
        Ok(())
    }

    /// Ours and Helm's.
    fn both(&self, requests: &str, flags: &[&str]) -> Result<[f64; 2]> {
        let mut ours = as_deployed(self.ours);
        ours.args(["--renders", &self.renders]).args(flags.iter().map(|flag| format!("--{flag}")));
        let mut go = Command::new(self.go);
        go.args(["-bench", "-renders", &self.renders]).env("TZ", "UTC");
        go.args(flags.iter().map(|flag| format!("-{flag}")));
        let peak = |command: &mut Command| -> Result<f64> {
            let text = text_of(command, requests)?;
            let last = text.lines().last().context("no peak of memory")?;
            Ok(last.trim().parse::<f64>()? / 1024.0)
        };
        Ok([peak(&mut ours)?, peak(&mut go)?])
    }

    fn row(&self, what: &str, [ours, theirs]: [f64; 2], nothing: [f64; 2]) {
        let [above, their_above] = [ours - nothing[0], theirs - nothing[1]];
        println!(
            "{what:<62} {theirs:>7.1} {ours:>7.1} {:>7.1} {their_above:>15.1} {above:>7.1} {:>7.1}",
            theirs / ours,
            their_above / above
        );
    }
}

/// As the chart runs the programs.
fn as_deployed(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("MIMALLOC_ALLOW_THP", "0").env("MIMALLOC_PURGE_DELAY", "0");
    command
}

/// Lines of a measuring program; the last one, its peak of memory, is left out.
fn results(command: &mut Command, requests: &str) -> Result<Vec<Json>> {
    let text = text_of(command, requests)?;
    text.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| Ok(serde_json::from_str(line)?))
        .collect()
}

fn text_of(command: &mut Command, requests: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run the measuring program")?;
    let mut input = child.stdin.take().context("no standard input")?;
    let requests = requests.to_owned();
    let writer = std::thread::spawn(move || input.write_all(requests.as_bytes()));
    let output = child.wait_with_output()?;
    let _ = writer.join();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn build_go() -> Result<PathBuf> {
    let program = material::target().join("helm-oracle");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(material::workspace().join("tests/helmdiff/oracle"))
        .status()
        .context("cannot run go")?;
    ensure!(status.success(), "go build failed");
    Ok(program)
}

/// Both builds are kept, each under a name of its own.
fn build_ours(name: &str, features: &[&str]) -> Result<PathBuf> {
    let status = material::cargo()
        .args(["build", "--quiet", "--release", "--package", "bench-helm"])
        .args(features)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cargo build failed");
    let built = material::target().join("release/bench-helm");
    let program = built.with_file_name(format!("bench-helm-{name}"));
    std::fs::copy(&built, &program)?;
    Ok(program)
}

/// Of each packed chart the case that renders the most objects, as a request.
fn cases(corpus: &Path) -> Result<BTreeMap<String, Json>> {
    let lists: Json =
        serde_json::from_str(&std::fs::read_to_string(corpus.join("capabilities.json"))?)?;
    let mut best: BTreeMap<String, (usize, String, Json)> = BTreeMap::new();
    for entry in std::fs::read_dir(corpus)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".jsonl.gz") || name.starts_with("big.") {
            continue;
        }
        for line in BufReader::new(MultiGzDecoder::new(File::open(&path)?)).lines() {
            let record: Json = serde_json::from_str(&line?)?;
            let (Some(chart), true) =
                (record["chart"].as_str(), record["expect"]["error"].is_null())
            else {
                continue;
            };
            let objects = record["expect"]["manifests"].as_array().map_or(0, Vec::len);
            if best.get(chart).is_some_and(|(most, ..)| *most >= objects) {
                continue;
            }
            let capabilities = &record["capabilities"];
            let list = capabilities["apiVersions"].as_str().unwrap_or("default");
            let release = &record["release"];
            let request = json!({
                "chart": corpus.join("charts").join(chart),
                "values": record["values"].to_string(),
                "release": {
                    "name": release["name"].as_str().unwrap_or("rel"),
                    "namespace": release["namespace"].as_str().unwrap_or("ns"),
                    "isUpgrade": release["isUpgrade"].as_bool().unwrap_or_default(),
                    "revision": release["revision"].as_i64().unwrap_or(1),
                },
                "kubeVersion": capabilities["kubeVersion"].as_str().unwrap_or("v1.34.0"),
                "apiVersions": lists[list],
            });
            let id = record["id"].as_str().unwrap_or_default().to_owned();
            best.insert(chart.to_owned(), (objects, id, request));
        }
    }
    Ok(best.into_values().map(|(_, id, request)| (id, request)).collect())
}

/// A chart of 2 MB: forty subcharts of templates that do what most charts do.
fn umbrella() -> Result<Json> {
    const SUBCHARTS: usize = 40;
    const TEMPLATES: usize = 20;
    let mut files = BTreeMap::new();
    let mut root = "apiVersion: v2\nname: umbrella\nversion: 1.0.0\ndependencies:\n".to_owned();
    for sub in 0..SUBCHARTS {
        let at = format!("charts/sub{sub}");
        let _ = writeln!(root, "- {{name: sub{sub}, version: 1.0.0, condition: sub{sub}.enabled}}");
        files.insert(
            format!("{at}/Chart.yaml"),
            format!("apiVersion: v2\nname: sub{sub}\nversion: 1.0.0\nappVersion: '2'\n"),
        );
        let mut values =
            "enabled: true\nreplicas: 2\nlabels: {team: a, tier: back}\nenv:\n".to_owned();
        for at in 0..30 {
            let _ = writeln!(values, "  KEY_{at}: value number {at}");
        }
        files.insert(format!("{at}/values.yaml"), values);
        files.insert(
            format!("{at}/templates/_helpers.tpl"),
            HELPERS.replace("NAME", &format!("sub{sub}")),
        );
        for template in 0..TEMPLATES {
            let text = TEMPLATE
                .replace("NAME", &format!("sub{sub}"))
                .replace("NUMBER", &template.to_string());
            files.insert(format!("{at}/templates/t{template}.yaml"), text);
        }
    }
    files.insert("Chart.yaml".to_owned(), root);
    let path = material::target().join("umbrella.tgz");
    let mut archive =
        tar::Builder::new(GzEncoder::new(File::create(&path)?, Compression::default()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("{UMBRELLA}/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()?;
    Ok(json!({
        "chart": path, "values": "", "kubeVersion": "v1.34.0", "apiVersions": ["v1", "apps/v1"],
        "release": {"name": "rel", "namespace": "ns", "isUpgrade": false, "revision": 1},
    }))
}

const HELPERS: &str = r#"{{- define "NAME.fullname" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- define "NAME.labels" -}}
app.kubernetes.io/name: {{ include "NAME.fullname" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}
"#;

const TEMPLATE: &str = r#"{{- if .Values.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "NAME.fullname" . }}-NUMBER
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "NAME.labels" . | nindent 4 }}
  annotations:
    checksum/values: {{ toYaml .Values | sha256sum }}
spec:
  replicas: {{ .Values.replicas | default 1 | int }}
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ include "NAME.fullname" . }}
  template:
    metadata:
      labels:
        {{- include "NAME.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ default (include "NAME.fullname" .) .Values.serviceAccount }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
      - name: main
        image: {{ printf "%s/%s:%s" "registry.example.org" .Chart.Name (.Values.tag | default .Chart.AppVersion) | quote }}
        imagePullPolicy: IfNotPresent
        env:
        {{- range $name, $value := .Values.env }}
        - name: {{ $name }}
          value: {{ tpl $value $ | quote }}
        {{- end }}
        {{- if and .Values.global (hasKey .Values.global "extra") }}
        {{- toYaml .Values.global.extra | nindent 8 }}
        {{- end }}
        ports:
        {{- range $i := until 3 }}
        - name: port-{{ $i }}
          containerPort: {{ add 8080 $i }}
          protocol: TCP
        {{- end }}
        livenessProbe:
          httpGet: {path: /healthz, port: port-0}
          initialDelaySeconds: {{ mul 2 5 }}
        resources: {{- toYaml (dict "limits" (dict "cpu" "1" "memory" "1Gi") "requests" (dict "cpu" "100m")) | nindent 10 }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "NAME.fullname" . }}-NUMBER
  labels:
    {{- include "NAME.labels" . | nindent 4 }}
spec:
  type: {{ ternary "ClusterIP" "NodePort" (eq .Release.Namespace "ns") }}
  ports:
  - port: 80
    targetPort: port-0
{{- end }}
"#;
