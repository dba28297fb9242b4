//! What must hold of Helm's engine for any input. Fuzz targets run these, and a property test of the
//! crate (`shared/helm/tests/hostile.rs`).

#[path = "../../shared/helm/tests/still/mod.rs"]
mod still;

use std::io::Write as _;

use serde_json::Value;
use vela_helm::release::{Record, Status};
use vela_helm::values::Table;
use vela_helm::yaml::{self, Layout};
use vela_helm::{
    Budget, Capabilities, Chart, KubeVersion, Limits, Options, Release, RenderedText, prepare,
};

use still::Still;

fn budget() -> Budget {
    Budget {
        steps: 100_000,
        file: 1 << 18,
        total: 1 << 19,
        work: 8 << 20,
        values: 1 << 18,
        elements: 10_000,
        keys: 0,
        tpl_text: 1 << 14,
        stack: 1 << 20,
        ..Budget::default()
    }
}

fn limits() -> Limits {
    Limits {
        total: 1 << 20,
        file: 1 << 18,
        files: 64,
        depth: 4,
        archive: 1 << 20,
        ..Limits::default()
    }
}

fn files(parts: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    parts.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}

/// Renders twice: the result is the same, an error names the chart.
fn render(chart: &Chart, values: &Table) {
    let once = || -> Result<String, String> {
        let prepared = prepare(chart, values, Options::default(), &budget())
            .map_err(|error| error.to_string())?;
        let release =
            Release { name: "r".into(), namespace: "n".into(), is_upgrade: false, revision: 1 };
        let version = KubeVersion::parse("v1.34.0").map_err(|error| error.to_string())?;
        let capabilities = Capabilities::without_cluster(version);
        let rendered = prepared.render(&release, &capabilities, Box::new(Still), &budget());
        let rendered = rendered.map_err(|error| error.to_string())?;
        let bytes: usize = rendered.texts.values().map(RenderedText::len).sum();
        assert!(bytes <= budget().total);
        Ok(format!("{:?}", rendered.texts))
    };
    assert_eq!(once(), once(), "the same chart renders the same");
}

/// A packed chart is read within its limits or refused.
pub fn archive(bytes: &[u8]) {
    let _ = Chart::from_archive(bytes, &limits());
    // What is no archive is taken for the inside of one.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    let packed = packed.write_all(bytes).and_then(|()| packed.finish());
    if let Ok(packed) = packed
        && let Ok(chart) = Chart::from_archive(&packed, &limits())
    {
        render(&chart, &Table::new());
    }
}

/// The parts of an input: a line of `@@` separates them.
fn parts<const N: usize>(text: &str) -> [&str; N] {
    let mut parts = text.split("\n@@\n");
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// A template, helpers and values: output within the budget, or an error.
pub fn template(text: &str) {
    let [template, helpers, values] = parts(text);
    let chart = files(&[
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
        ("templates/t.yaml", template),
        ("templates/_h.tpl", helpers),
    ]);
    let (Ok(chart), Ok(values)) =
        (Chart::from_directory(chart, &limits()), yaml::read_values(values))
    else {
        return;
    };
    render(&chart, &values);
}

/// Values of a user, a chart and a subchart, a Chart.yaml and a schema.
pub fn values(text: &str) {
    let [user, own, below, chart, schema] = parts(text);
    let chart = if chart.is_empty() {
        "apiVersion: v2\nname: c\nversion: 0.1.0\ndependencies:\n- {name: s, version: '*', import-values: [x, {child: a, parent: b}]}\n"
    } else {
        chart
    };
    let mut all = files(&[
        ("Chart.yaml", chart),
        ("values.yaml", own),
        ("charts/s/Chart.yaml", "apiVersion: v2\nname: s\nversion: 0.1.0\n"),
        ("charts/s/values.yaml", below),
        ("charts/s/templates/v.txt", "{{ toJson .Values }}"),
        ("templates/v.txt", "{{ toJson .Values }}"),
    ]);
    if !schema.is_empty() {
        all.extend(files(&[("values.schema.json", schema)]));
    }
    let (Ok(chart), Ok(user)) = (Chart::from_directory(all, &limits()), yaml::read_values(user))
    else {
        return;
    };
    render(&chart, &user);
}

/// A text is YAML or refused; what is read is written, and read again is the same.
pub fn document(text: &str) {
    let Ok(value) = yaml::read(text) else { return };
    for layout in [Layout::Compact, Layout::Pretty] {
        let written = yaml::write(&value, layout);
        match yaml::read(&written) {
            Ok(again) => {
                assert_eq!(rounded(again), rounded(value.clone()), "{layout:?} {written:?}");
            }
            Err(error) => panic!("{layout:?} {written:?}: {error}"),
        }
    }
}

/// Integers beyond what a float holds exactly are written as floats.
fn rounded(mut value: Value) -> Value {
    yaml::to_floats(&mut value);
    value
}

/// A release record is read or refused; what is read is packed, and read again is the same.
pub fn release(text: &str) {
    let Ok(mut record) = Record::decode(text) else { return };
    let _ = (record.documents(), record.hooks(), record.config(), record.chart_version());
    let _ = (record.manifest(), record.notes(), record.first_deployed(), record.revision());
    record.set_status(Status::Failed, "x");
    record.drop_chart();
    if let Ok(packed) = record.encode() {
        assert_eq!(Record::decode(&packed).ok(), Some(record));
    }
}
