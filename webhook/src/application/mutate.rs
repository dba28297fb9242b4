//! The mutating rules: identity, pool, shard, step names.
//!
//! Patches touch exactly the fields that change. Upstream serialises its whole Go type and thereby
//! adds empty fields and would drop unknown ones.

use std::borrow::Cow;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use vela_api::names::{annotation, label};
use vela_seal::{Stamp, Subject};

use super::model::{self, App};
use super::subject::{is_kind, parse};
use crate::admit::Admit;
use crate::decision::Decision;
use crate::field::{Field, Problem, Reason, Rule};
use crate::messages;
use crate::review::Request;
use crate::stamp;
use crate::world::{Access, World};

/// The shard of Applications that no label gives to another one.
const DEFAULT_SHARD: &str = "master";

/// The mutating rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutate;

impl Admit for Mutate {
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision {
        let object = match parse(request.object.as_deref()) {
            Ok(object) => object,
            Err(error) => return Decision::errored(400, error.to_string()),
        };
        if let Err(error) = is_kind(&object, "Application") {
            return Decision::errored(400, error.to_string());
        }
        let (app, problems) = model::read(&object);
        if !problems.is_empty() {
            return Decision::of(problems, Vec::new(), &request.uid);
        }
        let old = request
            .old_object
            .as_deref()
            .and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok())
            .filter(Value::is_object);
        let mut change = Change::new(&object);
        let mut warnings = Vec::new();
        if world.settings.gates.authenticate_application
            && let Some(named) = named(request, &object)
        {
            change.fields.push(named);
        }
        change.fields.extend(step_names(&object, &["spec", "workflow"]));
        // What is sealed is what will be stored.
        let stored = match change.stored() {
            Ok(stored) => stored,
            Err(error) => return Decision::errored(400, error.to_string()),
        };
        let edit = Edit { app: &app, object: &stored, old: old.as_ref(), request, world };
        if let Err(problem) = identity(&edit, &mut change, &mut warnings) {
            return Decision::of(vec![problem], warnings, &request.uid);
        }
        pool(&edit, &mut change);
        choice(&edit, &mut change, &mut warnings);
        shard(old.as_ref(), request, world, &mut change, &mut warnings);
        Decision::patched(change.operations()).warn(warnings)
    }
}

/// Annotations and labels are collected and written at the end: the maps may have to be made.
struct Change<'a> {
    object: &'a Value,
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    fields: Vec<PatchOperation>,
}

impl<'a> Change<'a> {
    fn new(object: &'a Value) -> Self {
        let map = |name: &str| {
            object
                .pointer("/metadata")
                .and_then(|meta| meta.get(name))
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default()
        };
        Self { object, annotations: map("annotations"), labels: map("labels"), fields: Vec::new() }
    }

    /// The object with the fields that are set.
    fn stored(&self) -> Result<Cow<'a, Value>, json_patch::PatchError> {
        if self.fields.is_empty() {
            return Ok(Cow::Borrowed(self.object));
        }
        let mut stored = self.object.clone();
        let fields = self.fields.as_slice();
        json_patch::patch(&mut stored, fields)?;
        Ok(Cow::Owned(stored))
    }

    fn operations(self) -> Vec<PatchOperation> {
        let mut operations = Vec::new();
        map_operations(self.object, "annotations", &self.annotations, &mut operations);
        map_operations(self.object, "labels", &self.labels, &mut operations);
        operations.extend(self.fields);
        operations
    }
}

pub(crate) fn map_operations(
    object: &Value,
    name: &str,
    wanted: &Map<String, Value>,
    operations: &mut Vec<PatchOperation>,
) {
    let empty = Map::new();
    let current =
        object.pointer("/metadata").and_then(|meta| meta.get(name)).and_then(Value::as_object);
    if current.unwrap_or(&empty) == wanted {
        return;
    }
    let Some(current) = current else {
        let path = PointerBuf::from_tokens(["metadata", name]);
        let value = Value::Object(wanted.clone());
        operations.push(PatchOperation::Add(AddOperation { path, value }));
        return;
    };
    for key in current.keys().filter(|key| !wanted.contains_key(*key)) {
        let path = PointerBuf::from_tokens(["metadata", name, key.as_str()]);
        operations.push(PatchOperation::Remove(RemoveOperation { path }));
    }
    for (key, value) in wanted {
        let path = PointerBuf::from_tokens(["metadata", name, key.as_str()]);
        let value = value.clone();
        operations.push(match current.get(key) {
            Some(same) if *same == value => continue,
            Some(_) => PatchOperation::Replace(ReplaceOperation { path, value }),
            None => PatchOperation::Add(AddOperation { path, value }),
        });
    }
}

