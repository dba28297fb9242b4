//! The resource that the path of a request names.

/// An object, a collection of objects, or a part of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResourcePath {
    /// `/api/v1`, `/apis/apps/v1`.
    pub(crate) version: String,
    /// Empty for cluster-scoped objects and collections of all namespaces.
    pub(crate) namespace: String,
    /// `deployments`.
    pub(crate) plural: String,
    /// Empty for collections.
    pub(crate) name: String,
    /// `status`, `log`; empty for the object itself.
    pub(crate) part: String,
}

impl ResourcePath {
    /// Reads a path; `None` if it is about no object: discovery, versions.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let version = match parts.next()? {
            "api" => format!("/api/{}", parts.next()?),
            "apis" => format!("/apis/{}/{}", parts.next()?, parts.next()?),
            _ => return None,
        };
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            // A namespace itself, and what is in one.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest.as_slice()),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let [plural, rest @ ..] = rest else { return None };
        let (name, part) = match rest {
            [] => ("", String::new()),
            [name, part @ ..] => (*name, part.join("/")),
        };
        Some(Self {
            version,
            namespace: namespace.to_owned(),
            plural: (*plural).to_owned(),
            name: name.to_owned(),
            part,
        })
    }

    /// The API group; empty for the core.
    pub(crate) fn group(&self) -> &str {
        let mut parts = self.version.split('/').skip(1);
        if parts.next() == Some("apis") { parts.next().unwrap_or_default() } else { "" }
    }

    /// An object of this collection, or the object of this part.
    pub(crate) fn object(&self, name: &str) -> Self {
        Self { name: name.to_owned(), part: String::new(), ..self.clone() }
    }

    /// Whether an object is in this collection.
    pub(crate) fn holds(&self, object: &Self) -> bool {
        self.version == object.version
            && self.plural == object.plural
            && (self.namespace.is_empty() || self.namespace == object.namespace)
    }

    /// The path.
    pub(crate) fn path(&self) -> String {
        let mut path = self.version.clone();
        if !self.namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(&self.namespace);
        }
        for part in [&self.plural, &self.name, &self.part] {
            if !part.is_empty() {
                path.push('/');
                path.push_str(part);
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_written() {
        for (path, expected) in [
            ("/api/v1/namespaces/n", ("/api/v1", "", "namespaces", "n", "")),
            ("/api/v1/namespaces", ("/api/v1", "", "namespaces", "", "")),
            ("/api/v1/namespaces/n/pods/p/log", ("/api/v1", "n", "pods", "p", "log")),
            ("/api/v1/namespaces/n/configmaps", ("/api/v1", "n", "configmaps", "", "")),
            ("/apis/apps/v1/deployments", ("/apis/apps/v1", "", "deployments", "", "")),
            (
                "/apis/apps/v1/namespaces/n/deployments/d",
                ("/apis/apps/v1", "n", "deployments", "d", ""),
            ),
            (
                "/apis/core.oam.dev/v1beta1/resourcetrackers/t/status",
                ("/apis/core.oam.dev/v1beta1", "", "resourcetrackers", "t", "status"),
            ),
        ] {
            let place = ResourcePath::of(path).unwrap();
            let ResourcePath { version, namespace, plural, name, part } = &place;
            assert_eq!((&**version, &**namespace, &**plural, &**name, &**part), expected, "{path}");
            assert_eq!(place.path(), path);
        }
        for path in ["/version", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/healthz"] {
            assert_eq!(ResourcePath::of(path), None, "{path}");
        }
        let list = ResourcePath::of("/api/v1/configmaps").unwrap();
        assert!(list.holds(&ResourcePath::of("/api/v1/namespaces/n/configmaps/x").unwrap()));
        assert_eq!(ResourcePath::of("/apis/apps/v1/deployments").unwrap().group(), "apps");
        assert_eq!(list.group(), "");
    }
}
