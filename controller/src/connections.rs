//! The connections to the API server: one for each controller, over the client of the process or under a ServiceAccount of the
//! controller's own, so that each has only the rights, and takes only the share of requests, that are its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use kube::Client;
use tokio_util::sync::CancellationToken;
use vela_cluster::client::{ClientOptions, connect, wait_for_token};
use vela_cluster::{ObjectClient, ServiceAccount};

use crate::metrics::Metrics;
use crate::registry;

/// A connection for each controller that has one of its own, and the process's.
#[derive(Debug)]
pub struct Connections {
    process: Arc<ObjectClient>,
    controllers: BTreeMap<&'static str, Arc<ObjectClient>>,
}

/// How controllers connect under ServiceAccounts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accounts<'a> {
    /// Where the ServiceAccounts are.
    pub namespace: &'a str,
    /// All but the account.
    pub options: &'a ClientOptions,
}

impl Connections {
    /// One for all.
    #[must_use]
    pub fn shared(io: Arc<ObjectClient>) -> Self {
        Self { process: io, controllers: BTreeMap::new() }
    }

    /// One for each of these controllers, over the client of the process.
    pub(crate) fn over(
        io: &Arc<ObjectClient>,
        controllers: &[&'static str],
        metrics: &Metrics,
    ) -> Self {
        let clients = controllers.iter().map(|&name| (name, io.client().clone()));
        Self::with(io, clients, metrics)
    }

    /// One for each of these controllers, under its ServiceAccount; `None` if stopped while one is waited for.
    ///
    /// # Errors
    /// Configuration that cannot be read.
    pub(crate) async fn under(
        accounts: Accounts<'_>,
        io: &Arc<ObjectClient>,
        controllers: &[&'static str],
        metrics: &Metrics,
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<Self>> {
        let Accounts { namespace, options } = accounts;
        let account = |&name: &&'static str| {
            let account = registry::account(name);
            (name, Arc::new(ServiceAccount::new(io.client().clone(), namespace, &account)))
        };
        let accounts: Vec<_> = controllers.iter().map(account).collect();
        // All at once: whatever is missing is named from the beginning.
        let waits = accounts.iter().map(|(_, account)| wait_for_token(account, stop));
        if join_all(waits).await.contains(&false) {
            return Ok(None);
        }
        let mut clients = Vec::new();
        for (name, account) in accounts {
            clients.push((name, connect(&options.as_account(name, account)).await?));
        }
        Ok(Some(Self::with(io, clients, metrics)))
    }

    fn with(
        io: &Arc<ObjectClient>,
        clients: impl IntoIterator<Item = (&'static str, Client)>,
        metrics: &Metrics,
    ) -> Self {
        let connection = |(name, client)| {
            let io = io.with_client(client);
            let metrics = metrics.clone();
            io.observe(Arc::new(move |request| metrics.requested(name, request)));
            (name, Arc::new(io))
        };
        let controllers = clients.into_iter().map(connection).collect();
        Self { process: Arc::clone(io), controllers }
    }

    /// A controller's.
    #[must_use]
    pub fn of(&self, controller: &str) -> &Arc<ObjectClient> {
        self.controllers.get(controller).unwrap_or(&self.process)
    }
}
