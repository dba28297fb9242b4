//! Names of the API.

/// The group.
pub(crate) const GROUP: &str = "cluster.core.oam.dev";
/// Its only version.
pub(crate) const VERSION: &str = "v1alpha1";
/// Group and version.
pub(crate) const GROUP_VERSION: &str = "cluster.core.oam.dev/v1alpha1";
/// Members, as they are reached.
pub(crate) const GATEWAYS: &str = "clustergateways";
/// Clusters, as people see them.
pub(crate) const VIRTUAL: &str = "virtualclusters";
/// Short names of the latter.
pub(crate) const SHORT: [&str; 5] =
    ["vc", "vcluster", "vclusters", "virtual-cluster", "virtual-clusters"];
