//! The objects whose `caBundle` names the authority: webhook configurations, or an APIService. Only entries that name our
//! Service are ours.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use tracing::info;
use vela_cluster::Rounds;

use crate::{Config, Target};

/// Access to the objects.
pub(crate) enum Carriers {
    Webhooks {
        name: String,
        mutating: Box<Api<MutatingWebhookConfiguration>>,
        validating: Box<Api<ValidatingWebhookConfiguration>>,
    },
    ApiService {
        name: String,
        api: Box<Api<APIService>>,
    },
}

/// The objects as they are.
pub(crate) enum Carried {
    Webhooks {
        mutating: Option<Box<MutatingWebhookConfiguration>>,
        validating: Option<Box<ValidatingWebhookConfiguration>>,
    },
    ApiService(Option<Box<APIService>>),
}

impl Carriers {
    pub(crate) fn new(client: Client, target: &Target) -> Self {
        match target {
            Target::Webhooks(name) => Self::Webhooks {
                name: name.clone(),
                mutating: Box::new(Api::all(client.clone())),
                validating: Box::new(Api::all(client)),
            },
            Target::ApiService(name) => {
                Self::ApiService { name: name.clone(), api: Box::new(Api::all(client)) }
            }
        }
    }

    /// A change of one of them is a reason for a round.
    pub(crate) fn watched(&self, rounds: Rounds) -> Rounds {
        match self {
            Self::Webhooks { name, mutating, validating } => {
                rounds.watching(mutating, name).watching(validating, name)
            }
            Self::ApiService { name, api } => rounds.watching(api, name),
        }
    }

    pub(crate) async fn read(&self) -> kube::Result<Carried> {
        match self {
            Self::Webhooks { name, mutating, validating } => {
                let (mutating, validating) =
                    tokio::try_join!(mutating.get_opt(name), validating.get_opt(name))?;
                let (mutating, validating) = (mutating.map(Box::new), validating.map(Box::new));
                Ok(Carried::Webhooks { mutating, validating })
            }
            Self::ApiService { name, api } => {
                Ok(Carried::ApiService(api.get_opt(name).await?.map(Box::new)))
            }
        }
    }

