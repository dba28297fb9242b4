//! Connections to servers that a step names: HTTP servers, mail servers.
//!
//! The controller may reach more than the person who writes an Application. So names are resolved here, every address is
//! held against the egress rule, and the connection goes to exactly the address that was checked.

pub mod calls;
pub mod http;
pub mod notify;
pub mod policy;
pub mod smtp;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use policy::Egress;

use crate::messages;

/// Longest time to find and reach an address.
const CONNECT: Duration = Duration::from_secs(10);

/// What both plain and encrypted connections can do.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that does not come about; nothing was sent.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// The name of the host has no address, or nobody could say.
    #[error("{}", messages::lookup_failed(.host, .reason))]
    Lookup {
        /// The host.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// The egress rule closes all addresses of the host.
    #[error("{}", messages::egress_denied(.host))]
    Denied {
        /// The host.
        host: String,
    },
    /// The last address that was tried does not answer.
    #[error("{}", messages::dial_failed(.address, .reason))]
    Dial {
        /// Address and port.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// A host that no certificate can name.
    #[error("{0}")]
    ServerName(String),
    /// The handshake failed.
    #[error("{}", messages::tls_failed(.host, .reason))]
    Tls {
        /// The host.
        host: String,
        /// What went wrong.
        reason: String,
    },
    /// The system has no certificate authorities.
    #[error("{}", messages::NO_AUTHORITIES)]
    NoAuthorities,
    /// A certificate or key of one's own that cannot be used.
    #[error(transparent)]
    TlsConfig(#[from] rustls::Error),
}

/// Reaches a host and port that the rule allows.
///
/// # Errors
/// Nothing was sent.
pub async fn connect(host: &str, port: u16, egress: &Egress) -> Result<TcpStream, ConnectError> {
    let lookup =
        |reason: &str| ConnectError::Lookup { host: host.to_owned(), reason: reason.to_owned() };
    let reach = async {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((bare, port)).await;
        let found: Vec<SocketAddr> = found.map_err(|error| lookup(&error.to_string()))?.collect();
        let allowed: Vec<SocketAddr> =
            found.iter().filter(|address| egress.allows(address.ip())).copied().collect();
        // A name with open and closed addresses is reached at the open ones.
        if allowed.is_empty() && !found.is_empty() {
            return Err(ConnectError::Denied { host: host.to_owned() });
        }
        // One after the other, as the resolver ordered them; the error of the last one is reported.
        let mut last = lookup("no address");
        for address in allowed {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // Without it the end of a request waits for an answer to its beginning.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => {
                    let address = address.to_string();
                    last = ConnectError::Dial { address, reason: plain(&error) };
                }
            }
        }
        Err(last)
    };
    match tokio::time::timeout(CONNECT, reach).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let (address, reason) = (format!("{host}:{port}"), "i/o timeout".to_owned());
            Err(ConnectError::Dial { address, reason })
        }
    }
}

/// The words of the system without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
    format!("connect: {text}")
}

/// Encrypts a connection, with the system's authorities or those of a Secret.
///
/// # Errors
/// Nothing was sent.
pub async fn encrypt(
    stream: TcpStream,
    host: &str,
    config: Arc<rustls::ClientConfig>,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, ConnectError> {
    let failed = |reason: String| ConnectError::Tls { host: host.to_owned(), reason };
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    // Checked against the name and not the address that was resolved: that is what the certificate
    // is for.
    let name =
        ServerName::try_from(bare).map_err(|error| ConnectError::ServerName(error.to_string()))?;
    let shaken = TlsConnector::from(config).connect(name, stream);
    match tokio::time::timeout(CONNECT, shaken).await {
        Ok(outcome) => outcome.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed("timeout".to_owned())),
    }
}

/// TLS as every connection has it that does not say otherwise.
///
/// # Errors
/// The system has no authorities.
pub fn usual_tls() -> Result<Arc<rustls::ClientConfig>, ConnectError> {
    static CONFIG: OnceLock<Result<Arc<rustls::ClientConfig>, ConnectError>> = OnceLock::new();
    CONFIG
        .get_or_init(|| {
            let mut roots = rustls::RootCertStore::empty();
            let (added, _) =
                // Systems ship certificates that no longer parse; the others are enough.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if added == 0 {
                return Err(ConnectError::NoAuthorities);
            }
            tls(roots, None)
        })
        .clone()
}

/// TLS with given authorities, and a certificate of one's own.
///
/// # Errors
/// A certificate or key that cannot be used.
pub fn tls(
    roots: rustls::RootCertStore,
    own: Option<(
        Vec<rustls::pki_types::CertificateDer<'static>>,
        rustls::pki_types::PrivateKeyDer<'static>,
    )>,
) -> Result<Arc<rustls::ClientConfig>, ConnectError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = match own {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}
