//! Resource policies through the whole reconcile: what they keep is kept, and nothing that is not the Application's to delete or
//! to write over is touched.

use serde_json::{Value, json};

use super::server::State;
use super::{NAMESPACE, Process, World, application, uid};

fn app(components: &[(&str, &[&str], &str)], policies: &Value) -> Value {
    let mut app = application("a", components);
    app["spec"]["policies"] = policies.clone();
    app
}

fn put(world: &World, app: Value) {
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
}

/// Another spec for what is there.
fn edit(world: &World, mut app: Value) {
    world.server.by_another_writer(|state| {
        let stored = state.get("applications", NAMESPACE, "a").cloned().unwrap_or_default();
        app["metadata"] = stored["metadata"].clone();
        app["status"] = stored["status"].clone();
        state.put("applications", app);
    });
}

fn delete(world: &World) {
    world.server.by_another_writer(|state| {
        state.delete("applications", NAMESPACE, "a");
    });
}

fn map(world: &World, name: &str) -> Value {
    world.server.state.lock().get("configmaps", NAMESPACE, name).cloned().unwrap_or_default()
}

fn foreign(state: &mut State, name: &str) {
    state.put(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "theirs", "more": "x"},
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"by": "hand"}}}),
    );
}

fn policy(kind: &str, rule: &Value) -> Value {
    let mut whole = json!({"selector": {"resourceNames": ["x"]}});
    for (key, value) in rule.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!([{"name": "p", "type": kind, "properties": {"rules": [whole]}}])
}

fn message(world: &World) -> String {
    let app = world.app("a");
    app["status"]["workflow"]["steps"][0]["message"].as_str().unwrap_or_default().to_owned()
}

fn condition(world: &World, kind: &str) -> Value {
    let app = world.app("a");
    let all = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == kind);
    found.unwrap_or_default()["message"].clone()
}

async fn reconcile_times(world: &World, process: &Process, count: usize) {
    for _ in 0..count {
        world.reconcile(process, "a").await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_only_read_is_never_written_nor_deleted() {
    let world = World::new();
    let mut process = world.start();
    world.server.by_another_writer(|state| foreign(state, "x"));
    let before = map(&world, "x");
    put(&world, app(&[("c", &["x"], "1")], &policy("read-only", &json!({}))));
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running");
    edit(&world, app(&[("c", &["x"], "2")], &policy("read-only", &json!({}))));
    world.settle(&mut process, "a").await;
    // It leaves the spec, comes back, and goes with the Application.
    edit(&world, app(&[("d", &["y"], "2")], &policy("read-only", &json!({}))));
    world.settle(&mut process, "a").await;
    edit(&world, app(&[("c", &["x"], "2")], &policy("read-only", &json!({}))));
    world.settle(&mut process, "a").await;
    assert_eq!(map(&world, "y"), Value::Null);
    delete(&world);
    world.settle(&mut process, "a").await;
    assert_eq!(map(&world, "x"), before);
    assert_eq!(world.app("a"), Value::Null);
}

#[tokio::test]
async fn what_is_only_read_must_be_there() {
    let absent = "ConfigMap x does not exist and a read-only policy keeps it from being created: create it, or change the policy";
    let world = World::new();
    let mut process = world.start();
    put(&world, app(&[("c", &["x"], "1")], &policy("read-only", &json!({}))));
    reconcile_times(&world, &process, 2).await;
    assert!(message(&world).contains(absent), "{}", message(&world));
    assert!(world.server.state.lock().all("resourcetrackers").is_empty());
    world.server.by_another_writer(|state| foreign(state, "x"));
    // The next attempt is a second away, that of another spec is not.
    edit(&world, app(&[("c", &["x"], "2")], &policy("read-only", &json!({}))));
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running");
    world.server.by_another_writer(|state| {
        state.delete("configmaps", NAMESPACE, "x");
    });
    // Nobody watches what is not ours: the next reconcile finds out.
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        app["metadata"]["labels"]["look"] = json!("again");
        state.put("applications", app);
    });
    reconcile_times(&world, &process, 1).await;
    let kept = condition(&world, "StateKeep");
    assert!(kept.as_str().unwrap_or_default().contains(absent), "{kept}");
    assert_eq!(map(&world, "x"), Value::Null);
    world.server.by_another_writer(|state| foreign(state, "x"));
    world.settle(&mut process, "a").await;
    assert_eq!(condition(&world, "StateKeep"), Value::Null);
}

