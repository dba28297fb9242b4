//! What is worked out once for a loaded chart, since it depends on nothing else: parsed templates and the compiled schema.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use gotemplate::Parsed;
use parking_lot::Mutex;

use crate::schema::Schema;

/// A chart can take part under several names, as aliases and under several parents. What is parsed for more of them than
/// this is not kept.
const MOST_PATHS: usize = 16;

/// A file of templates.
pub(crate) struct ParsedFile {
    pub(crate) parsed: Parsed,
    /// Whether its text has what values that are not there print.
    pub(crate) has_no_value: bool,
}

/// A file each, in the order of the chart's.
pub(crate) type Slots = Arc<[OnceLock<ParsedFile>]>;

/// Filled while the chart is rendered, shared by its clones.
#[derive(Default)]
pub(crate) struct Compiled {
    /// By the path of the chart, which is part of the templates' names.
    templates: Mutex<HashMap<String, Slots>>,
    /// What values.schema.json says.
    pub(crate) schema: OnceLock<Schema>,
}

impl Compiled {
    /// The parsed templates of a chart that has so many and stands at a path.
    pub(crate) fn templates(&self, path: &str, count: usize) -> Slots {
        let mut known = self.templates.lock();
        if let Some(slots) = known.get(path).filter(|slots| slots.len() == count) {
            return Arc::clone(slots);
        }
        let slots: Slots = (0..count).map(|_| OnceLock::new()).collect();
        if known.len() < MOST_PATHS {
            known.insert(path.to_owned(), Arc::clone(&slots));
        }
        slots
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiled")
    }
}
