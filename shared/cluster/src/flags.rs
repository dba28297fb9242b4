//! The flags of a program that say how it reaches the API server, in the reference's names.

use std::path::PathBuf;
use std::time::Duration;

use vela_gocompat::duration::parse_limit as duration;

use crate::client::{ClientOptions, Timeouts};

/// The connection to the API server.
#[derive(Debug, Clone, clap::Args)]
pub struct KubeFlags {
    /// Kubeconfig file; without it KUBECONFIG, the Pod's ServiceAccount, then ~/.kube/config.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Requests a second to the API server.
    #[arg(long, default_value_t = 50.0)]
    pub kube_api_qps: f64,
    /// Requests at once above that rate.
    #[arg(long, default_value_t = 100)]
    pub kube_api_burst: u32,
    /// Time limit of a read.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub controller_client_request_timeout: Duration,
    /// Time limit of a list.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub controller_client_long_running_request_timeout: Duration,
    /// Time limit of a write.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub controller_client_mutating_request_timeout: Duration,
}

impl KubeFlags {
    /// What a client of the program under this user agent is made with.
    #[must_use]
    pub fn options(&self, user_agent: impl Into<String>) -> ClientOptions {
        ClientOptions {
            kubeconfig: self.kubeconfig.clone(),
            kubeconfig_env: std::env::var_os("KUBECONFIG").map(Into::into),
            qps: self.kube_api_qps,
            burst: self.kube_api_burst,
            timeouts: Timeouts {
                request: self.controller_client_request_timeout,
                list: self.controller_client_long_running_request_timeout,
                mutating: self.controller_client_mutating_request_timeout,
            },
            ..ClientOptions::new(user_agent)
        }
    }
}
