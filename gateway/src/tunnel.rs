//! A connection that became one of another protocol (exec, attach, port-forward): bytes in both directions, until both sides
//! have ended theirs.

use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional_with_sizes};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::body::Held;

/// Bytes that are on their way, in each direction.
const BUFFER: usize = 16 << 10;
/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Passes bytes until both sides have ended, or `cut`.
pub(crate) async fn run(caller: OnUpgrade, member: OnUpgrade, cut: CancellationToken, held: Held) {
    let upgraded = async { tokio::try_join!(caller, member) };
    let upgraded = tokio::select! {
        upgraded = upgraded => upgraded,
        () = cut.cancelled() => return,
    };
    let (caller, member) = match upgraded {
        Ok(both) => both,
        Err(error) => {
            debug!(%error, "a connection ended while it was handed over");
            return;
        }
    };
    let (mut caller, mut member) = (TokioIo::new(caller), TokioIo::new(member));
    let passed = copy_bidirectional_with_sizes(&mut caller, &mut member, BUFFER, BUFFER);
    tokio::select! {
        ended = passed => {
            if let Err(error) = ended {
                debug!(%error, "a handed over connection broke");
            }
        }
        () = cut.cancelled() => {}
    }
    // Both hear that it is over, not that it broke.
    let goodbye = async { tokio::join!(caller.shutdown(), member.shutdown()) };
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    drop(held);
}
