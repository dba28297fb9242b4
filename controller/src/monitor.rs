//! The gauges that count Applications, their steps and the queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use vela_api::{Application, names};

use crate::application;
use crate::context::Context;
use crate::metrics::{Metrics, phase_number, workflow_number};
use crate::registry;

/// How often the gauges are counted anew.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// The gauges of one Application.
fn tell_app(metrics: &Metrics, app: &Application) {
    let name = app.metadata.name.as_deref().unwrap_or_default();
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let labels = [name, namespace];
    let healthy = application::status::is_healthy(&app.status.services);
    metrics.app_health.with_label_values(&labels).set(i64::from(healthy));
    metrics.app_phase.with_label_values(&labels).set(phase_number(&app.status.phase));
    let workflow = app.status.workflow.as_ref().map(|workflow| workflow.phase.as_str());
    let number = workflow_number(workflow.unwrap_or_default());
    metrics.app_workflow.with_label_values(&labels).set(number);
}

/// Counts Applications and steps by phase.
pub(crate) async fn run(context: Arc<Context>) {
    loop {
        let mut phases: BTreeMap<String, i64> =
            names::phase::ALL.iter().map(|phase| ((*phase).to_owned(), 0)).collect();
        let mut steps: BTreeMap<(String, String), i64> = BTreeMap::new();
        for gauge in
            [&context.metrics.app_health, &context.metrics.app_phase, &context.metrics.app_workflow]
        {
            gauge.reset();
        }
        for app in context.apps.all() {
            let phase = if app.status.phase.is_empty() { "-" } else { &app.status.phase };
            *phases.entry(phase.to_owned()).or_default() += 1;
            if context.settings.gates.enable_application_status_metrics {
                tell_app(&context.metrics, &app);
            }
            for step in app.status.workflow.iter().flat_map(|workflow| &workflow.steps) {
                let phase = format!("{}#{}", step.phase, step.reason);
                *steps.entry((step.type_.clone(), phase)).or_default() += 1;
            }
        }
        for (phase, count) in phases {
            context.metrics.phases.with_label_values(&[&phase]).set(count);
        }
        context.metrics.step_phases.reset();
        for ((ty, phase), count) in steps {
            context.metrics.step_phases.with_label_values(&[&ty, &phase]).set(count);
        }
        let queues = &context.definition_queues;
        for (name, queue) in [
            (registry::APPLICATION, &context.queue),
            (registry::COMPONENT, &queues.components),
            (registry::TRAIT, &queues.traits),
            (registry::POLICY, &queues.policies),
            (registry::WORKFLOW_STEP, &queues.steps),
        ] {
            let depth = i64::try_from(queue.len()).unwrap_or(i64::MAX);
            context.metrics.depth.with_label_values(&[name]).set(depth);
        }
        if context.queue.is_closed() {
            return;
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
}
