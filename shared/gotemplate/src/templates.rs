//! Templates that know each other.

use std::fmt;
use std::sync::Arc;

use ecow::EcoString;
use rustc_hash::FxHashMap;

use crate::builtin::Builtin;
use crate::error::ParseError;
use crate::function::Functions;
use crate::parse::node::{Callee, Tree};
use crate::parse::parse;
use crate::text::Str;

/// What a key that a map does not have gives: Go's option `missingkey`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// [`Value::NoValue`](crate::Value::NoValue).
    #[default]
    Default,
    /// The zero value of the map's type: [`Value::Nil`](crate::Value::Nil) of most.
    Zero,
    /// The execution ends with an error that names the key.
    Error,
}

/// The templates of one text, parsed once: its own and those that it defines. It can be added to any
/// number of sets that have the same functions, also on other threads.
#[derive(Clone)]
pub struct Parsed {
    name: EcoString,
    trees: Arc<[Arc<Tree>]>,
}

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.trees.iter().map(|tree| &tree.name);
        f.debug_tuple("Parsed").field(&self.name).field(&names.collect::<Vec<_>>()).finish()
    }
}

/// Templates by name, any of which may execute any other, and the functions they may call.
///
/// ```
/// use std::sync::Arc;
///
/// use gotemplate::{Budget, Executor, Functions, Limits, Templates, Value};
///
/// let functions = Arc::new(Functions::<Budget>::new([]));
/// let mut templates = Templates::new("example", functions);
/// templates.parse("hello", r#"Hello {{ . | printf "%q" }}!"#)?;
///
/// let mut budget = Budget::new(&Limits::default());
/// let mut executor = Executor::new(Arc::new(templates), &mut budget);
/// let output = executor.execute("hello", Value::from("world"))?;
/// assert_eq!(output, br#"Hello "world"!"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Templates<H: 'static> {
    name: EcoString,
    functions: Arc<Functions<H>>,
    missing: MissingKey,
    trees: FxHashMap<EcoString, Arc<Tree>>,
    /// Templates that are found where there is no own one.
    outer: Option<Arc<Self>>,
}

impl<H> Templates<H> {
    /// No templates yet. The name is that of the whole: one message shows it.
    #[must_use]
    pub fn new(name: &str, functions: Arc<Functions<H>>) -> Self {
        Self {
            name: name.into(),
            functions,
            missing: MissingKey::default(),
            trees: FxHashMap::default(),
            outer: None,
        }
    }

    /// What a key that a map does not have gives.
    #[must_use]
    pub fn missing_key(mut self, missing: MissingKey) -> Self {
        self.missing = missing;
        self
    }

    /// New templates over these: what is parsed into them, these do not see.
    #[must_use]
    pub fn fork(self: &Arc<Self>) -> Self {
        Self {
            name: self.name.clone(),
            functions: Arc::clone(&self.functions),
            missing: self.missing,
            trees: FxHashMap::default(),
            outer: Some(Arc::clone(self)),
        }
    }

    /// Parses a text. It becomes the template of this name, its definitions become templates of
    /// theirs. One that has a name already is replaced, unless by one of nothing but blanks.
    ///
    /// # Errors
    /// The text is no template; nothing changed then.
    pub fn parse(&mut self, name: &str, text: &str) -> Result<(), ParseError> {
        let parsed = self.read(name, &text.into())?;
        self.add(&parsed);
        Ok(())
    }

    /// Parses a text without taking it in. The templates share the text; what is not UTF-8 in it is U+FFFD.
    ///
    /// # Errors
    /// The text is no template.
    pub fn read(&self, name: &str, text: &Str) -> Result<Parsed, ParseError> {
        let functions = &self.functions;
        let find = |name: &str| {
            let given = functions.position(name).and_then(|at| u32::try_from(at).ok());
            let given = given.map(Callee::Given);
            given.or_else(|| Builtin::named(name).map(Callee::Builtin))
        };
        let trees = parse(name, &text.to_text(), &find)?.into_iter().map(Arc::new).collect();
        Ok(Parsed { name: name.into(), trees })
    }

    /// Takes in what [`Self::read`] of templates with the same functions gave, as [`Self::parse`]
    /// does.
    pub fn add(&mut self, parsed: &Parsed) {
        self.take(parsed, false);
    }

    /// As [`Self::parse`], but the template itself is a new one, whatever it is made of: what a
    /// function executes that was given a text.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_again(&mut self, name: &str, text: &str) -> Result<(), ParseError> {
        let parsed = self.read(name, &text.into())?;
        self.take(&parsed, true);
        Ok(())
    }

    fn take(&mut self, parsed: &Parsed, again: bool) {
        for tree in parsed.trees.iter() {
            let new = again && tree.name == parsed.name;
            if new || !tree.is_empty() || self.get(&tree.name).is_none() {
                self.trees.insert(tree.name.clone(), Arc::clone(tree));
            }
        }
    }

    /// Whether there is a template of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The name of the whole.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Tree>> {
        let mut templates = self;
        loop {
            if let Some(tree) = templates.trees.get(name) {
                return Some(tree);
            }
            templates = templates.outer.as_deref()?;
        }
    }

    pub(crate) fn functions(&self) -> &Functions<H> {
        &self.functions
    }

    pub(crate) fn missing(&self) -> MissingKey {
        self.missing
    }
}

impl<H> Clone for Templates<H> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            functions: Arc::clone(&self.functions),
            missing: self.missing,
            trees: self.trees.clone(),
            outer: self.outer.clone(),
        }
    }
}

impl<H> fmt::Debug for Templates<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.trees.values().map(|tree| &tree.name).collect();
        names.sort();
        f.debug_struct("Templates").field("name", &self.name).field("trees", &names).finish()
    }
}
