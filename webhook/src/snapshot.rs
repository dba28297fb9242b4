//! The definitions of the cluster as an immutable snapshot, replaced whenever one changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use serde_json::Value;

use vela_api::{DefinitionKind, names};

/// A definition as rules need it.
#[derive(Debug)]
pub struct Definition {
    /// Name, template and the like, as the renderer wants them.
    pub render: vela_render::Definition,
    /// What the workload is; of components.
    pub workload: Workload,
    /// Which workloads a trait is for; empty means any.
    pub applies_to: Vec<String>,
    /// `true` or a text that says what to use instead.
    pub deprecated: Option<String>,
    /// Category Terraform, Helm or Kube: not CUE.
    pub is_cue: bool,
    /// `spec.scope`; of policies.
    pub scope: String,
    /// Parameters that must not change, as dotted paths.
    pub immutable: Vec<String>,
    /// What a step's template asks for that nobody here answers, as text.
    pub missing: Vec<String>,
    /// Of a step that only an Application can have.
    pub needs_application: bool,
    /// The schema of the parameters, made when it is first asked for.
    schema: OnceLock<Option<Value>>,
}

/// `spec.workload`.
#[derive(Debug, Default)]
pub struct Workload {
    /// `deployments.apps`, `autodetects.core.oam.dev` or empty.
    pub type_: String,
    /// API version, or empty.
    pub api_version: String,
    /// Kind, or empty.
    pub kind: String,
}

impl Definition {
    /// Reads a stored object.
    pub fn new(kind: DefinitionKind, object: &Value) -> Option<Self> {
        let text = |pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let name = object.pointer("/metadata/name")?.as_str()?;
        let label = |key: &str| object.pointer("/metadata/labels")?.get(key)?.as_str();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let mut render = vela_render::Definition::from_spec(kind, name, spec);
        render.annotations = object
            .pointer("/metadata/annotations")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let schematic = spec.get("schematic").and_then(Value::as_object);
        let is_cue = !schematic.is_some_and(|schematic| {
            ["terraform", "helm", "kube"]
                .iter()
                .any(|other| schematic.get(*other).is_some_and(|value| !value.is_null()))
        });
        let immutable = immutable_parameters(render.template.text());
        let missing = if kind == DefinitionKind::WorkflowStep {
            vela_workflow::missing(render.template.text())
        } else {
            Vec::new()
        };
        Some(Self {
            render,
            workload: Workload {
                type_: text("/spec/workload/type"),
                api_version: text("/spec/workload/definition/apiVersion"),
                kind: text("/spec/workload/definition/kind"),
            },
            applies_to: spec
                .get("appliesToWorkloads")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect(),
            deprecated: label(names::label::DEFINITION_DEPRECATED)
                .filter(|value| *value != "false")
                .map(str::to_owned),
            is_cue,
            scope: text("/spec/scope"),
            immutable,
            missing,
            needs_application: label(names::label::DEFINITION_SCOPE)
                == Some(names::APPLICATION_SCOPE),
            schema: OnceLock::new(),
        })
    }

    /// The schema of the parameters, if there is one.
    pub fn schema(&self, renderer: &vela_render::Renderer) -> Option<&Value> {
        self.schema.get_or_init(|| renderer.schema(&self.render).ok()).as_ref()
    }
}

/// The parameters marked `+immutable` in a template, as dotted paths.
fn immutable_parameters(template: &str) -> Vec<String> {
    // Most templates have none: do not parse them.
    if template.contains("+immutable") { crate::marker::immutable(template) } else { Vec::new() }
}

type Named = BTreeMap<String, Arc<Definition>>;

/// All definitions at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// By kind, then by namespace.
    definitions: BTreeMap<DefinitionKind, HashMap<String, Arc<Named>>>,
    /// The shards that take Applications, sorted; empty where they are not discovered.
    pub(crate) shards: Vec<String>,
}

impl Snapshot {
    /// The definition, if the snapshot has it.
    pub fn get(
        &self,
        kind: DefinitionKind,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Definition>> {
        self.definitions.get(&kind)?.get(namespace)?.get(name)
    }

    /// The names in a namespace, sorted.
    pub fn names(&self, kind: DefinitionKind, namespace: &str) -> Vec<&str> {
        self.definitions
            .get(&kind)
            .and_then(|namespaces| namespaces.get(namespace))
            .map(|named| named.keys().map(String::as_str).collect())
            .unwrap_or_default()
    }

    /// How many definitions of a kind there are.
    pub fn count(&self, kind: DefinitionKind) -> usize {
        let of_kind = self.definitions.get(&kind).into_iter().flat_map(HashMap::values);
        of_kind.map(|named| named.len()).sum()
    }

    /// Adds or replaces a definition.
    pub fn insert(
        &mut self,
        kind: DefinitionKind,
        namespace: &str,
        name: &str,
        definition: Arc<Definition>,
    ) {
        let namespaces = self.definitions.entry(kind).or_default();
        let named = namespaces.entry(namespace.to_owned()).or_default();
        Arc::make_mut(named).insert(name.to_owned(), definition);
    }

    /// Removes a definition.
    pub fn remove(&mut self, kind: DefinitionKind, namespace: &str, name: &str) {
        let namespaces = self.definitions.get_mut(&kind);
        if let Some(named) = namespaces.and_then(|namespaces| namespaces.get_mut(namespace)) {
            Arc::make_mut(named).remove(name);
        }
    }

    /// Forgets all definitions of a kind.
    pub fn clear(&mut self, kind: DefinitionKind) {
        self.definitions.remove(&kind);
    }
}

/// The published snapshot. Readers never wait.
#[derive(Debug, Default)]
pub struct Published {
    current: ArcSwap<Snapshot>,
}

impl Published {
    /// The snapshot now.
    pub fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Publishes a changed copy. Changes to one kind come from one task each; `rcu` settles races
    /// between kinds.
    pub fn change(&self, change: impl Fn(&mut Snapshot)) {
        self.current.rcu(|snapshot| {
            let mut next = Snapshot::clone(snapshot);
            change(&mut next);
            next
        });
    }
}
