//! Loading, waiting and following, with certificates made on the spot.

use std::os::unix::fs::symlink;

use rcgen::{CertificateParams, KeyPair};
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls_pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::unbounded_channel;
use tokio_rustls::TlsConnector;

use super::*;

struct Made {
    cert: String,
    key: String,
    der: CertificateDer<'static>,
}

fn made_until(year: i32) -> Made {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    Made { cert: cert.pem(), key: key.serialize_pem(), der: cert.der().clone() }
}

fn made() -> Made {
    made_until(2099)
}

fn write(dir: &Path, made: &Made) {
    fs::write(dir.join(CERT), &made.cert).unwrap();
    fs::write(dir.join(KEY), &made.key).unwrap();
}

/// As the kubelet does it: a new directory, then `..data` renamed onto it.
fn swap(mount: &Path, generation: &str, made: &Made) {
    let data = mount.join(generation);
    fs::create_dir(&data).unwrap();
    write(&data, made);
    symlink(generation, mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    for file in [CERT, KEY] {
        let link = mount.join(file);
        if !link.exists() {
            symlink(format!("..data/{file}"), link).unwrap();
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let dir = TempDir::new().unwrap();
    let path = dir.path();
    let text =
        |dir: &Path| load(dir).unwrap_err().to_string().replace(&path.display().to_string(), "D");
    assert_eq!(text(&path.join("nope")), "certificate directory D/nope does not exist");
    assert_eq!(text(path), "certificate file D/tls.crt does not exist");
    let (one, other) = (made(), made());
    fs::write(path.join(CERT), &one.cert).unwrap();
    assert_eq!(text(path), "certificate without key: D/tls.crt exists, D/tls.key does not");
    fs::write(path.join(KEY), "rubbish").unwrap();
    assert_eq!(text(path), "D/tls.key holds no PEM private key");
    fs::write(path.join(KEY), &other.key).unwrap();
    assert_eq!(text(path), "D/tls.crt and tls.key next to it are no usable pair");
    fs::write(path.join(KEY), &one.key).unwrap();
    let validity = load(path).unwrap().validity();
    assert_eq!(validity.not_after.to_string(), "2099-01-01T00:00:00Z");
    assert_eq!(validity.not_before.to_string(), "2020-01-01T00:00:00Z");
    fs::write(path.join(CERT), "").unwrap();
    assert_eq!(text(path), "D/tls.crt holds no PEM certificate");
}

#[test]
fn keys_of_the_certificate_jobs_are_sec1() {
    let dir = TempDir::new().unwrap();
    let made = made();
    let pkcs8 = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).unwrap();
    // A P-256 PKCS#8 key wraps the SEC1 structure in its last OCTET STRING.
    let der = pkcs8.secret_der();
    let inner = der.windows(5).rposition(|w| w[0] == 0x30 && w[2..5] == [2, 1, 1]).unwrap();
    let sec1 = &der[inner..];
    let base64 = base64_lines(sec1);
    fs::write(dir.path().join(CERT), &made.cert).unwrap();
    fs::write(
        dir.path().join(KEY),
        format!("-----BEGIN EC PRIVATE KEY-----\n{base64}-----END EC PRIVATE KEY-----\n"),
    )
    .unwrap();
    load(dir.path()).unwrap();
}

fn base64_lines(bytes: &[u8]) -> String {
    const SET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for (n, chunk) in bytes.chunks(3).enumerate() {
        let word =
            chunk.iter().fold(0_u32, |w, b| (w << 8) | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            out.push(if i <= chunk.len() {
                char::from(SET[(word >> (18 - 6 * i)) as usize & 63])
            } else {
                '='
            });
        }
        if n % 16 == 15 {
            out.push('\n');
        }
    }
    out.push('\n');
    out
}

#[tokio::test]
async fn waits_for_the_volume_and_gives_up_clearly() {
    let dir = TempDir::new().unwrap();
    let stop = CancellationToken::new();
    let tick = Duration::from_millis(5);
    let error = wait(dir.path(), Duration::from_millis(20), tick, &stop).await.unwrap_err();
    assert_eq!(error.to_string(), "no usable serving certificate after 20ms");
    let TlsError::Timeout { last, .. } = error else { panic!("{error:?}") };
    assert!(matches!(*last, TlsError::NoCertificate(_)));

    write(dir.path(), &made_until(2021));
    let error = wait(dir.path(), Duration::ZERO, tick, &stop).await.unwrap_err();
    let TlsError::Timeout { last, .. } = error else { panic!("{error:?}") };
    assert!(last.to_string().contains("until 2021-01-01T00:00:00Z"), "{last}");

    let path = dir.path().to_owned();
    let waiting = tokio::spawn({
        let stop = stop.clone();
        async move { wait(&path, Duration::from_secs(20), tick, &stop).await }
    });
    write(dir.path(), &made());
    waiting.await.unwrap().unwrap();

    stop.cancel();
    fs::remove_file(dir.path().join(CERT)).unwrap();
    let error = wait(dir.path(), Duration::from_secs(20), tick, &stop).await.unwrap_err();
    assert!(matches!(error, TlsError::Stopped));
}

/// The leaf that a client is shown, having checked it against the given roots.
async fn shown(port: u16, roots: &[&Made]) -> Result<Vec<u8>, io::Error> {
    let mut store = RootCertStore::empty();
    for made in roots {
        store.add(made.der.clone()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    tls.write_all(b"x").await?;
    let mut back = [0];
    tls.read_exact(&mut back).await?;
    Ok(tls.get_ref().1.peer_certificates().unwrap()[0].to_vec())
}

#[tokio::test]
async fn rotation_by_symlink_swap_is_seen_by_real_clients() {
    let dir = TempDir::new().unwrap();
    let (first, second, third) = (made(), made(), made());
    swap(dir.path(), "..1", &first);
    let resolver = Resolver::new(load(dir.path()).unwrap());
    let stop = CancellationToken::new();
    let (sender, mut reloads) = unbounded_channel();
    let following =
        tokio::spawn(follow(dir.path().to_owned(), Arc::clone(&resolver), stop.clone(), {
            move |reload: &Reload<'_>| {
                let _ = sender.send(match reload {
                    Reload::Same(_) => "same",
                    Reload::Renewed(_) => "renewed",
                    Reload::Kept(..) => "kept",
                });
            }
        }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor =
        tokio_rustls::TlsAcceptor::from(server_config(Arc::clone(&resolver), None).unwrap());
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(mut tls) = acceptor.accept(stream).await {
                    let (mut from, mut to) = tokio::io::split(&mut tls);
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                }
            });
        }
    });
    assert_eq!(reloads.recv().await, Some("same"));
    assert_eq!(shown(port, &[&first]).await.unwrap(), first.der.to_vec());

    swap(dir.path(), "..2", &second);
    while reloads.recv().await.unwrap() != "renewed" {}
    assert_eq!(shown(port, &[&second]).await.unwrap(), second.der.to_vec());
    assert!(shown(port, &[&first]).await.is_err(), "the old root no longer fits");

    // half of a pair, as a careless script leaves it: the old one stays
    fs::write(dir.path().join("..2").join(CERT), &third.cert).unwrap();
    fs::write(dir.path().join("poke"), "").unwrap();
    while reloads.recv().await.unwrap() != "kept" {}
    assert_eq!(shown(port, &[&second]).await.unwrap(), second.der.to_vec());

    swap(dir.path(), "..3", &third);
    while reloads.recv().await.unwrap() != "renewed" {}
    assert_eq!(shown(port, &[&third]).await.unwrap(), third.der.to_vec());
    stop.cancel();
    following.await.unwrap();
    server.abort();
}

