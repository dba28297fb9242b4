//! What happens around the dispatch of a release's objects: its namespace, `crds/`, its record and its hooks before, hooks and
//! the end of the record after. Whatever has to be waited for is told, and the step looks again.

use serde_json::{Value, json};
use vela_api::names;
use vela_apply::ResourceKey;
use vela_apply::object::{api_version, kind, name, namespace};
use vela_apply::plan::PatchKind;
use vela_apply::tracker;
use vela_cluster::Target;
use vela_helm::release::{Record, Status};

use crate::messages;

use super::super::session::Session;
use super::hooks::{self, Moment};
use super::params::Params;
use super::{Known, ReleaseError, Released, ready, records};

/// What there is to wait for, in words.
pub type Waits = Option<String>;

/// Everything that comes before the objects.
///
/// # Errors
/// A request or a hook failed.
pub async fn begin(session: &mut Session<'_>, released: &Released) -> Result<Waits, ReleaseError> {
    let stored = session.store_revision().await;
    stored.map_err(|error| ReleaseError::NotStored(error.to_string()))?;
    if !released.state.lock().is_stored {
        make_namespace(session, released).await?;
        for crd in &released.crds {
            if let Some(waits) = install(session, crd).await? {
                return Ok(Some(waits));
            }
        }
        if let Some(waits) = store(session, released).await? {
            return Ok(Some(waits));
        }
    }
    record(session, released).await?;
    let moment = if released.is_upgrade { Moment::PreUpgrade } else { Moment::PreInstall };
    hooks::run(session, released, moment).await
}

/// Everything that comes after the objects: the release is deployed.
///
/// # Errors
/// A request or a hook failed.
pub async fn finish(session: &mut Session<'_>, released: &Released) -> Result<Waits, ReleaseError> {
    let moment = if released.is_upgrade { Moment::PostUpgrade } else { Moment::PostInstall };
    if let Some(waits) = hooks::run(session, released, moment).await? {
        return Ok(Some(waits));
    }
    let revision = {
        let mut state = released.state.lock();
        if state.record.status() == Status::Deployed {
            return Ok(None);
        }
        let done = if released.is_upgrade { "Upgrade complete" } else { "Install complete" };
        state.record.set_status(Status::Deployed, done);
        state.record.revision()
    };
    for known in released.known.iter().filter(|it| it.revision < revision) {
        supersede(session, known).await?;
    }
    write(session, released).await?;
    for old in records::outdated(&released.known, released.params.history.map(|it| it.max(1))) {
        if old.revision < revision {
            let deleted = session.delete(&old.secret, "").await;
            deleted.map_err(|error| ReleaseError::NotStored(error.to_string()))?;
        }
    }
    Ok(None)
}

/// The newest revision that the present run of the workflow has recorded of a release.
#[must_use]
pub fn recorded(session: &Session<'_>, params: &Params, component: &str) -> Option<i64> {
    let prefix = vela_helm::release::secret_name(&params.name, 0);
    let prefix = prefix.trim_end_matches('0');
    let current = session.trackers.current(session.run());
    let of_release = session.trackers.records(&current).iter().filter(|record| {
        record.kind == "Secret"
            && record.namespace == params.namespace
            && record.component == component
            && !record.deleted
    });
    of_release.filter_map(|record| record.name.strip_prefix(prefix)?.parse().ok()).max()
}

/// Makes the record of a deployed release again that somebody removed. Its objects are kept by themselves.
///
/// # Errors
/// The API server's answer.
pub async fn restore(session: &Session<'_>, released: &Released) -> Result<(), ReleaseError> {
    let secret = {
        let mut state = released.state.lock();
        let recorded = recorded(session, &released.params, &released.component);
        if state.is_stored || recorded != Some(state.record.revision()) {
            return Ok(());
        }
        state.record.set_status(Status::Deployed, "Install complete");
        records::secret(&mut state.record, &released.marks(session), session.ctx.clock.now())?
    };
    make_namespace(session, released).await?;
    match session.io().create(&secret, false).await {
        Err(error) if !error.is_already_exists() => {
            Err(ReleaseError::Io(format!("record {}", name(&secret)), error))
        }
        _ => Ok(()),
    }
}

/// Notes that a revision failed. Its record says so; it is tried again with the next attempt of its step.
pub async fn fail(session: &Session<'_>, released: &Released, why: &str) {
    {
        let mut state = released.state.lock();
        let is_pending =
            matches!(state.record.status(), Status::PendingInstall | Status::PendingUpgrade);
        if !state.is_stored || !is_pending {
            return;
        }
        let what = if released.is_upgrade { "Upgrade" } else { "Release" };
        let text = format!("{what} {:?} failed: {why}", released.params.name);
        state.record.set_status(Status::Failed, &text);
    }
    if let Err(error) = write(session, released).await {
        tracing::debug!(%error, "the failure of a release could not be recorded");
    }
}

/// Which of the CustomResourceDefinitions among these objects are not served yet.
///
/// # Errors
/// The API server does not answer.
pub async fn unestablished(
    session: &Session<'_>,
    manifests: impl Iterator<Item = &Value>,
) -> Result<Waits, ReleaseError> {
    for manifest in manifests.filter(|it| kind(it) == "CustomResourceDefinition") {
        let found = session.io().get(&Target::of(manifest)).await;
        let found = found.map_err(ReleaseError::io(name(manifest)))?;
        if !ready::is_established(&found) {
            return Ok(Some(format!(
                "CustomResourceDefinition {} is not served yet",
                name(manifest)
            )));
        }
    }
    Ok(None)
}

