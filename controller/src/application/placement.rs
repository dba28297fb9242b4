//! Where a component is deployed.

/// Where a component is deployed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// As given: `""` by the default steps, `local` or a name by deploy steps.
    pub cluster: String,
    /// Overrides the namespace of every object, if set.
    pub namespace: String,
    /// Key of a replicated component.
    pub replica: String,
}

impl Placement {
    /// Of a component that is not replicated.
    #[must_use]
    pub fn new(cluster: &str, namespace: &str) -> Self {
        let (cluster, namespace) = (cluster.to_owned(), namespace.to_owned());
        Self { cluster, namespace, replica: String::new() }
    }
}
