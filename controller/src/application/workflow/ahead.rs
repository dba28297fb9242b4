//! What the steps of a workflow are about to dispatch, prepared and recorded together.
//!
//! An Application without a workflow has a step for each component. If each step recorded its objects, each would write a tracker that
//! holds the objects of all: the work grows with the square of their number. Objects are still written by their steps, one component
//! after the other, since one may need what an earlier one makes.

use std::collections::BTreeMap;

use vela_workflow::generate::BUILTIN_APPLY_COMPONENT;
use vela_workflow::{Pass, Step};

use super::component_and_placement;
use super::components::parsed_component;
use super::run::Run;
use super::together::{self, Prepared};
use crate::application::release;
use crate::application::session::Session;

/// From how many components on. The object of a step that records for itself needs no dry run, so few of them take fewer
/// requests that way.
const MANY: usize = 8;

/// The components that are prepared, by the names of their steps.
pub(super) async fn prepare(
    session: &mut Session<'_>,
    run: &Run<'_>,
    pass: &Pass<'_>,
) -> BTreeMap<String, Prepared> {
    let is_refused = session.memory().lock().refused;
    // A plan shows what each step does.
    let is_alone = is_refused || session.ctx.rehearsal.is_some();
    let steps = if is_alone { Vec::new() } else { pass.unconditional(BUILTIN_APPLY_COMPONENT) };
    // Before anything is parsed: most Applications have few components.
    if steps.len() < MANY {
        return BTreeMap::new();
    }
    let (mut names, mut items) = (Vec::new(), Vec::new());
    for Step { name, properties, .. } in steps {
        // What is wrong with a step is the step's to say.
        let Ok((component, placement)) = component_and_placement(properties) else { continue };
        let Ok(part) = parsed_component(session, run, &component) else { continue };
        if placement.cluster.is_empty() && !release::may_be_asked_for(&part) {
            names.push(name);
            items.push((component, placement));
        }
    }
    if items.len() < MANY {
        return BTreeMap::new();
    }
    let width = session.ctx.settings.dispatch_concurrency;
    let prepared = together::prepare(session, run, &items, width).await;
    let named = prepared.into_iter().filter_map(|(index, it)| Some((names.get(index)?, it)));
    named.map(|(name, it)| (String::clone(name), it)).collect()
}
