//! The caches of our own kinds, filled by lists instead of watches.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use vela_api::{
    ComponentDefinition, DefinitionRevision, Policy, PolicyDefinition, TraitDefinition, Workflow,
    WorkflowStepDefinition, WorkloadDefinition,
};
use vela_cluster::{ApiError, Store, Stored};

use crate::definitions::Definitions;

/// Objects in an answer.
const PAGE: u32 = 500;

/// All objects of a kind in a namespace, or in all of them.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn list<T>(client: &Client, namespace: Option<&str>) -> Result<Vec<T>, ApiError>
where
    T: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let api: Api<T> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    pages(&api, ListParams::default()).await
}

/// All objects of a list, page by page.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn pages<T>(api: &Api<T>, params: ListParams) -> Result<Vec<T>, ApiError>
where
    T: Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

async fn fill<T>(client: &Client, namespace: Option<&str>, store: &Store<T>) -> Result<(), ApiError>
where
    T: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Stored
        + Clone
        + DeserializeOwned
        + Debug,
{
    for object in list::<T>(client, namespace).await? {
        let _ = store.put(object);
    }
    Ok(())
}

/// Definitions, and what Applications refer to, of these namespaces; of all if there are none.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn definitions(
    client: &Client,
    system_namespace: &str,
    namespaces: &[String],
) -> Result<Definitions, ApiError> {
    let all =
        Definitions { system_namespace: system_namespace.to_owned(), ..Definitions::default() };
    let everywhere = [None];
    let some: Vec<Option<&str>> =
        namespaces.iter().map(|namespace| Some(namespace.as_str())).collect();
    let namespaces = if some.is_empty() { &everywhere[..] } else { &some };
    for namespace in namespaces {
        fill::<ComponentDefinition>(client, *namespace, &all.components).await?;
        fill::<TraitDefinition>(client, *namespace, &all.traits).await?;
        fill::<PolicyDefinition>(client, *namespace, &all.policies).await?;
        fill::<WorkflowStepDefinition>(client, *namespace, &all.steps).await?;
        fill::<WorkloadDefinition>(client, *namespace, &all.workloads).await?;
        fill::<DefinitionRevision>(client, *namespace, &all.revisions).await?;
        fill::<Policy>(client, *namespace, &all.external_policies).await?;
        fill::<Workflow>(client, *namespace, &all.workflows).await?;
    }
    Ok(all)
}
