//! Compiled templates, kept by their text.

use crate::definition::{Definition, Stage, Template};
use crate::{Component, Trait, legacy, lets, packages};
use cue::{Errors, Packages, Program};
use lru::LruCache;
use parking_lot::Mutex;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// How a text is completed before it is compiled: which top-level fields come as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flavour {
    /// A component's or policy's template: parameter and context.
    Component,
    /// A trait's template with properties: parameter and context.
    Trait,
    /// A trait's template without properties: context only.
    TraitBare,
    /// A status text: parameter and context, standard packages only.
    Status,
    /// A template whose parameter schema is wanted: a declared context.
    Schema,
    /// As written.
    Plain,
}

/// The context a template may rely on when there is none: its name.
const SCHEMA_CONTEXT: &str = "\ncontext: {\n\tname: string\n\tconfig?: [...{\n\t\tname:  string\n\t\tvalue: string\n\t}]\n\t...\n}\n";

/// A compiled text and what its rendering depends on.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) program: Program,
    /// Whether the text may ask the host: it imports a package of providers, or calls one itself.
    pub(crate) asks_host: bool,
    /// Whether it may read `context.components`.
    asks_for_components: bool,
    /// Whether it may read `context.output`: the workload, rendered or live.
    asks_for_output: bool,
    /// Whether it may show its whole context instead of only selecting from it.
    shows_context: bool,
}

impl Prepared {
    fn new(program: Program, text: &str) -> Self {
        let shows_context =
            mentions_bare(text, "context") || text.contains("template-context-workload");
        let asks_for_anything = shows_context || text.contains("context[");
        Self {
            program,
            asks_host: text.contains("#do") || packages::asks_host(text),
            asks_for_components: asks_for_anything || text.contains("components"),
            asks_for_output: asks_for_anything
                || text.contains(".output")
                || text.contains("[\"output\"]"),
            shows_context,
        }
    }
}

/// How and from what something is compiled. Finding it in the cache must not take longer than
/// using it, so only a sample of the text is hashed, and the same allocation is the same text.
#[derive(Clone, Debug)]
struct Key(Flavour, Arc<str>);

/// This many bytes of a text are hashed.
const SAMPLE: usize = 64;

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bytes = self.1.as_bytes();
        self.0.hash(state);
        bytes.len().hash(state);
        for at in bytes.iter().step_by((bytes.len() / SAMPLE).max(1)) {
            state.write_u8(*at);
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 && (Arc::ptr_eq(&self.1, &other.1) || self.1 == other.1)
    }
}

impl Eq for Key {}

/// Programs, or why there is none, by how and from what they are compiled.
type Compiled = LruCache<Key, Result<Arc<Prepared>, Errors>>;

/// What a compiled text takes, estimated from its length: 12.3 bytes for a byte of the built-in
/// definitions, 35 kB for each of them (`cargo xtask bench render`), rounded up.
const BYTES_PER_BYTE: usize = 16;
/// What every entry takes besides.
const BYTES_PER_ENTRY: usize = 4096;

fn weight(text: &str) -> usize {
    text.len().saturating_mul(BYTES_PER_BYTE).saturating_add(BYTES_PER_ENTRY)
}

/// The compiled texts and what they take together.
struct Kept {
    compiled: Compiled,
    bytes: usize,
}

impl Kept {
    fn put(&mut self, key: Key, program: Result<Arc<Prepared>, Errors>, most: usize) {
        self.bytes = self.bytes.saturating_add(weight(&key.1));
        if let Some((gone, _)) = self.compiled.push(key, program) {
            // Another entry that made room, or the same one compiled twice at the same time.
            self.bytes = self.bytes.saturating_sub(weight(&gone.1));
        }
        while self.bytes > most && self.compiled.len() > 1 {
            let Some((gone, _)) = self.compiled.pop_lru() else { break };
            self.bytes = self.bytes.saturating_sub(weight(&gone.1));
        }
    }
}

/// A bounded cache of compiled texts, shared by all threads.
pub(crate) struct Programs {
    templates: Packages,
    standard: Packages,
    rewrite: bool,
    most: usize,
    cache: Mutex<Kept>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (cached, bytes) = self.size();
        f.debug_struct("Programs")
            .field("cached", &cached)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

impl Programs {
    /// Keeps at most `size` programs that take about `bytes` together.
    pub(crate) fn new(size: NonZeroUsize, bytes: usize, rewrite: bool) -> Self {
        Self {
            templates: packages::templates(),
            standard: Packages::std(),
            rewrite,
            most: bytes,
            cache: Mutex::new(Kept { compiled: LruCache::new(size), bytes: 0 }),
        }
    }

    /// How many programs are kept, and what they take by estimate.
    pub(crate) fn size(&self) -> (usize, usize) {
        let kept = self.cache.lock();
        (kept.compiled.len(), kept.bytes)
    }

    /// The compiled template.
    pub(crate) fn template(
        &self,
        template: &Template,
        flavour: Flavour,
    ) -> Result<Arc<Prepared>, Errors> {
        match template {
            Template::Cue(text) => self.text(text, flavour),
            Template::Terraform(_) | Template::Retired(_) | Template::None => {
                self.text(&Arc::from(""), flavour)
            }
        }
    }

    /// The compiled text.
    pub(crate) fn text(&self, text: &Arc<str>, flavour: Flavour) -> Result<Arc<Prepared>, Errors> {
        if flavour == Flavour::Schema {
            // wanted once for each change of a definition: not worth its memory
            return self.compile(text, flavour);
        }
        let key = Key(flavour, Arc::clone(text));
        if let Some(known) = self.cache.lock().compiled.get(&key) {
            return known.clone();
        }
        let compiled = self.compile(text, flavour);
        self.cache.lock().put(key, compiled.clone(), self.most);
        compiled
    }

