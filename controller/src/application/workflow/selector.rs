//! Label selectors as requests carry them.

use serde_json::Value;
use vela_cluster::request;

/// The label selector of labels that are data, in which a number may stand for its text.
pub(super) fn selector(labels: Option<&Value>) -> String {
    let pairs = labels.and_then(Value::as_object).into_iter().flatten();
    request::matching(
        pairs.map(|(key, value)| {
            (key, value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        }),
    )
}
