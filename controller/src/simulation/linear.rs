//! One Application of many objects: its requests, and the bytes that they send, grow as the number of objects does.

use serde_json::Value;

use super::clusters::{apply, delete};
use super::many_components::components;
use super::{World, application};

/// Requests and bytes of the creation, an edit of all objects, the edit that takes away half of them, and the deletion.
type Costs = [(usize, usize); 4];

fn names(count: usize) -> Vec<String> {
    // Of one length: a longer name is no more work.
    (0..count).map(|n| format!("c{n:04}")).collect()
}

fn of_one_component(count: usize, value: &str) -> Value {
    let names = names(count);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    application("a", &[("one", &names, value)])
}

fn of_many_components(count: usize, value: &str) -> Value {
    components(&names(count), value)
}

async fn life(count: usize, spec: fn(usize, &str) -> Value) -> Costs {
    let world = World::new();
    let mut process = world.start();
    let mut costs = Costs::default();
    let states = [Some((count, "1")), Some((count, "2")), Some((count / 2, "2")), None];
    for (cost, wanted) in costs.iter_mut().zip(states) {
        let before = {
            let state = world.server.state.lock();
            (state.requests.len(), state.sent)
        };
        match wanted {
            Some((count, value)) => apply(&world, spec(count, value)),
            None => delete(&world),
        }
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new());
        let state = world.server.state.lock();
        *cost = (state.requests.len() - before.0, state.sent - before.1);
    }
    costs
}

async fn assert_linear(spec: fn(usize, &str) -> Value) {
    const SMALL: usize = 16;
    const TIMES: usize = 4;
    let (small, large) = (life(SMALL, spec).await, life(SMALL * TIMES, spec).await);
    for (small, large) in small.into_iter().zip(large) {
        assert!(large.0 <= small.0 * TIMES && large.1 <= small.1 * TIMES, "{small:?}, {large:?}");
    }
}

#[tokio::test]
async fn many_objects_of_one_component() {
    assert_linear(of_one_component).await;
}

#[tokio::test]
async fn many_components_of_one_object() {
    assert_linear(of_many_components).await;
}
