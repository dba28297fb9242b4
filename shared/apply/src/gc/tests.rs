//! Tests of this module.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::tracker::{Run, add_record, current, record_of, versioned_name};

fn owner() -> Owner {
    Owner { namespace: "n".into(), name: "app".into() }
}

fn object(name: &str, owned: bool) -> Value {
    let labels = if owned {
        json!({"app.oam.dev/name": "app", "app.oam.dev/namespace": "n", "app.oam.dev/component": name})
    } else {
        json!({})
    };
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": "1", "labels": labels}})
}

fn tracker(name: &str, generation: i64, objects: &[&str]) -> Tracker {
    let records = objects.iter().map(|o| record_of(&object(o, true), "", false, false)).collect();
    Tracker {
        name: name.into(),
        role: Role::Versioned,
        generation,
        publish_version: String::new(),
        revision: String::new(),
        app_uid: String::new(),
        deleting: false,
        records,
        elsewhere: 0,
    }
}

struct World {
    trackers: Vec<Tracker>,
    live: BTreeMap<String, Value>,
    policies: ResourcePolicies,
    orphan: bool,
    unknown: Vec<String>,
    prune: Option<PruneRules>,
}

impl World {
    fn new(trackers: Vec<Tracker>, live: &[&str]) -> Self {
        let live = live.iter().map(|name| ((*name).to_owned(), object(name, true))).collect();
        Self {
            trackers,
            live,
            policies: ResourcePolicies::default(),
            orphan: false,
            unknown: Vec::new(),
            prune: None,
        }
    }

    fn asking(mut self, rules: &str) -> Self {
        self.prune = Some(PruneRules::parse(rules).unwrap());
        self
    }

    fn with_policy(mut self, properties: &Value) -> Self {
        let (policies, errors) =
            ResourcePolicies::parse([("garbage-collect", Some(properties))].into_iter());
        assert_eq!(errors, []);
        self.policies = policies;
        self
    }

    fn plan(&self, current: &str, scope: Scope) -> Plan {
        self.plan_with(current, scope, &|_| Vec::new())
    }

    fn plan_with(
        &self,
        current: &str,
        scope: Scope,
        depends_on: &dyn Fn(&str) -> Vec<String>,
    ) -> Plan {
        plan(&Input {
            legacy: false,
            owner: &owner(),
            trackers: &self.trackers,
            current,
            scope,
            policies: &self.policies,
            orphan: self.orphan,
            live: &|key| self.live.get(&key.name).cloned(),
            unknown: &|record| self.unknown.contains(&record.name),
            protected: &|_| false,
            depends_on,
            prune: self.prune.as_ref(),
        })
    }
}

fn deleted(plan: &Plan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            Action::Delete { record, .. } => Some(record.name.as_str()),
            _ => None,
        })
        .collect()
}

/// What is here goes, what is elsewhere holds the tracker, which is neither marked nor let go.
#[test]
fn a_tracker_stays_for_objects_of_other_clusters() {
    for (scope, current) in [(Scope::History, "new"), (Scope::All, "new"), (Scope::All, "old")] {
        for live in [&["a"][..], &[]] {
            let mut old = tracker("old", 1, &["a"]);
            old.elsewhere = 1;
            let mut world = World::new(vec![old], live);
            let plan = world.plan(current, scope);
            assert_eq!(deleted(&plan), live, "{scope:?}");
            assert!(plan.finished.is_empty() && plan.marked.is_empty(), "{scope:?} {plan:?}");
            // Whoever leaves objects where they are leaves those too, but only with the Application.
            world.orphan = true;
            let plan = world.plan(current, scope);
            assert_eq!(deleted(&plan), Vec::<&str>::new());
            let goes = scope == Scope::All;
            assert_eq!(plan.finished.len(), usize::from(goes), "{scope:?} {plan:?}");
        }
    }
}

#[test]
fn only_what_the_newest_version_does_not_hold_is_deleted() {
    let world =
        World::new(vec![tracker("v1", 1, &["a", "b"]), tracker("v2", 2, &["a"])], &["a", "b"]);
    let plan = world.plan("v2", Scope::History);
    assert_eq!(deleted(&plan), ["b"]);
    assert_eq!(plan.marked, ["v1"]);
    assert_eq!(plan.waiting.len(), 1);
    let mut world = world;
    world.live.remove("b");
    let plan = world.plan("v2", Scope::History);
    assert_eq!(
        (plan.actions.len(), plan.finished, plan.waiting.len()),
        (0, vec!["v1".to_owned()], 0)
    );
}

