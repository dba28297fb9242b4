//! Shard ids: what `--shard-id` and the label of Applications say. They name pools, and the Leases on which Go's shards elect.

/// The shard id of the default pool.
pub const MASTER: &str = "master";
/// The longest shard id: it is the value of a label.
const MAX_SHARD_ID: usize = 63;

/// Whether a shard can have a name: it is part of that of a Lease, and the value of a label.
#[must_use]
pub fn is_shard_id(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    name.len() <= MAX_SHARD_ID
        && bytes.first().copied().is_some_and(is_plain)
        && bytes.last().copied().is_some_and(is_plain)
        && bytes.iter().all(|byte| is_plain(*byte) || matches!(*byte, b'-' | b'.'))
}

/// The pool that a shard id names; that of [`MASTER`] has no name.
#[must_use]
pub fn pool_of(shard_id: &str) -> &str {
    if shard_id == MASTER { "" } else { shard_id }
}

/// Whether a shard of this name elects on a Lease of its own. Labels are tenants' to write: the names of a fleet's own Leases
/// (`kubevela-shards`, `kubevela-member-...`) are those of no shard.
#[must_use]
pub fn has_lease(shard_id: &str) -> bool {
    is_shard_id(shard_id)
        && shard_id != MASTER
        && shard_id != "shards"
        && !shard_id.starts_with("member-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_reaches_no_lease_of_the_fleet() {
        for (id, named, elects) in [
            ("shard-0", true, true),
            ("a.b", true, true),
            ("member", true, true),
            ("shards-1", true, true),
            (MASTER, true, false),
            ("shards", true, false),
            ("member-kubevela-5f7c9d-00001", true, false),
            ("", false, false),
            ("Shard_0", false, false),
            ("-a", false, false),
            ("a/b", false, false),
        ] {
            assert_eq!((is_shard_id(id), has_lease(id)), (named, elects), "{id:?}");
        }
        assert!(!is_shard_id(&"x".repeat(64)));
        assert_eq!((pool_of(MASTER), pool_of("shard-0"), pool_of("")), ("", "shard-0", ""));
    }
}
