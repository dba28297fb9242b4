//! What a workflow belongs to: an Application, or a WorkflowRun.

use vela_api::workflow::WorkflowStatus;
use vela_api::{Application, ObjectMeta, OwnerReference, V1ALPHA1, V1BETA1, WorkflowRun};

use crate::events::About;

/// The kinds that have a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerKind {
    /// What its steps apply is recorded, kept and collected.
    Application,
    /// What its steps apply is written and nothing more.
    WorkflowRun,
}

impl OwnerKind {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Application => (V1BETA1, Application::KIND),
            Self::WorkflowRun => (V1ALPHA1, WorkflowRun::KIND),
        }
    }
}

/// The object that a workflow belongs to, as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct WorkflowOwner<'a> {
    /// Its kind.
    pub kind: OwnerKind,
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// Its run.
    pub run: Option<&'a WorkflowStatus>,
}

impl<'a> From<&'a Application> for WorkflowOwner<'a> {
    fn from(app: &'a Application) -> Self {
        let run = app.status.workflow.as_ref();
        Self { kind: OwnerKind::Application, metadata: &app.metadata, run }
    }
}

impl<'a> WorkflowOwner<'a> {
    pub(in crate::application) fn namespace(&self) -> &'a str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(in crate::application) fn name(&self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(in crate::application) fn uid(&self) -> &'a str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// `apiVersion` and `kind`.
    pub(in crate::application) fn type_names(&self) -> (&'static str, &'static str) {
        self.kind.names()
    }

    /// A reference to it as owner.
    pub(in crate::application) fn reference(&self) -> OwnerReference {
        let (api_version, kind) = self.type_names();
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    /// What an event about it refers to.
    pub(crate) fn about(&self) -> About {
        let (api_version, kind) = self.type_names();
        About {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
            version: self.metadata.resource_version.clone().unwrap_or_default(),
        }
    }
}