#[test]
fn an_unfinished_run_deletes_nothing() {
    let mut world =
        World::new(vec![tracker("v1", 1, &["a", "b"]), tracker("v2", 2, &["a"])], &["a", "b"]);
    assert!(world.plan("v2", Scope::Marked).is_done());
    world.trackers[0].deleting = true;
    assert_eq!(deleted(&world.plan("v2", Scope::Marked)), Vec::<&str>::new());
}

#[test]
fn a_current_tracker_deleted_by_hand_loses_nothing() {
    let mut world = World::new(vec![tracker("v1", 1, &["a"])], &["a"]);
    world.trackers[0].deleting = true;
    assert!(world.plan("v1", Scope::History).is_done());
}

#[test]
fn deletion_takes_everything_and_orphan_takes_nothing() {
    let mut world = World::new(vec![tracker("v1", 1, &["a", "b"])], &["a"]);
    let plan = world.plan("v1", Scope::All);
    assert_eq!(deleted(&plan), ["a"]);
    assert!(plan.finished.is_empty());
    world.orphan = true;
    let plan = world.plan("v1", Scope::All);
    assert!(matches!(plan.actions.as_slice(), [Action::Release { .. }]));
    assert_eq!(plan.finished, ["v1"]);
}

#[test]
fn foreign_objects_count_as_gone() {
    let mut world = World::new(vec![tracker("v1", 1, &["a"])], &["a"]);
    world.live.insert("a".into(), object("a", false));
    let plan = world.plan("v1", Scope::All);
    assert!(plan.actions.is_empty());
    assert_eq!(plan.finished, ["v1"]);
}

#[test]
fn a_never_rule_in_the_edit_that_removes_the_component_saves_the_object() {
    let world = World::new(vec![tracker("v1", 1, &["a"]), tracker("v2", 2, &[])], &["a"])
        .with_policy(
            &json!({"rules": [{"selector": {"componentNames": ["a"]}, "strategy": "never"}]}),
        );
    let plan = world.plan("v2", Scope::History);
    assert_eq!(deleted(&plan), Vec::<&str>::new());
    assert_eq!(plan.to_root.len(), 1);
    assert!(plan.to_root[0].skip_gc);
    assert_eq!(plan.finished, ["v1"]);
}

#[test]
fn legacy_resources_stay_until_superseded() {
    let keep = json!({"keepLegacyResource": true});
    let mut world =
        World::new(vec![tracker("v1", 1, &["a", "b"]), tracker("v2", 2, &["a"])], &["a", "b"])
            .with_policy(&keep);
    assert!(world.plan("v2", Scope::History).is_done());
    // A person asks for it by deleting the tracker.
    world.trackers[0].deleting = true;
    assert_eq!(deleted(&world.plan("v2", Scope::History)), ["b"]);
    world.trackers[0].deleting = false;
    world.live.remove("b");
    assert_eq!(world.plan("v2", Scope::History).finished, ["v1"]);
}

#[test]
fn dependents_go_first() {
    let world = World::new(vec![tracker("v1", 1, &["db", "web"])], &["db", "web"])
        .with_policy(&json!({"order": "dependency"}));
    let depends = |component: &str| match component {
        "web" => vec!["db".to_owned()],
        _ => Vec::new(),
    };
    assert_eq!(deleted(&world.plan_with("v1", Scope::All, &depends)), ["web"]);
}

/// However many objects there are, each component is asked once what it depends on.
#[test]
fn an_ordered_collection_of_many_takes_linear_time() {
    let names: Vec<String> = (0..200).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::new(vec![tracker("v1", 1, &names)], &names)
        .with_policy(&json!({"order": "dependency"}));
    let asked = std::cell::Cell::new(0);
    // Each needs the one before.
    let depends = |component: &str| {
        asked.set(asked.get() + 1);
        let before = component.trim_start_matches('c').parse::<usize>().unwrap().checked_sub(1);
        before.map(|before| format!("c{before}")).into_iter().collect()
    };
    let plan = world.plan_with("v1", Scope::All, &depends);
    assert_eq!(deleted(&plan), ["c199"]);
    assert_eq!(asked.get(), names.len());
}

