//! The connection to the API server: configuration, and patience while it is not up yet.

use std::time::Duration;

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use vela_serve::flags::KubeFlags;

/// First pause between tries, doubled up to the longest.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A client of an API server that has answered; `None` if it was told to stop meanwhile.
///
/// A configuration that cannot be read is an error at once; a server that does not answer is
/// waited for, since it may be starting as we are.
pub(crate) async fn connect(
    flags: &KubeFlags,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Client>> {
    let mut config = match &flags.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("--kubeconfig {} cannot be read", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("--kubeconfig {} cannot be used", path.display()))?
        }
        None => Config::infer().await.context(
            "no usable kubeconfig: neither KUBECONFIG, a ServiceAccount nor ~/.kube/config",
        )?,
    };
    config.headers.push((
        USER_AGENT,
        HeaderValue::from_static(concat!("vela-webhook/", env!("CARGO_PKG_VERSION"))),
    ));
    config.read_timeout = None;
    config.connect_timeout = Some(Duration::from_secs(5));
    let server = config.cluster_url.clone();
    let client = Client::try_from(config).context("the kubeconfig makes no client")?;
    let mut pause = PAUSE;
    loop {
        let error = match client.apiserver_version().await {
            Ok(_) => return Ok(Some(client)),
            // It answers, and says no: the version is public on every cluster, so this is about
            // who we are, and the watches will say what is missing.
            Err(kube::Error::Api(error)) if error.code == 403 => return Ok(Some(client)),
            Err(error) => error,
        };
        warn!(%server, %error, "the API server does not answer yet, waiting");
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
