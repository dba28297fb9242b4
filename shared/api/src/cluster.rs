//! The cluster that the control plane runs in, as a policy may choose it.

use serde_json::{Map, Value};

use crate::names::label;

/// The name of the cluster that the control plane runs in.
pub const LOCAL: &str = "local";

/// Whether a selector by labels chooses the local cluster, which has one label: that it is the control plane.
#[must_use]
pub fn selects_local(labels: &Map<String, Value>) -> bool {
    labels.iter().all(|(key, value)| key == label::CLUSTER_CONTROL_PLANE && value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_local_cluster_is_chosen_by_its_one_label() {
        for (selector, chosen) in [
            (json!({}), true),
            (json!({"cluster.core.oam.dev/control-plane": "true"}), true),
            (json!({"cluster.core.oam.dev/control-plane": "false"}), false),
            (json!({"cluster.core.oam.dev/control-plane": true}), false),
            (json!({"region": "eu"}), false),
            (json!({"cluster.core.oam.dev/control-plane": "true", "region": "eu"}), false),
        ] {
            assert_eq!(selects_local(selector.as_object().unwrap()), chosen, "{selector}");
        }
    }
}
