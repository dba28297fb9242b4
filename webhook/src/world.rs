//! The facts for rules: definitions from the snapshot, and facts read from the API server when the
//! snapshot does not have them.
//!
//! A rule that asks for an unknown fact gets "nothing" and the question is noted. The caller
//! fetches what was noted and asks the rules again, so that rules stay plain functions and yet a
//! definition created a moment ago is found.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use vela_api::DefinitionKind;
use vela_cluster::Resource;

use crate::config::Settings;
use crate::snapshot::{Definition, Snapshot};

/// Kinds of objects that are read one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A definition that the snapshot does not have.
    Definition(DefinitionKind),
    /// `WorkloadDefinition`.
    WorkloadDefinition,
    /// `DefinitionRevision`.
    DefinitionRevision,
    /// `Workflow`.
    Workflow,
    /// `Policy`.
    Policy,
    /// `ApplicationRevision`.
    ApplicationRevision,
}

impl ObjectKind {
    /// Version, kind and plural; the group is always `core.oam.dev`.
    pub fn resource(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Definition(kind) => ("v1beta1", kind.kind(), kind.resource()),
            Self::WorkloadDefinition => ("v1beta1", "WorkloadDefinition", "workloaddefinitions"),
            Self::DefinitionRevision => ("v1beta1", "DefinitionRevision", "definitionrevisions"),
            Self::ApplicationRevision => ("v1beta1", "ApplicationRevision", "applicationrevisions"),
            Self::Workflow => ("v1alpha1", "Workflow", "workflows"),
            Self::Policy => ("v1alpha1", "Policy", "policies"),
        }
    }
}

/// A question to the API server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// One object.
    Object {
        /// Of this kind.
        kind: ObjectKind,
        /// In this namespace.
        namespace: String,
        /// Of this name.
        name: String,
    },
    /// The revisions of a definition.
    Revisions {
        /// Of this kind.
        kind: DefinitionKind,
        /// In this namespace.
        namespace: String,
        /// Of this name.
        name: String,
    },
    /// May the user do this.
    Permission {
        /// The user.
        user: String,
        /// The groups.
        groups: Vec<String>,
        /// What.
        access: Access,
    },
    /// Which resource a kind is served as.
    Resource {
        /// `group/version`.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// Which resource a plural or singular name stands for.
    Named {
        /// The group; empty for any.
        group: String,
        /// The name.
        name: String,
    },
    /// The ConfigMap that stands for a release.
    Release {
        /// In this namespace.
        namespace: String,
        /// Of this release.
        name: String,
    },
    /// Which clusters joined, as the controller noted it.
    Clusters {
        /// In this namespace.
        namespace: String,
    },
    /// Whether there is an object that an Application refers to. What it holds is not read.
    Exists {
        /// `group/version`.
        api_version: String,
        /// The kind.
        kind: String,
        /// The plural.
        plural: String,
        /// In this namespace; empty for kinds that live in none.
        namespace: String,
        /// Of this name.
        name: String,
    },
}

impl Need {
    /// Whether the rules go on without an answer, so that nobody waits for it to the last moment.
    pub fn is_optional(&self) -> bool {
        !matches!(self, Self::Object { .. } | Self::Revisions { .. })
    }
}

/// Something a user may or may not do: the attributes of a SubjectAccessReview.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// `get`, `list`, or `*`.
    pub verb: &'static str,
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural.
    pub resource: String,
    /// In this namespace; empty for none or all.
    pub namespace: String,
    /// Of this name; empty for all.
    pub name: String,
}

/// The answer to a [`Need`].
#[derive(Debug, Clone)]
pub enum Fact {
    /// The object, or that there is none.
    Object(Option<Arc<Value>>),
    /// The objects.
    Objects(Vec<Arc<Value>>),
    /// Yes or no.
    Allowed(bool),
    /// How it is served, or that it is not.
    Resource(Option<Resource>),
    /// No resource has that name; the nearest that there is.
    NoResource(Option<String>),
    /// Whether it is there.
    Exists(bool),
    /// The webhook may not read it.
    Unreadable,
    /// The API server could not be asked.
    Failed(String),
}

/// Facts by question.
pub type Facts = BTreeMap<Need, Fact>;

