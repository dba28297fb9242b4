//! Ids: places in the arenas of an evaluation.

macro_rules! ids {
    ($($name:ident)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) u32);
        impl $name {
            pub(crate) const fn idx(self) -> usize { self.0 as usize }
        }
    )*};
}

ids! { Vid EnvId DataId RefsId CloseId ErrId }

macro_rules! optional_ids {
    ($($name:ident)*) => {$(
        impl $name {
            pub(crate) const NONE: Self = Self(u32::MAX);
            pub(crate) const fn is_none(self) -> bool { self.0 == u32::MAX }
        }
    )*};
}

optional_ids! { Vid EnvId RefsId CloseId }

/// What may fail with an error of the program.
pub(crate) type Res<T> = Result<T, ErrId>;
