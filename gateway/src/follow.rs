//! Follows the ConfigMap that says who the front proxy is: a new authority counts for new handshakes, open connections go on.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use vela_cluster::watch as cluster_watch;
use vela_serve::tls::{self, Clients, Resolver, RustlsConfig};

use crate::front::{CONFIG_MAP, Front, NAMESPACE};
use crate::server::Server;

/// What the ConfigMap says last that is of use.
type Fronts = watch::Receiver<Option<Arc<Front>>>;

/// Follows the ConfigMap until `end`. What is of no use never replaces what is.
pub(crate) async fn front(
    client: kube::Client,
    sender: watch::Sender<Option<Arc<Front>>>,
    end: CancellationToken,
) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let config = cluster_watch::Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
    let mut maps = std::pin::pin!(cluster_watch::events(CONFIG_MAP, api, config).applied_objects());
    loop {
        let map = tokio::select! {
            map = maps.next() => map,
            () = end.cancelled() => return,
        };
        match map {
            None => return,
            Some(Err(_)) => {}
            Some(Ok(map)) => match Front::read(&map.data.unwrap_or_default()) {
                Ok(front) => {
                    sender.send_if_modified(|known| {
                        let is_new = known.as_deref() != Some(&front);
                        if is_new {
                            *known = Some(Arc::new(front));
                        }
                        is_new
                    });
                }
                Err(error) => warn!(%error, "it is not known who the front proxy is"),
            },
        }
    }
}

/// The next that is of use; `None`: there will be none.
pub(crate) async fn next(fronts: &mut Fronts) -> Option<(Arc<Front>, Clients)> {
    loop {
        let known = fronts.borrow_and_update().clone();
        if let Some(front) = known {
            match Clients::of_pem(&front.authority, CONFIG_MAP) {
                Ok(clients) => return Some((front, clients)),
                Err(error) => warn!(%error, "the authority of the front proxy cannot be used"),
            }
        }
        fronts.changed().await.ok()?;
    }
}

/// Takes in whatever comes.
pub(crate) async fn renew(
    server: &Server,
    mut fronts: Fronts,
    config: &RustlsConfig,
    resolver: &Arc<Resolver>,
) {
    while fronts.changed().await.is_ok() {
        fronts.mark_changed();
        let Some((front, clients)) = next(&mut fronts).await else { return };
        match tls::renew_clients(config, Arc::clone(resolver), &clients) {
            Ok(()) => {
                info!("the front proxy of the API server changed");
                server.front.store(Some(front));
            }
            Err(error) => warn!(%error, "the authority of the front proxy cannot be used"),
        }
    }
}
