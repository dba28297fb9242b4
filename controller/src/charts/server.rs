//! A server for tests: answers on loopback, plain or encrypted, what a function says, and remembers what it was asked.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::egress::Egress;
use crate::egress::policy::parse;

use super::download::Rules;

/// An answer: the code, headers beside the length, the body.
pub(crate) type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authorization: String,
}

/// A running server; it ends with the runtime of its test.
pub(crate) struct Server {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
    /// Its certificate in PEM; empty without TLS.
    pub(crate) certificate: String,
}

impl Server {
    /// Begins to answer. The function is given the server's address.
    pub(crate) async fn start(
        secure: bool,
        answer: impl Fn(&str, &Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (mut certificate, mut tls) = (String::new(), None);
        if secure {
            let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
            certificate = pair.cert.pem();
            let key = PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der());
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = rustls::ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![pair.cert.der().clone()], key.into())
                .unwrap();
            tls = Some(TlsAcceptor::from(Arc::new(config)));
        }
        let (seen, own, answer) = (Arc::clone(&asked), address.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, own, answer) = (Arc::clone(&seen), own.clone(), Arc::clone(&answer));
                let tls = tls.clone();
                tokio::spawn(async move {
                    let say = |asked: &Asked| {
                        seen.lock().push(asked.clone());
                        answer(&own, asked)
                    };
                    match tls {
                        None => serve(stream, say).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, say).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, asked, certificate }
    }

    /// The authorizations that were sent for a path.
    pub(crate) fn authorizations(&self, path: &str) -> Vec<String> {
        let asked = self.asked.lock();
        asked.iter().filter(|it| it.path == path).map(|it| it.authorization.clone()).collect()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    say: impl FnOnce(&Asked) -> Answer,
) {
    let (mut head, mut bytes) = (String::new(), [0_u8; 4096]);
    while !head.contains("\r\n\r\n") {
        match stream.read(&mut bytes).await {
            Ok(n) if n > 0 => head.push_str(&String::from_utf8_lossy(&bytes[..n])),
            _ => return,
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: "));
    let asked = Asked { path, authorization: authorization.unwrap_or_default().to_owned() };
    let (status, headers, body) = say(&asked);
    let mut text =
        format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.write_all(&body).await;
    let _ = stream.shutdown().await;
}

/// The rules of a test: loopback is open.
pub(crate) fn rules() -> Rules {
    let egress = Egress::new(
        parse(crate::egress::policy::DEFAULT_DENIED).unwrap(),
        parse("127.0.0.0/8").unwrap(),
    );
    Rules { egress, plain_http: true, allowed: Vec::new() }
}
