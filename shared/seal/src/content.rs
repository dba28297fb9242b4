//! The sealed content of an object: all parts of it that decide what the Applications deploy that use it.
//!
//! It is what the controller reads of an object, so that fields which nobody reads are not part of it, whether the API server
//! prunes them or not. The content of an Application itself is in [`application`](crate::application).

use serde_json::{Error, Value, json};
use vela_api::names::{annotation, label};
use vela_api::{
    ApplicationRevision, ComponentDefinition, ObjectMeta, Policy, PolicyDefinition,
    TraitDefinition, Workflow, WorkflowRun, WorkflowStepDefinition, WorkloadDefinition,
    annotation_of,
};

use crate::{Keys, Stamp, Subject, digest};

/// Annotations that are no part of a definition: who wrote it, and what kubectl notes.
const NO_CONTENT: [&str; 5] = [
    annotation::USERNAME,
    annotation::GROUP,
    annotation::ADMINISTRATOR,
    annotation::STAMP,
    annotation::KUBECTL_LAST_APPLIED,
];

/// A kind whose objects decide what is deployed.
pub trait Content: Sized {
    /// Its name.
    const KIND: &'static str;

    /// `metadata` of the object, where its stamp is.
    fn metadata(&self) -> &ObjectMeta;

    /// A hash of everything that decides.
    ///
    /// # Errors
    /// It has no JSON form.
    fn content(&self) -> Result<[u8; 32], Error>;

    /// Who wrote it, if that is known.
    fn author(&self, keys: &Keys) -> Option<Stamp> {
        author(Self::KIND, self.metadata(), self.content().ok()?, keys)
    }
}

macro_rules! definition {
    ($($kind:ident),*) => {$(
        impl Content for $kind {
            const KIND: &'static str = stringify!($kind);
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn content(&self) -> Result<[u8; 32], Error> {
                Ok(digest(&json!([serde_json::to_value(&self.spec)?, rendered(&self.metadata)])))
            }
        }
    )*};
}

definition!(
    ComponentDefinition,
    TraitDefinition,
    PolicyDefinition,
    WorkflowStepDefinition,
    WorkloadDefinition
);

/// The annotations of a definition that are rendered: those of an old Terraform definition, which one of them makes it.
fn rendered(metadata: &ObjectMeta) -> Value {
    if annotation_of(metadata, "type") != "terraform" {
        return Value::Null;
    }
    let all = metadata.annotations.iter().flatten();
    json!(all.filter(|(key, _)| !NO_CONTENT.contains(&key.as_str())).collect::<Vec<_>>())
}

impl Content for Workflow {
    const KIND: &'static str = "Workflow";
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn content(&self) -> Result<[u8; 32], Error> {
        let bare = Self {
            api_version: String::new(),
            kind: String::new(),
            metadata: ObjectMeta::default(),
            ..self.clone()
        };
        Ok(digest(&serde_json::to_value(bare)?))
    }
}

impl Content for WorkflowRun {
    const KIND: &'static str = "WorkflowRun";
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn content(&self) -> Result<[u8; 32], Error> {
        Ok(digest(&serde_json::to_value(&self.spec)?))
    }
}

impl Content for Policy {
    const KIND: &'static str = "Policy";
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn content(&self) -> Result<[u8; 32], Error> {
        let properties = serde_json::to_value(&self.properties)?;
        Ok(digest(&json!([self.type_, properties])))
    }
}

/// A revision is stamped in the form in which it is stored: small where it is compressed.
impl Content for ApplicationRevision {
    const KIND: &'static str = "ApplicationRevision";
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn content(&self) -> Result<[u8; 32], Error> {
        let compression = &self.spec.compression;
        let spec = if compression.data.is_empty() {
            serde_json::to_value(&self.spec)?
        } else {
            json!([compression.type_, compression.data])
        };
        let labels = self.metadata.labels.as_ref();
        let app = labels.and_then(|labels| labels.get(label::APP_NAME));
        let published = annotation_of(&self.metadata, annotation::PUBLISH_VERSION);
        Ok(digest(&json!([spec, app, published])))
    }
}

/// Who wrote an object of this kind and content, if that is known.
#[must_use]
pub fn author(kind: &str, metadata: &ObjectMeta, content: [u8; 32], keys: &Keys) -> Option<Stamp> {
    let subject = Subject {
        kind,
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        name: metadata.name.as_deref().unwrap_or_default(),
        content,
    };
    Stamp::verified(|key| annotation_of(metadata, key), keys, &subject)
}
