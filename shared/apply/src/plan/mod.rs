//! The plan for one object: the write that turns the live object into the manifest.
//!
//! Answers for `pkg/utils/apply/apply.go` and the order of options in `pkg/resourcekeeper/dispatch.go`: update strategy,
//! take-over, read-only, shared, ownership, render hash.

use serde_json::{Map, Value, json};
use vela_api::names;

use crate::object::{
    annotation, api_version, group_of, is_deleting, kind, label, name, namespace, same,
    set_annotation, set_label, str_at, value_at,
};
use crate::ownership::{
    Claim, ClaimOptions, Owner, Refusal, claim, sharers, with_sharer, without_sharer,
};
use crate::policy::{ResourcePolicies, Stage};
use crate::{json_merge, last_applied, quantity, release, secret, strategic};

/// What a write is decided with.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The Application that writes.
    pub owner: &'a Owner,
    /// Its resource policies.
    pub policies: &'a ResourcePolicies,
    /// Dispatch or drift repair.
    pub stage: Stage,
    /// Gate `LegacyResourceOwnerValidation`: objects of nobody may be adopted.
    pub adopt_unowned: bool,
    /// Gate `ApplyResourceByReplace`.
    pub replace_by_default: bool,
    /// The time for `app.oam.dev/last-applied-time`, RFC 3339.
    pub now: &'a str,
    /// What trackers say we dispatched before, the newest first, for kinds that carry no last-applied annotation.
    pub previous: &'a [Value],
}

/// The media type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
}

/// What to send.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Nothing.
    Skip,
    /// POST.
    Create(Value),
    /// PATCH with a body that keeps what others wrote.
    Patch {
        /// How.
        kind: PatchKind,
        /// The patch.
        body: Value,
    },
    /// PUT (carries the live resourceVersion).
    Replace(Value),
    /// DELETE the object with this uid (unless it is being deleted already), then POST once it is gone.
    Recreate {
        /// Uid of the live object.
        uid: String,
        /// Whether it still has to be deleted.
        delete: bool,
        /// The new object.
        object: Value,
    },
}

/// Why nothing may be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Somebody else's object.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// A read-only object that is not there.
    #[error(
        "{kind} {name} does not exist and a read-only policy keeps it from being created: create it, or change the policy"
    )]
    ReadOnlyAbsent {
        /// Kind of the object, as in manifests.
        kind: String,
        /// Name of the object, without its namespace.
        name: String,
    },
    /// A path of an apply-once rule the live object does not have.
    #[error("failed to apply once policy for application {app},{path}: no such field in {object}")]
    ApplyOncePath {
        /// The Application.
        app: String,
        /// The path down to the first field that is not there.
        path: String,
        /// `Kind namespace/name` of the live object.
        object: String,
    },
    /// A path of recreateFields that one side does not have.
    #[error("unable to get path {path} from {object}")]
    RecreatePath {
        /// The path as the policy has it.
        path: String,
        /// `Kind namespace/name` of the object, desired or live, that has no such field.
        object: String,
    },
}

/// A manifest as it will be written: apply-once paths taken from the live object, render hash set. While a step waits, the
/// marks of its dispatch stay as they are: they say what was dispatched.
///
/// # Errors
/// A path of an apply-once rule does not exist in the live object.
pub fn prepare(
    manifest: &Value,
    live: Option<&Value>,
    options: &Options<'_>,
) -> Result<Value, PlanError> {
    let mut out = manifest.clone();
    if let (Some(live), Some(paths)) =
        (live, options.policies.apply_once_paths(manifest, options.stage))
    {
        for path in paths {
            if path == "*" {
                out = live.clone();
                strip_server_fields(&mut out);
                continue;
            }
            let value = get_path(live, path).ok_or_else(|| PlanError::ApplyOncePath {
                app: options.owner.name.clone(),
                path: missing(live, path).to_owned(),
                object: describe(live),
            })?;
            set_path(&mut out, path, value.clone());
        }
    }
    // Marks of writes: what has them is a copy of a live object.
    for mark in [names::label::RENDER_HASH, names::label::OWNER_BUCKET] {
        if label(&out, mark).is_some() {
            crate::object::remove_metadata(&mut out, "labels", mark);
        }
    }
    let dispatched = live.filter(|_| options.stage == Stage::Wait);
    match dispatched.and_then(|live| label(live, names::label::RENDER_HASH)) {
        Some(hash) => set_label(&mut out, names::label::RENDER_HASH, hash),
        None => {
            let hash = render_hash(&out);
            set_label(&mut out, names::label::RENDER_HASH, &hash);
        }
    }
    Ok(out)
}

