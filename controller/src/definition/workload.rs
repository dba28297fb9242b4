//! The WorkloadDefinition of a ComponentDefinition that names a kind, made where there is none.
//!
//! With it the name of the kind's resource (`deployments.apps`) is a component type. The reference's
//! webhook makes it, also for a dry run; here the webhook fills in `workload.type` and nothing else.
//! One that exists is never changed, and none is ever deleted.

use serde_json::json;
use vela_api::WorkloadDefinition;
use vela_api::reference::WorkloadGvk;
use vela_cluster::{ApiError, Identity, Key};

use crate::context::Context;
use crate::registry;

/// Makes it in the namespace of the ComponentDefinition.
///
/// # Errors
/// The API server's answer.
pub(super) async fn ensure(
    ctx: &Context,
    namespace: &str,
    kind: &WorkloadGvk,
) -> Result<(), ApiError> {
    let io = ctx.connections.of(registry::COMPONENT);
    let resource = match io.resolve(&kind.api_version, &kind.kind).await {
        Ok(resource) => resource,
        // It was served at admission: its CustomResourceDefinition has gone since.
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    let (name, workloads) = (resource.full_name(), &ctx.definitions.workloads);
    if workloads.get(&Key::new(namespace, &*name)).is_some() {
        return Ok(());
    }
    let version = kind.api_version.rsplit('/').next();
    let object = json!({
        "apiVersion": vela_api::V1BETA1,
        "kind": WorkloadDefinition::KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"definitionRef": {"name": name, "version": version}},
        "status": {},
    });
    match io.create(&object, false, &Identity::default()).await {
        Ok(stored) => {
            if let Ok(stored) = stored.read() {
                let _ = workloads.put(stored);
            }
            Ok(())
        }
        // Another definition of the same kind was first.
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}
