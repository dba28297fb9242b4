//! As whom a request is made.

use http::header::{HeaderName, InvalidHeaderValue};
use http::request::Builder;
use http::{HeaderMap, HeaderValue};
use vela_api::names::annotation;
use vela_seal::Stamp;

/// A user and groups; empty means ourselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// `Impersonate-User`; empty for none.
    pub user: String,
    /// `Impersonate-Group`, one header each.
    pub groups: Vec<String>,
}

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");

impl Identity {
    /// Ourselves.
    #[must_use]
    pub fn own() -> Self {
        Self::default()
    }

    /// Somebody without any right, until it is known who acts.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { user: "system:anonymous".to_owned(), groups: Vec::new() }
    }

    /// `system:serviceaccount:NAMESPACE:NAME`, without groups: the API server adds those of a ServiceAccount.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self { user: format!("system:serviceaccount:{namespace}:{name}"), groups: Vec::new() }
    }

    /// Whether requests are made as somebody else.
    #[must_use]
    pub fn is_other(&self) -> bool {
        !self.user.is_empty() || !self.groups.is_empty()
    }

    /// Adds the headers to a request under construction. A value that is no header (control
    /// characters) makes the request fail when it is built: it never goes out as ourselves.
    #[must_use]
    pub fn apply(&self, mut builder: Builder) -> Builder {
        if !self.user.is_empty() {
            builder = builder.header(USER, self.user.as_str());
        }
        for group in &self.groups {
            builder = builder.header(GROUP, group.as_str());
        }
        builder
    }

    /// The headers, for a client of its own.
    ///
    /// # Errors
    /// A name holds control characters.
    pub fn headers(&self) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        if !self.user.is_empty() {
            headers.insert(USER, HeaderValue::from_str(&self.user)?);
        }
        for group in &self.groups {
            headers.append(GROUP, HeaderValue::from_str(group)?);
        }
        Ok(headers)
    }
}

/// As whom the control plane acts for an Application: what flags say of it, the same in both programs. The table of all
/// cases is in docs/security-model.md.
#[derive(Clone, Debug, Default)]
pub struct Acting {
    /// Applications are applied as their authors (gate AuthenticateApplication).
    pub authenticate: bool,
    /// Who acts for an Application whose author is not known, or is nobody who may be impersonated.
    pub default_user: String,
    /// The group that authors who are administrators act in; empty for none.
    pub admin_group: String,
    /// Users who are never impersonated: the control plane's own.
    pub protected: Vec<String>,
}

impl Acting {
    /// Who acts for an Application of this namespace with these annotations (empty: not there). `stamp`: its valid stamp;
    /// `is_administrator`: whether the author it names is an administrator still.
    ///
    /// Without authentication the controller may do everything anyway, so that a user who is named takes rights away and
    /// can be believed; that of an administrator who confined an Application so is what matters. Names with a stamp are those of
    /// an author from a time with authentication, and confine nobody.
    pub fn identity<'a>(
        &self,
        annotation: impl Fn(&str) -> &'a str,
        namespace: &str,
        stamp: Option<&Stamp>,
        is_administrator: bool,
    ) -> Identity {
        if self.authenticate {
            return match stamp {
                Some(stamp) => self.author(stamp, is_administrator),
                None => Identity { user: self.default_user.clone(), groups: Vec::new() },
            };
        }
        let named = Stamp::read(&annotation);
        if !named.user.is_empty() && annotation(annotation::STAMP).is_empty() {
            return self.author(&named, true);
        }
        match annotation(annotation::SERVICE_ACCOUNT) {
            "" => Identity::own(),
            account => Identity::service_account(namespace, account),
        }
    }

    /// Names of Kubernetes itself are nobody's to lend: of them, only ServiceAccounts of other namespaces than kube-system
    /// are impersonated. An author who has another acts as the default user, in his groups.
    fn author(&self, stamp: &Stamp, is_administrator: bool) -> Identity {
        let account = service_account_of(&stamp.user);
        let is_system = stamp.user.starts_with("system:");
        let may_be = !stamp.user.is_empty()
            && !self.protected.contains(&stamp.user)
            && (!is_system || account.is_some_and(|namespace| namespace != "kube-system"));
        let passed = |group: &&String| {
            !group.starts_with("system:") && (is_administrator || **group != self.admin_group)
        };
        let mut groups: Vec<String> = stamp.groups.iter().filter(passed).cloned().collect();
        if !may_be {
            return Identity { user: self.default_user.clone(), groups };
        }
        // The API server adds these by itself, but only where no group is named.
        if let Some(namespace) = account.filter(|_| !groups.is_empty()) {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        Identity { user: stamp.user.clone(), groups }
    }
}