/// The value of the label `oam.dev/render-hash`.
#[must_use]
pub fn render_hash(manifest: &Value) -> String {
    vela_api::hash::render(manifest)
}

/// Decides what to write for a manifest that [`prepare`] made.
///
/// # Errors
/// The object is not ours to write, or a policy asks for the impossible.
pub fn plan(
    prepared: &Value,
    live: Option<&Value>,
    options: &Options<'_>,
) -> Result<Write, PlanError> {
    let read_only = options.policies.is_read_only(prepared);
    let Some(live) = live else {
        if read_only {
            return Err(PlanError::ReadOnlyAbsent {
                kind: kind(prepared).to_owned(),
                name: name(prepared).to_owned(),
            });
        }
        return Ok(Write::Create(created(prepared, None, options)));
    };
    if read_only {
        return Ok(Write::Skip);
    }
    let shared = options.policies.is_shared(prepared);
    let adopt = options.adopt_unowned
        || options.policies.takes_over(prepared)
        || release::is_same(live, prepared);
    match claim(live, options.owner, ClaimOptions { shared, adopt }) {
        Claim::Write => {}
        Claim::Share => return Ok(share(live, options.owner)),
        Claim::Refused(refusal) => return Err(refusal.into()),
    }
    let keeps = options.stage.repairs();
    let hands_off = |paths: &[String]| paths.iter().any(|path| path == "*");
    if keeps && options.policies.apply_once_paths(prepared, options.stage).is_some_and(hands_off) {
        return Ok(Write::Skip);
    }
    let rule = options.policies.update_rule(prepared);
    if let Some(rule) = rule {
        for path in &rule.recreate_fields {
            let missing = |object: &Value| PlanError::RecreatePath {
                path: path.clone(),
                object: describe(object),
            };
            let old = get_path(live, path).ok_or_else(|| missing(live))?;
            let new = get_path(prepared, path).ok_or_else(|| missing(prepared))?;
            if !same(old, new) {
                return Ok(Write::Recreate {
                    uid: str_at(live, &["metadata", "uid"]).to_owned(),
                    delete: !is_deleting(live),
                    object: created(prepared, Some(live), options),
                });
            }
        }
    }
    let is_core_service = api_version(prepared) == "v1" && kind(prepared) == "Service";
    let by_default = options.replace_by_default && !is_core_service;
    let replace = rule.and_then(|rule| rule.replace).unwrap_or(by_default);
    let mut modified = prepared.clone();
    secret::encode(&mut modified);
    keep_sharers(&mut modified, Some(live), options);
    if replace {
        // A PUT takes the server's defaults off again: what was written is there if the live object covers it.
        let same = keeps
            && covers(live, &without_hash(&modified))
            && (!last_applied::is_exempt(&modified) || has_same_content(live, &modified));
        return Ok(if same { Write::Skip } else { replacement(modified, live) });
    }
    Ok(patch(modified, live, options))
}

/// The hash of a manifest may be another one than that of the release that wrote it: that alone is no reason to write.
fn without_hash(object: &Value) -> Value {
    let mut object = object.clone();
    crate::object::remove_metadata(&mut object, "labels", names::label::RENDER_HASH);
    object
}

