//! What the commands for people and pipelines share: how they reach the cluster, and how they end.
//!
//! They run under the caller's kubeconfig, next to the controller or far from it, and write nothing. What they read of our kinds
//! is in `caches.rs`, files in `files.rs`.

pub(crate) mod caches;
pub(crate) mod files;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kube::Client;
use vela_cluster::client::{ClientOptions, build, configuration};
use vela_serve::tls;

/// How the cluster is reached.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig; without it $KUBECONFIG, the Pod's credentials, ~/.kube/config.
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig other than the current one.
    #[arg(long)]
    pub(crate) context: Option<String>,
    /// Namespace of what names none, and whose definitions count; without it that of the kubeconfig's context.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// Namespace of the built-in definitions.
    #[arg(long, default_value = "vela-system")]
    pub(crate) system_namespace: String,
}

/// Requests per second of a command, and at once: many read the whole cluster.
const QPS: f64 = 50.0;
const BURST: u32 = 100;

impl ClusterArgs {
    /// A client, and the namespace that is meant.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read.
    pub(crate) async fn connect(&self) -> Result<(Client, String), vela_cluster::Error> {
        tls::install_crypto();
        let options = ClientOptions {
            kubeconfig: self.kubeconfig.clone(),
            kubeconfig_env: std::env::var_os("KUBECONFIG").map(Into::into),
            context: self.context.clone(),
            qps: QPS,
            burst: BURST,
            ..ClientOptions::new(concat!("vela-command/", env!("CARGO_PKG_VERSION")))
        };
        let config = configuration(&options).await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok((build(config, &options)?, namespace))
    }
}

/// What the arguments of a command say. Otherwise what is wrong with them, or the help that they ask for, is printed, and the
/// program ends.
pub(crate) fn parsed<T: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<T, ExitCode> {
    T::try_parse_from(arguments).map_err(|error| {
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
    })
}

/// Runs the work of a command on a runtime of its own.
///
/// # Errors
/// There are no threads.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(result)
}
