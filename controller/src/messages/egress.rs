//! Requests and mails to servers outside the cluster.

/// A name without an address.
pub(crate) fn lookup_failed(host: &str, reason: &str) -> String {
    format!("dial tcp: lookup {host}: {reason}")
}

/// An address that the egress rule closes.
pub(crate) fn egress_denied(host: &str) -> String {
    format!(
        "steps are not allowed to reach {host} (--workflow-egress-deny, --workflow-egress-allow)"
    )
}

/// A server that does not take connections.
pub(crate) fn dial_failed(address: &str, reason: &str) -> String {
    format!("dial tcp {address}: {reason}")
}

/// A server whose certificate is not accepted.
pub(crate) fn tls_failed(host: &str, reason: &str) -> String {
    format!("tls: {host}: {reason}")
}

/// A mail server that says more before the handshake than that it may begin.
pub(crate) const TLS_SPOKEN_BEFORE: &str = "the server spoke before the handshake";

/// A machine without certificates of authorities.
pub(crate) const NO_AUTHORITIES: &str = "tls: the system has no certificate authorities";

/// A certificate for requests that cannot be used.
pub(crate) fn tls_secret(name: &str, key: &str) -> String {
    format!("tls_config: Secret {name:?} has no usable {key:?}")
}

/// An address that is none.
pub(crate) fn bad_url(reason: &str) -> String {
    format!("invalid url: {reason}")
}

/// An address without a host.
pub(crate) const URL_WITHOUT_HOST: &str = "the url has no host";

/// An address of another protocol.
pub(crate) const URL_SCHEME: &str = "the url must begin with http:// or https://";

/// A header that cannot be sent.
pub(crate) fn bad_header(name: &str) -> String {
    format!("header {name:?} has a name or a value that cannot be sent")
}

/// A header whose Secret is not there.
pub(crate) fn header_secret(secret: &str, header: &str, reason: &str) -> String {
    format!("secret {secret:?} not found for header {header:?}: {reason}")
}

/// A header whose key is not in the Secret.
pub(crate) fn header_secret_key(key: &str, secret: &str, header: &str) -> String {
    format!("key {key:?} not found in secret {secret:?} for header {header:?}")
}

/// A duration that is none.
pub(crate) fn bad_duration(text: &str) -> String {
    format!("{text:?} is not a duration")
}

/// A request that its limiter holds back.
pub(crate) const RATE_EXCEEDED: &str = "request exceeds the rate limiter";

/// A request without an answer in time.
pub(crate) fn request_timeout(after: &str) -> String {
    format!("no answer within {after}")
}

/// A request that is sent on and on.
pub(crate) fn too_many_redirects(count: usize) -> String {
    format!("stopped after {count} redirects")
}

/// An answer that was not read.
pub(crate) fn answer_unreadable(reason: &str, most: usize) -> String {
    format!("the answer could not be read (at most {most} bytes): {reason}")
}

/// Prometheus answered something else than JSON.
pub(crate) fn prometheus_unreadable(status: u16) -> String {
    format!("Prometheus answered {status} without JSON")
}

/// A mail, for messages.
pub(crate) fn mail_named(to: &str, host: &str) -> String {
    format!("the mail to {to} over {host}")
}

/// A step whose request is in flight.
pub(crate) fn waits_for_answer(what: &str) -> String {
    format!("waiting for the answer: {what}")
}

/// A step whose request cannot be sent yet.
pub(crate) const TOO_MANY_CALLS: &str = "the limit of requests of steps in flight is reached, in the namespace or in all; the step waits for its turn";

/// A mail server that said no: its code and the beginning of its first line. More of what it says is nobody's business who
/// may not reach it himself.
pub(crate) fn mail_refused(answer: &str) -> String {
    format!("the mail server refused: {}", peer_line(answer))
}

/// Characters of an answer of a peer that a message shows.
const PEER_LINE: usize = 120;

/// The first line of what a peer said, cut and printable.
pub(crate) fn peer_line(answer: &str) -> String {
    let line = answer.lines().next().unwrap_or_default();
    let plain = line.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' });
    plain.take(PEER_LINE).collect()
}

/// A mail server that says nothing.
pub(crate) const MAIL_SERVER_SILENT: &str = "the mail server does not answer";

/// A mail server that hung up.
pub(crate) const MAIL_SERVER_GONE: &str = "the mail server ended the connection";

/// A mail server that would receive a password in clear text.
pub(crate) const MAIL_WITHOUT_TLS: &str =
    "the mail server offers no encryption: the password is not sent";

/// A mail address that cannot be one.
pub(crate) fn bad_mail_address(address: &str) -> String {
    format!("{address:?} is not a mail address")
}

/// A mail without receivers.
pub(crate) const MAIL_TO_NOBODY: &str = "the mail has no receiver";
