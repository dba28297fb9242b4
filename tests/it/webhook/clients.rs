//! Clients that are slow, leave, send too much or send rubbish.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use vela_tests::load::{self, MUTATE, VALIDATE};

use super::{Own, bad, good};

/// An answer to a good review while others misbehave: well below the API server's patience.
const PROMPT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn slow_and_half_open_clients_hold_nobody_up() {
    let own = Own::start("webhook-slow", &[]).await;
    let address = own.target.address();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // the first bytes of a handshake, and no more
    for stream in silent.iter_mut().take(50) {
        stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    }
    let request = load::request(&format!("{VALIDATE}?timeout=1s"), &good());
    let mut halves = Vec::new();
    for at in [10, 60, request.len() / 2, request.len() - 1].repeat(10) {
        let mut connection = own.target.connect().await.unwrap();
        connection.send(&request[..at]).await.unwrap();
        halves.push((at, connection));
    }
    let mut kept = own.target.connect().await.unwrap();
    for _ in 0..20 {
        let start = Instant::now();
        assert!(kept.post(VALIDATE, &good()).await.unwrap().is_admitted());
        assert!(own.target.post(VALIDATE, &good()).await.unwrap().is_admitted());
        assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    }
    // A body that does not arrive is answered within the time the request names.
    for (_, mut connection) in halves.into_iter().filter(|(at, _)| *at > 400) {
        let answer = tokio::time::timeout(PROMPT, connection.receive()).await.unwrap().unwrap();
        assert_eq!((answer.status, &answer.response()["status"]["code"]), (200, &json!(408)));
    }
    own.assert_well().await;
}

/// Who promises large bodies, sends a little of them, or opens connections only, holds nobody up: not
/// with as many as a listener takes, and without memory for what was only promised.
#[tokio::test]
async fn promises_take_nothing_from_others() {
    let own = Own::start("webhook-promise", &[]).await;
    let memory = || vela_tests::proc::usage(own.program.pid().unwrap()).unwrap().rss_mib;
    let before = memory();
    let promise = |path: &str, header: &str| {
        format!(
            "POST {path}?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{header}\r\n"
        )
    };
    let large = "Content-Length: 7340032\r\n";
    let variants = [
        promise(VALIDATE, large),
        promise(VALIDATE, large) + "{",
        promise(VALIDATE, "Transfer-Encoding: chunked\r\n"),
        promise("/convert", large),
        promise(VALIDATE, "A: b")[..100].to_owned(),
        String::new(),
    ];
    let mut kept = own.target.connect().await.unwrap();
    let mut held = Vec::new();
    for text in &variants {
        for _ in 0..80 {
            // one that was let in may be closed again for another
            if let Ok(mut connection) = own.target.connect().await {
                let _ = connection.send(text.as_bytes()).await;
                held.push(connection);
            }
        }
        let start = Instant::now();
        assert!(kept.post(VALIDATE, &good()).await.unwrap().is_admitted());
        assert!(own.target.post(VALIDATE, &good()).await.unwrap().is_admitted());
        assert!(start.elapsed() < PROMPT, "{:?} with {text:?}", start.elapsed());
    }
    let grown = memory() - before;
    assert!(grown < 64.0, "{grown} MiB for promises");
    own.assert_well().await;
}

#[tokio::test]
async fn a_body_that_stops_is_answered_soon_whatever_time_is_asked_for() {
    let own = Own::start("webhook-stalled", &[]).await;
    let request = load::request(&format!("{VALIDATE}?timeout=30s"), &good());
    let mut stalled = own.target.connect().await.unwrap();
    stalled.send(&request[..request.len() - 1]).await.unwrap();
    let answer = tokio::time::timeout(PROMPT, stalled.receive()).await.unwrap().unwrap();
    assert_eq!((answer.status, &answer.response()["status"]["code"]), (200, &json!(408)));
    own.assert_well().await;
}

#[tokio::test]
async fn clients_that_leave_leave_nothing_behind() {
    let own = Own::start("webhook-gone", &[]).await;
    let large = load::review("default", &load::components(50)).to_string().into_bytes();
    let request = load::request(VALIDATE, &large);
    for _ in 0..40 {
        let mut connection = own.target.connect().await.unwrap();
        connection.send(&request).await.unwrap();
        drop(connection);
    }
    // A started review ends at its next check of the clock; the others never start.
    let start = Instant::now();
    assert!(own.target.post(VALIDATE, &good()).await.unwrap().is_admitted());
    vela_tests::fixtures::until("no review in flight", Duration::from_secs(30), async || {
        let name = "controller_runtime_webhook_requests_in_flight";
        own.program.metric(name).await.is_ok_and(|reviews| reviews < 0.5)
    })
    .await;
    assert!(start.elapsed() < Duration::from_secs(30));
    own.assert_well().await;
}

#[tokio::test]
async fn rubbish_is_answered_inside_a_review() {
    let own = Own::start("webhook-rubbish", &[]).await;
    let oversize = vec![b' '; (7 << 20) + 1];
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = good();
    let deep_object = String::from_utf8(deep_object)
        .unwrap()
        .replace("\"nginx:1.27\"", &format!("{}1{}", "{\"a\":".repeat(500), "}".repeat(500)));
    for path in [VALIDATE, MUTATE] {
        for (name, body, code) in [
            ("nothing", &b""[..], 400),
            ("no JSON", b"hello", 400),
            ("no object", b"[1, 2]", 400),
            ("no review", b"{\"a\": 1}", 400),
            ("half", b"{\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":\"u", 400),
            ("no UTF-8", b"{\"request\":{\"uid\":\"\xff\xfe\"}}", 400),
            ("oversize", &oversize, 413),
            ("deep", deep.as_bytes(), 400),
            ("a deep object", deep_object.as_bytes(), 400),
        ] {
            let answer = own.target.post(path, body).await.unwrap();
            let response = answer.response();
            assert_eq!(answer.status, 200, "{name}");
            assert_eq!(response["allowed"], false, "{name}: {response}");
            assert_eq!(response["status"]["code"], code, "{name}: {response}");
            assert_ne!(response["status"]["message"], "", "{name}");
        }
    }
    assert_eq!(own.target.post("/nowhere", b"{}").await.unwrap().status, 404);
    // Not HTTP at all: the connection ends, the server does not.
    let mut connection = own.target.connect().await.unwrap();
    connection.send(b"\0\0\0 hello\r\n\r\n").await.unwrap();
    let _ = connection.receive().await;
    let mut plain = TcpStream::connect(own.target.address()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let _ = plain.read(&mut [0; 64]).await;
    assert!(own.target.post(VALIDATE, &good()).await.unwrap().is_admitted());
    own.assert_well().await;
}

#[tokio::test]
async fn a_kept_connection_serves_good_and_bad_in_turn() {
    let own = Own::start("webhook-kept", &[]).await;
    let mut connection = own.target.connect().await.unwrap();
    for _ in 0..10 {
        assert!(connection.post(VALIDATE, &good()).await.unwrap().is_admitted());
        let answer = connection.post(VALIDATE, bad().to_string().as_bytes()).await.unwrap();
        let response = answer.response();
        assert_eq!(response["allowed"], false);
        let text = response["status"]["message"].as_str().unwrap();
        assert!(text.contains("did you mean \"webservice\"?"), "{text}");
    }
    own.assert_well().await;
}
