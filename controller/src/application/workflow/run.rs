//! The inputs of the steps of one pass, and values derived from them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use vela_api::{Application, ClusterObjectReference, Policy, names};
use vela_apply::object::{api_version, kind, name, namespace};
use vela_cluster::members::Snapshot;
use vela_render::ClusterVersion;
use vela_workflow::{Attempt, Workflow};

use crate::application::component::RenderInput;
use crate::application::facts::parse::Used;

/// How long a component may take before its objects are asked why.
pub(super) const SLOW_COMPONENT: Duration = Duration::from_secs(10);

/// What the steps work on.
#[derive(Debug)]
pub struct Run<'a> {
    /// The Application whose spec runs; for a WorkflowRun one of its name with nothing in its spec.
    pub app: &'a Application,
    /// The revision's definitions.
    pub used: &'a Used,
    /// The Application and the revision, for templates.
    pub input: &'a RenderInput,
    /// Steps.
    pub workflow: &'a Workflow,
    /// Policies that `deploy` steps name and the Application does not have.
    pub policies: &'a BTreeMap<String, Policy>,
    /// The version of the local cluster.
    pub cluster_version: &'a ClusterVersion,
    /// The clusters there are; `None`: the own one.
    pub clusters: Option<Arc<Snapshot>>,
    /// `context` of conditions, inputs and templates.
    pub context: Value,
    /// What steps evaluated is kept for people to read.
    pub debugged: bool,
}

/// `context` of the workflow of an Application.
pub(in crate::application) fn context(input: &RenderInput, version: &ClusterVersion) -> Value {
    let app = &input.app;
    let noted = |key: &str| app.annotations.get(key).cloned().unwrap_or_default();
    let mut context = json!({
        "name": app.name, "appName": app.name, "namespace": app.namespace,
        "appRevision": app.revision, "appRevisionNum": vela_render::context::revision_number(&app.revision),
        "appLabels": app.labels, "appAnnotations": app.annotations,
        "workflowName": noted(names::annotation::WORKFLOW_NAME),
        "publishVersion": noted(names::annotation::PUBLISH_VERSION),
        "revision": "", "replicaKey": "", "cluster": "", "components": null,
        "clusterVersion": {
            "major": version.major, "minor": version.minor_number(),
            "gitVersion": version.git_version, "platform": version.platform,
        },
    });
    if let (Some(custom), Some(context)) = (input.custom.as_deref(), context.as_object_mut()) {
        context.insert("custom".to_owned(), custom.clone());
    }
    context
}

/// Whether a step has waited so long that what it waits for is asked why.
pub(super) fn takes_long(attempt: &Attempt) -> bool {
    // Since the first attempt, not since this one.
    let since = attempt.previous.as_ref().and_then(|step| step.first_execute_time);
    since.is_some_and(|since| waited(since, Timestamp::now()) > SLOW_COMPONENT)
}

/// How the status names an object that a step applied.
pub(super) fn reference(manifest: &Value, cluster: &str) -> ClusterObjectReference {
    ClusterObjectReference {
        api_version: api_version(manifest).to_owned(),
        cluster: cluster.to_owned(),
        creator: names::creator::WORKFLOW.to_owned(),
        kind: kind(manifest).to_owned(),
        name: name(manifest).to_owned(),
        namespace: namespace(manifest).to_owned(),
        ..ClusterObjectReference::default()
    }
}

pub(super) fn waited(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(since.duration_until(now)).unwrap_or_default()
}
