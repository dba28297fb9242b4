//! Writes: each is sent as a dry run, and its result is remembered as the object's new state.

use http::{HeaderValue, Method, header, request};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::BoxError;
use vela_apply::object::{api_version, group_of, kind};
use vela_apply::{json_merge, strategic};

use super::answer::Answer;
use super::records::{Records, asked_version, has_finalizers, is_same};
use super::resource_path::ResourcePath;
use super::{Overlay, is_dry};

/// A dry run that the API server rejects for the kind of write it is.
const REFUSED: [u16; 5] = [400, 403, 405, 413, 422];

impl Overlay {
    pub(super) async fn create(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
        mut given: Value,
    ) -> Result<Answer, BoxError> {
        let is_dry = is_dry(&parts.uri);
        name_generated(&mut given, &mut self.records.lock());
        let name = given.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let object = place.object(name);
        let known = self.records.lock().objects.get(&object).cloned();
        if known.as_ref().is_some_and(|known| known.after.is_some()) {
            let text = format!("{} {name:?} already exists", place.plural);
            return Ok(Answer::failed(409, "AlreadyExists", &text));
        }
        let is_record = self.is_record(&object, &given);
        // The predecessor is still there for the API server, which would refuse the name.
        let was_removed = known.as_ref().is_some_and(|known| known.before.is_some());
        let (after, unchecked) = if is_record || was_removed {
            (fresh(given), !is_record)
        } else {
            let answer = self.send(parts, &place.path(), &given).await?;
            if answer.is_ok() {
                (answer.body, false)
            } else if answer.code == 404 && self.is_namespace_planned(&place.namespace) {
                (fresh(given), true)
            } else {
                if REFUSED.contains(&answer.code) {
                    self.records.lock().refuse(&object, &given, answer.message());
                }
                return Ok(answer);
            }
        };
        if is_dry {
            return Ok(Answer { code: 201, body: after });
        }
        let before = known.and_then(|known| known.before);
        let mut records = self.records.lock();
        let body = records.put(&object, before.as_ref(), after, (is_record, unchecked));
        Ok(Answer { code: 201, body })
    }

    fn is_namespace_planned(&self, namespace: &str) -> bool {
        let place = ResourcePath::of(&format!("/api/v1/namespaces/{namespace}"));
        let records = self.records.lock();
        let known = place.and_then(|place| records.objects.get(&place));
        !namespace.is_empty() && known.is_some_and(|known| known.after.is_some())
    }

    pub(super) async fn change(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
        given: &Value,
    ) -> Result<Answer, BoxError> {
        let object = place.object(&place.name);
        let (present, before) = match self.present(parts, &object).await? {
            Ok(found) => found,
            Err(answer) => return Ok(answer),
        };
        let is_ours = self.records.lock().objects.contains_key(&object);
        let asked = asked_version(given);
        if !asked.is_empty() && asked != asked_version(&present) {
            let text = format!("{} {:?} has been modified", place.plural, place.name);
            return Ok(Answer::failed(409, "Conflict", &text));
        }
        let is_record = self.is_record(&object, &present);
        let answer = if is_record {
            match patched(parts, &place.part, &present, given) {
                Some(body) => Answer::ok(body),
                None => return Ok(Answer::failed(415, "UnsupportedMediaType", "unknown patch")),
            }
        } else if is_ours {
            // The API server does not know what was written before: it gets the whole of it.
            let Some(whole) = patched(parts, &place.part, &present, given) else {
                return Ok(Answer::failed(415, "UnsupportedMediaType", "unknown patch"));
            };
            self.check_whole(parts, &object, before.as_ref(), whole).await?
        } else {
            self.send(parts, &place.path(), given).await?
        };
        if !answer.is_ok() {
            if REFUSED.contains(&answer.code) {
                self.records.lock().refuse(&object, &present, answer.message());
            }
            return Ok(answer);
        }
        if is_same(&answer.body, &present) {
            return Ok(Answer::ok(present));
        }
        if is_dry(&parts.uri) {
            return Ok(answer);
        }
        let mut records = self.records.lock();
        if is_record && is_deleted(&answer.body) && !has_finalizers(&answer.body) {
            records.remove(&object, before.as_ref(), is_record);
            return Ok(answer);
        }
        let body = records.put(&object, before.as_ref(), answer.body, (is_record, false));
        Ok(Answer::ok(body))
    }

