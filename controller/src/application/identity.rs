//! Who acts for an Application.
//!
//! Answers for `pkg/auth/userinfo.go`; [`Identity::acting`] tells the one difference.

use vela_api::Application;
use vela_cluster::Identity;

use super::revision;

/// The identity of an Application's requests.
#[must_use]
pub fn of(app: &Application, authenticate: bool, default_user: &str) -> Identity {
    let annotation = |key: &str| revision::annotation(&app.metadata, key);
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    Identity::acting(annotation, namespace, authenticate, default_user)
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
