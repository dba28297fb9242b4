//! DefinitionRevisions: whether a new one is needed, its name, and which old ones are deleted.

use std::sync::Arc;

use vela_api::names::annotation;
use vela_api::reference::Revision;
use vela_api::{DefinitionRevision, ObjectMeta, OwnerReference, annotation_of};
use vela_cluster::{ApiError, Identity, Key, Stored as _, Target};

use crate::cached::Cached;
use crate::context::Context;

use super::{Kind, users, wake};

/// The revision of a definition as it is now.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Its name.
    pub name: String,
    /// Its uid, if it is known.
    pub uid: Option<String>,
    /// What the status is to name.
    pub latest: Revision,
    /// Whether the status is to name it.
    pub moves_latest: bool,
    /// It was just made.
    pub is_new: bool,
    /// The definition differs from what a fixed name holds.
    pub content_changed: bool,
}

/// Makes the revision a definition needs, unless it exists.
///
/// # Errors
/// The API server's answer.
pub(super) async fn ensure<T: Kind>(ctx: &Context, definition: &T) -> Result<Found, ApiError> {
    let name = definition.name();
    let namespace = definition.metadata().namespace.clone().unwrap_or_default();
    let hash = definition.spec_hash();
    let latest = definition.status().latest_revision.clone().unwrap_or_default();
    let explicit = match (
        definition.explicit_version(),
        annotation_of(definition.metadata(), annotation::DEFINITION_REVISION_NAME),
    ) {
        ("", "") => None,
        ("", fixed) => Some(fixed.to_owned()),
        (version, _) => Some(
            // `v1.0.0` and `1.0.0` are one version, and have one name.
            semver::Version::parse(version.trim_start_matches('v'))
                .map_or_else(|_| version.to_owned(), |version| version.to_string()),
        ),
    };
    let stored = |name: &str| ctx.definitions.revisions.get(&Key::new(&*namespace, name));
    if let Some(fixed) = explicit {
        let wanted = format!("{name}-v{fixed}");
        if let Some(existing) = stored(&wanted) {
            let same = T::of_revision(&existing).is_some_and(|old| definition.has_same_spec(old));
            return Ok(Found { content_changed: !same, ..found(&existing, latest, false) });
        }
        return create(ctx, definition, &wanted, latest.revision.saturating_add(1), &hash).await;
    }
    if latest.name.is_empty() {
        return numbered(ctx, definition, 1, &hash).await;
    }
    let unchanged = latest.revision_hash == hash;
    match stored(&latest.name) {
        Some(existing)
            if unchanged
                && T::of_revision(&existing).is_some_and(|old| definition.has_same_spec(old)) =>
        {
            Ok(found(&existing, latest, false))
        }
        // Deleted by hand: created again as it was.
        None if unchanged => numbered(ctx, definition, latest.revision.max(1), &hash).await,
        _ => numbered(ctx, definition, latest.revision.saturating_add(1), &hash).await,
    }
}

fn found(existing: &DefinitionRevision, latest: Revision, moves_latest: bool) -> Found {
    Found {
        name: existing.metadata.name.clone().unwrap_or_default(),
        uid: existing.metadata.uid.clone(),
        latest,
        moves_latest,
        is_new: false,
        content_changed: false,
    }
}

/// Tries numbers from `number` on: another kind of the same name may have taken one.
async fn numbered<T: Kind>(
    ctx: &Context,
    definition: &T,
    number: i64,
    hash: &str,
) -> Result<Found, ApiError> {
    let mut number = number;
    loop {
        let wanted = format!("{}-v{number}", definition.name());
        match create(ctx, definition, &wanted, number, hash).await {
            Err(error) if error.is_already_exists() => {
                let namespace = definition.metadata().namespace.clone().unwrap_or_default();
                if let Some(mine) = existing(ctx, definition, &namespace, &wanted).await? {
                    let latest = Revision {
                        name: wanted,
                        revision: mine.spec.revision,
                        revision_hash: hash.to_owned(),
                    };
                    return Ok(found(&mine, latest, true));
                }
                number = number.saturating_add(1);
            }
            other => return other,
        }
    }
}

