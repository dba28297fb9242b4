//! The settings of the parts of the process, from its flags.

use std::sync::Arc;
use std::time::Duration;

use vela_cluster::client::ClientOptions;
use vela_cluster::observe::RequestObserver;
use vela_render::ClusterVersion;

use crate::config::Config;
use crate::context::Settings;
use crate::metrics::Metrics;

use super::pod::pod;

/// A rollout is many changes in a row: one that waits for it is checked this often at the most.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) fn client_options(config: &Config, metrics: &Metrics) -> ClientOptions {
    let metrics = metrics.clone();
    ClientOptions {
        // Counted where answers arrive, so that no request of any client is missed.
        observer: Some(RequestObserver::new(move |answer| metrics.answered(answer))),
        ..config.kube.options(user_agent(config))
    }
}

/// The name under which requests are sent. Of several replicas at work it says which one: audit logs show who wrote what.
fn user_agent(config: &Config) -> String {
    const PROGRAM: &str = concat!("vela-controller/", env!("CARGO_PKG_VERSION"));
    match config.fleet {
        None => PROGRAM.to_owned(),
        Some(_) => format!("{PROGRAM}/{}", pod()),
    }
}

pub(crate) fn settings(
    config: &Config,
    version: &k8s_openapi::apimachinery::pkg::version::Info,
) -> Settings {
    Settings {
        gates: config.gates.clone(),
        system_namespace: config.system_namespace.clone(),
        resync: config.resync,
        pause: PAUSE,
        reconcile_timeout: config.reconcile_timeout,
        application_revision_limit: config.application_revision_limit,
        definition_revision_limit: config.definition_revision_limit,
        makes_workload_definitions: config.makes_workload_definitions,
        dispatch_concurrency: config.dispatch_concurrency,
        allow_cross_namespace: config.allow_cross_namespace,
        allowed_types: config.allowed_types.clone(),
        prune_confirm_kinds: config.prune_confirm_kinds.clone(),
        ready_means_healthy: config.ready_means_healthy,
        unreachable_is_unhealthy: config
            .clusters
            .as_ref()
            .is_none_or(|clusters| clusters.unreachable_is_unhealthy),
        not_inherited: Arc::new(vela_api::KeyPatterns::new(&config.inherit_exclude)),
        refers_to_namespace: config.refers_to_namespace,
        refers_to_clusters: config.refers_to_clusters,
        shard: config.shard.clone(),
        label_records: config.label_records,
        label_objects: config.label_objects,
        disable_component_revision: config.disable_component_revision,
        version: config.version.clone(),
        ignore_without_version: config.ignore_without_version,
        ignore_definitions_without_version: config.ignore_definitions_without_version,
        acting: config.acting.clone(),
        workflow: config.workflow.clone(),
        cluster_version: ClusterVersion {
            major: version.major.clone(),
            minor: version.minor.clone(),
            git_version: version.git_version.clone(),
            platform: version.platform.clone(),
        },
    }
}
