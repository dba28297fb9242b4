//! Functions: what a template may call.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::args::Args;
use crate::call::Call;
use crate::error::Failure;
use crate::signature::Signature;
use crate::value::Value;

/// The code of a function: it gets arguments that fit its signature.
pub type Run<H> = fn(&mut Call<'_, H>, Args<'_>) -> Result<Value, Failure>;

/// A function of templates. `H` is what the caller lends to all functions of an execution.
#[derive(Debug)]
pub struct Function<H: 'static> {
    /// The word that a template calls it by.
    pub name: &'static str,
    /// What it takes; arguments are checked and converted before `run` sees them.
    pub signature: Signature,
    /// Its code.
    pub run: Run<H>,
}

/// The functions that templates may call, besides Go's own; one of the same name goes first.
pub struct Functions<H: 'static> {
    all: Vec<&'static Function<H>>,
    by_name: FxHashMap<&'static str, usize>,
}

impl<H> Functions<H> {
    /// The functions of these tables; of two of one name the later.
    pub fn new(tables: impl IntoIterator<Item = &'static [Function<H>]>) -> Self {
        let all: Vec<_> = tables.into_iter().flatten().collect();
        let by_name = all.iter().enumerate().map(|(i, function)| (function.name, i)).collect();
        Self { all, by_name }
    }

    /// The function of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static Function<H>> {
        self.position(name).and_then(|at| self.at(at))
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn at(&self, position: usize) -> Option<&'static Function<H>> {
        self.all.get(position).copied()
    }
}

impl<H> fmt::Debug for Functions<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|function| function.name)).finish()
    }
}
