//! Waiting until files of a directory may have changed.

use std::path::PathBuf;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tracing::warn;

/// Events of one rotation arrive in a burst.
const SETTLE: Duration = Duration::from_millis(100);
/// The files are read again this often even without an event.
const POLL: Duration = Duration::from_secs(10);

/// A watched directory.
pub(super) struct Watch {
    dir: PathBuf,
    watcher: Option<RecommendedWatcher>,
    woken: mpsc::Receiver<()>,
}

impl Watch {
    pub(super) fn new(dir: PathBuf) -> Self {
        // The callback runs on notify's own thread and must not block; one token is enough.
        let (wake, woken) = mpsc::channel::<()>(1);
        let made = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access()) {
                let _ = wake.try_send(());
            }
        });
        let watcher = made
            .inspect_err(|error| warn!(%error, "no file notifications on this machine, polling"))
            .ok();
        Self { dir, watcher, woken }
    }

    /// Watches again: costs one system call and survives a directory that was replaced. To be called
    /// before the files are read.
    pub(super) fn renew(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.unwatch(&self.dir);
            if let Err(error) = watcher.watch(&self.dir, RecursiveMode::NonRecursive) {
                warn!(dir = %self.dir.display(), %error, "certificate directory is not watched, polling");
            }
        }
    }

    /// Waits for a change, and in any case not long.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            Some(()) = self.woken.recv() => {
                tokio::time::sleep(SETTLE).await;
                let _ = self.woken.try_recv();
            }
        }
    }
}
