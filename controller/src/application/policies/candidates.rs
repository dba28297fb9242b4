//! The application-scoped policies of an Application: those in its spec, and the global ones.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use vela_api::names::APPLICATION_SCOPE;
use vela_api::revision::PolicyVersion;
use vela_api::{Application, ApplicationRevision, PolicyDefinition};
use vela_cluster::Stored as _;
use vela_render::{Definition, transform};
use vela_workflow::generate::policy_name;

use crate::application::context::AppContext;
use crate::application::facts;
use crate::application::facts::parse;
use crate::context::Context;
use crate::definition::wake;
use crate::definitions::Definitions;

/// A policy with what runs it.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// Its name.
    pub(super) name: String,
    /// The type name it was found by.
    pub(super) type_name: String,
    /// Whether it applies to every Application.
    pub(super) global: bool,
    properties: Option<Value>,
    /// Its definition.
    pub(super) definition: Arc<PolicyDefinition>,
    /// Which revision of its definition that is.
    pub(super) version: PolicyVersion,
    rendered: Arc<Definition>,
}

impl Candidate {
    fn new(
        definitions: &Definitions,
        name: String,
        type_name: &str,
        global: bool,
        definition: Arc<PolicyDefinition>,
    ) -> Self {
        // Known from the definition's own status: it names the revision that its controller stored.
        let latest = definition.status.latest_revision.clone().unwrap_or_default();
        Self {
            name,
            type_name: type_name.to_owned(),
            global,
            properties: None,
            version: PolicyVersion {
                definition_revision_name: latest.name,
                revision: latest.revision,
                revision_hash: latest.revision_hash,
            },
            rendered: definitions.to_render(&definition),
            definition,
        }
    }

    /// The key under which a revision remembers its version.
    pub(super) fn key(&self) -> String {
        if self.global { format!("global:{}", self.name) } else { self.name.clone() }
    }

    /// The same policy as a revision holds it, if it does.
    pub(super) fn pinned(&self, definitions: &Definitions, latest: &ApplicationRevision) -> Self {
        let spec = &latest.spec;
        // By key: a global policy and one of the Application may have the same name.
        let version = spec.policy_versions.get(&self.key());
        let held = parse::stored(&spec.policy_definitions, &self.type_name);
        let (Some(version), Some(held)) = (version, held) else { return self.clone() };
        Self {
            version: version.clone(),
            rendered: definitions.to_render(held),
            definition: Arc::clone(held),
            ..self.clone()
        }
    }

    /// For the renderer.
    pub(super) fn policy(&self) -> transform::Policy<'_> {
        transform::Policy {
            name: &self.name,
            definition: &self.rendered,
            properties: self.properties.as_ref(),
            global: self.global,
            priority: self.definition.spec.priority,
            revision: &self.version.definition_revision_name,
            revision_hash: &self.version.revision_hash,
        }
    }
}

/// Whether a definition is one of a policy that changes Applications.
fn is_scoped(definition: &PolicyDefinition) -> bool {
    definition.spec.scope == APPLICATION_SCOPE
}

/// The policies of an Application, with the definitions of the cluster. A definition that is gone is taken from `latest`.
pub(super) fn of(
    ctx: &AppContext,
    app: &Application,
    latest: Option<&ApplicationRevision>,
) -> Vec<Candidate> {
    let definitions = &ctx.definitions;
    let source = parse::Source { fallback: latest, ..parse::Source::of(definitions, app) };
    // Global policies come first: what the Application lists has the last word.
    let mut out: Vec<_> = globals(ctx, app)
        .into_values()
        .map(|found| {
            let name = found.metadata.name.clone().unwrap_or_default();
            Candidate::new(definitions, name.clone(), &name, true, found)
        })
        .collect();
    for (index, written) in app.spec.policies.iter().enumerate() {
        let found = source.policy(&written.type_).filter(|found| is_scoped(found));
        // Built-in policies steer the controller and change no spec.
        let Some(found) = found.filter(|_| !facts::is_built_in_policy(&written.type_)) else {
            continue;
        };
        let name = policy_name(written, index);
        let mut one = Candidate::new(definitions, name, &written.type_, false, found);
        one.properties = facts::properties(written.properties.as_ref());
        out.push(one);
    }
    out
}

/// The global policies by name: those of the Application's namespace go before those of the system namespace.
fn globals(ctx: &AppContext, app: &Application) -> BTreeMap<String, Arc<PolicyDefinition>> {
    let mut out = BTreeMap::new();
    if !ctx.settings.gates.enable_global_policies {
        return out;
    }
    let own = app.metadata.namespace.as_deref().unwrap_or_default();
    let all = ctx.definitions.policies.all();
    // The system namespace first, so that one of the Application's namespace takes the place of its
    // namesake.
    for namespace in [ctx.settings.system_namespace.as_str(), own] {
        let here = |found: &&Arc<PolicyDefinition>| {
            found.spec.global
                && is_scoped(found)
                // One that is being deleted applies to nothing any more.
                && found.metadata.deletion_timestamp.is_none()
                && found.metadata.namespace.as_deref() == Some(namespace)
        };
        for found in all.iter().filter(here) {
            out.insert(found.metadata.name.clone().unwrap_or_default(), Arc::clone(found));
        }
    }
    out
}

/// What a settled Application depends on in addition to itself and its objects: its policies' definitions.
pub(in crate::application) fn fingerprint(ctx: &AppContext, app: &Application) -> u64 {
    if !ctx.settings.gates.enable_application_scoped_policies {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    for one in of(ctx, app, None) {
        // The generation, not the version: a change of the status decides nothing.
        let metadata = &one.definition.metadata;
        (one.key(), &metadata.uid, metadata.generation, &one.version.definition_revision_name)
            .hash(&mut hasher);
    }
    hasher.finish()
}

/// A PolicyDefinition was created, changed or deleted: the Applications it may change are queued.
pub(crate) fn wake(ctx: &Context, old: Option<&PolicyDefinition>, new: Option<&PolicyDefinition>) {
    let gates = &ctx.settings.gates;
    let Some(definition) = new.or(old) else { return };
    let either = [old, new];
    let scoped = either.iter().flatten().any(|found| is_scoped(found));
    if !gates.enable_application_scoped_policies || !scoped {
        return;
    }
    // Status writes are frequent and mean nothing, but for a new revision.
    let same = |a: &PolicyDefinition, b: &PolicyDefinition| {
        a.spec == b.spec && a.status.latest_revision == b.status.latest_revision
    };
    if let (Some(old), Some(new)) = (old, new)
        && same(old, new)
    {
        return;
    }
    let global =
        gates.enable_global_policies && either.iter().flatten().any(|found| found.spec.global);
    wake::policy_changed(ctx, &definition.key(), global);
}
