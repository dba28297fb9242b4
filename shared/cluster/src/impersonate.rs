//! As whom a request is made.

use http::header::{HeaderName, InvalidHeaderValue};
use http::request::Builder;
use http::{HeaderMap, HeaderValue};
use vela_api::names;

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

    /// A ServiceAccount.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self { user: format!("system:serviceaccount:{namespace}:{name}"), groups: Vec::new() }
    }

    /// Who acts for an Application of this namespace with these annotations (empty: not there); ourselves, if nobody is
    /// named and nobody has to be. The webhook asks as whom the controller will act: both ask here.
    ///
    /// Without authentication nobody checks who wrote the annotations of user and groups, so they are ignored; only a
    /// ServiceAccount of the namespace may be named, which gives an author nothing beyond it.
    #[must_use]
    pub fn acting<'a>(
        annotation: impl Fn(&str) -> &'a str,
        namespace: &str,
        authenticate: bool,
        default_user: &str,
    ) -> Self {
        let user = annotation(names::annotation::USERNAME);
        if authenticate && !user.is_empty() {
            let groups = annotation(names::annotation::GROUP).split(',').map(str::trim);
            let groups = groups.filter(|group| !group.is_empty()).map(str::to_owned).collect();
            return Self { user: user.to_owned(), groups };
        }
        let account = annotation(names::annotation::SERVICE_ACCOUNT);
        if !account.is_empty() {
            return Self::service_account(namespace, account);
        }
        if authenticate {
            return Self { user: default_user.to_owned(), groups: Vec::new() };
        }
        Self::own()
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

#[cfg(test)]
mod tests {
    use super::*;

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
