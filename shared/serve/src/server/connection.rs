//! One connection: its handshake, and how long it may do nothing.
//!
//! hyper and axum-server limit neither the time of an idle HTTP/2 connection nor that of a header
//! alone (a limit for HTTP/1.1 counts from the answer before), so the stream under them does.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::http::Request;
use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tower::Service;

use super::limited::Arrival;
use super::limits::Limits;
use super::slots::{Connection, InFlight, Slot};

/// Makes an arrival a stream to serve.
#[derive(Clone)]
pub(super) struct Acceptor {
    tls: Option<RustlsAcceptor>,
    limits: Limits,
}

impl Acceptor {
    pub(super) fn new(tls: Option<RustlsConfig>, limits: Limits) -> Self {
        let tls = tls.map(|tls| RustlsAcceptor::new(tls).handshake_timeout(limits.handshake));
        Self { tls, limits }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }
}

impl<S: Send + 'static> Accept<Arrival, S> for Acceptor {
    type Stream = Watched;
    type Service = Counted<S>;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Watched, Counted<S>)>> + Send>>;

    fn accept(&self, arrival: Arrival, service: S) -> Self::Future {
        let Self { tls, limits } = self.clone();
        Box::pin(async move {
            let Arrival { stream, slot } = arrival;
            let connection = Arc::clone(&slot.connection);
            let mut name = None;
            let stream = match tls {
                None => Either::Left(stream),
                Some(tls) => {
                    let (stream, _) = tokio::select! {
                        shaken = tls.accept(stream, ()) => shaken?,
                        () = connection.must_close().cancelled() => {
                            return Err(io::ErrorKind::ConnectionAborted.into());
                        }
                    };
                    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                        connection.speaks_h2();
                    }
                    let certificate = stream.get_ref().1.peer_certificates();
                    name = certificate.and_then(|all| PeerName::of(all.first()?));
                    Either::Right(Box::new(stream))
                }
            };
            Ok((Watched::new(stream, slot, limits), Counted { service, connection, name }))
        })
    }
}

/// The common name of the certificate that the client showed, in the extensions of a request; the handshake has verified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerName(pub Arc<str>);

impl PeerName {
    fn of(certificate: &[u8]) -> Option<Self> {
        Some(Self(crate::tls::common_name(certificate)?.into()))
    }
}

/// In the extensions of a request: while somebody holds it, its connection counts as used. For answers that go on after they
/// have started, and for connections that were handed over.
#[derive(Clone, Debug)]
pub struct Busy(#[allow(dead_code, reason = "held for its drop")] Arc<InFlight>);

/// Reports its requests to the connection.
#[derive(Clone)]
pub(super) struct Counted<S> {
    service: S,
    connection: Arc<Connection>,
    name: Option<PeerName>,
}

impl<S, B> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let in_flight = Arc::new(self.connection.begin());
        request.extensions_mut().insert(Busy(Arc::clone(&in_flight)));
        if let Some(name) = &self.name {
            request.extensions_mut().insert(name.clone());
        }
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await;
            drop(in_flight);
            answer
        })
    }
}

/// A stream that ends, as if the client had closed it, when its time is over.
pub(super) struct Watched {
    stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    slot: Slot,
    limits: Limits,
    must_close: Pin<Box<WaitForCancellationFutureOwned>>,
    /// When to check again; often earlier than needed, so that a busy connection seldom sets it.
    alarm: Pin<Box<Sleep>>,
}

impl Watched {
    fn new(
        stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
        slot: Slot,
        limits: Limits,
    ) -> Self {
        let must_close = Box::pin(slot.connection.must_close().clone().cancelled_owned());
        let alarm = Box::pin(tokio::time::sleep(limits.idle));
        Self { stream, slot, limits, must_close, alarm }
    }

    /// Ready when its time is over.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.must_close.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        loop {
            ready!(self.alarm.as_mut().poll(context));
            let now = Instant::now();
            let until = self.slot.connection.until(&self.limits);
            let until = until.unwrap_or_else(|| now + self.limits.header);
            if until <= now {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(until.into());
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.poll_over(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            let now = Instant::now();
            let end = now + this.limits.header;
            if this.slot.connection.heard(now) && this.alarm.deadline() > end.into() {
                this.alarm.as_mut().reset(end.into());
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// A client that does not read is waited for no longer than one that does not write.
impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write(context, bytes) {
            Poll::Pending if this.poll_over(context).is_ready() => Poll::Ready(over()),
            polled => polled,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_flush(context) {
            Poll::Pending if this.poll_over(context).is_ready() => Poll::Ready(over()),
            polled => polled,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_shutdown(context) {
            Poll::Pending if this.poll_over(context).is_ready() => Poll::Ready(over()),
            polled => polled,
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write_vectored(context, parts) {
            Poll::Pending if this.poll_over(context).is_ready() => Poll::Ready(over()),
            polled => polled,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

fn over<T>() -> io::Result<T> {
    Err(io::ErrorKind::TimedOut.into())
}
