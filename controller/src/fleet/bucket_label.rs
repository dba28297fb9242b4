//! The label with the bucket of the Application on each of its revisions and trackers (`--shard-label-records`): by it the API server
//! sends a replica only the records that the replica keeps.
//!
//! The hash decides who works on an Application, the label only selects: a record without the label is sent to everybody, one with the
//! wrong label is not sent to its owner, unless that keeps the other bucket, too (then `wrong_labels` has it corrected). To its owner it
//! seems deleted, so the owner reads the records of the Application from the API server before the next write for it
//! (`Context::read_again`), and corrects the label of what it finds.

use std::fmt::Debug;

use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::warn;
use vela_api::names::label;
use vela_apply::plan::PatchKind;
use vela_cluster::{AllBut, ApiError, Identity, Key, ObjectClient, RawResponse, Target, Whose};
use vela_shard::{Buckets, bucket_of};

use crate::application::facts;
use crate::context::{Context, Settings};

/// A bucket in labels: two hex digits.
pub(super) fn digits(bucket: u8) -> String {
    format!("{bucket:02x}")
}

/// The value of the label.
fn value(app: &Key) -> String {
    digits(bucket_of(&app.namespace, &app.name))
}

/// The label of new records of an Application, if records are labelled.
pub(crate) fn of_new(settings: &Settings, app: &Key) -> Option<String> {
    settings.label_records.then(|| value(app))
}

/// What selects the records of some buckets, and those that have no label yet; `None`: these are all.
pub(super) fn selector(buckets: Buckets) -> Option<AllBut> {
    selector_of(label::BUCKET, buckets)
}

/// The same by another label of that form.
pub(super) fn selector_of(key: &'static str, buckets: Buckets) -> Option<AllBut> {
    let others = Buckets::ALL.without(buckets);
    if others.is_empty() {
        return None;
    }
    Some(AllBut::new(key, others.iter().map(digits).collect()))
}

/// Whether a record has the label of its Application.
pub(crate) fn is_right(metadata: &ObjectMeta, app: &Key) -> bool {
    facts::label(metadata, label::BUCKET) == value(app)
}

/// Gives the version of a record that was read the label of its Application.
///
/// # Errors
/// The API server's answer: somebody else may have written it in the meantime.
pub(crate) async fn write(
    io: &ObjectClient,
    kind: &str,
    metadata: &ObjectMeta,
    app: &Key,
) -> Result<RawResponse, ApiError> {
    let target = Target {
        api_version: vela_api::V1BETA1,
        kind,
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        name: metadata.name.as_deref().unwrap_or_default(),
    };
    let body = json!({"metadata": {
        "resourceVersion": metadata.resource_version,
        "labels": {label::BUCKET: value(app)},
    }});
    io.patch(&target, "", (PatchKind::Merge, &body), false, &Identity::default()).await
}

/// A record as it is once it has the label of its Application, if records are labelled. That it cannot be written is logged: the
/// record is right but for that.
pub(crate) async fn corrected<K>(context: &Context, record: K, whose: Whose) -> K
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Debug,
{
    if !context.settings.label_records {
        return record;
    }
    let metadata = record.meta();
    let Some(app) = whose.of(metadata).filter(|app| !is_right(metadata, app)) else {
        return record;
    };
    let written = write(&context.io, &K::kind(&()), metadata, &app).await;
    match written.and_then(|answer| answer.read()) {
        Ok(written) => written,
        // Somebody else wrote it: that version is sent.
        Err(error) if error.is_conflict() => record,
        Err(error) => {
            let name = metadata.name.as_deref().unwrap_or_default();
            warn!(%error, app = %app, record = name, "the label of the bucket could not be written");
            record
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_names_all_other_buckets() {
        assert_eq!(selector(Buckets::ALL), None);
        let all_but = |out: &[u8]| Buckets::ALL.without(out.iter().copied().collect());
        let text = |buckets| selector(buckets).unwrap().text();
        assert_eq!(
            text(all_but(&[0x3f, 0, 0xa0])),
            "controller.core.oam.dev/bucket notin (00,3f,a0)"
        );
        // A selector of nearly all of them is far below the limits of a request line.
        assert!(text(all_but(&[1])).len() < text(Buckets::default()).len());
        assert!(text(Buckets::default()).len() < 1_000);
    }

    #[test]
    fn the_label_is_the_bucket_of_the_application() {
        let app = Key::new("shop", "front");
        // printf shop/front | sha256sum | cut -c1-2
        let is_right = |labels: serde_json::Value| {
            let metadata = serde_json::from_value(json!({"labels": labels})).unwrap();
            is_right(&metadata, &app)
        };
        assert!(is_right(json!({label::BUCKET: value(&app)})));
        assert!(!is_right(json!({label::BUCKET: "zz"})));
        assert!(!is_right(json!({})));
        assert_eq!(value(&app), "0c");
    }
}
