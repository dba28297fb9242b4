//! The serving certificate: loaded from a mounted directory, checked, and followed when it is
//! rotated.
//!
//! The kubelet replaces a mounted Secret by renaming a symlink (`..data`), so the DIRECTORY is
//! watched; a burst of events settles for 100 ms, and the files are read again every 10 s in any
//! case (an inotify watch can be lost with the directory itself). A pair that cannot be used never
//! replaces one that can. New handshakes see the new certificate, open connections go on.

mod clients;
mod validity;
mod watch;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use axum_server::tls_rustls::RustlsConfig;
pub use clients::Clients;
pub use validity::Validity;
pub(crate) use validity::common_name;

use crate::health::Condition;
use watch::Watch;

/// File names of a `kubernetes.io/tls` Secret.
const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Why the certificate cannot be used. One line each, naming the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The mount is not there yet.
    #[error("certificate directory {0} does not exist")]
    NoDirectory(PathBuf),
    /// The file is not there.
    #[error("certificate file {0} does not exist")]
    NoCertificate(PathBuf),
    /// A certificate, but nothing to prove it with.
    #[error("certificate without key: {cert} exists, {key} does not", cert = .cert.display(), key = .key.display())]
    NoKey {
        /// The certificate.
        cert: PathBuf,
        /// The key that belongs to it.
        key: PathBuf,
    },
    /// The file cannot be read.
    #[error("{file} cannot be read", file = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file is not PEM or holds nothing of the kind.
    #[error("{file} holds no PEM {what}", file = .0.display(), what = .1)]
    Pem(PathBuf, &'static str),
    /// The pair does not fit together or is of no supported kind.
    #[error("{cert} and tls.key next to it are no usable pair", cert = .0.display())]
    Pair(PathBuf, #[source] rustls::Error),
    /// The certificate is outside its validity.
    #[error("{cert} is not valid now: {validity}", cert = .0.display(), validity = .1)]
    Expired(PathBuf, Validity),
    /// The file with the authority of clients is not there.
    #[error("file {0} with the authority of client certificates does not exist")]
    NoClientAuthority(PathBuf),
    /// A text with the authority of clients is of no use.
    #[error("{0}: no certificate of an authority of clients in PEM")]
    NoAuthority(&'static str),
    /// A certificate in it is of no use.
    #[error("{file} holds a certificate that is no authority of clients", file = .0.display())]
    ClientAuthority(PathBuf, #[source] rustls::Error),
    /// The cryptography of the process lacks what the protocol needs.
    #[error("TLS 1.2 and 1.3 are not both available")]
    Versions(#[source] rustls::Error),
    /// It did not become usable in time.
    #[error("no usable serving certificate after {waited:?}")]
    Timeout {
        /// How long was waited.
        waited: Duration,
        /// What was wrong at the last reconcile.
        #[source]
        last: Box<Self>,
    },
    /// The process is stopping.
    #[error("stopped while waiting for the serving certificate")]
    Stopped,
}

/// A checked pair.
#[derive(Debug)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

impl Pair {
    /// From when until when the leaf is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The leaf in DER.
    pub fn leaf(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], |cert| cert.as_ref())
    }
}

/// The cryptography of every connection of the process: call it once at the start.
pub fn install_crypto() {
    // An error means that it is installed, which is what is wanted.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default()
        .cloned()
        .unwrap_or_else(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

/// Reads and checks `tls.crt` and `tls.key` of a directory. PKCS#8, SEC1 (the certificate jobs of
/// the Go chart write it) and PKCS#1 keys are accepted.
pub fn load(dir: &Path) -> Result<Pair, TlsError> {
    let (cert_path, key_path) = (dir.join(CERT), dir.join(KEY));
    if !dir.is_dir() {
        return Err(TlsError::NoDirectory(dir.to_owned()));
    }
    let cert_text = read(&cert_path)?.ok_or_else(|| TlsError::NoCertificate(cert_path.clone()))?;
    let key_text = read(&key_path)?
        .ok_or_else(|| TlsError::NoKey { cert: cert_path.clone(), key: key_path.clone() })?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&cert_text)
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::Pem(cert_path.clone(), "certificate"))?;
    let leaf = chain.first().ok_or_else(|| TlsError::Pem(cert_path.clone(), "certificate"))?;
    let validity =
        Validity::of(leaf).ok_or_else(|| TlsError::Pem(cert_path.clone(), "certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(&key_text)
        .map_err(|_| TlsError::Pem(key_path.clone(), "private key"))?;
    let key = CertifiedKey::from_der(chain, key, &provider())
        .map_err(|error| TlsError::Pair(cert_path, error))?;
    Ok(Pair { key: Arc::new(key), validity })
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, TlsError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TlsError::Read(path.to_owned(), error)),
    }
}

fn load_valid(dir: &Path, now: Timestamp) -> Result<Pair, TlsError> {
    let pair = load(dir)?;
    if !pair.validity.holds_at(now) {
        return Err(TlsError::Expired(dir.join(CERT), pair.validity));
    }
    Ok(pair)
}

/// Waits until the directory holds a usable, currently valid pair. Checks at once and then every
/// `interval`, saying what is missing, for at most `timeout`.
pub async fn wait(
    dir: &Path,
    timeout: Duration,
    interval: Duration,
    stop: &CancellationToken,
) -> Result<Pair, TlsError> {
    let start = Instant::now();
    loop {
        let error = match load_valid(dir, Timestamp::now()) {
            Ok(pair) => return Ok(pair),
            Err(error) => error,
        };
        if start.elapsed() >= timeout {
            return Err(TlsError::Timeout { waited: timeout, last: Box::new(error) });
        }
        info!(reason = %error, ?timeout, "waiting for the serving certificate");
        let pause = interval.min(timeout.saturating_sub(start.elapsed()));
        tokio::select! {
            () = stop.cancelled() => return Err(TlsError::Stopped),
            () = tokio::time::sleep(pause.max(Duration::from_millis(1))) => {}
        }
    }
}

/// Hands the current pair to each handshake.
pub struct Resolver {
    current: ArcSwap<Pair>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("validity", &self.current.load().validity).finish()
    }
}

impl Resolver {
    /// Starts with this pair.
    pub fn new(pair: Pair) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(pair) })
    }

    /// The pair in use.
    pub fn current(&self) -> Arc<Pair> {
        self.current.load_full()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().key))
    }
}

/// TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1. With an authority of clients a handshake without a
/// certificate of it fails.
pub fn serving(
    resolver: Arc<Resolver>,
    clients: Option<&Clients>,
) -> Result<RustlsConfig, TlsError> {
    server_config(resolver, clients).map(RustlsConfig::from_config)
}

/// New handshakes are judged by this authority of clients from now on; open connections go on.
///
/// # Errors
/// [`TlsError::Versions`].
pub fn renew_clients(
    config: &RustlsConfig,
    resolver: Arc<Resolver>,
    clients: &Clients,
) -> Result<(), TlsError> {
    config.reload_from_config(server_config(resolver, Some(clients))?);
    Ok(())
}

fn server_config(
    resolver: Arc<Resolver>,
    clients: Option<&Clients>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// What following the directory found at one reconcile.
#[derive(Debug)]
pub enum Reload<'a> {
    /// The files hold what is in use, valid until then.
    Same(Validity),
    /// A new pair is in use.
    Renewed(Validity),
    /// The files cannot be used; the old pair stays.
    Kept(&'a TlsError, Validity),
}

impl Reload<'_> {
    /// When the certificate in use is valid.
    pub fn validity(&self) -> Validity {
        match self {
            Self::Same(validity) | Self::Renewed(validity) | Self::Kept(_, validity) => *validity,
        }
    }

    /// Readiness: whether the certificate in use is valid now.
    pub fn report_to(&self, certificate: &Condition) {
        let validity = self.validity();
        if validity.holds_at(Timestamp::now()) {
            certificate.pass();
        } else {
            warn!(%validity, "the serving certificate is not valid now");
            certificate.fail(format!("not valid now: {validity}"));
        }
    }
}

/// Follows the directory until the token is cancelled. `seen` is called at every read, which is at
/// least every 10 s: it feeds metrics and readiness.
pub async fn follow(
    dir: PathBuf,
    resolver: Arc<Resolver>,
    stop: CancellationToken,
    mut seen: impl FnMut(&Reload<'_>) + Send,
) {
    let mut watch = Watch::new(dir.clone());
    let mut complained = String::new();
    loop {
        watch.renew();
        match load_valid(&dir, Timestamp::now()) {
            Ok(pair) if pair.leaf() == resolver.current().leaf() => {
                complained.clear();
                seen(&Reload::Same(pair.validity));
            }
            Ok(pair) => {
                complained.clear();
                let validity = pair.validity;
                resolver.current.store(Arc::new(pair));
                info!(not_after = %validity.not_after, "serving certificate reloaded");
                seen(&Reload::Renewed(validity));
            }
            Err(error) => {
                let text = error.to_string();
                if text != complained {
                    warn!(%error, "serving certificate not reloaded, the old one stays in use");
                    complained = text;
                }
                seen(&Reload::Kept(&error, resolver.current().validity));
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = watch.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests;