#[tokio::test]
async fn what_is_taken_over_goes_with_the_application_unless_it_is_to_stay() {
    for stays in [false, true] {
        let world = World::new();
        let mut process = world.start();
        world.server.by_another_writer(|state| foreign(state, "x"));
        put(&world, app(&[("c", &["x"], "1")], &json!([])));
        reconcile_times(&world, &process, 2).await;
        let unmanaged =
            "(ConfigMap n/x exists and belongs to no Application: a take-over policy adopts it)";
        assert!(message(&world).contains(unmanaged), "{}", message(&world));
        assert_eq!(map(&world, "x")["data"]["v"], "theirs");
        let mut policies = policy("take-over", &json!({}));
        if stays {
            let more = policy("garbage-collect", &json!({"propagation": "orphan"}));
            let mut more = more[0].clone();
            more["name"] = json!("g");
            policies.as_array_mut().unwrap().push(more);
        }
        edit(&world, app(&[("c", &["x"], "1")], &policies));
        world.settle(&mut process, "a").await;
        // What nobody here wrote stays in it.
        assert_eq!(map(&world, "x")["data"], json!({"v": "1", "more": "x"}));
        assert_eq!(map(&world, "x")["metadata"]["labels"]["app.oam.dev/name"], "a");
        delete(&world);
        world.settle(&mut process, "a").await;
        let left = map(&world, "x");
        assert_eq!(left.is_object(), stays);
        assert_eq!(left["metadata"]["labels"]["app.oam.dev/name"], Value::Null);
    }
}

/// A rule that comes, changes and goes: what is there is what the newest spec says, and so is what is deleted.
#[tokio::test]
async fn rules_come_and_go() {
    let rule = |strategy: &str| match strategy {
        "" => json!([]),
        strategy => policy("garbage-collect", &json!({ "strategy": strategy })),
    };
    for (rules, kept, at_the_end) in [
        // The rule goes with the component: what it said holds.
        (["", "never", ""], true, true),
        (["", "onAppDelete", ""], true, false),
        (["never", "", ""], false, false),
        (["onAppDelete", "", ""], false, false),
        (["onAppDelete", "onAppUpdate", ""], false, false),
        (["", "", "never"], true, true),
        (["never", "never", "never"], true, true),
        (["never", "onAppDelete", "onAppDelete"], true, false),
        (["onAppDelete", "never", "never"], true, true),
        (["", "onAppDelete", "onAppDelete"], true, false),
    ] {
        let world = World::new();
        let mut process = world.start();
        let value = |index: usize| ["1", "2", "3"][index];
        put(&world, app(&[("c", &["x"], value(0)), ("d", &["y"], "1")], &rule(rules[0])));
        world.settle(&mut process, "a").await;
        edit(&world, app(&[("c", &["x"], value(1)), ("d", &["y"], "1")], &rule(rules[1])));
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new(), "{rules:?}");
        // What drifts is what the newest spec says, not what any tracker remembers of before.
        world.server.by_another_writer(|state| {
            let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
            map["data"]["v"] = json!("drift");
            state.put("configmaps", map);
        });
        world.settle(&mut process, "a").await;
        assert_eq!(map(&world, "x")["data"]["v"], value(1), "{rules:?}");
        // The component goes, with or without a rule.
        edit(&world, app(&[("d", &["y"], "1")], &rule(rules[2])));
        world.settle(&mut process, "a").await;
        assert_eq!(map(&world, "x").is_object(), kept, "{rules:?}");
        delete(&world);
        world.settle(&mut process, "a").await;
        let left = map(&world, "x");
        assert_eq!(left.is_object(), at_the_end, "{rules:?}");
        assert_eq!(left["metadata"]["labels"]["app.oam.dev/name"], Value::Null, "{rules:?}");
        assert_eq!(map(&world, "y"), Value::Null);
        assert!(world.server.state.lock().all("resourcetrackers").is_empty(), "{rules:?}");
    }
}

