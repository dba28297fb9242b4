//! Both programs on a control plane of their own, the controller behind a gate.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use tokio::task::AbortHandle;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options, Program};
use vela_tests::fixtures::binaries;
use vela_tests::gate::Gate;

/// A control plane, and the programs on it; the controller is behind a gate, which can end it.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) gate: Gate,
    pub(crate) controller: Arc<Program>,
    pub(crate) webhook: Program,
}

impl World {
    /// Without an election: nobody else is there to take over, so nobody has to wait for a lease.
    pub(crate) async fn new(name: &str) -> Self {
        Self::with_flags(name, &["--enable-leader-election=false"]).await
    }

    pub(crate) async fn with_flags(name: &str, flags: &[&str]) -> Self {
        let cluster = Cluster::start(name).await.unwrap();
        let controller_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let options = Options { controller_flags, ..Options::default() };
        let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
        assert!(deployed.controller.stop(Duration::from_secs(15)).unwrap());
        let victim: Arc<OnceLock<Arc<Program>>> = Arc::default();
        let slot = Arc::clone(&victim);
        let kill = move || {
            if let Some(program) = slot.get() {
                program.kill().expect("the process ends");
            }
        };
        let gate = Gate::start(&cluster, kill).await.unwrap();
        let direct = deployed.controller.kubeconfig().unwrap();
        let through = gate.kubeconfig(&cluster, direct.as_ref()).unwrap();
        let replica = deployed.controller.replica(&cluster, "controller-gate").unwrap();
        let controller = Arc::new(replica.with_kubeconfig(&through));
        victim.set(Arc::clone(&controller)).unwrap();
        controller.start(&cluster).unwrap();
        controller.ready().await.unwrap();
        let client = cluster.client().await.unwrap();
        Self { cluster, client, gate, controller, webhook: deployed.webhook }
    }

    /// Starts the controller again whenever it has died.
    pub(crate) fn supervise(world: &Arc<Self>) -> AbortHandle {
        let world = Arc::clone(world);
        let watch = async move {
            loop {
                if world.controller.pid().is_none() {
                    world.controller.start(&world.cluster).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::spawn(watch).abort_handle()
    }
}