/// The namespace of the ServiceAccount that a user is.
pub(crate) fn service_account_of(user: &str) -> Option<&str> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_name = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    is_name.then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acting(authenticate: bool) -> Acting {
        Acting {
            authenticate,
            default_user: "default".to_owned(),
            admin_group: "admins".to_owned(),
            protected: vec![OWN.to_owned(), "vela".to_owned()],
        }
    }

    const OWN: &str = "system:serviceaccount:vela-system:kubevela-vela-core";

    fn text(identity: &Identity) -> String {
        format!("{} {}", identity.user, identity.groups.join(","))
    }

    #[test]
    fn names_of_kubernetes_are_not_lent() {
        for (user, groups, is_administrator, expected) in [
            ("alice", "dev,ops", false, "alice dev,ops"),
            ("alice", "dev,admins", true, "alice dev,admins"),
            ("alice", "dev,admins", false, "alice dev"),
            ("alice", "system:masters,system:authenticated,dev", true, "alice dev"),
            ("", "dev", false, "default dev"),
            ("system:admin", "admins", true, "default admins"),
            ("system:admin", "admins", false, "default "),
            ("system:kube-controller-manager", "", true, "default "),
            ("system:node:n1", "system:nodes", true, "default "),
            ("system:anonymous", "", true, "default "),
            ("system:serviceaccount:team:ci", "", true, "system:serviceaccount:team:ci "),
            (
                "system:serviceaccount:team:ci",
                "dev",
                true,
                "system:serviceaccount:team:ci dev,system:serviceaccounts,system:serviceaccounts:team",
            ),
            ("system:serviceaccount:kube-system:gc", "", true, "default "),
            ("system:serviceaccount:kube-system", "", true, "default "),
            ("system:serviceaccount::x", "", true, "default "),
            ("system:serviceaccount:team:", "", true, "default "),
            ("system:serviceaccount:team:a:b", "", true, "default "),
            ("system:serviceaccounts", "", true, "default "),
            (OWN, "admins", true, "default admins"),
            ("vela", "", true, "default "),
        ] {
            let stamp = Stamp {
                user: user.to_owned(),
                groups: groups.split(',').filter(|g| !g.is_empty()).map(str::to_owned).collect(),
                administrator: None,
            };
            let identity = acting(true).identity(|_| "", "n", Some(&stamp), is_administrator);
            assert_eq!(text(&identity), expected, "{user} {groups}");
        }
    }

    #[test]
    fn annotations_count_only_without_authentication() {
        let annotations = |user: &'static str, account: &'static str| {
            move |key: &str| match key {
                annotation::USERNAME => user,
                annotation::GROUP => "a, b,,system:masters",
                annotation::SERVICE_ACCOUNT => account,
                _ => "",
            }
        };
        let of = |on, user, account| {
            text(&acting(on).identity(annotations(user, account), "n", None, false))
        };
        assert_eq!(of(true, "alice", "sa"), "default ");
        assert_eq!(of(true, "", "sa"), "default ");
        assert_eq!(of(false, "alice", "sa"), "alice a,b");
        assert_eq!(of(false, "system:admin", ""), "default a,b");
        assert_eq!(of(false, "", "sa"), "system:serviceaccount:n:sa ");
        assert_eq!(of(false, "", ""), " ");
    }

    #[test]
    fn an_author_from_a_time_with_authentication_confines_nobody_without_it() {
        let stamped = |key: &str| match key {
            annotation::USERNAME => "alice",
            annotation::GROUP => "dev,admins",
            annotation::STAMP => "a seal",
            _ => "",
        };
        assert_eq!(acting(false).identity(stamped, "n", None, false), Identity::own());
    }

    #[test]
    fn headers() {
        let identity = Identity {
            user: "system:serviceaccount:a:b".to_owned(),
            groups: vec!["x".to_owned(), "y".to_owned()],
        };
        assert_eq!(Identity::service_account("a", "b").user, identity.user);
        let request = identity.apply(http::Request::get("/")).body(()).expect("a request");
        let groups: Vec<_> = request.headers().get_all(GROUP).iter().collect();
        assert_eq!(groups, ["x", "y"]);
        assert_eq!(request.headers().get(USER).expect("set"), "system:serviceaccount:a:b");
        assert_eq!(&identity.headers().expect("headers"), request.headers());
        assert!(!Identity::own().is_other());
        assert!(identity.is_other());
    }

    #[test]
    fn a_broken_name_never_goes_out_as_ourselves() {
        let identity = Identity { user: "a\nb".to_owned(), groups: Vec::new() };
        assert!(identity.apply(http::Request::get("/")).body(()).is_err());
        assert!(identity.headers().is_err());
    }
}