/// Keys that leave the manifest leave the ConfigMap, whichever tracker remembers it.
#[tokio::test]
async fn keys_that_were_written_go_whatever_the_rule() {
    for strategy in ["onAppUpdate", "onAppDelete", "never"] {
        let world = World::new();
        world.server.by_another_writer(|state| {
            let mut definition =
                state.get("componentdefinitions", "vela-system", "maps").cloned().unwrap();
            let text = "output: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"x\", \
                data: (parameter.value): \"1\"}\nparameter: {names: [...string], value: string}";
            definition["spec"]["schematic"]["cue"]["template"] = json!(text);
            state.put("componentdefinitions", definition);
        });
        let mut process = world.start();
        let rule = policy("garbage-collect", &json!({ "strategy": strategy }));
        put(&world, app(&[("c", &["x"], "k")], &rule));
        world.settle(&mut process, "a").await;
        edit(&world, app(&[("c", &["x"], "l")], &rule));
        world.settle(&mut process, "a").await;
        assert_eq!(map(&world, "x")["data"], json!({"l": "1"}), "{strategy}");
    }
}

/// The words of an apply-once rule that cannot be followed are the reference's.
#[tokio::test]
async fn an_apply_once_rule_that_cannot_be_followed_says_for_which_object() {
    for (strategy, tracker) in [("onAppUpdate", "a-v1-n"), ("onAppDelete", "a-n")] {
        let world = World::new();
        let process = world.start();
        let rule =
            json!({"selector": {"resourceNames": ["x"]}, "strategy": {"path": ["data.not"]}});
        let kept = json!({"selector": {"resourceNames": ["x"]}, "strategy": strategy});
        let policies = json!([
            {"name": "p", "type": "apply-once", "properties": {"enable": true, "rules": [rule]}},
            {"name": "g", "type": "garbage-collect", "properties": {"rules": [kept]}},
        ]);
        put(&world, app(&[("c", &["x"], "1")], &policies));
        reconcile_times(&world, &process, 3).await;
        let expected = format!(
            "Found 1 errors. [(failed to apply once resource /ConfigMap/local/n/x from resourcetracker \
            {tracker}: data.not: no such field)]"
        );
        assert_eq!(condition(&world, "StateKeep"), expected);
    }
}

fn recreating() -> Value {
    policy("resource-update", &json!({"strategy": {"recreateFields": ["data.v"]}}))
}

#[tokio::test]
async fn an_object_is_recreated_when_its_predecessor_is_gone() {
    for held in [false, true] {
        let world = World::new();
        let mut process = world.start();
        put(&world, app(&[("c", &["x"], "1")], &recreating()));
        world.settle(&mut process, "a").await;
        let first = uid(&world, "x");
        if held {
            world.server.by_another_writer(|state| {
                let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
                map["metadata"]["finalizers"] = json!(["somebody/else"]);
                state.put("configmaps", map);
            });
        }
        edit(&world, app(&[("c", &["x"], "2")], &recreating()));
        if held {
            reconcile_times(&world, &process, 1).await;
            assert_eq!(map(&world, "x")["data"]["v"], "1");
            let said = "ConfigMap x is being deleted; it will be recreated once it is gone";
            assert!(message(&world).contains(said), "{}", message(&world));
            // It waits, that is no failed attempt.
            let step = world.app("a")["status"]["workflow"]["steps"][0].clone();
            assert_eq!((&step["phase"], &step["reason"]), (&json!("running"), &json!("Wait")));
            world.server.by_another_writer(|state| {
                let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
                map["metadata"]["finalizers"] = json!([]);
                state.put("configmaps", map);
            });
        }
        world.settle(&mut process, "a").await;
        // That one goes is what the policy asks for.
        world.server.state.lock().crimes.clear();
        assert_eq!(world.faults("a"), Vec::<String>::new(), "held: {held}");
        assert_ne!(uid(&world, "x"), first);
        assert_eq!(world.server.state.lock().deletes, ["x"], "held: {held}");
    }
}

