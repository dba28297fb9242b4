//! The connections to the API server: one for each controller, over the client of the process or under a ServiceAccount of the
//! controller's own, so that each has only the rights, and takes only the share of requests, that are its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;
use vela_cluster::client::{ClientOptions, connect, wait_for_token};
use vela_cluster::{Io, ServiceAccount};

use crate::metrics::Metrics;
use crate::registry::{self, Selection};

/// A connection for each controller that has one of its own, and the process's.
#[derive(Debug)]
pub struct Connections {
    process: Arc<Io>,
    controllers: BTreeMap<&'static str, Arc<Io>>,
}

impl Connections {
    /// One for all.
    #[must_use]
    pub fn shared(io: Arc<Io>) -> Self {
        Self { process: io, controllers: BTreeMap::new() }
    }

    /// One for each selected controller, over the client of the process.
    pub(crate) fn over(io: &Arc<Io>, selection: &Selection, metrics: &Metrics) -> Self {
        let client = |_| io.client().clone();
        Self::with(io, selection, metrics, client)
    }

    /// One for each selected controller, under its ServiceAccount in a namespace; `None` if stopped while an account is
    /// waited for.
    ///
    /// # Errors
    /// Configuration that cannot be read.
    pub(crate) async fn under_accounts(
        io: &Arc<Io>,
        selection: &Selection,
        metrics: &Metrics,
        (namespace, options): (&str, &ClientOptions),
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<Self>> {
        let mut clients = BTreeMap::new();
        for controller in selection.names() {
            let name = registry::account(controller);
            let account = ServiceAccount::new(io.client().clone(), namespace, &name);
            if !wait_for_token(&account, stop).await {
                return Ok(None);
            }
            let options = options.as_account(controller, Arc::new(account));
            clients.insert(controller, connect(&options).await?);
        }
        let client = |name| clients.get(name).unwrap_or(io.client()).clone();
        Ok(Some(Self::with(io, selection, metrics, client)))
    }

    fn with(
        io: &Arc<Io>,
        selection: &Selection,
        metrics: &Metrics,
        client: impl Fn(&'static str) -> Client,
    ) -> Self {
        let connection = |name| {
            let io = io.beside(client(name));
            let metrics = metrics.clone();
            io.observe(Arc::new(move |request| metrics.requested(name, request)));
            (name, Arc::new(io))
        };
        let controllers = selection.names().map(connection).collect();
        Self { process: Arc::clone(io), controllers }
    }

    /// A controller's.
    #[must_use]
    pub fn of(&self, controller: &str) -> &Arc<Io> {
        self.controllers.get(controller).unwrap_or(&self.process)
    }
}