    /// Sets the bundle everywhere it is another one.
    pub(crate) async fn write(
        &self,
        carried: Carried,
        config: &Config,
        bundle: &str,
    ) -> kube::Result<()> {
        let params = PostParams::default();
        match (self, carried) {
            (
                Self::Webhooks { mutating, validating, .. },
                Carried::Webhooks { mutating: first, validating: second },
            ) => {
                if let Some(mut object) = first {
                    let entries = object.webhooks.iter_mut().flatten();
                    let mut clients = entries.map(|webhook| &mut webhook.client_config);
                    if set_all(config, &mut clients, bundle) {
                        let name = object.name_any();
                        mutating.replace(&name, &params, &object).await?;
                        info!(
                            configuration = name,
                            kind = "MutatingWebhookConfiguration",
                            "caBundle set"
                        );
                    }
                }
                if let Some(mut object) = second {
                    let entries = object.webhooks.iter_mut().flatten();
                    let mut clients = entries.map(|webhook| &mut webhook.client_config);
                    if set_all(config, &mut clients, bundle) {
                        let name = object.name_any();
                        validating.replace(&name, &params, &object).await?;
                        info!(
                            configuration = name,
                            kind = "ValidatingWebhookConfiguration",
                            "caBundle set"
                        );
                    }
                }
            }
            (Self::ApiService { name, api }, Carried::ApiService(Some(mut object))) => {
                let is_changed = set_api_service(config, &mut object, bundle);
                if is_changed {
                    api.replace(name, &params, &object).await?;
                    info!(api_service = name, "caBundle set");
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Carried {
    /// The bundles of our entries.
    pub(crate) fn bundles(&self, config: &Config) -> Vec<String> {
        let text = |bundle: Option<&ByteString>| {
            let bytes = bundle.map(|bytes| bytes.0.as_slice()).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        match self {
            Self::Webhooks { mutating, validating } => {
                let first = mutating.iter().flat_map(|c| c.webhooks.iter().flatten());
                let second = validating.iter().flat_map(|c| c.webhooks.iter().flatten());
                let first = first.map(|webhook| &webhook.client_config);
                let clients = first.chain(second.map(|webhook| &webhook.client_config));
                let ours = clients.filter(|client| is_ours(config, client));
                ours.map(|client| text(client.ca_bundle.as_ref())).collect()
            }
            Self::ApiService(object) => {
                let spec = object.as_ref().and_then(|object| object.spec.as_ref());
                let ours = spec.filter(|spec| {
                    spec.service.as_ref().is_some_and(|service| names_ours(config, service))
                });
                ours.map(|spec| text(spec.ca_bundle.as_ref())).into_iter().collect()
            }
        }
    }
}

/// Webhooks that are called by a URL are somebody else's.
fn is_ours(config: &Config, client: &WebhookClientConfig) -> bool {
    matches!(&client.service, Some(ServiceReference { name, namespace, .. })
        if *name == config.service && *namespace == config.namespace)
}

fn names_ours(
    config: &Config,
    service: &k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::ServiceReference,
) -> bool {
    service.name.as_deref() == Some(&config.service)
        && service.namespace.as_deref() == Some(&config.namespace)
}

/// Sets the bundle of ours; whether one changed.
fn set_all(
    config: &Config,
    clients: &mut dyn Iterator<Item = &mut WebhookClientConfig>,
    bundle: &str,
) -> bool {
    let wanted = Some(ByteString(bundle.as_bytes().to_vec()));
    let mut any = false;
    for client in clients {
        if is_ours(config, client) && client.ca_bundle != wanted {
            client.ca_bundle.clone_from(&wanted);
            any = true;
        }
    }
    any
}

fn set_api_service(config: &Config, object: &mut APIService, bundle: &str) -> bool {
    let Some(spec) = &mut object.spec else { return false };
    let wanted = Some(ByteString(bundle.as_bytes().to_vec()));
    let is_ours = spec.service.as_ref().is_some_and(|service| names_ours(config, service));
    let is_changed =
        is_ours && (spec.ca_bundle != wanted || spec.insecure_skip_tls_verify == Some(true));
    if is_changed {
        spec.ca_bundle = wanted;
        // The API server refuses both at once.
        spec.insecure_skip_tls_verify = None;
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_api_service_of_our_service_is_changed_and_only_once() {
        let config = Config {
            namespace: "vela-system".to_owned(),
            service: "gateway".to_owned(),
            secret: "tls".to_owned(),
            target: Target::ApiService("v1alpha1.cluster.core.oam.dev".to_owned()),
        };
        let of = |service: &str, insecure: bool| -> Box<APIService> {
            let object = format!(
                r#"{{"metadata": {{"name": "v1alpha1.cluster.core.oam.dev"}}, "spec": {{"group": "cluster.core.oam.dev",
                "version": "v1alpha1", "groupPriorityMinimum": 1, "versionPriority": 1, "caBundle": "Cg==",
                "insecureSkipTLSVerify": {insecure}, "service": {{"name": "{service}", "namespace": "vela-system"}}}}}}"#
            );
            serde_json::from_str(&object).unwrap()
        };
        let mut ours = of("gateway", true);
        assert_eq!(Carried::ApiService(Some(ours.clone())).bundles(&config), ["\n"]);
        assert!(set_api_service(&config, &mut ours, "PEM"));
        let spec = ours.spec.clone().unwrap();
        assert_eq!(
            (spec.ca_bundle.unwrap().0, spec.insecure_skip_tls_verify),
            (b"PEM".to_vec(), None)
        );
        assert!(!set_api_service(&config, &mut ours, "PEM"));
        let mut other = of("cluster-gateway", false);
        assert!(!set_api_service(&config, &mut other, "PEM"));
        assert!(Carried::ApiService(Some(other)).bundles(&config).is_empty());
        assert!(Carried::ApiService(None).bundles(&config).is_empty());
    }
}