/// What the API server would not take never costs the object that is there, be it a dispatch or drift.
#[tokio::test]
async fn nothing_is_deleted_for_an_object_that_is_refused() {
    for drifts in [false, true] {
        let world = World::new();
        let mut process = world.start();
        put(&world, app(&[("c", &["x"], "1")], &recreating()));
        world.settle(&mut process, "a").await;
        let first = uid(&world, "x");
        if drifts {
            world.server.by_another_writer(|state| {
                let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
                map["data"]["v"] = json!("drift");
                state.put("configmaps", map);
                state.refused = Some("x");
            });
        } else {
            world.server.state.lock().refused = Some("x");
            edit(&world, app(&[("c", &["x"], "2")], &recreating()));
        }
        reconcile_times(&world, &process, 3).await;
        let said = if drifts { condition(&world, "StateKeep") } else { json!(message(&world)) };
        let said = said.as_str().unwrap_or_default().to_owned();
        let mut expected = String::from("[(");
        if drifts {
            expected +=
                "failed to re-apply resource /ConfigMap/local/n/x from resourcetracker a-v1-n: ";
        }
        expected += "cannot recreate object: Invalid)";
        assert!(said.contains(&expected), "drifts: {drifts}: {said}");
        assert_eq!(uid(&world, "x"), first, "drifts: {drifts}");
        assert!(world.server.state.lock().deletes.is_empty());
        world.server.state.lock().refused = None;
        let last = if drifts { "1" } else { "3" };
        edit(&world, app(&[("c", &["x"], last)], &recreating()));
        reconcile_times(&world, &process, 1).await;
        world.settle(&mut process, "a").await;
        assert_eq!(map(&world, "x")["data"]["v"], last);
        assert_ne!(uid(&world, "x"), first);
    }
}

/// Somebody else writes in the very moment: the PUT is decided again, not sent over it.
#[tokio::test]
async fn replacing_meets_every_write_of_others() {
    for after in 1..60 {
        let world = World::new();
        let mut process = world.start();
        let replacing = policy("resource-update", &json!({"strategy": {"op": "replace"}}));
        put(&world, app(&[("c", &["x"], "1")], &replacing));
        world.settle(&mut process, "a").await;
        edit(&world, app(&[("c", &["x"], "2")], &replacing));
        world.server.state.lock().interruption = Some((
            after,
            Box::new(|state: &mut State| {
                let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
                map["data"]["v"] = json!("theirs");
                state.put("configmaps", map);
                state.is_silent = true;
            }),
        ));
        reconcile_times(&world, &process, 1).await;
        let step = world.app("a")["status"]["workflow"]["steps"][0]["phase"].clone();
        assert_ne!(step, "failed", "after {after} requests: {}", message(&world));
        world.server.by_another_writer(|state| state.is_silent = false);
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new(), "after {after} requests");
        if world.server.state.lock().interruption.is_some() {
            assert!(after > 5, "only {after} requests");
            return;
        }
    }
    panic!("it never ends");
}

/// A publishVersion may be called like the tracker of a generation, and an Application like the tracker of another one.
#[tokio::test]
async fn trackers_of_one_name_are_told_apart() {
    let world = World::new();
    let mut process = world.start();
    put(&world, app(&[("c", &["x"], "1")], &json!([])));
    world.settle(&mut process, "a").await;
    for (version, name) in [("v1", "y"), ("v2", "z"), ("", "w"), ("v1", "x")] {
        world.server.by_another_writer(|state| {
            let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
            app["spec"]["components"][0]["properties"]["names"] = json!([name]);
            app["metadata"]["annotations"]["app.oam.dev/publishVersion"] = json!(version);
            if version.is_empty()
                && let Some(annotations) = app["metadata"]["annotations"].as_object_mut()
            {
                annotations.remove("app.oam.dev/publishVersion");
            }
            state.put("applications", app);
        });
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new(), "{version}");
    }
    delete(&world);
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
    assert!(world.server.state.lock().all("resourcetrackers").is_empty());
}

