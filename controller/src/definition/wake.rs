//! A change of a definition, or of what Applications refer to, wakes the Applications that it may matter to.

use vela_api::DefinitionRevision;
use vela_cluster::{Key, Stored};

use crate::context::Context;

use super::users::Use;

/// Where the Applications are that a definition is for: `None` if it is for those of all namespaces.
fn reach<'d>(context: &Context, definition: &'d Key) -> Option<&'d str> {
    let is_system = definition.namespace == context.settings.system_namespace;
    (!is_system).then_some(&*definition.namespace)
}

/// Queues the Applications that use a definition.
fn wake(context: &Context, definition: &Key, uses: &[Use]) {
    if !context.apps.is_synced() {
        // All of them are checked anyway while they are being listed.
        return;
    }
    for used in uses {
        for app in context.users.of(used, reach(context, definition)) {
            context.queue.wake_user(app);
        }
    }
}

/// A version of a definition came: Applications may mean it.
pub fn version_added(context: &Context, revision: &DefinitionRevision) {
    context.definition_changes.notify_one();
    if let Some(definition) = revision.index() {
        wake(context, &definition, &[Use::Version(definition.name.clone())]);
    }
}

/// A definition came, changed or went: it may have held Applications up, and some follow it.
pub fn definition_changed(context: &Context, definition: &Key) {
    context.definition_changes.notify_one();
    wake(context, definition, &[Use::Definition(definition.name.clone()), Use::AnyDefinition]);
}

/// A WorkloadDefinition came, changed or went: a definition may refer to it.
pub fn workload_changed(context: &Context, definition: &Key) {
    wake(context, definition, &[Use::Waits]);
}

/// A policy that changes Applications came, changed or went; `is_global` if all of them have it.
pub fn policy_changed(context: &Context, definition: &Key, is_global: bool) {
    if !is_global {
        wake(context, definition, &[Use::Policy(definition.name.clone())]);
        return;
    }
    let all = match reach(context, definition) {
        None => context.apps.all(),
        Some(namespace) => context.apps.indexed(&vela_cluster::in_namespace(namespace)),
    };
    all.iter().for_each(|app| context.queue.wake_user(app.key()));
}

/// A Workflow or a Policy of a namespace changed: Applications in it may refer to it. Those that do not, rest.
pub fn referred_changed(context: &Context, namespace: &str) {
    if !context.apps.is_synced() {
        // All of them are checked anyway while they are being listed.
        return;
    }
    let here = context.apps.indexed(&vela_cluster::in_namespace(namespace));
    let refers = here.iter().filter(|app| app.outline.has_workflow);
    refers.for_each(|app| context.queue.wake_user(app.key()));
}
