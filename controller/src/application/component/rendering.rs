//! What a component rendered to, kept while its Application is not settled: a reconcile that finds the component, its definitions
//! and its placement as they were renders nothing.
//!
//! Kept as compressed text, which takes less memory than the objects that are read from it.

use std::sync::Arc;

use vela_render::Definition;

/// What one component rendered to at one placement.
#[derive(Debug)]
pub struct CachedRendering {
    /// The hash of everything it was rendered from, but for the definitions.
    pub(super) input: u64,
    /// The definitions of the component and of its traits.
    pub(super) definitions: Vec<Arc<Definition>>,
    /// The objects.
    pub(super) packed: Arc<[u8]>,
}

impl CachedRendering {
    /// The objects, if they were rendered from the same.
    pub(super) fn get<'a>(
        &self,
        input: u64,
        definitions: impl Iterator<Item = &'a Arc<Definition>>,
    ) -> Option<Arc<[u8]>> {
        let is_same = self.input == input && self.definitions.iter().eq(definitions);
        is_same.then(|| Arc::clone(&self.packed))
    }
}