/// What is decided about: an Application as it will be stored, and as it is.
struct Edit<'a> {
    app: &'a App<'a>,
    object: &'a Value,
    old: Option<&'a Value>,
    request: &'a Request,
    world: &'a World<'a>,
}

impl Edit<'_> {
    fn old_annotation(&self, key: &str) -> Option<&Value> {
        self.old?.pointer("/metadata/annotations")?.get(key)
    }

    fn old_label(&self, key: &str) -> Option<&Value> {
        self.old?.pointer("/metadata/labels")?.get(key)
    }

    fn old_text(&self, key: &str) -> &str {
        self.old_annotation(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether what is deployed is decided by somebody else: the spec, or which revision and which definitions count.
    fn decides(&self) -> bool {
        let same = |key: &str| self.app.annotation(key).unwrap_or_default() == self.old_text(key);
        !self.old.is_some_and(|old| old.get("spec") == self.object.get("spec"))
            || !same(annotation::PUBLISH_VERSION)
            || !same(annotation::AUTO_UPDATE)
    }

    fn is_administrator(&self) -> bool {
        stamp::is_administrator(&self.request.user_info, self.world)
    }

    fn author(&self, warnings: &mut Vec<String>) -> Stamp {
        let (stamp, warning) = stamp::author(&self.request.user_info, self.world);
        warnings.extend(warning);
        stamp
    }

    /// What of it is sealed. The error is a spec that the controller could not read either.
    fn subject(&self) -> Result<Subject<'_>, Problem> {
        let content = super::subject::content(self.object).map_err(|error| {
            let detail = messages::unreadable(&error);
            Problem::new(Rule::Shape, Reason::Invalid, Field::new("spec"), detail)
        })?;
        let name = self.object.pointer("/metadata/name").and_then(Value::as_str);
        Ok(Subject {
            kind: "Application",
            namespace: super::subject::namespace(self.request, self.object),
            name: name.unwrap_or_default(),
            content,
        })
    }

    /// The stamp that the object carries, if it is valid.
    fn carried(&self, subject: &Subject<'_>) -> Option<Stamp> {
        let keys = self.world.settings.keys.get()?;
        Stamp::verified(|key| self.app.annotation(key).unwrap_or_default(), &keys, subject)
    }
}

