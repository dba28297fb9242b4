//! The API server's audit log: the oracle for "zero writes", "never deleted" and "requests per
//! Application".

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// One request that the API server answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The client's user agent.
    pub agent: String,
    /// Whose credentials it came with.
    pub user: String,
    /// As whom it was made; empty for the user's own.
    pub acting_as: String,
    /// In which groups, separated by commas.
    pub acting_in: String,
    /// `create`, `get`, `patch` ...
    pub verb: String,
    /// The plural name of the kind, with `/SUBRESOURCE` where there is one.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for requests about collections.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u64,
    /// Which token it came with; empty for other credentials.
    pub credential: String,
    /// When it came, as RFC 3339.
    pub received: String,
    /// Whether it only asked what a write would do.
    pub dry_run: bool,
    /// It lists or watches what has a label that is none of some.
    pub leaves_out: bool,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let subresource = text("/objectRef/subresource");
        let mut resource = text("/objectRef/resource");
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        Some(Self {
            agent: text("/userAgent"),
            user: text("/user/username"),
            acting_as: text("/impersonatedUser/username"),
            acting_in: {
                let groups = value.pointer("/impersonatedUser/groups").and_then(Value::as_array);
                let groups = groups.into_iter().flatten().filter_map(Value::as_str);
                groups.collect::<Vec<_>>().join(",")
            },
            verb: text("/verb"),
            resource,
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: value.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(0),
            credential: text("/user/extra/authentication.kubernetes.io~1credential-id/0"),
            received: text("/requestReceivedTimestamp"),
            dry_run: text("/requestURI").contains("dryRun=All"),
            leaves_out: text("/requestURI").contains("+notin+"),
        })
    }

    /// Whether the controller sent it.
    #[must_use]
    pub fn is_controllers(&self) -> bool {
        self.agent.starts_with("vela-controller/")
    }

    /// Whether the request could change something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Whether the controller wrote something other than its leases.
    #[must_use]
    pub fn is_controllers_write(&self) -> bool {
        // A SubjectAccessReview is a question.
        let kept = !["leases", "subjectaccessreviews"].contains(&&*self.resource);
        self.is_controllers() && self.is_write() && kept
    }
}

/// The size of the log now: the place to read from later.
///
/// # Errors
/// When the log cannot be read.
pub fn position(log: &Path) -> Result<u64> {
    Ok(std::fs::metadata(log).with_context(|| format!("cannot read {}", log.display()))?.len())
}

/// The requests written to the log from a position on. A line that is still being written is
/// left out.
///
/// # Errors
/// When the log cannot be read.
pub fn read(log: &Path, from: u64) -> Result<Vec<Entry>> {
    between(log, from, u64::MAX)
}

/// The requests in a part of the log.
///
/// # Errors
/// When the log cannot be read.
pub fn between(log: &Path, from: u64, to: u64) -> Result<Vec<Entry>> {
    let mut file = File::open(log).with_context(|| format!("cannot read {}", log.display()))?;
    file.seek(SeekFrom::Start(from))?;
    let mut entries = Vec::new();
    for line in BufReader::new(file.take(to.saturating_sub(from))).lines() {
        entries.extend(Entry::parse(&line?));
    }
    Ok(entries)
}

/// What the controller wrote from a position on, its leases aside, as `VERB RESOURCE NAME`.
///
/// # Errors
/// When the log cannot be read.
pub fn written(log: &Path, from: u64) -> Result<Vec<String>> {
    let mut entries = read(log, from)?;
    entries.retain(Entry::is_controllers_write);
    let line = |entry: &Entry| format!("{} {} {}", entry.verb, entry.resource, entry.name);
    Ok(entries.iter().map(line).collect())
}

/// How many requests of each verb and resource there are.
#[must_use]
pub fn count<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts.entry((entry.verb.clone(), entry.resource.clone())).or_default() += 1;
    }
    counts
}