#[test]
fn a_shared_object_is_handed_over() {
    let mut world = World::new(vec![tracker("v1", 1, &["a"])], &["a"]);
    let mut shared = object("a", true);
    crate::object::set_annotation(&mut shared, "app.oam.dev/shared-by", "n/app,m/other");
    world.live.insert("a".into(), shared);
    let plan = world.plan("v1", Scope::All);
    let [Action::HandOver { shared_by, next, .. }] = plan.actions.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(shared_by, "m/other");
    assert_eq!(*next, Some(Owner { namespace: "m".into(), name: "other".into() }));
    assert_eq!(plan.finished, ["v1"]);
}

fn shared(world: &mut World, owner: Option<&str>, list: &str) {
    let mut object = object("a", owner == Some("app"));
    if let Some(other) = owner.filter(|owner| *owner != "app") {
        crate::object::set_label(&mut object, "app.oam.dev/name", other);
        crate::object::set_label(&mut object, "app.oam.dev/namespace", "n");
    }
    crate::object::set_annotation(&mut object, "app.oam.dev/shared-by", list);
    world.live.insert("a".into(), object);
}

/// Whoever leaves deletes only what nobody else holds, whatever became of the list.
#[test]
fn nobody_deletes_what_another_one_shares() {
    let next = |namespace: &str, name: &str| {
        Some(Owner { namespace: namespace.to_owned(), name: name.to_owned() })
    };
    for (owner, list, expected, next) in [
        // The list names others only: two that joined at once, of whom one was written over.
        (Some("app"), "n/other", "n/other", next("n", "other")),
        (Some("app"), "n/app,n/other,m/third", "n/other,m/third", next("n", "other")),
        (Some("other"), "n/other,n/app", "n/other", None),
        // The owner is missing in the list.
        (Some("other"), "n/app", "", None),
        // Entries without a namespace mean `default`.
        (Some("app"), "n/app,other", "other", next("default", "other")),
        (Some("app"), "n/app,/other", "/other", next("default", "other")),
    ] {
        let mut world = World::new(vec![tracker("v1", 1, &["a"])], &["a"]);
        shared(&mut world, owner, list);
        for orphan in [false, true] {
            world.orphan = orphan;
            let plan = world.plan("v1", Scope::All);
            let [Action::HandOver { shared_by, next: to, version, .. }] = plan.actions.as_slice()
            else {
                panic!("{owner:?} {list}: {plan:?}")
            };
            assert_eq!(
                (shared_by.as_str(), to, version.as_str()),
                (expected, &next, "1"),
                "{list}"
            );
            assert_eq!(plan.finished, ["v1"], "{list}");
        }
    }
}

/// The last one deletes it, unless somebody joins in that moment: only the version that was checked.
#[test]
fn the_last_of_the_sharers_deletes_what_it_has_seen() {
    let mut world = World::new(vec![tracker("v1", 1, &["a", "b"])], &["a", "b"]);
    shared(&mut world, Some("app"), "n/app");
    let plan = world.plan("v1", Scope::All);
    let versions: Vec<_> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::Delete { record, uid, version, .. } => (&*record.name, &**uid, &**version),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions, [("a", "uid-a", "1"), ("b", "uid-b", "")]);
    world.orphan = true;
    let plan = world.plan("v1", Scope::All);
    let [Action::Release { shared: true, version, .. }, Action::Release { shared: false, .. }] =
        plan.actions.as_slice()
    else {
        panic!("{plan:?}")
    };
    assert_eq!(version, "1");
}

/// The root tracker says `never`, a tracker of an older version says nothing, and their order is that of their names.
#[test]
fn what_a_rule_kept_once_stays_in_any_order_of_the_trackers() {
    let mut root = tracker("root", 0, &["a"]);
    root.role = Role::Root;
    root.records[0].skip_gc = true;
    for trackers in
        [vec![root.clone(), tracker("v1", 1, &["a"])], vec![tracker("v1", 1, &["a"]), root.clone()]]
    {
        let world = World::new(trackers, &["a"]);
        let plan = world.plan("", Scope::All);
        assert_eq!(deleted(&plan), Vec::<&str>::new());
        assert!(matches!(plan.actions.as_slice(), [Action::Release { .. }]), "{plan:?}");
    }
}