/// Identity annotations are the webhook's alone.
///
/// With authentication on, whoever creates an Application or changes what it deploys is stamped; an edit of other metadata
/// keeps the stamp of the author. With authentication off, what a user writes is taken out, unless he is an administrator, and
/// what the object has had all along stays.
fn identity(
    edit: &Edit<'_>,
    change: &mut Change<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Problem> {
    let settings = edit.world.settings;
    if settings.exempt_users.contains(&edit.request.user_info.username) {
        return Ok(());
    }
    let wanted = if settings.gates.authenticate_application {
        service_account(edit)?;
        stamped(edit, change, warnings)?
    } else {
        if edit.old.is_none() {
            warnings.push(messages::AUTHENTICATION_OFF.to_owned());
        }
        let names = [annotation::USERNAME, annotation::GROUP];
        let writes =
            names.iter().any(|key| change.annotations.get(*key) != edit.old_annotation(key));
        Some(if writes && edit.is_administrator() { confined(edit, change) } else { kept(edit) })
    };
    for (key, value) in wanted.into_iter().flatten() {
        let is_users =
            change.annotations.get(key).is_some_and(|v| edit.old_annotation(key) != Some(v));
        match value {
            Some(value) => {
                change.annotations.insert(key.to_owned(), value);
            }
            None => {
                change.annotations.remove(key);
                if is_users {
                    warnings.push(messages::identity_stripped(key));
                }
            }
        }
    }
    Ok(())
}

/// Which replicas work on an Application is the fleet's to write: an edit by others leaves it as it was. Two replicas would write
/// for it otherwise.
fn pool(edit: &Edit<'_>, change: &mut Change<'_>) {
    if edit.world.settings.exempt_users.contains(&edit.request.user_info.username) {
        return;
    }
    match edit.old_annotation(annotation::SHARD) {
        Some(value) => drop(change.annotations.insert(annotation::SHARD.to_owned(), value.clone())),
        None => drop(change.annotations.remove(annotation::SHARD)),
    }
}

/// The shard that a label names. Without one it is the default one.
fn shard_of(label: Option<&Value>) -> &str {
    label.and_then(Value::as_str).filter(|shard| !shard.is_empty()).unwrap_or(DEFAULT_SHARD)
}

/// Where shards are restricted, whoever may not use one leaves the label as it was. The right is one of the whole cluster: every
/// right in a namespace is not enough.
fn choice(edit: &Edit<'_>, change: &mut Change<'_>, warnings: &mut Vec<String>) {
    let (settings, user) = (edit.world.settings, &edit.request.user_info);
    if !settings.restrict_shards || settings.exempt_users.contains(&user.username) {
        return;
    }
    let key = label::SCHEDULED_SHARD_ID;
    let old = edit.old_label(key);
    let chosen = shard_of(change.labels.get(key)).to_owned();
    if chosen == shard_of(old) {
        return;
    }
    let access = Access {
        verb: "use",
        group: vela_api::GROUP.to_owned(),
        version: "v1beta1".to_owned(),
        resource: "shards".to_owned(),
        namespace: String::new(),
        name: chosen.clone(),
    };
    match edit.world.may(&user.username, &user.groups, access) {
        Ok(true) => return,
        Ok(false) => warnings.push(messages::shard_kept(&user.username, &chosen)),
        Err(error) => warnings.push(messages::shard_kept_unasked(error)),
    }
    match old {
        Some(value) => drop(change.labels.insert(key.to_owned(), value.clone())),
        None => drop(change.labels.remove(key)),
    }
}

/// With authentication nobody acts as an account of the Application's namespace. One that is still there from before hinders no
/// edit of metadata.
fn service_account(edit: &Edit<'_>) -> Result<(), Problem> {
    let account = edit.app.annotation(annotation::SERVICE_ACCOUNT);
    let is_kept = account == Some(edit.old_text(annotation::SERVICE_ACCOUNT)) && !edit.decides();
    if account.is_none() || is_kept {
        return Ok(());
    }
    Err(Problem::new(
        Rule::Identity,
        Reason::Forbidden,
        Field::new("metadata.annotations").key(annotation::SERVICE_ACCOUNT),
        messages::SERVICE_ACCOUNT,
    ))
}

/// The values of the identity annotations; `None` for one that must not be there.
type Wanted = [(&'static str, Option<Value>); 4];

fn kept(edit: &Edit<'_>) -> Wanted {
    annotation::IDENTITY.map(|key| (key, edit.old_annotation(key).cloned()))
}

/// The names that an administrator wrote with authentication off. A stamp that was there before belongs to the author of a time
/// with authentication, not to them.
fn confined(edit: &Edit<'_>, change: &Change<'_>) -> Wanted {
    let stamp = change.annotations.get(annotation::STAMP);
    let is_left_over = stamp == edit.old_annotation(annotation::STAMP);
    annotation::IDENTITY.map(|key| {
        let is_name = [annotation::USERNAME, annotation::GROUP].contains(&key);
        let written = change.annotations.get(key).filter(|_| is_name || !is_left_over);
        (key, written.cloned())
    })
}

/// The stamp with authentication on. Nothing means that the annotations are right as they are.
fn stamped(
    edit: &Edit<'_>,
    change: &Change<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<Wanted>, Problem> {
    let stamp = if edit.old.is_none() {
        let subject = edit.subject()?;
        // An object that an administrator restores keeps its author. Anybody else could bring back what an administrator
        // took away.
        if edit.carried(&subject).is_some() && edit.is_administrator() {
            return Ok(None);
        }
        edit.author(warnings)
    } else if edit.decides() {
        edit.author(warnings)
    } else {
        let written = change.annotations.get(annotation::STAMP);
        let wish = written.filter(|value| edit.old_annotation(annotation::STAMP) != Some(*value));
        match wish.and_then(Value::as_str) {
            Some(stamp::RENEW) => edit.author(warnings),
            Some(stamp::CONFIRM) if edit.is_administrator() => {
                let subject = edit.subject()?;
                let keys = edit.world.settings.keys.get();
                let old = |key: &str| edit.old_text(key);
                let valid = keys.and_then(|keys| Stamp::verified(old, &keys, &subject));
                valid.unwrap_or_else(|| stamp::confirmed(Stamp::read(old), edit.world))
            }
            Some(stamp::CONFIRM) => {
                warnings.push(messages::NOT_CONFIRMED.to_owned());
                return Ok(Some(kept(edit)));
            }
            _ => return Ok(Some(kept(edit))),
        }
    };
    let annotations = stamp::annotations(edit.world.settings, &stamp, &edit.subject()?)?;
    Ok(Some(annotations.map(|(key, value)| (key, value.map(Value::String)))))
}

/// A stamp is for a name, which the API server would choose too late: it is chosen here.
pub(crate) fn named(request: &Request, object: &Value) -> Option<PatchOperation> {
    let value = name_for(request, object)?.into();
    let path = PointerBuf::from_tokens(["metadata", "name"]);
    Some(PatchOperation::Add(AddOperation { path, value }))
}

/// A name from the id of the request, which is random.
fn name_for(request: &Request, object: &Value) -> Option<String> {
    /// As the API server's own: no vowels, so that no words come out.
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    /// Of 63, without the letters that come behind.
    const MAX_NAME: usize = 58;
    let text =
        |key: &str| object.pointer("/metadata")?.get(key)?.as_str().filter(|text| !text.is_empty());
    let prefix = text("generateName").filter(|_| text("name").is_none())?;
    let prefix: String = prefix.chars().take(MAX_NAME).collect();
    let letter =
        |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len()).map(|l| char::from(*l));
    let chosen = Sha256::digest(&request.uid);
    Some(prefix + &chosen.iter().take(5).filter_map(letter).collect::<String>())
}

/// A new Application is given to a shard; one that has a shard keeps it.
fn shard(
    old: Option<&Value>,
    request: &Request,
    world: &World<'_>,
    change: &mut Change<'_>,
    warnings: &mut Vec<String>,
) {
    let settings = world.settings;
    if !settings.sharding || settings.gates.disable_webhook_auto_schedule {
        return;
    }
    let key = label::SCHEDULED_SHARD_ID;
    if change.labels.contains_key(key) {
        return;
    }
    let had = old
        .and_then(|old| old.pointer("/metadata/labels"))
        .and_then(|labels| labels.get(key))
        .cloned();
    let shard = had.or_else(|| {
        let shards = world.shards();
        // spread by name, so that a dry run and the real one agree
        let name = format!("{}/{}", request.namespace, request.name);
        let sum = name.bytes().fold(0_usize, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into()));
        let index = sum.checked_rem(shards.len())?;
        shards.get(index).map(|shard| Value::String(shard.clone()))
    });
    match shard {
        Some(shard) => drop(change.labels.insert(key.to_owned(), shard)),
        None => warnings.push(messages::NO_SHARD.to_owned()),
    }
}

/// Steps without a name are numbered; `at`: the path of what has them.
pub(crate) fn step_names(object: &Value, at: &[&str]) -> Vec<PatchOperation> {
    let mut operations = Vec::new();
    let holder = at.iter().try_fold(object, |object, key| object.get(key));
    let steps = holder.and_then(|holder| holder.get("steps")).and_then(Value::as_array);
    for (i, step) in steps.into_iter().flatten().enumerate() {
        let index = i.to_string();
        let place = [at, &["steps", &index]].concat();
        operations.extend(name(step, &place, format!("step-{i}")));
        let sub_steps = step.get("subSteps").and_then(Value::as_array);
        for (j, sub) in sub_steps.into_iter().flatten().enumerate() {
            let index = j.to_string();
            let place = [place.as_slice(), &["subSteps", &index]].concat();
            operations.extend(name(sub, &place, format!("step-{i}-{j}")));
        }
    }
    operations
}

/// A step, or none, as an object of this path.
fn name(step: &Value, path: &[&str], name: String) -> Option<PatchOperation> {
    if step.is_null() {
        // an element that is null is an empty step, which has no field for a name yet
        let path = PointerBuf::from_tokens(path.iter().copied());
        let value = serde_json::json!({ "name": name });
        return Some(PatchOperation::Replace(ReplaceOperation { path, value }));
    }
    let current = step.as_object()?.get("name");
    if current.and_then(Value::as_str).is_some_and(|name| !name.is_empty()) {
        return None;
    }
    let path = PointerBuf::from_tokens(path.iter().copied().chain(["name"]));
    let value = Value::String(name);
    Some(match current {
        None => PatchOperation::Add(AddOperation { path, value }),
        Some(_) => PatchOperation::Replace(ReplaceOperation { path, value }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Settings;
    use crate::engine::{Engine, endpoints};
    use crate::snapshot::Snapshot;
    use crate::world::{Fact, Need};

    const MUTATE: &str = "/mutating-core-oam-dev-v1beta1-applications";

    fn app(shard: Option<&str>) -> Value {
        let labels = shard.map(|shard| json!({label::SCHEDULED_SHARD_ID: shard}));
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "a", "namespace": "n", "labels": labels},
            "spec": {"components": []}})
    }

    /// What becomes of the label when a user writes it, what he is warned of, and which rights were asked for.
    fn written(
        settings: &Settings,
        user: &str,
        (old, new): (Option<Option<&str>>, Option<&str>),
    ) -> (Option<String>, Vec<String>, Vec<String>) {
        let mut stored = app(new);
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "namespace": "n", "name": "a",
                "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
                "userInfo": {"username": user, "groups": ["g"]},
                "object": stored, "oldObject": old.map(app),
            },
        });
        let mut asked = Vec::new();
        let know = |need: &Need| match need {
            Need::Permission { user, groups, access } if access.resource == "shards" => {
                assert_eq!(
                    (access.verb, &*access.group, &*access.namespace),
                    ("use", "core.oam.dev", "")
                );
                assert_eq!(groups, &["g"]);
                asked.push(access.name.clone());
                match &**user {
                    "away" => Fact::Failed("no answer".to_owned()),
                    user => Fact::Allowed(format!("uses-{}", access.name) == user),
                }
            }
            Need::Permission { .. } => Fact::Allowed(false),
            _ => Fact::Object(None),
        };
        let endpoint = endpoints().find(|endpoint| endpoint.path == MUTATE).unwrap();
        let engine = Engine::new(settings.clone(), true);
        let body = review.to_string();
        let snapshot = Snapshot::default();
        let json = Some("application/json");
        let (_, decision) = engine.review(endpoint, json, body.as_bytes(), &snapshot, know);
        assert!(decision.allowed, "{}", decision.message);
        if let Some(patch) = &decision.patch {
            json_patch::patch(&mut stored, patch).unwrap();
        }
        let label =
            stored.pointer("/metadata/labels").and_then(|it| it.get(label::SCHEDULED_SHARD_ID));
        // One that authentication is off comes with every new Application.
        let is_about_it = |warning: &String| warning.contains(label::SCHEDULED_SHARD_ID);
        let warnings = decision.warnings.into_iter().filter(is_about_it).collect();
        (label.and_then(Value::as_str).map(str::to_owned), warnings, asked)
    }

    #[test]
    fn a_shard_is_chosen_by_who_may_use_it_where_that_is_restricted() {
        let free = Settings::default();
        let (label, warnings, asked) = written(&free, "anybody", (Some(None), Some("gold")));
        assert_eq!((label.as_deref(), warnings.len(), asked.len()), (Some("gold"), 0, 0));
        let exempt_users = vec!["controller".to_owned()];
        let strict = Settings { restrict_shards: true, exempt_users, ..Settings::default() };
        // The user, the label before and as written, the label that is stored, the right that was asked for.
        type Case = (
            &'static str,
            Option<Option<&'static str>>,
            Option<&'static str>,
            Option<&'static str>,
            &'static str,
        );
        let cases: [Case; 12] = [
            ("dev", None, None, None, ""),
            ("dev", None, Some("gold"), None, "gold"),
            ("uses-gold", None, Some("gold"), Some("gold"), "gold"),
            ("dev", Some(None), Some("gold"), None, "gold"),
            ("uses-gold", Some(None), Some("gold"), Some("gold"), "gold"),
            ("dev", Some(Some("gold")), Some("gold"), Some("gold"), ""),
            ("dev", Some(Some("gold")), Some("silver"), Some("gold"), "silver"),
            ("uses-gold", Some(Some("gold")), None, Some("gold"), "master"),
            ("uses-master", Some(Some("gold")), None, None, "master"),
            ("uses-master", Some(Some("gold")), Some("master"), Some("master"), "master"),
            ("dev", Some(None), Some("master"), Some("master"), ""),
            ("controller", Some(None), Some("gold"), Some("gold"), ""),
        ];
        for (user, old, new, wanted, right) in cases {
            let (label, warnings, mut asked) = written(&strict, user, (old, new));
            asked.dedup();
            assert_eq!(label.as_deref(), wanted, "{user}: {old:?} {new:?}");
            assert_eq!(asked.concat(), right, "{user}: {old:?} {new:?}");
            assert_eq!(warnings.len(), usize::from(wanted != new), "{user}: {warnings:?}");
        }
        let (label, warnings, _) = written(&strict, "away", (Some(None), Some("gold")));
        assert_eq!(label, None, "without an answer nobody has the right");
        assert!(warnings[0].contains("no answer"), "{warnings:?}");
    }
}
