//! SIGTERM and SIGINT to one token; what must stop in order hangs on it.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Listens for SIGTERM and SIGINT. The token is cancelled by the first; the second ends the
/// process at once with code 1, as Kubernetes' own components do.
///
/// Call it inside the runtime, before anything that takes time: until then a signal kills.
pub fn on_signal() -> io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = token.clone();
    // Lives as long as the process: there is nothing to join.
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => info!(signal = "SIGTERM", "shutting down"),
            _ = interrupt.recv() => info!(signal = "SIGINT", "shutting down"),
        }
        stop.cancel();
        tokio::select! {
            _ = terminate.recv() => {},
            _ = interrupt.recv() => {},
        }
        warn!("second signal, exiting immediately");
        #[allow(clippy::exit, reason = "the operator asked twice; draining was cut short")]
        std::process::exit(1);
    });
    Ok(token)
}
