//! Steps that name a server which no step may reach.

use futures::FutureExt;
use serde_json::json;

use crate::egress::calls::Slot;
use crate::queue::Key;

use super::{NAMESPACE, World, application, define_step};

/// A call that has no answer leaves the step waiting.
fn template(import: &str, call: &str) -> String {
    format!(
        r#"
import ("vela/builtin", "vela/{import}")
call: {call}
wait: builtin.#ConditionalWait & {{$params: continue: call.$returns != _|_}}
parameter: {{}}
"#
    )
}

/// Puts an Application there whose only step after its component makes a call.
fn apply(world: &World, import: &str, call: &str) {
    let template = template(import, call);
    world.server.by_another_writer(|state| {
        define_step(state, "call", &template);
        let mut app = application("a", &[("c", &["x"], "1")]);
        app["spec"]["workflow"] = json!({"steps": [{"name": "s", "type": "call"}]});
        state.put("applications", app);
    });
}

/// The messages that the step ever had, and the effects that were ever noted.
fn messages_and_effects(world: &World) -> (Vec<String>, Vec<String>) {
    let state = world.server.state.lock();
    let step = "/status/workflow/steps/0/message";
    let apps = state.history("applications", "a");
    let messages = apps.filter_map(|app| app.pointer(step)?.as_str().map(str::to_owned));
    let contexts = state.history("configmaps", "workflow-a-context");
    let data = contexts.filter_map(|context| context["data"].as_object());
    let effects = data.flat_map(|data| data.keys().filter(|key| key.ends_with(".effect")).cloned());
    (messages.collect(), effects.collect())
}

/// An address in a URL, or a mail server's, needs no connection to be refused: the step says so at once, whatever else its
/// namespace has in flight, and nothing is noted as if it had been sent.
#[tokio::test]
async fn an_address_that_is_closed_is_refused_before_the_call_begins() {
    let http = |method: &str, url: &str| {
        let call = format!(r#"http.#HTTPDo & {{$params: {{method: "{method}", url: "{url}"}}}}"#);
        ("http", call)
    };
    let mail = r#"email.#SendEmail & {$params: {
        from: {address: "a@example.com", password: "secret", host: "127.0.0.1", port: 2525}
        to: ["b@example.com"]
        content: {subject: "s", body: "b"}}}"#;
    let check = r#"metrics.#PromCheck & {$params: {
        query: "x", metricEndpoint: "http://[fd00:ec2::254]:9090", condition: ">=1"}}"#;
    let calls = [
        http("GET", "http://169.254.169.254/latest"),
        http("POST", "http://user:pass@169.254.169.254/"),
        http("PUT", "https://[::ffff:127.0.0.1]:8443/"),
        http("GET", "http://127.1:8080/"),
        ("email", mail.to_owned()),
        ("metrics", check.to_owned()),
    ];
    for (import, call) in calls {
        for is_full in [false, true] {
            let world = World::new();
            apply(&world, import, &call);
            let process = world.start();
            if is_full {
                let app = Key::new(NAMESPACE, "other");
                for path in 0..20 {
                    let (step, path) = ("s".to_owned(), path.to_string());
                    let slot = Slot { app: app.clone(), step, path };
                    process.context.calls.begin(&slot, false, std::future::pending().boxed());
                }
                assert!(!process.context.calls.has_room(NAMESPACE));
            }
            for _ in 0..3 {
                world.reconcile(&process, "a").await;
            }
            let (messages, effects) = messages_and_effects(&world);
            let case = format!("{call}: {messages:?} {effects:?} {:#}", world.app("a")["status"]);
            assert!(messages.iter().any(|m| m.contains("not allowed to reach")), "{case}");
            assert!(!messages.iter().any(|m| m.contains("waiting")), "{case}");
            assert!(!messages.iter().any(|m| m.contains("pass")), "{case}");
            assert_eq!(effects, Vec::<String>::new(), "{case}");
        }
    }
}