/// Applications whose trackers would have one name, and Applications of one name in two namespaces.
#[tokio::test]
async fn applications_of_one_name_do_not_touch_each_other() {
    for (name, namespace) in [("a", "m"), ("a", "v1-n"), ("a-v1", NAMESPACE)] {
        for first in [false, true] {
            let world = World::new();
            let process = world.start();
            let mut one = app(&[("c", &["x"], "1")], &json!([]));
            let rule = json!({"strategy": "onAppDelete"});
            let mut other = app(&[("c", &["y"], "2")], &policy("garbage-collect", &rule));
            other["spec"]["policies"][0]["properties"]["rules"][0]["selector"] =
                json!({"componentNames": ["c"]});
            other["metadata"]["name"] = json!(name);
            other["metadata"]["namespace"] = json!(namespace);
            one["metadata"]["namespace"] = json!(NAMESPACE);
            let mut turns = [(NAMESPACE, "a"), (namespace, name)];
            put(&world, one);
            put(&world, other);
            if first {
                turns.reverse();
            }
            let settle = async || {
                for _ in 0..12 {
                    for (namespace, name) in turns {
                        world.reconcile_in(&process, namespace, name).await;
                        tokio::task::yield_now().await;
                    }
                }
            };
            settle().await;
            let trackers = |state: &State| state.all("resourcetrackers").len();
            let there = |namespace: &str, name: &str| {
                world.server.state.lock().get("configmaps", namespace, name).is_some()
            };
            assert!(there(NAMESPACE, "x") && there(namespace, "y"), "{name} {namespace}");
            // Two of the run, one root.
            assert_eq!(trackers(&world.server.state.lock()), 3, "{name} {namespace}");
            world.server.by_another_writer(|state| {
                state.delete("applications", namespace, name);
            });
            settle().await;
            assert!(there(NAMESPACE, "x") && !there(namespace, "y"), "{name} {namespace}");
            assert_eq!(trackers(&world.server.state.lock()), 1, "{name} {namespace}");
            world.server.by_another_writer(|state| {
                state.delete("applications", NAMESPACE, "a");
            });
            settle().await;
            assert!(!there(NAMESPACE, "x"), "{name} {namespace}");
            assert_eq!(trackers(&world.server.state.lock()), 0, "{name} {namespace}");
        }
    }
}

/// Records of every tracker are changed behind the controller's back.
fn record(world: &World, change: impl Fn(&mut Vec<Value>)) {
    world.server.by_another_writer(|state| {
        let trackers: Vec<Value> = state.all("resourcetrackers").into_iter().cloned().collect();
        for mut tracker in trackers {
            if let Some(records) = tracker["spec"]["managedResources"].as_array_mut() {
                change(records);
            }
            state.put("resourcetrackers", tracker);
        }
    });
}

/// The kind of a recorded object was removed from the cluster: nothing waits for it.
#[tokio::test]
async fn objects_of_a_kind_that_is_gone_are_gone() {
    let world = World::new();
    let mut process = world.start();
    put(&world, app(&[("c", &["x"], "1"), ("d", &["y"], "1")], &json!([])));
    world.settle(&mut process, "a").await;
    record(&world, |records| {
        records.push(json!({"apiVersion": "gone.io/v1", "kind": "Gone", "name": "g",
            "namespace": NAMESPACE, "component": "d"}));
        records.push(json!({"apiVersion": "v1", "kind": "Gone", "name": "g", "component": "d"}));
    });
    edit(&world, app(&[("c", &["x"], "2")], &json!([])));
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
    record(&world, |records| {
        records.push(json!({"apiVersion": "gone.io/v1", "kind": "Gone", "name": "g"}));
    });
    delete(&world);
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a"), Value::Null);
}