    /// Has an object checked that was written before: as a whole, instead of the one that the API server has, or as a new one.
    async fn check_whole(
        &self,
        parts: &request::Parts,
        object: &ResourcePath,
        before: Option<&Value>,
        mut whole: Value,
    ) -> Result<Answer, BoxError> {
        let mut whole_parts = parts.clone();
        whole_parts
            .headers
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let real = before.map(asked_version).unwrap_or_default().to_owned();
        if let Some(metadata) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            if real.is_empty() {
                for key in ["resourceVersion", "uid", "creationTimestamp"] {
                    metadata.remove(key);
                }
            } else {
                metadata.insert("resourceVersion".to_owned(), real.clone().into());
            }
        }
        let unchecked =
            self.records.lock().objects.get(object).is_some_and(|known| known.unchecked);
        if unchecked {
            return Ok(Answer::ok(whole));
        }
        let path = if real.is_empty() {
            whole_parts.method = Method::POST;
            ResourcePath { name: String::new(), ..object.clone() }.path()
        } else {
            whole_parts.method = Method::PUT;
            object.path()
        };
        self.send(&whole_parts, &path, &whole).await
    }

    pub(super) async fn delete(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
        options: &Value,
    ) -> Result<Answer, BoxError> {
        let object = place.object(&place.name);
        let (present, before) = match self.present(parts, &object).await? {
            Ok(found) => found,
            Err(answer) => return Ok(answer),
        };
        for (precondition, pointer) in
            [("uid", "/metadata/uid"), ("resourceVersion", "/metadata/resourceVersion")]
        {
            let asked = options.pointer(&format!("/preconditions/{precondition}"));
            if asked.is_some() && asked != present.pointer(pointer) {
                return Ok(Answer::failed(409, "Conflict", "another object has this name"));
            }
        }
        let is_dry = is_dry(&parts.uri) || options.get("dryRun").is_some();
        let is_record = self.is_record(&object, &present);
        if !is_record && before.is_some() {
            let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"],
                "propagationPolicy": options.get("propagationPolicy")});
            let answer = self.send(parts, &object.path(), &body).await?;
            if !answer.is_ok() {
                if REFUSED.contains(&answer.code) {
                    self.records.lock().refuse(&object, &present, answer.message());
                }
                return Ok(answer);
            }
        }
        let uid = present.pointer("/metadata/uid").cloned().unwrap_or_default();
        if !is_dry {
            let mut records = self.records.lock();
            if is_record && has_finalizers(&present) {
                let mut held = present;
                if let Some(metadata) = held.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert(
                        "deletionTimestamp".to_owned(),
                        Timestamp::now().to_string().into(),
                    );
                }
                let held = records.put(&object, before.as_ref(), held, (true, false));
                return Ok(Answer::ok(held));
            }
            records.remove(&object, before.as_ref(), is_record);
        }
        // It is taken for gone at once: what holds it up in the cluster changes nothing about what is planned.
        Ok(Answer::ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success",
            "details": {"name": object.name, "kind": object.plural, "uid": uid}})))
    }

    pub(super) async fn delete_all(
        &self,
        parts: &request::Parts,
        place: &ResourcePath,
    ) -> Result<Answer, BoxError> {
        let mut list = parts.clone();
        list.method = Method::GET;
        list.headers.remove(header::CONTENT_TYPE);
        let response = Box::pin(self.read(&list, place)).await?;
        let listed = Self::read_answer(response).await?;
        if !listed.is_ok() {
            return Ok(listed);
        }
        let items = listed.body.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        for item in items {
            let text =
                |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let object = ResourcePath {
                namespace: text("/metadata/namespace").to_owned(),
                ..place.object(text("/metadata/name"))
            };
            let answer = self.delete(parts, &object, &Value::Null).await?;
            if !answer.is_ok() && answer.code != 404 {
                return Ok(answer);
            }
        }
        Ok(Answer::ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})))
    }
}

fn is_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
}

/// A record as the API server would create it, or an object that it could not check.
fn fresh(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let uid = format!("planned-{:016x}", fastrand::u64(..));
        metadata.entry("uid").or_insert_with(|| uid.into());
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        metadata.entry("creationTimestamp").or_insert_with(|| now.to_string().into());
        metadata.entry("generation").or_insert_with(|| 1.into());
    }
    object
}

/// A name for an object that asks for one.
fn name_generated(object: &mut Value, records: &mut Records) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if metadata.get("name").is_none()
        && let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
    {
        let name = format!("{prefix}{}", records.next_version());
        metadata.insert("name".to_owned(), name.into());
    }
}

/// An object after a PUT or PATCH; `None` if the form of the patch is unknown.
fn patched(parts: &request::Parts, part: &str, present: &Value, given: &Value) -> Option<Value> {
    let media = parts.headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    let mut new = present.clone();
    match (&parts.method, media.unwrap_or_default()) {
        (&Method::PUT, _) => new = given.clone(),
        (_, "application/merge-patch+json") => json_merge::apply(&mut new, given),
        (_, "application/strategic-merge-patch+json") => {
            let type_ = strategic::type_of(group_of(api_version(present)), kind(present))?;
            strategic::apply(&mut new, given, type_);
        }
        _ => return None,
    }
    // A subresource changes only what it is, and the object everything but that.
    let status = |object: &Value| object.get("status").cloned();
    let (mut whole, status) = match part {
        "status" => (present.clone(), status(&new)),
        _ if kind(present) == vela_api::Application::KIND => (new, status(present)),
        _ => return Some(new),
    };
    if let (Some(whole), Some(status)) = (whole.as_object_mut(), status) {
        whole.insert("status".to_owned(), status);
    }
    Some(whole)
}
