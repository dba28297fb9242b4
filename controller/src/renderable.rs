//! Definitions in the form rendering wants, made once. Many Applications use one definition, and each is looked at again and
//! again: the form is found by the place of the definition in memory.

use std::any::Any;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

use lru::LruCache;
use parking_lot::Mutex;
use vela_render::Definition;

use crate::definitions::{Lookup, to_render};

/// Forms that are kept: the built-in definitions some times.
const MOST: NonZeroUsize = match NonZeroUsize::new(512) {
    Some(most) => most,
    None => NonZeroUsize::MIN,
};

/// The form of the definition at a place. As long as it is known nothing else can take the place.
type Known = (Weak<dyn Any + Send + Sync>, Arc<Definition>);

/// See above.
#[derive(Debug)]
pub struct Renderable(Mutex<LruCache<usize, Known>>);

impl Default for Renderable {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MOST)))
    }
}

impl Renderable {
    /// The form of a definition.
    pub(crate) fn get<T: Lookup>(&self, definition: &Arc<T>) -> Arc<Definition> {
        let place = Arc::as_ptr(definition).addr();
        if let Some((_, form)) = self.0.lock().get(&place) {
            return Arc::clone(form);
        }
        let form = Arc::new(to_render(definition.as_ref()));
        let holder: Arc<dyn Any + Send + Sync> = Arc::clone(definition) as _;
        self.0.lock().put(place, (Arc::downgrade(&holder), Arc::clone(&form)));
        form
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vela_api::ComponentDefinition;

    use super::*;

    fn definition(template: &str) -> Arc<ComponentDefinition> {
        let definition = json!({"metadata": {"name": "d"},
            "spec": {"schematic": {"cue": {"template": template}}}});
        Arc::new(serde_json::from_value(definition).unwrap())
    }

    #[test]
    fn a_form_is_made_once_and_never_taken_for_that_of_another_definition() {
        let all = Renderable::default();
        let one = definition("output: {}");
        assert!(Arc::ptr_eq(&all.get(&one), &all.get(&Arc::clone(&one))));
        for turn in 0..3 * MOST.get() {
            // Each is gone before the next one comes, and could have its place.
            let text = format!("output: n: {turn}");
            assert_eq!(all.get(&definition(&text)).template.text(), text);
            assert!(all.0.lock().len() <= MOST.get());
        }
    }

    #[test]
    fn what_comes_from_a_list_is_what_its_kind_says() {
        let old: ComponentDefinition = serde_json::from_value(json!({
            "metadata": {"name": "d", "annotations": {"type": "terraform"}}, "spec": {}}))
        .unwrap();
        let form = to_render(&old);
        assert!(matches!(form.template, vela_render::Template::Terraform(_)));
        assert_eq!((form.name.as_str(), form.annotations.len()), ("d", 1));
    }
}
