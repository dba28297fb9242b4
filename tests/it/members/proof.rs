//! F6: somebody else answers at a member's address. No answer of his proves anything: what was deployed there is neither
//! forgotten nor written again, and comes to its end when the member answers itself.

use kube::api::DeleteParams;
use serde_json::json;
use vela_tests::fixtures::until;
use vela_tests::impostor::{Canned, Impostor};
use vela_tests::link::Mode;
use vela_tests::members::{LIMIT, fleet};

fn answers() -> Vec<(&'static str, Canned)> {
    let other = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "NotFound", "code": 404, "message": "configmaps \"other\" not found",
        "details": {"name": "other", "kind": "configmaps"}});
    vec![
        ("404 in HTML", Canned::html(404, "<html>no such page</html>")),
        ("404 about another object", Canned::json(404, &other)),
        ("404 in the text of an API server", Canned::html(404, "404 page not found")),
        ("502", Canned::html(502, "bad gateway")),
        ("200 without a body", Canned::html(200, "")),
        ("200 with an empty object", Canned::json(200, &json!({}))),
        ("401 in HTML", Canned::html(401, "<html>log in</html>")),
    ]
}

#[tokio::test]
async fn what_somebody_else_answers_forgets_nothing() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("proof").await.unwrap();
    let impostor = Impostor::of(&fleet.east.cluster, answers().remove(0).1).await.unwrap();
    for (what, answer) in answers() {
        eprintln!("{what}");
        impostor.answer(answer);
        space.apply(&space.application("a", &["local", "east"], "1")).await.unwrap();
        space.runs("a").await;
        let (uid, _) = space.map("east", "a").await.unwrap();

        fleet.east.link.set(Mode::LeadTo(impostor.port()));
        let before = impostor.requests();
        space.apply(&space.application("a", &["local", "east"], "2")).await.unwrap();
        until("the edit in the hub", LIMIT, async || {
            space.value("local", "a").await.as_deref() == Some("2")
        })
        .await;
        space.applications().delete("a", &DeleteParams::default()).await.unwrap();
        until("the object in the hub to go", LIMIT, async || {
            space.value("local", "a").await.is_none()
        })
        .await;
        until("requests to be answered by somebody else", LIMIT, async || {
            impostor.requests() > before
        })
        .await;
        // Still asked for, still recorded, still there.
        assert!(!space.app("a").await.is_null(), "{what}");
        assert_eq!(space.map("east", "a").await.unwrap().0, uid, "{what}");
        fleet.east.link.set(Mode::Pass);
        space.gone("a").await;
        assert_eq!(space.value("east", "a").await, None, "{what}");
        fleet.reaches("east", "Connected").await;
    }
}