/// The namespace of the release, if it is wanted and not there. It stays when the release goes, as with Helm.
async fn make_namespace(session: &Session<'_>, released: &Released) -> Result<(), ReleaseError> {
    let wanted = &released.params.namespace;
    if !released.params.create_namespace || *wanted == session.owner.namespace {
        return Ok(());
    }
    let target = Target { api_version: "v1", kind: "Namespace", namespace: "", name: wanted };
    match session.io().get(&target).await {
        Ok(_) => return Ok(()),
        Err(error) if error.is_not_found() => {}
        // Who may not look may still release into it.
        Err(error) if error.code() == Some(403) => return Ok(()),
        Err(error) => return Err(ReleaseError::Io(format!("namespace {wanted}"), error)),
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": wanted, "labels": {"name": wanted}},
    });
    match session.io().create(&object, false).await {
        Err(error) if !error.is_already_exists() => {
            Err(ReleaseError::Io(format!("namespace {wanted}"), error))
        }
        _ => Ok(()),
    }
}

/// An object of `crds/`: made once, never changed and never removed, as with Helm.
async fn install(session: &Session<'_>, crd: &Value) -> Result<Waits, ReleaseError> {
    let what = format!("{} {}", kind(crd), name(crd));
    let found = match session.io().get(&Target::of(crd)).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => match session.io().create(crd, false).await {
            Ok(answer) => answer.object().map_err(ReleaseError::io(what.clone()))?,
            Err(error) if error.is_already_exists() => return Ok(Some(what)),
            Err(error) => return Err(ReleaseError::Io(what, error)),
        },
        Err(error) => return Err(ReleaseError::Io(what, error)),
    };
    let served = kind(crd) != "CustomResourceDefinition" || ready::is_established(&found);
    Ok((!served).then(|| format!("{what} is not served yet")))
}

/// Writes the record of a new revision.
async fn store(session: &Session<'_>, released: &Released) -> Result<Waits, ReleaseError> {
    let secret = {
        let mut state = released.state.lock();
        records::secret(&mut state.record, &released.marks(session), session.ctx.clock.now())?
    };
    match session.io().create(&secret, false).await {
        Ok(_) => {
            released.state.lock().is_stored = true;
            Ok(None)
        }
        // Somebody made the same revision: it is looked at first.
        Err(error) if error.is_already_exists() => {
            Ok(Some(messages::made_by_others(name(&secret))))
        }
        Err(error) => Err(ReleaseError::Io(format!("record {}", name(&secret)), error)),
    }
}

/// Brings the Secret to the state of the record.
pub(super) async fn write(session: &Session<'_>, released: &Released) -> Result<(), ReleaseError> {
    let (change, secret) = {
        let state = released.state.lock();
        let change = records::change(&state.record, session.ctx.clock.now())?;
        (change, secret_name(&state.record))
    };
    let namespace = released.params.namespace.as_str();
    let target = Target { api_version: "v1", kind: "Secret", namespace, name: &secret };
    let patched = session.io().patch(&target, (PatchKind::Merge, &change), false).await;
    patched.map(drop).map_err(ReleaseError::io(format!("record {secret}")))
}

/// An older revision that was deployed no longer is.
async fn supersede(session: &Session<'_>, known: &Known) -> Result<(), ReleaseError> {
    if known.status != Status::Deployed {
        return Ok(());
    }
    let Ok(mut record) = known.read() else { return Ok(()) };
    let description = record.description().to_owned();
    record.set_status(Status::Superseded, &description);
    let change = records::change(&record, session.ctx.clock.now())?;
    let target = Target::of(&known.secret);
    match session.io().patch(&target, (PatchKind::Merge, &change), false).await {
        Err(error) if !error.is_not_found() => {
            Err(ReleaseError::Io(format!("record {}", name(&known.secret)), error))
        }
        _ => Ok(()),
    }
}

fn secret_name(record: &Record) -> String {
    vela_helm::release::secret_name(record.name(), record.revision())
}

/// Records the release's own Secrets with the run, so that they go when the release does. What is in them is not recorded:
/// they are not put back from there.
async fn record(session: &mut Session<'_>, released: &Released) -> Result<(), ReleaseError> {
    let own = secret_name(&released.state.lock().record);
    let names = released.known.iter().map(|known| name(&known.secret).to_owned());
    let names: std::collections::BTreeSet<String> = names.chain([own]).collect();
    let secrets = names.iter().map(|name| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": name, "namespace": released.params.namespace,
            "labels": {(names::label::APP_COMPONENT): released.component},
        }})
    });
    let secrets: Vec<Value> = secrets.collect();
    track(session, &secrets).await
}

/// Records objects that nobody puts back, but that are collected.
pub(super) async fn track(
    session: &mut Session<'_>,
    objects: &[Value],
) -> Result<(), ReleaseError> {
    let records: Vec<_> =
        objects.iter().map(|object| tracker::record_of(object, "", true, false)).collect();
    let current = session.trackers.current(session.run());
    let is_known =
        |record: &tracker::Record| {
            session.trackers.records(&current).iter().any(|known| {
                tracker::identity(known) == tracker::identity(record) && !known.deleted
            })
        };
    if !current.is_empty() && records.iter().all(is_known) {
        return Ok(());
    }
    let (io, store) = (&*session.ctx.io, &*session.ctx.trackers);
    let mut trackers = std::mem::take(&mut session.trackers);
    let recorded = trackers.record_in_current(io, store, session.run(), records).await;
    session.trackers = trackers;
    recorded.map(drop).map_err(ReleaseError::io("record of the release"))?;
    for object in objects {
        // From now on it is watched: what becomes of it wakes the Application.
        let key = ResourceKey::new(
            api_version(object),
            kind(object),
            "",
            namespace(object),
            name(object),
        );
        let _ = session.ctx.live.get(api_version(object), &key).await;
    }
    Ok(())
}
