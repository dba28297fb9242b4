//! How much CUE is evaluated at once, so that it fits the memory of the Pod.
//!
//! An evaluation may take what its budget says. Evaluations at once times their budget stay within
//! a share of the limit that the kernel enforces; the rest is for caches, requests and answers.

use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
/// What is reckoned with where no limit is set: more than the evaluations of a busy cluster need.
const UNLIMITED: u64 = 1024 * MIB;
/// One part in this many of the limit is for evaluations.
const SHARE: u64 = 2;
/// Most that one evaluation may take: many times what any definition needs.
const MAX_PER_EVALUATION: u64 = 64 * MIB;
/// With less large Applications are refused, so there are rather fewer evaluations at once.
const LEAST: u64 = 32 * MIB;

/// Evaluations at once, and what each may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluations {
    /// Threads that evaluate.
    pub threads: usize,
    /// Bytes of one evaluation.
    pub bytes: u64,
}

/// What fits a limit; `wanted` threads, or fewer.
#[must_use]
pub fn fitting(limit: Option<u64>, wanted: usize) -> Evaluations {
    let share = limit.unwrap_or(UNLIMITED) / SHARE;
    let fit = usize::try_from(share / LEAST).unwrap_or(usize::MAX);
    let threads = wanted.min(fit).max(1);
    Evaluations { threads, bytes: (share / threads as u64).min(MAX_PER_EVALUATION) }
}

/// What fits this process.
#[must_use]
pub fn evaluations(wanted: usize) -> Evaluations {
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = limit(&cgroups, |path| std::fs::read_to_string(path).ok());
    let evaluations = fitting(limit, wanted);
    tracing::info!(
        limit = limit.map(tracing::field::display),
        threads = evaluations.threads,
        bytes = evaluations.bytes,
        "memory for evaluations"
    );
    if evaluations.threads < wanted {
        tracing::warn!(
            wanted,
            threads = evaluations.threads,
            "the memory limit allows fewer evaluations at once than there are processors"
        );
    }
    evaluations
}

/// The least limit of the cgroups that a process is in, from what `/proc/self/cgroup` says: of
/// version 2 or of the memory controller of version 1, and of all above them.
fn limit(cgroups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    /// Where the controller's files are, that of the limit, and the path of the cgroup.
    fn of_line(line: &str) -> Option<(PathBuf, &'static str, &str)> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        match controllers {
            "" => Some((PathBuf::from("/sys/fs/cgroup"), "memory.max", path)),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                Some((PathBuf::from("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", path))
            }
            _ => None,
        }
    }
    let limits = cgroups.lines().filter_map(of_line).flat_map(|(root, file, path)| {
        // In a container the path may be that of the node, of which only the root is there.
        let below = Path::new(path.trim_start_matches('/')).ancestors();
        let folders: Vec<PathBuf> = below.map(|part| root.join(part)).collect();
        folders.into_iter().filter_map(|folder| read(&folder.join(file))).collect::<Vec<_>>()
    });
    // "max", and in version 1 a number that no machine has, mean that there is none.
    limits.filter_map(|text| text.trim().parse().ok()).filter(|bytes| *bytes < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_fit_the_limit() {
        for (limit, wanted, threads, bytes) in [
            // The chart's webhook, on small and on large nodes.
            (Some(256), 1, 1, 64),
            (Some(256), 2, 2, 64),
            (Some(256), 64, 4, 32),
            // The chart's controller.
            (Some(1024), 1, 1, 64),
            (Some(1024), 8, 8, 64),
            (Some(1024), 64, 16, 32),
            (None, 2, 2, 64),
            (None, 64, 16, 32),
            (Some(64), 4, 1, 32),
            (Some(20), 4, 1, 10),
            (Some(0), 4, 1, 0),
            (Some(1 << 40), 64, 64, 64),
            (Some(256), 0, 1, 64),
        ] {
            let got = fitting(limit.map(|mib: u64| mib.saturating_mul(MIB)), wanted);
            assert_eq!(got, Evaluations { threads, bytes: bytes * MIB }, "{limit:?} {wanted}");
        }
        for limit in 0..2000 {
            for wanted in 0..70 {
                let Evaluations { threads, bytes } = fitting(Some(limit * MIB), wanted);
                assert!(threads as u64 * bytes <= limit * MIB / SHARE, "{limit} {wanted}");
            }
        }
    }

    #[test]
    fn the_limit_is_read_from_either_version() {
        let v2 = "0::/\n";
        let nested = "0::/kubepods/pod1/c1\n";
        let v1 = "9:name=systemd:/\n4:cpu,memory:/kubepods/pod1/c1\n0::/\n";
        let files = |all: &'static [(&str, &str)]| {
            move |path: &Path| {
                let found = all.iter().find(|(name, _)| Path::new(name) == path);
                found.map(|(_, text)| (*text).to_owned())
            }
        };
        for (cgroups, all, want) in [
            (v2, &[("/sys/fs/cgroup/memory.max", "268435456\n")][..], Some(268_435_456)),
            (v2, &[("/sys/fs/cgroup/memory.max", "max\n")], None),
            (v2, &[], None),
            ("", &[("/sys/fs/cgroup/memory.max", "1\n")], None),
            (
                nested,
                &[
                    ("/sys/fs/cgroup/kubepods/pod1/c1/memory.max", "max"),
                    ("/sys/fs/cgroup/kubepods/pod1/memory.max", "2000"),
                    ("/sys/fs/cgroup/memory.max", "3000"),
                ],
                Some(2000),
            ),
            (
                v1,
                &[("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n")],
                Some(268_435_456),
            ),
            (
                v1,
                &[
                    (
                        "/sys/fs/cgroup/memory/kubepods/pod1/c1/memory.limit_in_bytes",
                        "9223372036854771712",
                    ),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
                ],
                None,
            ),
            ("not a line\n4:memory\n", &[], None),
        ] {
            assert_eq!(limit(cgroups, files(all)), want, "{cgroups} {all:?}");
        }
    }
}