/// The revision of this name if it is this definition's and holds its present spec.
async fn existing<T: Kind>(
    ctx: &Context,
    definition: &T,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<DefinitionRevision>>, ApiError> {
    let answer = ctx
        .connections
        .of(T::CONTROLLER)
        .get(&target(namespace, name), &Identity::default())
        .await?;
    let Ok(revision) = serde_json::from_value::<DefinitionRevision>(answer) else {
        return Ok(None);
    };
    let same = revision.spec.definition_type == T::KIND.revision_type()
        && T::of_revision(&revision).is_some_and(|old| definition.has_same_spec(old));
    Ok(same.then(|| Arc::new(revision)))
}

async fn create<T: Kind>(
    ctx: &Context,
    definition: &T,
    name: &str,
    number: i64,
    hash: &str,
) -> Result<Found, ApiError> {
    let meta = definition.metadata();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let mut revision = DefinitionRevision::new(namespace, name);
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.insert(T::KIND.revision_label().to_owned(), definition.name().to_owned());
    revision.metadata.labels = Some(labels);
    revision.metadata.owner_references = Some(vec![OwnerReference {
        api_version: vela_api::V1BETA1.to_owned(),
        kind: T::KIND_NAME.to_owned(),
        name: definition.name().to_owned(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    }]);
    revision.spec.revision = number;
    hash.clone_into(&mut revision.spec.revision_hash);
    T::KIND.revision_type().clone_into(&mut revision.spec.definition_type);
    definition.embed(&mut revision.spec);
    let value =
        serde_json::to_value(&revision).map_err(|error| ApiError::Transport(error.to_string()))?;
    let answer =
        ctx.connections.of(T::CONTROLLER).create(&value, false, &Identity::default()).await?;
    let stored: DefinitionRevision = answer.read()?;
    let uid = stored.metadata.uid.clone();
    // A watch event of a version that the cache has already changes nothing.
    let _ = ctx.definitions.revisions.put(stored.clone());
    wake::version_added(ctx, &stored);
    Ok(Found {
        name: name.to_owned(),
        uid,
        latest: Revision {
            name: name.to_owned(),
            revision: number,
            revision_hash: hash.to_owned(),
        },
        moves_latest: true,
        is_new: true,
        content_changed: false,
    })
}

fn target<'a>(namespace: &'a str, name: &'a str) -> Target<'a> {
    Target { api_version: vela_api::V1BETA1, kind: DefinitionRevision::KIND, namespace, name }
}

/// Deletes the oldest revisions beyond the limit, but none that is named in status or that is pinned.
///
/// # Errors
/// The API server's answer.
pub(super) async fn collect<T: Kind>(
    ctx: &Context,
    definition: &T,
    latest: &str,
) -> Result<(), ApiError> {
    let namespace = definition.metadata().namespace.clone().unwrap_or_default();
    let mut all: Vec<_> = ctx
        .definitions
        .revisions
        .indexed(&Key::new(&*namespace, definition.name()))
        .into_iter()
        .filter(|revision| revision.spec.definition_type == T::KIND.revision_type())
        .collect();
    let surplus = all.len().saturating_sub(ctx.settings.definition_revision_limit + 1);
    if surplus == 0 {
        return Ok(());
    }
    all.sort_by_key(|revision| revision.spec.revision);
    let name = |revision: &DefinitionRevision| revision.metadata.name.clone().unwrap_or_default();
    let old = all.iter().map(|revision| name(revision)).filter(|name| name != latest);
    for name in old
        .take(surplus)
        .filter(|revision| !is_pinned(ctx, &namespace, definition.name(), revision))
    {
        ctx.connections
            .of(T::CONTROLLER)
            .delete(&target(&namespace, &name), "", None, &Identity::default())
            .await?;
    }
    Ok(())
}

/// Names the types of something, one after the other.
type Walk<'w> = dyn Fn(&mut dyn FnMut(&str)) + 'w;

/// Whether something means this revision: an Application, or a Workflow or Policy object that it may refer to at any time.
/// They resolve in their own namespace first, then in the system namespace.
fn is_pinned(ctx: &Context, namespace: &str, definition: &str, revision: &str) -> bool {
    let pins = pins(ctx, namespace, definition, revision);
    let is_within = |own: &str| {
        own == namespace
            || (namespace == ctx.settings.system_namespace
                && ctx.definitions.revisions.get(&Key::new(own, revision)).is_none())
    };
    let pinned = |walk: &Walk<'_>| {
        let mut found = false;
        walk(&mut |type_| found |= pins.iter().any(|pin| pin == type_));
        found
    };
    let definitions = &ctx.definitions;
    let reach = (namespace != ctx.settings.system_namespace).then_some(namespace);
    let named = ctx.users.of(&users::Use::Version(definition.to_owned()), reach);
    let mut apps = named.into_iter().filter_map(|key| ctx.apps.get(&key));
    let (workflows, policies) = match reach.map(vela_cluster::in_namespace) {
        Some(here) => {
            (definitions.workflows.indexed(&here), definitions.external_policies.indexed(&here))
        }
        None => (definitions.workflows.all(), definitions.external_policies.all()),
    };
    let is_here =
        |metadata: &ObjectMeta| is_within(metadata.namespace.as_deref().unwrap_or_default());
    let names = |app: &Cached| pins.iter().any(|pin| app.outline.versions.contains(pin.as_str()));
    apps.any(|app| is_within(&app.key().namespace) && names(&app))
        || workflows.iter().any(|flow| {
            is_here(&flow.metadata) && pinned(&|seen| users::types_of_steps(&flow.steps, seen))
        })
        || policies.iter().any(|policy| {
            let properties = policy.properties.as_ref();
            is_here(&policy.metadata)
                && pinned(&|seen| users::types_of_override(&policy.type_, properties, seen))
        })
}

/// The type names that mean a revision: that of its version, and those of the ranges in which it is the newest.
fn pins(ctx: &Context, namespace: &str, definition: &str, revision: &str) -> Vec<String> {
    let of = |name: &str| -> Option<String> {
        Some(name.strip_prefix(definition)?.strip_prefix("-v")?.to_owned())
    };
    let Some(version) = of(revision) else { return Vec::new() };
    let mut pins = vec![format!("{definition}@v{version}")];
    let Ok(number) = semver::Version::parse(&version) else { return pins };
    let all = ctx.definitions.revisions.indexed(&Key::new(namespace, definition));
    let names = all.iter().filter_map(|one| of(one.metadata.name.as_deref()?));
    let others: Vec<_> =
        names.filter_map(|name| semver::Version::parse(&name).ok().map(|v| (name, v))).collect();
    for (end, _) in version.match_indices('.') {
        let Some(range) = version.get(..end) else { continue };
        let prefix = format!("{range}.");
        let is_newer = |(name, other): &(String, _)| name.starts_with(&prefix) && *other > number;
        if !others.iter().any(is_newer) {
            pins.push(format!("{definition}@v{range}"));
        }
    }
    pins
}
