//! Limits of a listener: connections, and the time that each phase of one may take.

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
    /// Bytes of a header, in HTTP/2 unpacked.
    pub headers: u32,
    /// Bytes that a client of HTTP/2 may send ahead of whoever reads them, over all requests of a connection.
    pub ahead: u32,
}

/// Bytes that a client of HTTP/2 may send ahead of whoever reads a request: the least the protocol allows for a connection.
pub(super) const WINDOW: u32 = (64 << 10) - 1;
/// Requests at a time on one connection of HTTP/2.
pub(super) const STREAMS: u32 = 64;

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
        headers: 16 << 10,
        ahead: WINDOW,
    };

    /// Of a server that passes requests on: the API server brings those of all users over few connections, and one that is
    /// read slowly must not hold up the others, so each has a window of its own.
    pub const PROXY: Self = Self {
        connections: 900,
        per_peer: 900,
        handshake: Duration::from_secs(10),
        header: Duration::from_secs(10),
        idle: Duration::from_secs(120),
        drain: Duration::from_secs(30),
        quiet: Duration::from_millis(500),
        // Names of a user's groups are in there.
        headers: 64 << 10,
        ahead: WINDOW * STREAMS,
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
        headers: 16 << 10,
        ahead: WINDOW,
    };
}
