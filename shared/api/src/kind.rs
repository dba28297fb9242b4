//! `kind!`: what every kind implements besides its fields: its group, version, kind and plural as
//! constants and as `kube::Resource`, and constructors that fill the type fields.

/// Implements the type information of a kind that has `api_version`, `kind` and `metadata` fields.
macro_rules! kind {
    ($name:ident, $group:expr, $version:literal, $plural:literal, $scope:ident) => {
        impl $name {
            /// The word in `kind`.
            pub const KIND: &'static str = stringify!($name);
            /// The plural resource name.
            pub const PLURAL: &'static str = $plural;
            /// The version objects are written in.
            pub const VERSION: &'static str = $version;

            /// `group/version`.
            #[must_use]
            pub fn group_version() -> String {
                format!("{}/{}", $group, $version)
            }

            /// An empty object of this kind with its type fields set. An empty namespace means none.
            #[must_use]
            pub fn new(namespace: &str, name: &str) -> Self {
                Self {
                    api_version: Self::group_version(),
                    kind: Self::KIND.to_owned(),
                    metadata: $crate::ObjectMeta {
                        name: Some(name.to_owned()),
                        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
                        ..Default::default()
                    },
                    ..Default::default()
                }
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                Self::KIND.into()
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &$crate::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut $crate::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