/// What a rule may know.
pub struct World<'a> {
    /// Settings of the process.
    pub settings: &'a Settings,
    /// Renders templates, with its cache of compiled texts.
    pub renderer: &'a vela_render::Renderer,
    snapshot: &'a Snapshot,
    facts: &'a Facts,
    asked: RefCell<BTreeSet<Need>>,
    is_spent: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl<'a> World<'a> {
    /// A world with these facts.
    pub fn new(
        settings: &'a Settings,
        renderer: &'a vela_render::Renderer,
        snapshot: &'a Snapshot,
        facts: &'a Facts,
        is_spent: &'a dyn Fn() -> bool,
    ) -> Self {
        Self { settings, renderer, snapshot, facts, asked: RefCell::default(), is_spent }
    }

    /// True once nobody waits for the decision: expensive work can be left out.
    pub fn is_spent(&self) -> bool {
        (self.is_spent)()
    }

    /// The questions without an answer; not empty means that the decision does not count.
    pub fn into_lookup(self) -> BTreeSet<Need> {
        self.asked.into_inner()
    }

    /// True while some question has no answer: expensive work can be left out.
    pub fn is_incomplete(&self) -> bool {
        !self.asked.borrow().is_empty()
    }

    fn fact(&self, need: Need) -> Option<&'a Fact> {
        let fact = self.facts.get(&need);
        if fact.is_none() {
            self.asked.borrow_mut().insert(need);
        }
        fact
    }

    /// Names of the definitions of a kind in the namespaces that are searched.
    pub fn definition_names(&self, kind: DefinitionKind, namespace: &str) -> Vec<&'a str> {
        let mut names = self.snapshot.names(kind, namespace);
        names.extend(self.snapshot.names(kind, &self.settings.system_namespace));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The shards that take Applications: those of the flag, else those that were discovered.
    pub fn shards(&self) -> &'a [String] {
        match self.settings.shards.as_slice() {
            [] => &self.snapshot.shards,
            listed => listed,
        }
    }

    /// The namespaces in which a definition is searched for, in order.
    pub fn namespaces(&self, namespace: &str) -> Vec<String> {
        let mut namespaces = vec![namespace.to_owned()];
        if namespace != self.settings.system_namespace {
            namespaces.push(self.settings.system_namespace.clone());
        }
        namespaces
    }

    /// A definition by its plain name: the namespace itself, then the system's. Only a name that
    /// the snapshot has in neither is asked for: else every review would ask for all its types in
    /// its own namespace.
    pub fn definition(
        &self,
        kind: DefinitionKind,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Definition>> {
        let system = self.settings.system_namespace.as_str();
        let known = [namespace, system]
            .into_iter()
            .find_map(|namespace| self.snapshot.get(kind, namespace, name));
        if let Some(definition) = known {
            return Some(Arc::clone(definition));
        }
        self.namespaces(namespace)
            .iter()
            .find_map(|namespace| self.definition_in(kind, namespace, name))
    }

    /// A definition in one namespace.
    pub fn definition_in(
        &self,
        kind: DefinitionKind,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Definition>> {
        if name.is_empty() {
            return None;
        }
        if let Some(definition) = self.snapshot.get(kind, namespace, name) {
            return Some(Arc::clone(definition));
        }
        let object = self.object(ObjectKind::Definition(kind), namespace, name)?;
        Definition::new(kind, &object).map(Arc::new)
    }

    /// One object, or none.
    pub fn object(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let need = Need::Object { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        match self.fact(need) {
            Some(Fact::Object(object)) => object.clone(),
            _ => None,
        }
    }

    /// The revisions of a definition, in one namespace.
    pub fn revisions(&self, kind: DefinitionKind, namespace: &str, name: &str) -> Vec<Arc<Value>> {
        let need = Need::Revisions { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        match self.fact(need) {
            Some(Fact::Objects(objects)) => objects.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether the user may do this.
    pub fn may(&self, user: &str, groups: &[String], access: Access) -> Result<bool, &'a str> {
        let need = Need::Permission { user: user.to_owned(), groups: groups.to_vec(), access };
        match self.fact(need) {
            Some(Fact::Allowed(allowed)) => Ok(*allowed),
            Some(Fact::Failed(error)) => Err(error),
            _ => Ok(false),
        }
    }

    /// Whether the user may get the definition; an error is no permission.
    pub fn may_get(
        &self,
        user: &str,
        groups: &[String],
        kind: DefinitionKind,
        namespace: &str,
        name: &str,
    ) -> Result<bool, &'a str> {
        let access = Access {
            verb: "get",
            group: vela_api::GROUP.to_owned(),
            version: "v1beta1".to_owned(),
            resource: kind.resource().to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.may(user, groups, access)
    }

    /// Whether the user may do everything anyway; an error means no.
    pub fn is_administrator(&self, user: &str, groups: &[String]) -> bool {
        let all = || "*".to_owned();
        let access = Access {
            verb: "*",
            group: all(),
            version: all(),
            resource: all(),
            namespace: String::new(),
            name: String::new(),
        };
        self.may(user, groups, access).unwrap_or_default()
    }

    /// How a kind is served. An API server that cannot be asked counts as "not served" with its
    /// error.
    pub fn resource(&self, api_version: &str, kind: &str) -> Result<Option<&'a Resource>, &'a str> {
        let need = Need::Resource { api_version: api_version.to_owned(), kind: kind.to_owned() };
        match self.fact(need) {
            Some(Fact::Resource(resource)) => Ok(resource.as_ref()),
            Some(Fact::Failed(error)) => Err(error),
            _ => Ok(None),
        }
    }

    /// The ConfigMap that stands for a release; nothing while it is not known, and if it cannot be read.
    pub fn release(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let need = Need::Release { namespace: namespace.to_owned(), name: name.to_owned() };
        match self.fact(need) {
            Some(Fact::Object(object)) => object.clone(),
            _ => None,
        }
    }

    /// The labels of the clusters that joined, by name; nothing while that is not known, and if nobody noted it.
    pub fn clusters(&self) -> Option<BTreeMap<String, BTreeMap<String, String>>> {
        let need = Need::Clusters { namespace: self.settings.cluster_namespace.clone() };
        let Some(Fact::Object(Some(map))) = self.fact(need) else { return None };
        let labels = |text: &Value| {
            let entry: Value = serde_json::from_str(text.as_str()?).ok()?;
            // Without labels it is remembered only, and not registered.
            serde_json::from_value(entry.get("labels")?.clone()).ok()
        };
        let data = map.get("data").and_then(Value::as_object).into_iter().flatten();
        Some(data.filter_map(|(name, text)| Some((name.clone(), labels(text)?))).collect())
    }

    /// What is known of the resource with this name; nothing while that is not known yet.
    pub fn named(&self, group: &str, name: &str) -> Option<&'a Fact> {
        self.fact(Need::Named { group: group.to_owned(), name: name.to_owned() })
    }

    /// What is known of an object that is only referred to; nothing while that is not known yet.
    pub fn exists(&self, resource: &Resource, namespace: &str, name: &str) -> Option<&'a Fact> {
        self.fact(Need::Exists {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}
