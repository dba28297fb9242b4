//! Whose certificates clients must have: an authority from a file, followed when it is replaced, or from a text.
//!
//! A file that cannot be used never replaces one that can. New handshakes are judged by the new
//! authority, open connections go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::watch::Watch;
use super::{Resolver, TlsError, provider, read, server_config};

/// The authority in use.
#[derive(Debug)]
pub struct Clients {
    file: PathBuf,
    /// As it was read, to notice a change.
    text: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Clients {
    /// Reads the authority.
    ///
    /// # Errors
    /// The file is missing or holds no certificate of an authority.
    pub fn load(file: &Path) -> Result<Self, TlsError> {
        let text = read(file)?.ok_or_else(|| TlsError::NoClientAuthority(file.to_owned()))?;
        let no_pem = || TlsError::Pem(file.to_owned(), "certificate");
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|_| no_pem())?;
            roots
                .add(certificate)
                .map_err(|error| TlsError::ClientAuthority(file.to_owned(), error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().map_err(|_| no_pem())?;
        Ok(Self { file: file.to_owned(), text, verifier })
    }

    /// Of a text in PEM that somebody else follows; `source` says where it is from.
    ///
    /// # Errors
    /// [`TlsError::NoAuthority`]: it holds no certificate of an authority.
    pub fn of_pem(text: &str, source: &'static str) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
            let certificate = certificate.map_err(|_| TlsError::NoAuthority(source))?;
            roots.add(certificate).map_err(|_| TlsError::NoAuthority(source))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().map_err(|_| TlsError::NoAuthority(source))?;
        Ok(Self { file: PathBuf::new(), text: text.as_bytes().to_vec(), verifier })
    }

    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier)
    }

    /// Follows the file until the token is cancelled; `seen` is called at each read.
    pub async fn follow(
        mut self,
        resolver: Arc<Resolver>,
        config: RustlsConfig,
        stop: CancellationToken,
        mut seen: impl FnMut(Result<(), &TlsError>) + Send,
    ) {
        let dir = self.file.parent().map(Path::to_owned).unwrap_or_default();
        let mut watch = Watch::new(dir);
        let mut complained = String::new();
        loop {
            watch.renew();
            let renewed = Self::load(&self.file).and_then(|clients| {
                if clients.text != self.text {
                    config.reload_from_config(server_config(Arc::clone(&resolver), Some(&clients))?);
                    info!(file = %clients.file.display(), "authority of client certificates reloaded");
                    self = clients;
                }
                Ok(())
            });
            match &renewed {
                Ok(()) => complained.clear(),
                Err(error) if error.to_string() != complained => {
                    warn!(%error, "authority of client certificates not reloaded, the old one stays in use");
                    complained = error.to_string();
                }
                Err(_) => {}
            }
            seen(renewed.as_ref().copied());
            tokio::select! {
                () = stop.cancelled() => return,
                () = watch.changed() => {}
            }
        }
    }
}
