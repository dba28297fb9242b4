//! Flag groups that both deployables have. Each program flattens those it needs.

use std::path::PathBuf;

use clap::Args;

use crate::listen::ListenAddr;

/// Probes, metrics and logs.
#[derive(Debug, Clone, Args)]
pub struct ProcessFlags {
    /// Address of /healthz and /readyz.
    #[arg(long, default_value = ":9440")]
    pub health_addr: ListenAddr,
    /// Address of /metrics.
    #[arg(long, default_value = ":8080")]
    pub metrics_addr: ListenAddr,
    /// Folder with tls.crt and tls.key: /metrics is served over TLS, once they exist. Empty: without TLS.
    #[arg(long, value_name = "DIR")]
    pub metrics_cert_path: Option<PathBuf>,
    /// Address of /configz, /debug/flags/v, /debug/profile and /mem/stat, without authentication; "0" for none.
    #[arg(long, default_value = "0")]
    pub profiling_addr: ListenAddr,
    /// Log at debug level.
    #[arg(long)]
    pub log_debug: bool,
    /// Log human-readable text with colours, whatever --log-format says.
    #[arg(long)]
    pub dev_logs: bool,
    /// Format of the log: "text" or "json".
    #[arg(long, default_value = "text")]
    pub log_format: crate::log::Format,
    /// Log verbosity in klog's numbers: 0-3 info, 4-7 debug, 8 and above trace.
    #[arg(short = 'v', long = "v", default_value_t = 0)]
    pub v: i32,
}

impl ProcessFlags {
    /// What these flags say about logs.
    pub fn log(&self) -> crate::log::Config {
        let level = match crate::log::Level::of_verbosity(self.v) {
            crate::log::Level::Info if self.log_debug => crate::log::Level::Debug,
            level => level,
        };
        let format = if self.dev_logs { crate::log::Format::Dev } else { self.log_format };
        crate::log::Config { level, format }
    }
}

/// Feature gates.
#[derive(Debug, Clone, Args)]
pub struct GateFlags {
    /// Feature gates, e.g. "ApplyOnce=true,PreDispatchDryRun=false"; may repeat.
    #[arg(long)]
    pub feature_gates: Vec<String>,
}

impl GateFlags {
    /// The gates they set.
    pub fn gates(&self) -> Result<crate::gates::Gates, crate::gates::GateError> {
        crate::gates::Gates::parse(&self.feature_gates)
    }
}
