//! Lint and rendering with the pinned helm; needs no cluster.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use vela_tests::controlplane::Programs;
use vela_tests::deploy::RELEASE;
use vela_tests::material;
use vela_tests::progress::Step;
use vela_tests::release::{Helm, chart};

use super::predecessor;

/// Settings that change what is rendered; each must give valid YAML.
const VARIANTS: [&[&str]; 13] = [
    &[],
    &["authentication.enabled=true"],
    &["authentication.enabled=false"],
    &["admissionWebhooks.enabled=false"],
    &["admissionWebhooks.certManager.enabled=true"],
    &["admissionWebhooks.failurePolicy=Ignore"],
    &["multicluster.enabled=false", "nameOverride=other"],
    &["fullnameOverride=other", "serviceAccount.name=mine", "serviceAccount.create=false"],
    &[
        "webhook.autoscaling.enabled=true",
        "networkPolicy.enabled=true",
        "priorityClass.create=false",
    ],
    &["webhook.refObjects.rules=null", "multicluster.enabled=true"],
    &["sharding.enabled=true", "sharding.schedulableShards=shard-0"],
    &["controller.podDisruptionBudget.enabled=true", "imageRegistry=registry.example/"],
    &[
        "core.metrics.enabled=true",
        "core.metrics.serviceMonitor.enabled=true",
        "core.metrics.dashboard.enabled=true",
        "core.metrics.rules.enabled=true",
    ],
];

/// What the schema must not let pass.
const REFUSED: [&str; 7] = [
    "webhook.replicaCount=0",
    "webhook.replicas=3",
    "webhook.logFormat=xml",
    "networkPolicy.enabled=perhaps",
    "priorityClass.value=high",
    "webhook.refObjects.rules[0].verbs[0]=update",
    "admissionWebhooks.failurePolicy=Sometimes",
];

/// The blocks that no older chart has: `--reuse-values` does not bring their defaults along.
const NEW: [&str; 4] = ["webhook", "controller", "networkPolicy", "priorityClass"];

/// Lints the chart and renders it in all variants.
pub(crate) fn check() -> Result<()> {
    let programs = Programs::only(&["helm"])?;
    let home = material::target().join("helm");
    let helm = Helm::new(&programs, &home);
    let step = Step::start("helm lint");
    helm.run(&["lint", "--quiet", &chart().to_string_lossy()])?;
    step.done();
    for values in VARIANTS {
        let step = Step::start(format!("helm template {}", values.join(" ")));
        let yaml = template(&helm, values)?;
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&yaml).context("helm's output is not YAML")?;
        let named = |object: &&Value| object["metadata"]["name"].is_string();
        let objects: Vec<Value> = objects.into_iter().filter(Value::is_object).collect();
        if let Some(odd) = objects.iter().find(|object| !named(object)) {
            bail!("the chart renders an object without a name: {odd}");
        }
        ensure!(objects.len() > 80, "the chart renders hardly anything with {values:?}");
        let names: BTreeSet<String> = objects.iter().map(identity).collect();
        ensure!(names.len() == objects.len(), "two objects of one name with {values:?}");
        step.done();
    }
    let step = Step::start("what the schema must refuse");
    for value in REFUSED {
        ensure!(template(&helm, &[value]).is_err(), "{value} is not refused");
    }
    step.done();

    let step = Step::start("defaults for --reuse-values are those of values.yaml");
    let without: Vec<String> = NEW.iter().map(|block| format!("{block}=null")).collect();
    let without: Vec<&str> = without.iter().map(String::as_str).collect();
    ensure!(
        template(&helm, &[])? == template(&helm, &without)?,
        "values.yaml and the defaults in templates/_helpers.tpl differ"
    );
    let old = home.join("predecessor-values.yaml");
    fs::create_dir_all(&home)?;
    fs::write(&old, predecessor::VALUES)?;
    let chart = chart();
    let chart = chart.to_string_lossy();
    helm.run(&["template", RELEASE, &chart, "--values", &old.to_string_lossy()])?;
    step.done();
    Ok(())
}

fn template(helm: &Helm, values: &[&str]) -> Result<String> {
    let chart = chart();
    let chart = chart.to_string_lossy();
    let mut args = vec!["template", RELEASE, &chart, "--include-crds"];
    args.extend(["--api-versions", "monitoring.coreos.com/v1"]);
    for value in values {
        args.extend(["--set", value]);
    }
    helm.run(&args)
}

fn identity(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{} {} {} {}",
        object["apiVersion"], object["kind"], metadata["namespace"], metadata["name"]
    )
}
