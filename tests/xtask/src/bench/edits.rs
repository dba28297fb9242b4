//! Edits of Applications, and how long they take until the Deployment has them.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::bench_env::{BenchEnv, Took, row, time_until};

/// How long one edit may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Gives an Application a spec whose first component has another image: the time until the Deployment, which has the
/// Application's name, has that image.
pub(super) async fn edited(
    bench_env: &BenchEnv,
    namespace: &str,
    name: &str,
    spec: &Value,
) -> Result<Took> {
    let deployments: Api<Deployment> = Api::namespaced(bench_env.client.clone(), namespace);
    let image = spec["components"][0]["properties"]["image"].as_str();
    let patch = Patch::Merge(json!({ "spec": spec }));
    let applications = bench_env.within(namespace, "Application");
    let params = PatchParams::default();
    let edit = async { applications.patch(name, &params, &patch).await.map(drop) };
    time_until(&deployments, name, LIMIT, edit, |deployment| image_of(deployment) == image).await
}

/// The image of the first container.
pub(super) fn image_of(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.as_deref()
}

/// One line of a result, with the goal.
pub(super) fn line(name: &str, value: impl std::fmt::Display, goal: &str) {
    row(name, format!("{value:>14}   {goal}"));
}

/// A time as it is printed.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// Times in order.
#[derive(Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// All of them together.
    pub(super) fn merge<'t>(all: impl Iterator<Item = &'t Self>) -> Self {
        Self::new(all.flat_map(|times| times.0.iter().copied()).collect())
    }

    /// The time that so many percent do not exceed; of none it is 0.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }

    /// Prints the median, what 99 of 100 do not exceed, and the longest, each with its goal.
    pub(super) fn print(&self, name: &str, [median, most]: [&str; 2]) {
        line(&format!("{name}, median of {}", self.0.len()), seconds(self.percentile(50)), median);
        line(&format!("{name}, p99"), seconds(self.percentile(99)), most);
        line(&format!("{name}, max"), seconds(self.percentile(100)), "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_rank() {
        let of = |count: u64| Times::new((1..=count).rev().map(Duration::from_secs).collect());
        for (count, percent, wanted) in [
            (0, 50, 0),
            (1, 50, 1),
            (1, 99, 1),
            (4, 50, 2),
            (100, 50, 50),
            (100, 99, 99),
            (100, 100, 100),
            (20, 99, 20),
        ] {
            let time = of(count).percentile(percent);
            assert_eq!(time, Duration::from_secs(wanted), "{percent} % of {count}");
        }
    }
}
