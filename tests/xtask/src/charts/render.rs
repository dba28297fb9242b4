//! Lint and rendering with the pinned helm; needs no cluster.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use vela_tests::controlplane::Programs;
use vela_tests::material;
use vela_tests::progress::Step;

/// Settings that change what is rendered; each must give valid YAML.
const VARIANTS: [&[&str]; 6] = [
    &[],
    &["authentication.enabled=true"],
    &["authentication.enabled=false"],
    &["admissionWebhooks.enabled=false"],
    &["admissionWebhooks.certManager.enabled=true"],
    &["multicluster.enabled=false", "nameOverride=other"],
];

/// Lints the chart and renders it in all variants.
pub(crate) fn check() -> Result<()> {
    let programs = Programs::ready()?;
    let chart = material::workspace().join("charts/vela-core");
    let step = Step::start("helm lint");
    helm(&programs, &["lint", "--quiet"], &chart, &[])?;
    step.done();
    for values in VARIANTS {
        let step = Step::start(format!("helm template {}", values.join(" ")));
        let yaml = helm(
            &programs,
            &["template", "kubevela", "--namespace", "vela-system", "--include-crds"],
            &chart,
            values,
        )?;
        let objects: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&yaml).context("helm's output is not YAML")?;
        let named = |object: &&serde_json::Value| object["metadata"]["name"].is_string();
        let objects = objects.iter().filter(|object| object.is_object());
        if let Some(odd) = objects.clone().find(|object| !named(object)) {
            bail!("the chart renders an object without a name: {odd}");
        }
        if objects.count() < 10 {
            bail!("the chart renders hardly anything with {values:?}");
        }
        step.done();
    }
    Ok(())
}

fn helm(programs: &Programs, args: &[&str], chart: &PathBuf, values: &[&str]) -> Result<String> {
    let mut command = Command::new(programs.path("helm"));
    command.args(args).arg(chart);
    for value in values {
        command.args(["--set", value]);
    }
    let output = command.stdin(Stdio::null()).output().context("cannot run helm")?;
    if !output.status.success() {
        bail!(
            "helm {}: {}{}",
            args.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout).context("helm's output is not UTF-8")
}