/// An authority, and a client's certificate and key signed by it.
fn authority() -> (String, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (pem, vec![certificate.der().clone()], key)
}

#[tokio::test]
async fn only_clients_of_the_authority_are_answered() {
    install_crypto();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("ca.crt");
    let error = |file: &Path| Clients::load(file).unwrap_err().to_string();
    assert!(error(&file).ends_with("with the authority of client certificates does not exist"));
    fs::write(&file, "rubbish").unwrap();
    assert!(error(&file).ends_with("holds no PEM certificate"));

    let (first, second) = (authority(), authority());
    fs::write(&file, &first.0).unwrap();
    let serving_pair = made();
    write(dir.path(), &serving_pair);
    let resolver = Resolver::new(load(dir.path()).unwrap());
    let clients = Clients::load(&file).unwrap();
    let config = serving(Arc::clone(&resolver), Some(&clients)).unwrap();
    let stop = CancellationToken::new();
    let (sender, mut reloads) = unbounded_channel();
    let seen = move |read: Result<(), &TlsError>| {
        let _ = sender.send(read.is_ok());
    };
    let following = tokio::spawn(clients.follow(resolver, config.clone(), stop.clone(), seen));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = axum::Router::new().route("/", axum::routing::get(async || "yes"));
    let limits = crate::server::Limits::REVIEWS;
    let server = crate::server::serve(listener, Some(config), router, limits, stop.clone());
    let server = tokio::spawn(server);
    let root = serving_pair.der.clone();
    let connect =
        async |who: Option<&(String, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>| {
            let mut roots = RootCertStore::empty();
            roots.add(root.clone()).unwrap();
            let config = ClientConfig::builder().with_root_certificates(roots);
            let config = match who {
                None => config.with_no_client_auth(),
                Some((_, chain, key)) => {
                    config.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap()
                }
            };
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            let name = ServerName::try_from("localhost").unwrap();
            TlsConnector::from(Arc::new(config)).connect(name, stream).await
        };
    let ask = async |client: &mut tokio_rustls::client::TlsStream<TcpStream>| {
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        client.flush().await?;
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await?;
        Ok::<_, io::Error>(answer.starts_with(b"HTTP/1.1 200"))
    };
    let is_answered = async |who| match connect(who).await {
        Ok(mut client) => ask(&mut client).await.unwrap_or(false),
        Err(_) => false,
    };
    assert!(is_answered(Some(&first)).await);
    assert!(!is_answered(Some(&second)).await, "of another authority");
    assert!(!is_answered(None).await, "without a certificate");

    let mut kept = connect(Some(&first)).await.unwrap();
    fs::write(&file, &second.0).unwrap();
    while !is_answered(Some(&second)).await {
        assert_eq!(reloads.recv().await, Some(true));
    }
    assert!(!is_answered(Some(&first)).await, "the old authority is no longer believed");
    assert!(ask(&mut kept).await.unwrap(), "open connections go on");

    fs::write(&file, "rubbish").unwrap();
    while reloads.recv().await.unwrap() {}
    assert!(is_answered(Some(&second)).await, "what cannot be read replaces nothing");
    drop(kept);
    stop.cancel();
    following.await.unwrap();
    server.await.unwrap().unwrap();
}