/// The rules of the spec of now are those that count for everything that was dispatched before.
#[test]
fn a_rule_that_changes_counts_for_what_is_there() {
    let rule = |rest: Value| {
        let mut rule = json!({"selector": {"componentNames": ["a"]}});
        for (key, value) in rest.as_object().unwrap() {
            rule[key] = value.clone();
        }
        json!({ "rules": [rule] })
    };
    let world = || World::new(vec![tracker("v1", 1, &["a"]), tracker("v2", 2, &[])], &["a"]);
    for (policy, scope, expected) in [
        (json!({}), Scope::History, "delete"),
        (rule(json!({"strategy": "onAppUpdate"})), Scope::History, "delete"),
        (rule(json!({"strategy": "onAppDelete"})), Scope::History, "to root"),
        (rule(json!({"strategy": "never"})), Scope::History, "to root for good"),
        (rule(json!({"propagation": "orphan"})), Scope::History, "release"),
        (rule(json!({"propagation": "cascading"})), Scope::History, "delete in the background"),
        (rule(json!({"strategy": "onAppDelete"})), Scope::All, "delete"),
        (rule(json!({"strategy": "never"})), Scope::All, "release"),
    ] {
        let plan = world().with_policy(&policy).plan("v2", scope);
        let said = match (plan.actions.first(), plan.to_root.first()) {
            (Some(Action::Delete { propagation: None, .. }), None) => "delete",
            (Some(Action::Delete { propagation: Some(Propagation::Cascading), .. }), None) => {
                "delete in the background"
            }
            (Some(Action::Release { .. }), None) => "release",
            (None, Some(record)) if record.skip_gc => "to root for good",
            (None, Some(_)) => "to root",
            other => panic!("{policy}: {other:?}"),
        };
        assert_eq!(said, expected, "{policy} {scope:?}");
    }
}

/// Without admission, components may depend on each other in a circle: that must not keep the Application for ever.
#[test]
fn a_circle_of_dependencies_holds_nothing_up() {
    let order = json!({"order": "dependency"});
    let depends = |component: &str| match component {
        "a" => vec!["b".to_owned()],
        "b" => vec!["a".to_owned()],
        _ => Vec::new(),
    };
    let mut world =
        World::new(vec![tracker("v1", 1, &["a", "b", "c"])], &["a", "b", "c"]).with_policy(&order);
    assert_eq!(deleted(&world.plan_with("v1", Scope::All, &depends)), ["c"]);
    world.live.remove("c");
    assert_eq!(deleted(&world.plan_with("v1", Scope::All, &depends)), ["a", "b"]);
}

/// What only has the name of a recorded object is somebody else's.
#[test]
fn an_object_of_an_application_of_the_same_name_elsewhere_is_not_ours() {
    let mut world = World::new(vec![tracker("v1", 1, &["a"])], &["a"]);
    let mut other = object("a", true);
    other["metadata"]["labels"]["app.oam.dev/namespace"] = json!("m");
    world.live.insert("a".into(), other);
    let plan = world.plan("v1", Scope::All);
    assert_eq!((plan.actions.len(), plan.finished), (0, vec!["v1".to_owned()]));
}

/// One thing that happens to an Application in the random walk.
#[derive(Debug, Clone)]
enum Event {
    /// A new spec: the set of objects, as bits. Equal specs share a revision name.
    Edit(u8),
    /// A new generation without a change.
    NoopEdit,
    /// The run dispatches this many of its objects (all of them finish it).
    Dispatch(usize),
    /// A collection pass.
    Collect,
    /// Somebody deletes the n-th tracker by hand.
    DeleteTracker(usize),
    /// Somebody deletes an object by hand.
    DeleteObject(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => any::<u8>().prop_map(|bits| Event::Edit(bits & 0b1_1111)),
        1 => Just(Event::NoopEdit),
        4 => (0usize..7).prop_map(Event::Dispatch),
        6 => Just(Event::Collect),
        1 => (0usize..4).prop_map(Event::DeleteTracker),
        1 => (0u8..5).prop_map(Event::DeleteObject),
    ]
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn objects_of(bits: u8) -> Vec<&'static str> {
    NAMES.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, n)| *n).collect()
}

