//! Who acts for an Application.
//!
//! Answers for `pkg/auth/userinfo.go`; [`Identity::acting`] tells the one difference.

use vela_api::Application;
use vela_api::names::annotation;
use vela_cluster::Identity;
use vela_seal::{Stamp, Subject};

use super::revision;
use crate::context::Context;

/// The identity of an Application's requests.
#[must_use]
pub fn of(app: &Application, authenticate: bool, default_user: &str) -> Identity {
    let annotation = |key: &str| revision::annotation(&app.metadata, key);
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    Identity::acting(annotation, namespace, authenticate, default_user)
}

/// Who wrote an Application, if that is known.
#[must_use]
pub fn stamp(ctx: &Context, app: &Application) -> Option<Stamp> {
    let keys = ctx.keys.get()?;
    let annotation = |key: &str| revision::annotation(&app.metadata, key);
    let published = annotation(annotation::PUBLISH_VERSION);
    let updated = annotation(annotation::AUTO_UPDATE);
    let subject = Subject {
        kind: Application::KIND,
        namespace: app.metadata.namespace.as_deref().unwrap_or_default(),
        name: app.metadata.name.as_deref().unwrap_or_default(),
        content: vela_seal::application(&app.spec, published, updated).ok()?,
    };
    Stamp::verified(annotation, &keys, &subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn app(annotations: &serde_json::Value) -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n", "annotations": annotations}, "spec": {"components": []}}))
            .unwrap()
    }

    #[test]
    fn table() {
        let account = json!({"app.oam.dev/service-account-name": "sa"});
        let user = json!({"app.oam.dev/username": "u", "app.oam.dev/group": "a, b,"});
        let text = |annotations: &serde_json::Value, on| {
            let identity = of(&app(annotations), on, "default");
            format!("{} {:?}", identity.user, identity.groups)
        };
        assert_eq!(text(&account, false), "system:serviceaccount:n:sa []");
        assert_eq!(text(&user, true), r#"u ["a", "b"]"#);
        assert_eq!(text(&user, false), " []");
        assert_eq!(text(&json!({}), true), "default []");
        assert_eq!(text(&json!({}), false), " []");
    }
}
