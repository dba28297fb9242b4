//! The identity of this process: the Pod that it runs in.

use anyhow::Context as _;

/// The namespace of the process: as given, else the Pod's.
pub(super) fn own_namespace(given: &str) -> anyhow::Result<String> {
    if !given.is_empty() {
        return Ok(given.to_owned());
    }
    let path = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let text = std::fs::read_to_string(path);
    let text = text.context("--leader-election-namespace is needed outside of a Pod")?;
    Ok(text.trim().to_owned())
}

/// The name of the Pod, or of the host.
pub(super) fn pod() -> String {
    std::env::var("POD_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "vela-controller".to_owned())
}
