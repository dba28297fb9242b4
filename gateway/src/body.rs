//! The body of an answer on its way to the caller: piece by piece, as fast as the caller reads it, holding what is counted for
//! it until its end.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use vela_serve::metrics::IntGauge;
use vela_serve::server::Busy;

use crate::streams::Permit;

/// What is held while a request is in flight.
#[derive(Debug)]
pub(crate) struct Held {
    _permit: Permit,
    /// The caller's connection is in use.
    _busy: Option<Busy>,
    gauge: IntGauge,
}

impl Held {
    pub(crate) fn new(permit: Permit, busy: Option<Busy>, gauge: IntGauge) -> Self {
        gauge.inc();
        Self { _permit: permit, _busy: busy, gauge }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// The body.
pub(crate) struct Passed {
    body: Incoming,
    held: Option<Held>,
    /// Ends it as if the member had: of answers that can be asked for again.
    end: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Passed {
    pub(crate) fn new(body: Incoming, held: Held, end: Option<CancellationToken>) -> Self {
        let end = end.map(|end| Box::pin(end.cancelled_owned()));
        Self { body, held: Some(held), end }
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        if let Some(end) = &mut this.end
            && end.as_mut().poll(context).is_ready()
        {
            this.held = None;
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            this.held = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
