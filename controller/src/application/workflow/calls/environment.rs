//! Environments of an `env-binding` policy: where one is, and what its components are. Newer Applications say both with
//! `topology` and `override` policies.

use serde_json::{Value, json};
use vela_api::RawExtension;
use vela_api::names::CLUSTER_LOCAL;
use vela_api::status::PolicyStatus;

use vela_cluster::members::Named;

use crate::application::workflow::error::StepError;
use crate::messages;

use super::super::placement;
use super::{Calling, text};

/// Where an environment was placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::application) struct Decision {
    policy: String,
    environment: String,
    cluster: String,
    namespace: String,
    revision: String,
}

impl Decision {
    /// Writes the decision into `status.policy`, over an earlier one of the same environment.
    pub(in crate::application) fn put(&self, all: &mut Vec<PolicyStatus>) {
        let index = all.iter().position(|one| one.name == self.policy).unwrap_or(all.len());
        if index == all.len() {
            let (name, type_) = (self.policy.clone(), "env-binding".to_owned());
            all.push(PolicyStatus { name, type_, status: None });
        }
        let Some(one) = all.get_mut(index) else { return };
        let known = one.status.as_ref().map_or_else(|| json!({}), RawExtension::to_value);
        let list = |key: &str, name: &str, value: &str| -> Vec<Value> {
            let known = known.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            // One entry for each environment, the newest decision.
            known.into_iter().filter(|item| text(item, name) != value).collect()
        };
        let mut environments = list("envs", "env", &self.environment);
        let target = json!({"cluster": self.cluster, "namespace": self.namespace});
        environments.push(json!({"env": self.environment, "placements": [target]}));
        let mut clusters = list("clusterConnections", "clusterName", &self.cluster);
        clusters.push(json!({"clusterName": self.cluster, "lastActiveRevision": self.revision}));
        let status = json!({"envs": environments, "clusterConnections": clusters});
        one.status = Some(RawExtension::new(&status));
    }
}

impl Calling<'_, '_, '_> {
    pub(super) fn decide_placement(&mut self, params: &Value) -> Result<Value, StepError> {
        let inputs = params.get("inputs").cloned().unwrap_or_default();
        let name = |kind: &str| -> Result<String, StepError> {
            let selector = inputs.pointer(&format!("/placement/{kind}")).unwrap_or(&Value::Null);
            // Labels could select several clusters, and an environment has one.
            let labels = selector.get("labels").and_then(Value::as_object);
            if labels.is_some_and(|labels| !labels.is_empty()) {
                return Err(messages::environment_by_labels(text(&inputs, "envName"), kind).into());
            }
            Ok(text(selector, "name").to_owned())
        };
        let namespace = name("namespaceSelector")?;
        let cluster = match name("clusterSelector")?.as_str() {
            "" | CLUSTER_LOCAL => CLUSTER_LOCAL.to_owned(),
            other if self.session.ctx.clusters.is_on() => {
                match self.session.clusters.named(other) {
                    Named::Own | Named::Member(_) => other.to_owned(),
                    Named::Unclear | Named::Unregistered(_) => {
                        return Err(messages::no_such_cluster(other).into());
                    }
                }
            }
            other => return Err(messages::no_such_cluster(other).into()),
        };
        let decision = json!({"cluster": cluster, "namespace": namespace});
        // Noted for the status: clients show where an environment is.
        self.seen.decisions.push(Decision {
            policy: text(&inputs, "policyName").to_owned(),
            environment: text(&inputs, "envName").to_owned(),
            cluster,
            namespace,
            revision: self.session.revision.clone(),
        });
        Ok(json!({"outputs": {"decisions": [decision]}}))
    }

    pub(super) fn patch_application(&self, params: &Value) -> Result<Value, StepError> {
        let inputs = params.get("inputs").cloned().unwrap_or_default();
        let components = placement::of_environment(
            self.run.app,
            text(&inputs, "envName"),
            inputs.get("patch"),
            inputs.get("selector"),
        )?;
        let app = json!({
            "apiVersion": vela_api::V1BETA1, "kind": "Application",
            "metadata": {"name": self.session.owner.name, "namespace": self.session.owner.namespace},
            "spec": {"components": components},
        });
        Ok(json!({ "outputs": app }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_replaces_that_of_the_same_environment() {
        let decision = |environment: &str, namespace: &str| Decision {
            policy: "p".into(),
            environment: environment.into(),
            cluster: "local".into(),
            namespace: namespace.into(),
            revision: "a-v1".into(),
        };
        let mut all = Vec::new();
        for one in [decision("test", "x"), decision("prod", "y"), decision("test", "z")] {
            one.put(&mut all);
        }
        assert_eq!(
            serde_json::to_value(&all).unwrap(),
            json!([{"name": "p", "type": "env-binding", "status": {
                "envs": [
                    {"env": "prod", "placements": [{"cluster": "local", "namespace": "y"}]},
                    {"env": "test", "placements": [{"cluster": "local", "namespace": "z"}]},
                ],
                "clusterConnections": [{"clusterName": "local", "lastActiveRevision": "a-v1"}],
            }}])
        );
    }
}
