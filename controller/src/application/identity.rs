//! Who acts for an Application.
//!
//! Answers for `pkg/auth/userinfo.go`. One difference on purpose: without the gate AuthenticateApplication nobody checks who
//! wrote the user and group annotations, so they are ignored; only a ServiceAccount of the Application's own namespace may be
//! named, which gives an author nothing beyond the namespace.

use vela_api::Application;
use vela_api::names::annotation;
use vela_cluster::Identity;

use super::revision;

/// The identity of an Application's requests.
#[must_use]
pub fn of(app: &Application, authenticate: bool, default_user: &str) -> Identity {
    let get = |key: &str| revision::annotation(&app.metadata, key);
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let account = get(annotation::SERVICE_ACCOUNT);
    let user = get(annotation::USERNAME);
    if authenticate && !user.is_empty() {
        let groups = get(annotation::GROUP).split(',').map(str::trim).filter(|g| !g.is_empty());
        return Identity { user: user.to_owned(), groups: groups.map(str::to_owned).collect() };
    }
    if !account.is_empty() {
        return Identity {
            user: format!("system:serviceaccount:{namespace}:{account}"),
            groups: Vec::new(),
        };
    }
    if authenticate {
        return Identity { user: default_user.to_owned(), groups: Vec::new() };
    }
    Identity::default()
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