/// The shell around the decisions, reduced to what matters here: the same calls in the same order as the controller.
struct Walk {
    world: World,
    generation: i64,
    spec: u8,
    finished: bool,
}

impl Walk {
    fn revision(&self) -> String {
        format!("app-{}", self.spec)
    }

    fn current(&self) -> Option<String> {
        let revision = self.revision();
        let run = Run { generation: self.generation, publish_version: "", revision: &revision };
        current(&self.world.trackers, run).map(|tracker| tracker.name.clone())
    }

    fn dispatch(&mut self, count: usize) {
        let wanted = objects_of(self.spec);
        let name = self.current().unwrap_or_else(|| {
            let name = versioned_name("app", "n", self.generation, "");
            let mut new = tracker(&name, self.generation, &[]);
            new.revision = self.revision();
            self.world.trackers.push(new);
            name
        });
        let (generation, revision) = (self.generation, self.revision());
        for tracker in self.world.trackers.iter_mut().filter(|t| t.name == name) {
            tracker.generation = generation;
            tracker.revision.clone_from(&revision);
            tracker.deleting = false;
            for object_name in wanted.iter().take(count) {
                add_record(
                    &mut tracker.records,
                    record_of(&object(object_name, true), "", false, false),
                );
            }
        }
        for name in wanted.iter().take(count) {
            self.world.live.insert((*name).to_owned(), object(name, true));
        }
        self.finished |= count >= wanted.len();
    }

    fn collect(&mut self) {
        let current = self.current().unwrap_or_default();
        let scope = if self.finished { Scope::History } else { Scope::Marked };
        let plan = self.world.plan(&current, scope);
        for action in &plan.actions {
            let Action::Delete { record, .. } = action else { continue };
            assert!(
                !objects_of(self.spec).contains(&record.name.as_str()),
                "deleted {} which the newest spec wants",
                record.name
            );
            self.world.live.remove(&record.name);
        }
        for tracker in &mut self.world.trackers {
            tracker.deleting |= plan.marked.contains(&tracker.name);
        }
        self.world.trackers.retain(|tracker| !plan.finished.contains(&tracker.name));
    }