/// ConfigMaps and Secrets get no defaults: what is there more was added by somebody else.
fn has_same_content(live: &Value, manifest: &Value) -> bool {
    let section = |object: &Value, path: &str| object.pointer(path).cloned().unwrap_or_default();
    ["/data", "/binaryData"].iter().all(|path| {
        let (live, manifest) = (section(live, path), section(manifest, path));
        covers(&live, &manifest) && covers(&manifest, &live)
    })
}

/// Whether everything in `part` is in `whole` too; what is empty in `part` may be absent.
fn covers(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(key, part)| {
            whole.get(key).map_or_else(|| is_empty(part), |whole| covers(whole, part))
        }),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(w, p)| covers(w, p))
        }
        (_, Value::Null) => true,
        (whole, part) => same(whole, part),
    }
}

/// Whether a patch is about nothing but the render hash.
fn is_only_hash(patch: &Value) -> bool {
    let only = |value: &Value, key: &str| {
        value.as_object().filter(|map| map.len() == 1).and_then(|map| map.get(key)).cloned()
    };
    only(patch, "metadata")
        .and_then(|metadata| only(&metadata, "labels"))
        .is_some_and(|labels| only(&labels, names::label::RENDER_HASH).is_some())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Who shares an object is written into its manifest. Others stay in the list when the owner shares it no longer: it is
/// theirs once the owner leaves.
fn keep_sharers(manifest: &mut Value, live: Option<&Value>, options: &Options<'_>) {
    let live = live.unwrap_or(&Value::Null);
    if options.policies.is_shared(manifest) || !without_sharer(live, options.owner).is_empty() {
        let list = with_sharer(live, options.owner);
        set_annotation(manifest, names::annotation::SHARED_BY, &list);
    }
}

/// The object to POST.
fn created(prepared: &Value, live: Option<&Value>, options: &Options<'_>) -> Value {
    let mut object = prepared.clone();
    secret::encode(&mut object);
    keep_sharers(&mut object, live, options);
    if !last_applied::is_exempt(&object) {
        last_applied::embed(&mut object);
        set_annotation(&mut object, names::annotation::LAST_APPLIED_TIME, options.now);
    }
    object
}

fn share(live: &Value, owner: &Owner) -> Write {
    if sharers(live).any(|sharer| sharer == owner.sharer()) {
        return Write::Skip;
    }
    let mut annotations = Map::new();
    annotations.insert(names::annotation::SHARED_BY.to_owned(), json!(with_sharer(live, owner)));
    // The resourceVersion makes two Applications that adopt at the same moment see each other.
    let version = str_at(live, &["metadata", "resourceVersion"]);
    Write::Patch {
        kind: PatchKind::Merge,
        body: json!({"metadata": {"annotations": annotations, "resourceVersion": version}}),
    }
}

fn replacement(mut object: Value, live: &Value) -> Write {
    let more = last_applied::is_exempt(&object) && !has_same_content(live, &object);
    if !more && json_merge::is_empty(&json_merge::three_way(&Value::Null, &object, live)) {
        return Write::Skip;
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert(
            "resourceVersion".to_owned(),
            json!(str_at(live, &["metadata", "resourceVersion"])),
        );
    }
    Write::Replace(object)
}

fn patch(mut modified: Value, live: &Value, options: &Options<'_>) -> Write {
    let exempt = last_applied::is_exempt(&modified);
    let mut original = last_applied::original(live);
    if original.is_null() && exempt {
        original = last_applied::recorded(live, &modified, options.previous);
    }
    secret::encode(&mut original);
    let text = annotation(live, names::annotation::LAST_APPLIED_CONFIG);
    match text.filter(|_| options.stage == Stage::Wait) {
        Some(text) => set_annotation(&mut modified, names::annotation::LAST_APPLIED_CONFIG, text),
        None => last_applied::embed(&mut modified),
    }
    // Annotations about the writing itself come and go without being part of what was applied.
    if let Some(map) = original.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        map.remove(names::annotation::LAST_APPLIED_CONFIG);
        map.remove(names::annotation::LAST_APPLIED_TIME);
    }
    // A tracker records manifests as they were rendered, and this mark is never part of what is applied.
    if let Some(map) = original.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        map.remove(names::label::OWNER_BUCKET);
    }
    let ty = strategic::type_of(group_of(api_version(&modified)), kind(&modified));
    if ty.is_some() {
        quantity::spell_as(live, &mut modified);
    }
    let (kind, mut body) = match ty {
        Some(ty) => (PatchKind::Strategic, strategic::three_way(&original, &modified, live, ty)),
        None => (PatchKind::Merge, json_merge::three_way(&original, &modified, live)),
    };
    // Typed clients write `creationTimestamp: null`; the server keeps its own.
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
        if metadata.is_empty() {
            body.as_object_mut().map(|body| body.remove("metadata"));
        }
    }
    let keeps = options.stage.repairs();
    if json_merge::is_empty(&body) || (keeps && is_only_hash(&body)) {
        return Write::Skip;
    }
    let list = ["metadata", "annotations", names::annotation::SHARED_BY];
    if value_at(&body, &list).is_some()
        && let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut)
    {
        // Others may join or leave at the same moment.
        let version = str_at(live, &["metadata", "resourceVersion"]);
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
    Write::Patch { kind, body }
}

