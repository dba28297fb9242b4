//! The policy `debug`: the result of each step as a ConfigMap, for the client's `vela debug`.
//!
//! Nothing depends on these ConfigMaps: one that cannot be written is a line in the log. What was read from Secrets is
//! not in them.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::json;
use tracing::warn;
use vela_api::Application;
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, Target};

use crate::application::context::AppContext;
use crate::messages;

use super::store::Store;
use crate::application::workflow_owner::WorkflowOwner;

/// The type of the policy.
const POLICY: &str = "debug";
/// A ConfigMap holds 1 MiB with everything around its data.
const MAX_BYTES: usize = 900 << 10;

/// Whether the steps of an Application are to be shown.
pub(in crate::application) fn is_on(app: &Application) -> bool {
    app.spec.policies.iter().any(|policy| policy.type_ == POLICY)
}

/// Writes what a step came to, unless it is what this process wrote of the step last.
pub(super) async fn keep(ctx: &AppContext, store: &mut Store<'_>, id: &str, text: &str) {
    let text = shortened(text);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let hash = hasher.finish();
    // The same text again costs no request.
    if store.shown(id) == Some(hash) {
        return;
    }
    let owner = store.owner();
    let name = name(&owner, id);
    match write(ctx, &owner, &name, &text).await {
        Ok(()) => store.show(id, hash),
        Err(error) => warn!(name, %error, "the debug output of a step could not be written"),
    }
}

/// The client reads this name.
fn name(owner: &WorkflowOwner<'_>, id: &str) -> String {
    let uid = owner.uid();
    // The last five characters of the uid, as the client computes it.
    let tail = uid.char_indices().rev().nth(4).and_then(|(at, _)| uid.get(at..)).unwrap_or(uid);
    format!("{}-{id}-debug-{tail}", owner.name())
}

fn shortened(text: &str) -> String {
    if text.len() <= MAX_BYTES {
        return text.to_owned();
    }
    let whole = text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or_default();
    // Whole lines of CUE, as far as they go.
    let end = whole.rfind('\n').map_or(0, |at| at + 1);
    format!("{}{}", whole.get(..end).unwrap_or_default(), messages::DEBUG_TRUNCATED)
}

async fn write(
    ctx: &AppContext,
    owner: &WorkflowOwner<'_>,
    name: &str,
    text: &str,
) -> Result<(), ApiError> {
    let namespace = owner.namespace();
    let own = Identity::default();
    let target = Target { api_version: "v1", kind: "ConfigMap", namespace, name };
    let data = json!({ "data": { "debug": text } });
    // Patched first: it exists in all passes but one.
    match ctx.io.patch(&target, "", (PatchKind::Merge, &data), false, &own).await {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "debug": text },
        "metadata": {
            "name": name, "namespace": namespace,
            "ownerReferences": [owner.reference()],
        },
    });
    ctx.io.create(&object, false, &own).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_the_end_of_the_uid() {
        let mut app = Application::default();
        app.metadata.name = Some("web".to_owned());
        for (uid, expected) in
            [("1234-567890ab", "web-id-debug-890ab"), ("abc", "web-id-debug-abc")]
        {
            app.metadata.uid = Some(uid.to_owned());
            assert_eq!(name(&(&app).into(), "id"), expected);
        }
    }

    #[test]
    fn long_texts_are_cut_between_lines() {
        let line = format!("{}: 1\n", "é".repeat(100));
        let text = line.repeat(MAX_BYTES / line.len() + 2);
        let short = shortened(&text);
        assert!(short.len() <= MAX_BYTES + messages::DEBUG_TRUNCATED.len());
        assert!(short.ends_with(&format!(": 1\n{}", messages::DEBUG_TRUNCATED)));
        assert_eq!(shortened("a: 1\n"), "a: 1\n");
    }
}
