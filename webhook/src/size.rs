//! How large Applications and definitions may be: what is larger costs every replica memory that
//! its limit does not have, and fits no revision.

use serde_json::value::RawValue;

use crate::messages;

/// Bytes of a definition's template. The largest that ship have a tenth of it.
pub(crate) const TEMPLATE: usize = 256 << 10;
/// Bytes of a definition in all, as JSON.
pub(crate) const DEFINITION: usize = 512 << 10;
/// Bytes of an Application in all, as JSON: a revision holds it together with its definitions, and
/// the API server stores 1.5 MiB.
pub(crate) const APPLICATION: usize = 1 << 20;

/// What is wrong with a size, if it is beyond its limit. What was as large before may stay: it can
/// still be made smaller, or be deleted.
pub(crate) fn check(field: &str, size: usize, old: usize, limit: usize) -> Option<String> {
    (size > limit && size > old).then(|| messages::oversized(field, size, limit))
}

/// As [`check`], of whole objects.
pub(crate) fn check_object(
    kind: &str,
    object: Option<&RawValue>,
    old: Option<&RawValue>,
    limit: usize,
) -> Option<String> {
    let size = |raw: Option<&RawValue>| raw.map_or(0, |raw| raw.get().len());
    check(kind, size(object), size(old), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_may_not_grow() {
        for (size, old, refused) in
            [(10, 0, false), (11, 0, true), (11, 11, false), (12, 11, true), (11, 12, false)]
        {
            assert_eq!(check("spec.x", size, old, 10).is_some(), refused, "{size} {old}");
        }
        let reported = check("spec.x", 11, 0, 10).unwrap();
        assert_eq!(reported, "spec.x is 11 bytes long, at most 10 are admitted");
    }
}