/// Whether the live object already is what a dispatch would write (the render hash says so).
#[must_use]
pub fn has_same_hash(prepared: &Value, live: &Value) -> bool {
    let hash = label(prepared, names::label::RENDER_HASH);
    hash.is_some() && hash == label(live, names::label::RENDER_HASH)
}

/// `Kind namespace/name`.
fn describe(object: &Value) -> String {
    format!("{} {}/{}", kind(object), namespace(object), name(object))
}

/// Takes off what only the server may set, so that a live object can serve as a manifest.
fn strip_server_fields(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    for field in
        ["resourceVersion", "uid", "generation", "creationTimestamp", "managedFields", "selfLink"]
    {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove(field);
        }
    }
    for key in [names::annotation::LAST_APPLIED_CONFIG, names::annotation::LAST_APPLIED_TIME] {
        if annotation(object, key).is_some() {
            crate::object::remove_metadata(object, "annotations", key);
        }
    }
}

/// One step of a field path.
enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// `spec.template.spec.containers[0].image`, `metadata.labels["a.b/c"]`.
fn segments(path: &str) -> Vec<Segment<'_>> {
    let mut out = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let Some((inside, after)) = inner.split_once(']') else { return out };
            out.push(match inside.parse() {
                Ok(index) => Segment::Index(index),
                Err(_) => Segment::Key(inside.trim_matches(|c| c == '"' || c == '\'')),
            });
            rest = after.strip_prefix('.').unwrap_or(after);
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        if !key.is_empty() {
            out.push(Segment::Key(key));
        }
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    out
}

fn get_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    segments(path).iter().try_fold(object, |value, segment| match segment {
        Segment::Key(key) => value.get(key),
        Segment::Index(index) => value.get(index),
    })
}

/// The part of a path down to the first field that is not there.
fn missing<'p>(object: &Value, path: &'p str) -> &'p str {
    path.match_indices(['.', '['])
        .map(|(end, _)| path.split_at(end).0)
        .find(|part| {
            part.matches('[').count() == part.matches(']').count()
                && get_path(object, part).is_none()
        })
        .unwrap_or(path)
}

fn set_path(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for segment in segments(path) {
        let next = match segment {
            Segment::Key(key) => {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                at.as_object_mut().map(|map| map.entry(key).or_insert(Value::Null))
            }
            Segment::Index(index) => at.as_array_mut().and_then(|list| list.get_mut(index)),
        };
        let Some(next) = next else { return };
        at = next;
    }
    *at = value;
}

#[cfg(test)]
mod tests;
