//! The key that stamps are sealed with, as the kubelet mounts it: read until it is there, then again and again, since it may be
//! exchanged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use vela_seal::{KeyHolder, Keys};
use vela_serve::health::Condition;

/// Between two reconciles while there is no key: the controller makes it within a second of its start.
const WAIT: Duration = Duration::from_secs(1);
/// Between two reconciles afterwards. The kubelet itself brings a change within a minute or two.
const POLL: Duration = Duration::from_secs(10);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum NoKey {
    #[error("{}: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("there is no stamp key in {}", .0.display())]
    Absent(PathBuf),
    #[error("{}: {error}", .dir.display())]
    Key { dir: PathBuf, error: vela_seal::KeyError },
}

/// Reads the key again and again until the token is cancelled. What cannot be read never replaces what could. `ready` holds
/// once a key was read.
pub(crate) async fn follow(
    dir: PathBuf,
    keys: KeyHolder,
    ready: Option<Condition>,
    stop: CancellationToken,
) {
    let mut complained = String::new();
    loop {
        match read(&dir) {
            Ok(read) => {
                complained.clear();
                let id = read.id().to_owned();
                if keys.set(read) {
                    info!(key = id, "stamp key read");
                }
                if let Some(ready) = &ready {
                    ready.pass();
                }
            }
            Err(error) if error.to_string() != complained => {
                warn!(%error, "the stamp key cannot be read");
                if let Some(ready) = ready.as_ref().filter(|ready| !ready.is_met()) {
                    ready.fail(error.to_string());
                }
                complained = error.to_string();
            }
            Err(_) => {}
        }
        let pause = if keys.get().is_some() { POLL } else { WAIT };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn read(dir: &Path) -> Result<Keys, NoKey> {
    let file = |name: &str| match fs::read(dir.join(name)) {
        Ok(bytes) => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(NoKey::Read { path: dir.join(name), error }),
    };
    let Some(current) = file("current")? else {
        return Err(NoKey::Absent(dir.to_owned()));
    };
    let previous = file("previous")?;
    Keys::new(&current, previous.as_deref())
        .map_err(|error| NoKey::Key { dir: dir.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vela_seal::Domain;
    use vela_serve::health::Health;

    #[tokio::test(start_paused = true)]
    async fn it_is_waited_for_and_exchanged_and_never_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (keys, health, stop) = (KeyHolder::default(), Health::new(), CancellationToken::new());
        let ready = health.readiness("stamp-key");
        let write = |name: &str, byte: u8, length: usize| {
            fs::write(dir.path().join(name), vec![byte; length]).unwrap();
        };
        let following = tokio::spawn(follow(
            dir.path().to_owned(),
            keys.clone(),
            Some(ready.clone()),
            stop.clone(),
        ));
        let rest = || tokio::time::sleep(POLL * 2);
        rest().await;
        assert!(keys.get().is_none() && !ready.is_met());
        write("current", 1, 31);
        rest().await;
        assert!(keys.get().is_none() && !ready.is_met(), "a key that is too short");
        write("current", 1, 32);
        rest().await;
        assert!(ready.is_met());
        let old = keys.get().unwrap().sign(Domain::Stamp, &[b"x"]);
        write("current", 2, 32);
        write("previous", 1, 32);
        rest().await;
        let keys_now = keys.get().unwrap();
        assert!(keys_now.verify(Domain::Stamp, &[b"x"], &old) && !keys_now.is_current(&old));
        write("current", 3, 1);
        rest().await;
        assert_eq!(keys.get(), Some(keys_now), "what cannot be used replaces nothing");
        assert!(ready.is_met());
        stop.cancel();
        following.await.unwrap();
    }
}
