//! What a listener allows: connections, and the time that each phase of one may take.

use std::time::Duration;

/// What a listener allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Open connections of one address.
    pub per_peer: usize,
    /// From accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of an HTTP/1.1 header to its end.
    pub header: Duration,
    /// Without a request.
    pub idle: Duration,
    /// After the stop: how long requests in flight may take.
    pub drain: Duration,
    /// After the stop: how long HTTP/1.1 connections must be idle before they are closed.
    pub quiet: Duration,
}

impl Limits {
    /// Of the port that API servers ask. One opens a connection for each review in flight and keeps
    /// some for the next.
    pub const REVIEWS: Self = Self {
        // Below the 1024 file descriptors of a process whose limit nobody raised.
        connections: 900,
        per_peer: 450,
        handshake: Duration::from_secs(10),
        header: Duration::from_secs(10),
        // An API server keeps idle HTTP/1.1 connections for 90 s, and should be the one who closes.
        idle: Duration::from_secs(120),
        drain: Duration::from_secs(30),
        quiet: Duration::from_millis(500),
    };

    /// Of probes, metrics and the like: few clients, small answers.
    pub const OBSERVERS: Self = Self {
        connections: 64,
        per_peer: 32,
        handshake: Duration::from_secs(10),
        header: Duration::from_secs(10),
        idle: Duration::from_secs(120),
        drain: Duration::from_secs(10),
        quiet: Duration::ZERO,
    };
}
