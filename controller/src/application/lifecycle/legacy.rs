//! Trackers of releases before 1.2: they have no type, and own what they track by owner references.
//!
//! Answers for `GarbageCollectLegacyResourceTrackers` (gate LegacyResourceTrackerGC). Once the newest spec is dispatched, what
//! it wants lets go of such trackers; they are deleted, and the cluster's garbage collector takes what only they own. With
//! the policy `keepLegacyResource` they stay. The version noted on the Application says that this is done.

use serde_json::{Value, json};
use vela_api::Application;
use vela_api::names::{annotation, phase};
use vela_apply::plan::PatchKind;
use vela_apply::tracker;
use vela_cluster::{ApiError, Target};

use crate::application::facts;
use crate::application::session::Session;

/// Releases below this one wrote trackers without a type.
const FIRST_WITH_TYPES: semver::Version = semver::Version::new(1, 2, 0);

/// What the first releases of this control plane stamped: their own version, which clients took for a KubeVela before 1.2.
const EARLY_STAMP: &str = "v0.1.0";

/// Whether an Application carries that stamp, and is to get another one.
pub(in crate::application) fn has_early_stamp(app: &Application) -> bool {
    facts::annotation(&app.metadata, annotation::KUBEVELA_VERSION) == EARLY_STAMP
}

/// Whether a release before 1.2 was the last to handle the Application.
fn is_of_old_release(app: &Application) -> bool {
    // An empty version was written by no release at all, or by one that did not note it.
    let version = facts::annotation(&app.metadata, annotation::KUBEVELA_VERSION);
    let number = semver::Version::parse(version.trim_start_matches('v'));
    version.is_empty() || number.is_ok_and(|number| number < FIRST_WITH_TYPES)
}

/// Whether trackers without a type are collected.
pub(in crate::application) fn is_collected(session: &Session<'_>, app: &Application) -> bool {
    session.ctx.settings.gates.legacy_resource_tracker_gc
        && is_of_old_release(app)
        && !session.trackers.current(session.run()).is_empty()
}

/// Takes the trackers that are about to go from the owners of everything the newest spec wants.
///
/// # Errors
/// The API server's answer.
pub(in crate::application) async fn release_legacy(
    session: &Session<'_>,
    going: &[String],
) -> Result<(), ApiError> {
    let legacy = session.trackers.legacy().into_iter();
    let uids: Vec<String> =
        legacy.filter(|(name, _)| going.contains(name)).map(|(_, uid)| uid).collect();
    if uids.is_empty() {
        return Ok(());
    }
    let current = session.trackers.current(session.run());
    for record in session.trackers.desired(&current) {
        // All that is checked is who owns it.
        let live = session.ctx.live.get(&record.api_version, &tracker::key_of(record)).await?;
        let Some(left) = live.and_then(|live| without_owners(&live.value(), &uids)) else {
            continue;
        };
        let target = Target {
            api_version: &record.api_version,
            kind: &record.kind,
            namespace: &record.namespace,
            name: &record.name,
        };
        match session.io().patch(&target, (PatchKind::Merge, &left), false).await {
            Ok(answer) => {
                session.ctx.live.wrote(&record.api_version, &record.kind, answer.object()?);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The patch that takes owners off an object; `None` if none of them owns it.
fn without_owners(object: &Value, uids: &[String]) -> Option<Value> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let goes = |owner: &Value| {
        let uid = owner.get("uid").and_then(Value::as_str);
        uid.is_some_and(|uid| uids.iter().any(|other| other == uid))
    };
    if !owners.iter().any(goes) {
        return None;
    }
    let left: Vec<&Value> = owners.iter().filter(|owner| !goes(owner)).collect();
    // The version guards the list of owners, which is replaced as a whole.
    let version = object.pointer("/metadata/resourceVersion")?;
    Some(json!({"metadata": {"resourceVersion": version, "ownerReferences": left}}))
}

/// Whether nothing of an old release is left: time to say so.
pub(in crate::application) fn is_obsolete(session: &Session<'_>, app: &Application) -> bool {
    is_collected(session, app)
        && app.status.phase == phase::RUNNING
        && session.trackers.legacy().is_empty()
}

/// The patch that notes a version.
pub(in crate::application) fn version_patch(app: &Application, version: &str) -> Value {
    json!({"metadata": {
        "resourceVersion": app.metadata.resource_version,
        "annotations": {annotation::KUBEVELA_VERSION: version},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_releases() {
        let old = |version: &str| {
            let mut app = Application::default();
            let value = (annotation::KUBEVELA_VERSION.to_owned(), version.to_owned());
            app.metadata.annotations = Some(std::collections::BTreeMap::from([value]));
            is_of_old_release(&app)
        };
        assert!(old("") && old("v1.1.13") && old("1.0.0") && old("v1.2.0-beta.1"));
        assert!(!old("v1.2.0") && !old("v1.10.1") && !old("master"));
    }

    #[test]
    fn other_owners_stay() {
        let owned = json!({"metadata": {"resourceVersion": "7", "ownerReferences": [
            {"uid": "a", "name": "old"}, {"uid": "b", "name": "other"}]}});
        assert_eq!(
            without_owners(&owned, &["a".to_owned()]),
            Some(json!({"metadata": {"resourceVersion": "7",
                "ownerReferences": [{"uid": "b", "name": "other"}]}}))
        );
        assert_eq!(without_owners(&owned, &["c".to_owned()]), None);
        assert_eq!(without_owners(&json!({"metadata": {}}), &["a".to_owned()]), None);
    }
}
