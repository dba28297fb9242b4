//! What the commands for people and pipelines share: how they reach the cluster, and how they end.
//!
//! They run under the caller's kubeconfig, next to the controller or far from it, and write nothing. What they read of our kinds
//! is in `caches.rs`, files in `files.rs`, what they print in `output.rs`.

pub(crate) mod caches;
pub(crate) mod files;
pub(crate) mod output;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kube::Client;
use kube::config::AuthInfo;
use vela_cluster::client::{ClientOptions, build, configuration};
use vela_cluster::members::own_authority;
use vela_serve::pool::STACK;
use vela_serve::tls;

/// How the cluster is reached.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct KubeconfigArgs {
    /// Kubeconfig; without it $KUBECONFIG, the Pod's credentials, ~/.kube/config.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig other than the current one.
    #[arg(long)]
    context: Option<String>,
}

/// How the cluster is reached, and which namespaces count.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    kubeconfig: KubeconfigArgs,
    /// Namespace of what names none, and whose definitions count; without it that of the kubeconfig's context.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// Namespace of the built-in definitions.
    #[arg(long, default_value = "vela-system")]
    pub(crate) system_namespace: String,
}

/// By which requests of commands are known.
pub(crate) const AGENT: &str = concat!("vela-command/", env!("CARGO_PKG_VERSION"));

/// Requests per second of a command, and at once: many read the whole cluster.
const QPS: f64 = 50.0;
const BURST: u32 = 100;

impl KubeconfigArgs {
    /// A client, and the namespace of the context.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read.
    pub(crate) async fn connect(&self) -> Result<(Client, String), vela_cluster::Error> {
        let options = ClientOptions { qps: QPS, burst: BURST, ..self.options() };
        let config = configuration(&options).await?;
        let namespace = config.default_namespace.clone();
        Ok((build(config, &options)?, namespace))
    }

    /// A client without any credentials: each request brings those of whoever asks, and the API server limits him.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read.
    pub(crate) async fn connect_as_nobody(&self) -> Result<Client, vela_cluster::Error> {
        let options = ClientOptions { qps: 0.0, ..self.options() };
        let mut config = configuration(&options).await?;
        config.auth_info = AuthInfo::default();
        build(config, &options)
    }

    fn options(&self) -> ClientOptions {
        tls::install_crypto();
        ClientOptions {
            kubeconfig: self.kubeconfig.clone(),
            kubeconfig_env: std::env::var_os("KUBECONFIG").map(Into::into),
            context: self.context.clone(),
            ..ClientOptions::new(AGENT)
        }
    }
}

impl ClusterArgs {
    /// A client, and the namespace that is meant.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read.
    pub(crate) async fn connect(&self) -> Result<(Client, String), vela_cluster::Error> {
        let (client, namespace) = self.kubeconfig.connect().await?;
        Ok((client, self.namespace.clone().unwrap_or(namespace)))
    }

    /// What vouches for the API server.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read.
    pub(crate) async fn authority(&self) -> Result<String, vela_cluster::Error> {
        Ok(own_authority(&configuration(&self.kubeconfig.options()).await?))
    }

    /// As [`KubeconfigArgs::connect_as_nobody`].
    ///
    /// # Errors
    /// A kubeconfig that cannot be read.
    pub(crate) async fn connect_as_nobody(&self) -> Result<Client, vela_cluster::Error> {
        self.kubeconfig.connect_as_nobody().await
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

/// Why an evaluation has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EvaluationError {
    /// There are no threads.
    #[error("cannot start threads: {0}")]
    Threads(#[from] std::io::Error),
    /// It panicked.
    #[error("evaluation ended without a result")]
    Ended,
}

/// Evaluates CUE on a thread whose stack is large enough for it.
///
/// # Errors
/// There is no thread, or it ended without a result.
pub(crate) fn evaluate<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EvaluationError> {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work)?;
    thread.join().map_err(|_| EvaluationError::Ended)
}