    /// What state-keep does: objects of the current tracker are put back.
    fn keep(&mut self) {
        let Some(current) = self.current() else { return };
        for tracker in self.world.trackers.iter().filter(|tracker| tracker.name == current) {
            for record in &tracker.records {
                self.world.live.insert(record.name.clone(), object(&record.name, true));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Random edits at random speed: nothing the newest spec wants is ever deleted, and once the last run is finished and
    /// collected, exactly its objects are there and one tracker is left.
    #[test]
    fn random_edits_lose_nothing_and_leak_nothing(events in proptest::collection::vec(event(), 1..60)) {
        let mut walk = Walk { world: World::new(Vec::new(), &[]), generation: 1, spec: 1, finished: false };
        for event in events {
            match event {
                Event::Edit(bits) => {
                    walk.generation += 1;
                    walk.finished &= walk.spec == bits;
                    walk.spec = bits;
                }
                Event::NoopEdit => walk.generation += 1,
                Event::Dispatch(count) => walk.dispatch(count),
                Event::Collect => walk.collect(),
                Event::DeleteTracker(index) => {
                    if let Some(tracker) = walk.world.trackers.get_mut(index) {
                        tracker.deleting = true;
                    }
                }
                Event::DeleteObject(index) => {
                    walk.world.live.remove(NAMES[usize::from(index)]);
                }
            }
        }
        walk.dispatch(NAMES.len());
        walk.keep();
        for _ in 0..3 {
            walk.collect();
        }
        let live: Vec<_> = walk.world.live.keys().map(String::as_str).collect();
        // A tracker that was current before (A, B, A) may remember objects of A only: never more than the spec.
        prop_assert_eq!(live, objects_of(walk.spec));
        prop_assert_eq!(walk.world.trackers.len(), 1);
    }
}

/// Nobody can say what became of it: its tracker stays until somebody can, and what is known goes.
#[test]
fn what_is_unknown_holds_its_tracker_and_nothing_else() {
    for scope in [Scope::History, Scope::All] {
        let trackers = vec![
            tracker("old", 1, &["known", "unknown"]),
            tracker("gone", 2, &["other"]),
            tracker("new", 3, &["wanted"]),
        ];
        let mut world = World::new(trackers, &["known"]);
        world.unknown = vec!["unknown".to_owned(), "wanted".to_owned()];
        let plan = world.plan("new", scope);
        let names = |records: &[Record]| -> Vec<String> {
            records.iter().map(|record| record.name.clone()).collect()
        };
        let all = scope == Scope::All;
        assert_eq!(deleted(&plan), ["known"]);
        assert_eq!(plan.finished, ["gone"]);
        let unknown: &[&str] = if all { &["unknown", "wanted"] } else { &["unknown"] };
        assert_eq!(names(&plan.unknown), unknown);
        assert!(!plan.is_done());
    }
}

/// What has to be approved stays with its tracker, everything else goes; the approval lets it go.
#[test]
fn deletions_that_ask_wait_for_the_approval() {
    let trackers = vec![tracker("old", 1, &["a", "b"]), tracker("new", 2, &["c"])];
    let world = World::new(trackers, &["a", "b", "c"]);
    let names = |records: &[Record]| -> Vec<String> {
        records.iter().map(|record| record.name.clone()).collect()
    };
    for (rules, goes, held) in [
        ("confirm=Secret", &["a", "b"][..], &[][..]),
        ("confirm=ConfigMap", &[], &["a", "b"]),
        // Two of the three objects of the Application.
        ("limit=67%", &["a", "b"], &[]),
        ("limit=66%", &[], &["a", "b"]),
        ("limit=1", &[], &["a", "b"]),
    ] {
        let mut world = World { trackers: world.trackers.clone(), ..World::new(vec![], &[]) };
        world.live = ["a", "b", "c"].map(|name| (name.to_owned(), object(name, true))).into();
        let asking = world.asking(rules);
        let plan = asking.plan("new", Scope::History);
        assert_eq!(deleted(&plan), goes, "{rules}");
        assert_eq!(names(&plan.held), held, "{rules}");
        assert_eq!(plan.marked, ["old"], "{rules}");
        assert!(plan.finished.is_empty() && !plan.is_done(), "{rules}");
        let unasked = World { prune: None, ..asking };
        assert_eq!(deleted(&unasked.plan("new", Scope::History)), ["a", "b"], "{rules}, approved");
    }
}

/// Somebody deletes what has to be approved: nothing is left to ask.
#[test]
fn what_is_being_deleted_asks_no_more() {
    let trackers = vec![tracker("old", 1, &["a"]), tracker("new", 2, &[])];
    let mut world = World::new(trackers, &["a"]).asking("confirm");
    world.live.get_mut("a").unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-01-01T00:00:00Z");
    let plan = world.plan("new", Scope::History);
    assert!(plan.held.is_empty() && plan.waiting.len() == 1, "{plan:?}");
    world.live.clear();
    assert_eq!(world.plan("new", Scope::History).finished, ["old"]);
}

proptest! {
    /// With `confirm` no history of edits deletes anything before it is approved.
    #[test]
    fn nothing_that_asks_is_deleted_unapproved(events in proptest::collection::vec(event(), 1..40)) {
        let world = World::new(Vec::new(), &[]).asking("confirm");
        let mut walk = Walk { world, generation: 1, spec: 1, finished: false };
        for event in events {
            match event {
                Event::Edit(bits) => {
                    walk.generation += 1;
                    walk.finished &= walk.spec == bits;
                    walk.spec = bits;
                }
                Event::NoopEdit => walk.generation += 1,
                Event::Dispatch(count) => walk.dispatch(count),
                Event::Collect | Event::DeleteTracker(_) | Event::DeleteObject(_) => {
                    let before = walk.world.live.clone();
                    walk.collect();
                    prop_assert_eq!(&before, &walk.world.live);
                }
            }
        }
        walk.dispatch(NAMES.len());
        walk.keep();
        walk.world.prune = None;
        for _ in 0..3 {
            walk.collect();
        }
        let live: Vec<_> = walk.world.live.keys().map(String::as_str).collect();
        prop_assert_eq!(live, objects_of(walk.spec));
    }
}
