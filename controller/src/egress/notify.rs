//! Notifications: messages that users configured, sent at most once, without waiting for the answer.
//!
//! They leave apart from the workers, under the egress rule and within a few seconds; how many are on their way is bounded. One
//! that gets lost is reported and never sent again: a message too few is better than a storm.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::Egress;
use super::http::{HttpError, HttpRequest, reach, send};
use crate::messages;

/// Messages on their way at a time.
const MAX_IN_FLIGHT: usize = 32;
/// Time for one of them.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Where to. A secret: whoever knows it can write there.
    pub url: String,
    /// What.
    pub body: Value,
}

/// Why a message is lost. The server is named at the most: what is behind it in an address is a secret.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("{}", messages::NOTIFY_BAD_URL)]
    Url,
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{}", messages::notification_refused(*.0))]
    Refused(u16),
    #[error("{}", messages::request_timeout(&format!("{TIMEOUT:?}")))]
    Time,
}

/// Sends messages.
#[derive(Debug, Clone)]
pub struct Notifier {
    egress: Egress,
    room: Arc<Semaphore>,
}

impl Notifier {
    /// Under an egress rule.
    #[must_use]
    pub fn new(egress: Egress) -> Self {
        Self { egress, room: Arc::new(Semaphore::new(MAX_IN_FLIGHT)) }
    }

    /// Sends a message, and calls `lost` with the reason if it does not arrive. Never waits.
    pub fn send(&self, message: Message, lost: impl FnOnce(&str) + Send + 'static) {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return lost(messages::TOO_MANY_NOTIFICATIONS);
        };
        let egress = self.egress.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let sent = tokio::time::timeout(TIMEOUT, deliver(message, &egress)).await;
            if let Err(why) = sent.unwrap_or(Err(Lost::Time)) {
                lost(&why.to_string());
            }
        });
    }
}

async fn deliver(message: Message, egress: &Egress) -> Result<(), Lost> {
    let url: Uri = message.url.parse().map_err(|_| Lost::Url)?;
    let json = HeaderValue::from_static("application/json");
    let request = HttpRequest {
        method: Method::POST,
        url,
        headers: vec![(CONTENT_TYPE, json)],
        body: message.body.to_string().into_bytes(),
        timeout: TIMEOUT,
        tls: None,
    };
    let answer = send(reach(request, egress).await?).await?;
    if (200..300).contains(&answer.status) { Ok(()) } else { Err(Lost::Refused(answer.status)) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::egress::policy;

    /// A receiver on loopback that answers with this status; what it received.
    fn receiver(status: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/secret/path", listener.local_addr().unwrap());
        let (heard, hear) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut text = Vec::new();
                let mut part = [0; 4096];
                while !String::from_utf8_lossy(&text).ends_with('}') {
                    let read = stream.read(&mut part).unwrap();
                    text.extend_from_slice(&part[..read]);
                }
                write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
                heard.send(String::from_utf8(text).unwrap()).unwrap();
            }
        });
        (url, hear)
    }

    async fn lost(egress: &str, url: &str) -> Option<String> {
        let denied = policy::parse(egress).unwrap();
        let notifier = Notifier::new(Egress::new(denied, policy::Networks::default()));
        let (report, mut reported) = mpsc::channel(1);
        let message = Message { url: url.to_owned(), body: json!({"text": "hello"}) };
        notifier.send(message, move |why| report.try_send(why.to_owned()).unwrap());
        reported.recv().await
    }

    #[tokio::test]
    async fn a_message_arrives_once() {
        let (url, heard) = receiver("204 No Content");
        assert_eq!(lost("", &url).await, None);
        let text = heard.recv().unwrap();
        assert!(text.starts_with("POST /secret/path HTTP/1.1\r\n"), "{text}");
        assert!(text.ends_with(r#"{"text":"hello"}"#), "{text}");
        assert!(heard.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_is_lost_is_reported_without_the_address() {
        let (url, heard) = receiver("500 Oops");
        let why = lost("", &url).await.unwrap();
        assert!(why.contains("500") && !why.contains("secret"), "{why}");
        heard.recv().unwrap();
        assert!(heard.try_recv().is_err(), "it is not sent again");
        for url in ["http://127.0.0.1:1/secret", "no address secret", "ftp://a/secret"] {
            let why = lost("", url).await.unwrap();
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[tokio::test]
    async fn the_egress_rule_holds() {
        let (url, heard) = receiver("200 OK");
        let why = lost("127.0.0.0/8", &url).await.unwrap();
        assert!(why.contains("127.0.0.1"), "{why}");
        assert!(heard.try_recv().is_err());
    }
}
