//! What a process cost, from `/proc`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

/// CPU time and memory of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// User and system time since its start.
    pub cpu_seconds: f64,
    /// Resident memory now.
    pub rss_mib: f64,
    /// The most resident memory it ever had.
    pub peak_rss_mib: f64,
}

/// The usage of a process now.
///
/// # Errors
/// When there is no such process.
pub fn usage(pid: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("no process {pid}"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("no process {pid}"))?;
    Ok(Usage {
        cpu_seconds: ticks(&stat).context("odd /proc stat")? / ticks_per_second(),
        rss_mib: kib(&status, "VmRSS:").context("odd /proc status")? / 1024.0,
        peak_rss_mib: kib(&status, "VmHWM:").context("odd /proc status")? / 1024.0,
    })
}

/// Fields 14 and 15; the second field, the program's name, may contain blanks.
fn ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn kib(status: &str, key: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

fn ticks_per_second() -> f64 {
    let output = Command::new("getconf").arg("CLK_TCK").output().ok();
    output
        .and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok())
        .unwrap_or(100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 100 0 0";
        assert_eq!(ticks(stat), Some(300.0));
        let status = "Name:\ta\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
        assert_eq!(kib(status, "VmRSS:"), Some(1024.0));
        assert_eq!(kib(status, "VmHWM:"), Some(2048.0));
    }

    #[test]
    fn this_process_uses_something() {
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.rss_mib > 0.5 && usage.peak_rss_mib >= usage.rss_mib, "{usage:?}");
    }
}
