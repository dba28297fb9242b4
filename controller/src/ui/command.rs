//! `vela-controller ui`: which credentials are used, where the server listens, and how it ends.

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use vela_serve::health::Health;
use vela_serve::listen::ListenAddr;
use vela_serve::server::{Limits, serve};
use vela_serve::{shutdown, tls};

use crate::command::output;
use crate::command::{self, ClusterArgs, block_on};

use super::access::Hosts;
use super::server::{PLANS, Server, router};
use super::viewer::{Viewer, Viewers, new_key};

/// The word that makes a program of this.
pub const COMMAND: &str = "ui";

/// How long the certificate is waited for, and how often it is asked for.
const CERT_TIME: Duration = Duration::from_secs(120);
const CERT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Parser)]
#[command(
    name = "vela-controller ui",
    about = "A page that shows Applications, as whoever looks may see them; it changes nothing"
)]
struct Cli {
    /// Address to listen on; one other than loopback needs --tokens and --tls-cert-dir.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Port; 0 selects a free one.
    #[arg(long, default_value_t = 9180)]
    port: u16,
    /// Each viewer enters a bearer token; only the server's address of the kubeconfig is used. Without it all requests use
    /// the kubeconfig, for every viewer with the printed key.
    #[arg(long)]
    tokens: bool,
    /// Host names of the server other than loopback.
    #[arg(long, value_delimiter = ',')]
    host: Vec<String>,
    /// Folder with tls.crt and tls.key, for HTTPS. Changed files are reloaded.
    #[arg(long)]
    tls_cert_dir: Option<PathBuf>,
    /// Address of /healthz and /readyz.
    #[arg(long, default_value_t = ListenAddr::Off)]
    health_addr: ListenAddr,
    /// Flags of the controller for plans, after `--`, instead of those of its Deployment.
    #[arg(last = true)]
    controller: Vec<OsString>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("--address {0}: other machines are served with --tokens and --tls-cert-dir only")]
    Open(IpAddr),
    #[error(transparent)]
    Cluster(#[from] vela_cluster::Error),
    #[error("{flag}: cannot listen on {address}: {error}")]
    Listen { flag: &'static str, address: String, error: std::io::Error },
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error("there is no randomness for a key")]
    Key,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Runs the command until a signal; `arguments` begin with [`COMMAND`].
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match command::parsed(arguments) {
        Ok(cli) => cli,
        Err(ended) => return ended,
    };
    match block_on(run(cli)).map_err(Error::from).and_then(|ended| ended) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(error),
    }
}

async fn run(cli: Cli) -> Result<(), Error> {
    // In the clear, or with one key for everybody, only the own machine may ask.
    let is_private = cli.address.is_loopback() || cli.tokens && cli.tls_cert_dir.is_some();
    if !is_private {
        return Err(Error::Open(cli.address));
    }
    let stop = shutdown::on_signal()?;
    let health = Health::new();
    let ready = health.readiness("page");
    let probes = cli.health_addr.bind().await.map_err(|error| Error::Listen {
        flag: "--health-addr",
        address: cli.health_addr.to_string(),
        error,
    })?;
    if let Some(probes) = probes {
        tokio::spawn(health.serve(probes, stop.clone()));
    }
    let (viewers, key) = if cli.tokens {
        (Viewers::Everybody(cli.cluster.connect_as_nobody().await?), None)
    } else {
        let (client, _) = cli.cluster.connect().await?;
        let key = new_key().ok_or(Error::Key)?;
        (Viewers::Own { key: key.clone(), viewer: Viewer::new(client) }, Some(key))
    };
    let authority = cli.cluster.authority().await?;
    let config = match &cli.tls_cert_dir {
        None => None,
        Some(dir) => {
            let pair = match tls::wait(dir, CERT_TIME, CERT_INTERVAL, &stop).await {
                Ok(pair) => pair,
                // Stopped while it waits for its certificate: an end in order.
                Err(tls::TlsError::Stopped) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let resolver = tls::Resolver::new(pair);
            tokio::spawn(tls::follow(dir.clone(), Arc::clone(&resolver), stop.clone(), |_| {}));
            Some(tls::serving(resolver, None)?)
        }
    };
    let address = SocketAddr::new(cli.address, cli.port);
    let listen = |error| Error::Listen { flag: "--port", address: address.to_string(), error };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    // Only now: with port 0 the system has chosen one.
    announce(bound, config.is_some(), key.as_deref());
    ready.pass();
    let server = Server {
        hosts: Hosts::new(cli.host),
        viewers,
        plans: Semaphore::new(PLANS),
        system_namespace: cli.cluster.system_namespace,
        controller: cli.controller,
        authority,
    };
    Ok(serve(listener, config, router(Arc::new(server)), Limits::OBSERVERS, stop).await?)
}

/// Says where the page is. The key is not part of the address: addresses are kept in histories and logs.
fn announce(address: SocketAddr, encrypted: bool, key: Option<&str>) {
    let scheme = if encrypted { "https" } else { "http" };
    let mut text = format!("Applications: {scheme}://{address}/\n");
    match key {
        Some(key) => text.push_str(&format!("Key: {key}\n")),
        None => text.push_str("Viewers enter a bearer token of theirs (kubectl create token).\n"),
    }
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn other_machines_are_served_with_tokens_over_tls_only() {
        for arguments in [
            ["ui", "--address", "0.0.0.0", "--kubeconfig", "/nowhere", "--port=0"].as_slice(),
            &["ui", "--address", "0.0.0.0", "--kubeconfig", "/nowhere", "--tokens"],
            &["ui", "--address", "::", "--kubeconfig", "/nowhere", "--tls-cert-dir", "/nowhere"],
        ] {
            let cli = Cli::try_parse_from(arguments).unwrap();
            assert!(matches!(run(cli).await, Err(Error::Open(_))), "{arguments:?}");
        }
    }
}
