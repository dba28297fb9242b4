//! What plans begin with, read under the caller's rights: the controller's settings, definitions, the Application with its records.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vela_api::names::label;
use vela_api::{Application, ApplicationRevision, ResourceTracker};
use vela_cluster::objects::Notify;
use vela_cluster::{ApiError, ClientOptions, Identity, ObjectClient, Target};
use vela_render::{Limits, Options, Renderer};
use vela_seal::KeyHolder;
use vela_serve::memory;
use vela_serve::pool::Pool;

use crate::clusters::Clusters;
use crate::command::{AGENT, caches};
use crate::config::{Config, ConfigError, Flags};
use crate::evaluation::Evaluator;
use crate::start;

use super::overlay::is_label;
use super::stage::{Means, Present};

/// Label of the controller's Deployment, by which clients find it.
const CONTROLLER: &str = "controller.oam.dev/name=vela-core";
/// What the chart says where the Deployment cannot be read.
const CHART_FLAGS: [&str; 3] = [
    "--feature-gates=ZstdResourceTracker=true,ZstdApplicationRevision=true,MultiStageComponentApply=true,PreDispatchDryRun=true",
    "--application-revision-limit=2",
    "--definition-revision-limit=2",
];

/// Why no plan can begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("cannot start threads: {0}")]
    Threads(#[from] std::io::Error),
    #[error("{0}")]
    Flags(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// What all plans of these namespaces share; of all if there are none. `controller`: its flags, instead of those of its Deployment.
///
/// # Errors
/// The API server's answer, flags that are wrong, no threads.
pub(crate) async fn means(
    (client, authority): (Client, &str),
    controller: &[OsString],
    namespaces: &[String],
) -> Result<Means, SetupError> {
    let mut config = config(controller, &client).await?;
    if let Some(flags) = &mut config.clusters {
        // What a Secret of a cluster has executed is for the controller to execute, not for whoever plans.
        flags.exec_dir = None;
    }
    let stop = CancellationToken::new();
    let clusters = clusters(&config, &client, authority, &stop).await;
    let version = client.apiserver_version().await.map_err(ApiError::from)?;
    let mut settings = start::settings(&config, &version);
    // As the caller, and for every Application.
    (settings.acting.authenticate, settings.shard) = (false, None);
    settings.pause = Duration::ZERO;
    settings.workflow.suspend_on_failure = false;
    let threads = memory::evaluations(config.render_threads.saturating_add(1));
    let pool = Pool::new("cue", threads.threads, QUEUE)?;
    let renderer = Renderer::new(Options {
        limits: Limits { bytes: threads.bytes, ..Limits::default() },
        rewrite_legacy_syntax: config.legacy_cue,
        ..Options::default()
    });
    let definitions = caches::definitions(&client, &config.system_namespace, namespaces).await?;
    Ok(Means {
        client,
        settings,
        rules: config.charts.clone(),
        cue: Evaluator::new(Arc::new(pool), Arc::new(renderer)),
        definitions: Arc::new(definitions),
        keys: KeyHolder::default(),
        clusters,
        _ends_on_drop: Some(Arc::new(stop.drop_guard())),
    })
}

/// The clusters that joined, connected to with credentials that the caller may read. Those that nothing is known of in time count as out
/// of reach.
async fn clusters(
    config: &Config,
    client: &Client,
    authority: &str,
    stop: &CancellationToken,
) -> Arc<Clusters> {
    let options = ClientOptions::new(AGENT);
    let hooks: (Notify, _, _) = (Arc::new(|_| {}), TaskTracker::new(), stop.clone());
    let about = (&options, client, authority);
    let clusters =
        Arc::new(start::clusters(config, hooks, about, (Arc::new(|_| {}), &Arc::default())));
    if !clusters.is_on() {
        return clusters;
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), clusters.namespace());
    // Without that right nothing comes, and an Application that names a cluster says that none is known.
    if secrets.list(&ListParams::default().limit(1)).await.is_ok() {
        let (followed, client, stop) = (Arc::clone(&clusters), client.clone(), stop.clone());
        tokio::spawn(async move { followed.follow(client, &stop).await });
        let _ = tokio::time::timeout(CONNECTED, clusters.known()).await;
    }
    clusters
}

/// How long it may take until it is known which clusters can be reached.
const CONNECTED: Duration = Duration::from_secs(10);

/// Rendering jobs that wait for a thread.
const QUEUE: usize = 64;

/// The configuration of the controller: as given, as its Deployment says, or the chart's.
async fn config(controller: &[OsString], client: &Client) -> Result<Config, SetupError> {
    let given = if controller.is_empty() { deployed(client).await } else { None };
    let arguments = match given {
        _ if !controller.is_empty() => controller.to_vec(),
        Some(arguments) => arguments,
        None => CHART_FLAGS.map(OsString::from).to_vec(),
    };
    let parsed = vela_serve::flags::parse::<Flags>(arguments)
        .map_err(|error| SetupError::Flags(error.to_string()))?;
    Ok(Config::try_from(parsed.flags)?)
}

/// The arguments of the controller's Deployment, if the caller may read it.
async fn deployed(client: &Client) -> Option<Vec<OsString>> {
    let api: Api<Deployment> = Api::all(client.clone());
    let list = api.list(&ListParams::default().labels(CONTROLLER)).await.ok()?;
    let spec = list.items.into_iter().next()?.spec?.template.spec?;
    let arguments = spec.containers.into_iter().next()?.args?;
    Some(arguments.into_iter().map(OsString::from).collect())
}

/// The Application that an object means, as the cluster has it.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn present(client: &Client, object: &Value) -> Result<Present, ApiError> {
    let text = |key: &str| object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
    let (namespace, name) =
        (text("namespace").unwrap_or_default(), text("name").unwrap_or_default());
    let io = ObjectClient::new(client.clone());
    let target =
        Target { api_version: vela_api::V1BETA1, kind: Application::KIND, namespace, name };
    let app = match io.get(&target, &Identity::default()).await {
        Ok(app) => Some(app),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    if !is_label(name) {
        return Ok(Present { app, ..Present::default() });
    }
    let named = format!("{}={name}", label::APP_NAME);
    let params = ListParams::default().labels(&named);
    let api: Api<ApplicationRevision> = Api::namespaced(client.clone(), namespace);
    let revisions = caches::pages(&api, params).await?;
    let params =
        ListParams::default().labels(&format!("{named},{}={namespace}", label::APP_NAMESPACE));
    let api: Api<ResourceTracker> = Api::all(client.clone());
    let trackers = caches::pages(&api, params).await?;
    Ok(Present { app, revisions, trackers })
}