    fn compile(&self, text: &str, flavour: Flavour) -> Result<Arc<Prepared>, Errors> {
        let program = self.program(text, flavour)?;
        Ok(Arc::new(Prepared::new(program, text)))
    }

    fn program(&self, text: &str, flavour: Flavour) -> Result<Program, Errors> {
        let rewritten = if self.rewrite && !matches!(flavour, Flavour::Schema) {
            legacy::upgrade(text)
        } else {
            text.into()
        };
        let tail = match flavour {
            Flavour::Component | Flavour::Trait | Flavour::Status => "\ncontext: _\nparameter: _\n",
            Flavour::TraitBare => "\ncontext: _\n",
            Flavour::Schema => SCHEMA_CONTEXT,
            Flavour::Plain => "",
        };
        let lets =
            if flavour == Flavour::Status { lets::fields(&rewritten) } else { String::new() };
        let text = format!("{rewritten}{lets}{tail}");
        match flavour {
            Flavour::Status => Program::compile("-", &text, &self.standard),
            // A schema needs no packages of providers: what they declare is left open.
            Flavour::Schema => {
                Program::compile("-", &text, &packages::stand_ins(&text, self.templates.clone()))
            }
            _ => Program::compile("-", &text, &self.templates),
        }
    }

    /// Whether a template of a component or its traits may read `context.components`. One that
    /// does not compile reads nothing.
    pub(crate) fn asks_for_components(&self, component: &Component<'_>) -> bool {
        let asks = |definition: &Definition, flavour| {
            self.template(&definition.template, flavour).is_ok_and(|of| of.asks_for_components)
        };
        asks(component.definition, Flavour::Component)
            || component.traits.iter().any(|t| asks(t.definition, trait_flavour(t)))
    }

    /// Whether a rendered component depends on its inputs and on nothing else: no template reads the
    /// other components, or at the workload as it is in the cluster. Traits but the last see the one that is rendered.
    pub(crate) fn is_self_contained(&self, component: &Component<'_>) -> bool {
        let asks = |definition: &Definition| {
            let template = self.template(&definition.template, Flavour::Component);
            template.is_ok_and(|of| of.asks_for_output)
        };
        !asks(component.definition)
            && !component.traits.iter().any(|t| t.definition.stage == Stage::PostDispatch)
            && !self.asks_for_components(component)
    }

    /// Whether the template of a trait may show its whole context.
    pub(crate) fn shows_context(&self, of: &Trait<'_>) -> bool {
        self.template(&of.definition.template, trait_flavour(of)).is_ok_and(|of| of.shows_context)
    }
}

/// How the template of a trait is completed: `parameter` is there only if properties are.
pub(crate) fn trait_flavour(of: &Trait<'_>) -> Flavour {
    match of.properties {
        None | Some(serde_json::Value::Null) => Flavour::TraitBare,
        Some(_) => Flavour::Trait,
    }
}

/// Whether `name` occurs in `text` other than as `name.x`, `name["x"]` or a label.
fn mentions_bare(text: &str, name: &str) -> bool {
    let bytes = text.as_bytes();
    let word =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'#' | b'$' | b'.' | b'-' | b'/');
    text.match_indices(name).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|i| bytes.get(i)).copied();
        let after = bytes.get(at + name.len()).copied();
        let starts = before.is_none_or(|b| !word(b));
        let selects = matches!(after, Some(b'.' | b'[' | b':' | b'?' | b'!'));
        let ends = after.is_none_or(|b| !word(b));
        starts && ends && !selects
    })
}

#[cfg(test)]
mod tests {
    use super::{Flavour, Programs, mentions_bare, weight};
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    #[test]
    fn the_cache_is_bounded_by_number_and_by_size() {
        let text = |n: usize| Arc::from(format!("a: {n}"));
        let one = weight(&text(0));
        let programs = Programs::new(NonZeroUsize::new(4).unwrap(), 3 * one, true);
        for n in 0..9 {
            programs.text(&text(n), Flavour::Plain).unwrap();
        }
        assert_eq!(programs.size(), (3, 3 * one));
        programs.text(&text(8), Flavour::Plain).unwrap();
        assert_eq!(programs.size(), (3, 3 * one));
        let programs = Programs::new(NonZeroUsize::new(4).unwrap(), usize::MAX, true);
        for n in 0..9 {
            programs.text(&text(n), Flavour::Plain).unwrap();
        }
        assert_eq!(programs.size(), (4, 4 * one));
    }

    #[test]
    fn templates_that_may_look_at_the_live_workload() {
        let programs = Programs::new(NonZeroUsize::new(64).unwrap(), usize::MAX, true);
        let asks = |text: &str| {
            programs.text(&Arc::from(text), Flavour::Component).unwrap().asks_for_output
        };
        for text in [
            "output: {a: context.output.a}",
            "output: {a: context[\"output\"].a}",
            "output: {a: context[parameter.x]}",
            "outputs: b: {a: context[\"name\"]}",
            "let all = context\noutput: {a: all.x}",
            "import \"encoding/json\"\noutput: {a: json.Marshal(context)}",
        ] {
            assert!(asks(text), "{text}");
        }
        for text in ["output: {a: context.name}", "a: 1"] {
            assert!(!asks(text), "{text}");
        }
    }

    #[test]
    fn finds_uses_of_the_whole_context() {
        assert!(mentions_bare("a: json.Marshal(context)", "context"));
        assert!(mentions_bare("for k, v in context {", "context"));
        assert!(!mentions_bare("a: context.name, b: context[\"x\"]", "context"));
        assert!(!mentions_bare("podContext: 1, a: mycontext, contexts: 2", "context"));
    }
}
