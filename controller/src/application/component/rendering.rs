//! What components rendered to, kept while their Application is on its way: a look that finds a component, its definitions and
//! its place as they were renders nothing.
//!
//! Kept as compressed text, which takes less than the objects do that are made of it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use vela_cluster::packed;
use vela_render::Definition;

use super::{Frame, Place, Rendered};
use crate::application::parse::Part;

/// What one component rendered to at one place.
#[derive(Debug)]
pub struct Rendering {
    /// The hash of what it was made of, but for the definitions.
    of: u64,
    /// The definitions of the component and of its traits.
    definitions: Vec<Arc<Definition>>,
    packed: Arc<[u8]>,
}

impl Rendering {
    /// Keeps a rendering; `None` if it cannot be.
    pub(super) fn new(of: u64, part: &Part, rendered: &Rendered) -> Option<Self> {
        let packed = packed::pack(rendered).ok()?.into();
        Some(Self { of, definitions: definitions(part).cloned().collect(), packed })
    }

    /// The rendering as it was packed, if it is of the same.
    pub(super) fn found(&self, of: u64, part: &Part) -> Option<Arc<[u8]>> {
        let is_same = self.of == of && self.definitions.iter().eq(definitions(part));
        is_same.then(|| Arc::clone(&self.packed))
    }
}

fn definitions(part: &Part) -> impl Iterator<Item = &Arc<Definition>> {
    std::iter::once(&part.definition).chain(&part.traits)
}

/// A hash of everything a self-contained component is rendered from, but for its definitions.
pub(super) fn fingerprint(frame: &Frame, part: &Part, place: &Place) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let app = &frame.app;
    (&app.name, &app.namespace, &app.revision, &app.labels, &app.annotations).hash(&mut hasher);
    frame.revision_hash.hash(&mut hasher);
    frame.custom.as_ref().map(ToString::to_string).hash(&mut hasher);
    place.hash(&mut hasher);
    serde_json::to_vec(&part.component).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}
