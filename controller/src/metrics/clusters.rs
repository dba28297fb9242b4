//! The state of every member, asked when somebody reads the metrics.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use vela_cluster::members::{Members, State};
use vela_serve::metrics::Error;

/// Clusters that have a label value of their own; the others share one.
const NAMED: usize = 200;

/// Asks the registry.
pub(super) struct States {
    members: Arc<Members>,
    states: IntGaugeVec,
}

impl States {
    pub(super) fn new(members: Arc<Members>) -> Result<Self, Error> {
        let states = IntGaugeVec::new(
            Opts::new(
                "vela_cluster_state",
                "1 for the state that a cluster is in, 0 for the others.",
            ),
            &["cluster", "state"],
        )?;
        Ok(Self { members, states })
    }
}

impl Collector for States {
    fn desc(&self) -> Vec<&Desc> {
        self.states.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Those of clusters that are gone go.
        self.states.reset();
        for (index, (name, member)) in self.members.snapshot().members().iter().enumerate() {
            let name = if index < NAMED { name.as_str() } else { "other" };
            let current = member.state();
            for state in State::ALL {
                let labels = [name, state.as_str()];
                self.states.with_label_values(&labels).add(i64::from(state == current));
            }
        }
        self.states.collect()
    }
}