/// A cluster-scoped object that an old release recorded with a namespace is one object, and wanted.
#[tokio::test]
async fn an_object_without_namespace_is_one_whatever_the_record_says() {
    let world = World::new();
    world.server.by_another_writer(|state| {
        let mut definition =
            state.get("componentdefinitions", "vela-system", "maps").cloned().unwrap();
        let text = "output: {apiVersion: \"v1\", kind: \"Namespace\", \
            metadata: {name: parameter.names[0], annotations: v: parameter.value}}\n\
            parameter: {names: [...string], value: string}";
        definition["metadata"]["name"] = json!("spaces");
        definition["spec"]["workload"]["definition"]["kind"] = json!("Namespace");
        definition["spec"]["schematic"]["cue"]["template"] = json!(text);
        state.put("componentdefinitions", definition);
    });
    let mut process = world.start();
    let spaces = |names: &[(&str, &str)]| {
        let components: Vec<Value> = names
            .iter()
            .map(|(name, value)| {
                json!({"name": name, "type": "spaces",
                    "properties": {"names": [name], "value": value}})
            })
            .collect();
        let mut app = app(&[], &json!([]));
        app["spec"]["components"] = json!(components);
        app
    };
    let there = |name: &str| world.server.state.lock().get("namespaces", "", name).cloned();
    put(&world, spaces(&[("s", "1"), ("t", "1")]));
    world.settle(&mut process, "a").await;
    assert!(there("s").is_some() && there("t").is_some());
    record(&world, |records| {
        for record in records {
            record["namespace"] = json!(NAMESPACE);
        }
    });
    // It is seen to drift.
    world.server.by_another_writer(|state| {
        let mut space = state.get("namespaces", "", "s").cloned().unwrap();
        space["metadata"]["annotations"]["v"] = json!("drift");
        state.put("namespaces", space);
    });
    reconcile_times(&world, &process, 3).await;
    let value = || there("s").unwrap_or_default()["metadata"]["annotations"]["v"].clone();
    assert_eq!(value(), "1");
    let uid = there("s").unwrap_or_default()["metadata"]["uid"].clone();
    edit(&world, spaces(&[("s", "2")]));
    world.settle(&mut process, "a").await;
    reconcile_times(&world, &process, 3).await;
    assert_eq!(value(), "2");
    assert_eq!(there("s").unwrap_or_default()["metadata"]["uid"], uid);
    assert_eq!(there("t"), None);
    delete(&world);
    world.settle(&mut process, "a").await;
    assert_eq!(there("s"), None);
    assert_eq!(world.app("a"), Value::Null);
}

/// What is the Application's is done as whom it names, what is the controller's is not.
#[tokio::test]
async fn objects_are_written_as_the_application_and_records_as_the_controller() {
    let world = World::new();
    let mut process = world.start();
    let mut named = app(
        &[("c", &["x", "y"], "1")],
        &policy("garbage-collect", &json!({"propagation": "orphan"})),
    );
    named["metadata"]["annotations"] = json!({"app.oam.dev/service-account-name": "sa"});
    put(&world, named);
    world.settle(&mut process, "a").await;
    world.server.by_another_writer(|state| {
        let mut map = state.get("configmaps", NAMESPACE, "x").cloned().unwrap();
        map["data"]["v"] = json!("drift");
        state.put("configmaps", map);
    });
    world.settle(&mut process, "a").await;
    delete(&world);
    world.settle(&mut process, "a").await;
    let account = "system:serviceaccount:n:sa";
    let writers = world.server.state.lock().writers.clone();
    let by = |user: &str| {
        let of = writers.iter().filter(|(_, writer)| writer == user);
        of.map(|(plural, _)| plural.as_str())
            .filter(|plural| *plural != "events")
            .collect::<Vec<_>>()
    };
    assert_eq!(by(account), ["configmaps"]);
    // The context of the workflow is the controller's own ConfigMap.
    assert_eq!(by(""), ["applicationrevisions", "applications", "configmaps", "resourcetrackers"]);
    assert!(map(&world, "x").is_object() && map(&world, "y").is_null());
}
