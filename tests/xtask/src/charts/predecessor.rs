//! What an installation of the Go chart leaves in a cluster, as far as an upgrade meets it: the
//! names, labels, selectors and values that its users have. No template of it is here; the objects
//! are stated as facts about version 1.10.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vela_tests::material;
use vela_tests::pki::Authority;

/// A view that the command line client evaluates, and what stands in it.
pub(super) const VIEW: &str = "service-applied-resources-view";
pub(super) const VIEW_TEXT: &str = "parameter: {appName: string}\nstatus: parameter.appName\n";

const FULL: &str = "kubevela-vela-core";

/// Writes it as a chart.
pub(crate) fn chart(dir: &Path) -> Result<PathBuf> {
    let chart = dir.join("predecessor");
    fs::create_dir_all(chart.join("templates"))?;
    fs::create_dir_all(chart.join("crds"))?;
    let about = json!({
        "apiVersion": "v2", "name": "vela-core", "version": "1.10.3", "appVersion": "1.10.3",
    });
    fs::write(chart.join("Chart.yaml"), about.to_string())?;
    fs::write(chart.join("values.yaml"), VALUES)?;
    let text: Vec<String> = objects().iter().map(Value::to_string).collect();
    fs::write(chart.join("templates/objects.yaml"), text.join("\n---\n"))?;
    let crds = material::workspace().join("charts/vela-core/crds");
    for entry in fs::read_dir(&crds).context("the chart has no CRDs")? {
        let entry = entry?;
        fs::copy(entry.path(), chart.join("crds").join(entry.file_name()))?;
    }
    Ok(chart)
}

/// The Secret that its certificate job leaves; it is no object of helm's.
pub(crate) fn secret() -> Result<Value> {
    let authority = Authority::new("nil1")?;
    let leaf =
        authority.server("nil2", &["vela-core-webhook", "vela-core-webhook.vela-system.svc"])?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": format!("{FULL}-admission"), "namespace": "vela-system" },
        "stringData": {
            "ca": authority.certificate(), "tls.crt": leaf.certificate, "tls.key": leaf.key,
        },
    }))
}

/// Its values, which `--reuse-values` brings into ours: what is new in our chart is not there.
pub(super) const VALUES: &str = include_str!("predecessor-values.yaml");

fn labels() -> Value {
    let mut labels = selector();
    labels["helm.sh/chart"] = json!("vela-core-1.10.3");
    labels["app.kubernetes.io/version"] = json!("1.10.3");
    labels["app.kubernetes.io/managed-by"] = json!("Helm");
    labels
}

fn selector() -> Value {
    json!({ "app.kubernetes.io/name": "vela-core", "app.kubernetes.io/instance": "kubevela" })
}

fn object(version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "name": name, "labels": labels() },
    });
    if !kind.starts_with("Cluster") && !kind.ends_with("Configuration") {
        object["metadata"]["namespace"] = json!("vela-system");
    }
    if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
        object.extend(rest);
    }
    object
}

fn objects() -> Vec<Value> {
    let account = json!([{ "kind": "ServiceAccount", "name": FULL, "namespace": "vela-system" }]);
    let rbac = "rbac.authorization.k8s.io/v1";
    let binding = |kind: &str, name: &str, role: &str, role_name: &str| {
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": role,
            "name": role_name });
        object(rbac, kind, name, json!({ "roleRef": role, "subjects": account }))
    };
    let leader = format!("{FULL}:leader-election-role");
    let rule = json!({ "rules": [{ "apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"] }] });
    vec![
        object("v1", "ServiceAccount", FULL, json!({})),
        binding(
            "ClusterRoleBinding",
            &format!("{FULL}:manager-rolebinding"),
            "ClusterRole",
            "cluster-admin",
        ),
        object(rbac, "Role", &leader, rule),
        binding("RoleBinding", &format!("{FULL}:leader-election-rolebinding"), "Role", &leader),
        object("v1", "ConfigMap", "vela-addon-registry", json!({ "data": { "registries": "{}" } })),
        object("v1", "ConfigMap", VIEW, json!({ "data": { "template": VIEW_TEXT } })),
        object(
            "v1",
            "Service",
            "vela-core-webhook",
            json!({ "spec": { "type": "ClusterIP", "selector": selector(),
                "ports": [{ "name": "https", "port": 443, "targetPort": 9443 }] } }),
        ),
        deployment(),
        configuration("MutatingWebhookConfiguration", &MUTATING),
        configuration("ValidatingWebhookConfiguration", &VALIDATING),
        object(
            "core.oam.dev/v1beta1",
            "TraitDefinition",
            "scaler",
            json!({ "spec": { "podDisruptive": false, "schematic": { "cue": {
                "template": "patch: spec: replicas: parameter.replicas\n\
                    parameter: replicas: *1 | int\n",
            } } } }),
        ),
    ]
}

