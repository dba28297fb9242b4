//! Nodes of clusters, under the names of the reference.

use prometheus::IntGaugeVec;
use vela_serve::metrics::{Error, Registry};

use crate::clusters::nodes::Nodes;

/// All with the label `cluster`.
#[derive(Debug, Clone)]
pub struct NodeMetrics {
    connected: IntGaugeVec,
    workers: IntGaugeVec,
    masters: IntGaugeVec,
    memory: [IntGaugeVec; 3],
    cpu: [IntGaugeVec; 3],
    pods: [IntGaugeVec; 2],
}

impl NodeMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// A name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let gauge = |name: &str, help: &str| registry.int_gauge_vec(name, help, &["cluster"]);
        Ok(Self {
            connected: gauge(
                "cluster_isconnected",
                "1 if the nodes of the cluster could be read.",
            )?,
            workers: gauge("cluster_worker_node_number", "Nodes outside of the control plane.")?,
            masters: gauge("cluster_master_node_number", "Nodes of the control plane.")?,
            memory: [
                gauge("cluster_memory_capacity", "Memory of all nodes, in bytes.")?,
                gauge("cluster_memory_allocatable", "Memory for Pods, in bytes.")?,
                gauge("cluster_memory_usage", "Memory in use, in bytes.")?,
            ],
            cpu: [
                gauge("cluster_cpu_capacity", "CPU of all nodes, in thousandths of a core.")?,
                gauge("cluster_cpu_allocatable", "CPU for Pods, in thousandths of a core.")?,
                gauge("cluster_cpu_usage", "CPU in use, in thousandths of a core.")?,
            ],
            pods: [
                gauge("cluster_pod_capacity", "Pods that all nodes have room for.")?,
                gauge("cluster_pod_allocatable", "Pods that may be scheduled.")?,
            ],
        })
    }

    fn all(&self) -> impl Iterator<Item = &IntGaugeVec> {
        let numbers = [&self.connected, &self.workers, &self.masters].into_iter();
        numbers.chain(&self.memory).chain(&self.cpu).chain(&self.pods)
    }

    /// Takes in what was read of a cluster; `None`: it could not be read, and what it has is not known.
    pub fn set(&self, cluster: &str, nodes: Option<&Nodes>) {
        let Some(nodes) = nodes else {
            self.forget(cluster);
            self.connected.with_label_values(&[cluster]).set(0);
            return;
        };
        let set = |gauge: &IntGaugeVec, value: i64| gauge.with_label_values(&[cluster]).set(value);
        set(&self.connected, 1);
        set(&self.workers, nodes.workers);
        set(&self.masters, nodes.masters);
        let amounts = [Some(nodes.capacity), Some(nodes.allocatable), nodes.usage];
        for (index, amounts) in amounts.into_iter().enumerate() {
            let both = [
                (&self.memory, amounts.map(|it| it.memory)),
                (&self.cpu, amounts.map(|it| it.cpu)),
            ];
            for (gauges, value) in both {
                if let (Some(gauge), Some(value)) = (gauges.get(index), value) {
                    set(gauge, value);
                }
            }
            if let (Some(gauge), Some(amounts)) = (self.pods.get(index), amounts) {
                set(gauge, amounts.pods);
            }
        }
    }

    /// A cluster is gone.
    pub fn forget(&self, cluster: &str) {
        // An error only says that it had no value.
        self.all().for_each(|gauge| drop(gauge.remove_label_values(&[cluster])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_no_value() {
        let registry = Registry::new("test", "1").unwrap();
        let metrics = NodeMetrics::new(&registry).unwrap();
        let lines = || registry.text().unwrap().lines().filter(|l| l.contains("\"edge\"")).count();
        metrics.set("edge", Some(&Nodes { usage: Some(Default::default()), ..Nodes::default() }));
        assert_eq!(lines(), 11);
        metrics.set("edge", None);
        assert_eq!(lines(), 1);
        metrics.set("edge", Some(&Nodes::default()));
        assert_eq!(lines(), 9);
        metrics.forget("edge");
        assert_eq!(lines(), 0);
    }
}