fn deployment() -> Value {
    let mut deployment = object(
        "apps/v1",
        "Deployment",
        FULL,
        json!({ "spec": {
            "replicas": 1,
            "selector": { "matchLabels": selector() },
            "template": {
                "metadata": { "labels": selector() },
                "spec": {
                    "serviceAccountName": FULL,
                    "containers": [{
                        "name": "kubevela", "image": "oamdev/vela-core:v1.10.3",
                        "args": ["--metrics-addr=:8080", "--enable-leader-election",
                            "--use-webhook=true", "--webhook-port=9443"],
                        "ports": [{ "containerPort": 9443, "name": "webhook-server" }],
                        "volumeMounts": [{ "name": "tls-cert-vol", "readOnly": true,
                            "mountPath": "/etc/k8s-webhook-certs" }],
                    }],
                    "volumes": [{ "name": "tls-cert-vol", "secret": {
                        "defaultMode": 420, "secretName": format!("{FULL}-admission") } }],
                },
            },
        } }),
    );
    deployment["metadata"]["labels"]["controller.oam.dev/name"] = json!("vela-core");
    deployment
}

const MUTATING: [(&str, &str); 2] = [
    ("mutating.core.oam.dev.v1beta1.applications", "applications"),
    ("mutating.core.oam-dev.v1beta1.componentdefinitions", "componentdefinitions"),
];
const VALIDATING: [(&str, &str); 5] = [
    ("validating.core.oam.dev.v1beta1.applications", "applications"),
    ("validating.core.oam.dev.v1beta1.traitdefinitions", "traitdefinitions"),
    ("validating.core.oam-dev.v1beta1.componentdefinitions", "componentdefinitions"),
    ("validating.core.oam-dev.v1beta1.policydefinitions", "policydefinitions"),
    ("validating.core.oam-dev.v1beta1.workflowstepdefinitions", "workflowstepdefinitions"),
];

fn configuration(kind: &str, hooks: &[(&str, &str)]) -> Value {
    let verb = if kind.starts_with("Mutating") { "mutating" } else { "validating" };
    let hooks: Vec<Value> = hooks
        .iter()
        .map(|(name, plural)| {
            json!({
                "name": name, "admissionReviewVersions": ["v1beta1", "v1"], "sideEffects": "None",
                "failurePolicy": "Ignore", "timeoutSeconds": 10,
                "clientConfig": { "caBundle": "Cg==", "service": {
                    "name": "vela-core-webhook", "namespace": "vela-system",
                    "path": format!("/{verb}-core-oam-dev-v1beta1-{plural}") } },
                "rules": [{ "apiGroups": ["core.oam.dev"], "apiVersions": ["v1beta1"],
                    "operations": ["CREATE", "UPDATE"], "resources": [plural] }],
            })
        })
        .collect();
    let mut object = object(
        "admissionregistration.k8s.io/v1",
        kind,
        &format!("{FULL}-admission"),
        json!({ "webhooks": hooks }),
    );
    // Its configurations carry no labels of the chart.
    object["metadata"]["labels"] = json!(BTreeMap::from([("managed", "Helm")]));
    object
}
