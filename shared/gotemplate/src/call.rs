//! What a function may do while it is called.

use std::sync::Arc;

use crate::error::{Error, Failure, Location};
use crate::meter::{Meter, Stop};
use crate::parse::node::{At, Tree};
use crate::shared::Shared;
use crate::templates::Templates;
use crate::text::Str;
use crate::value::{Map, Value};

/// How the executor runs a template for a function, with an output of its own. A call has it as a value, since the
/// executor builds on calls.
pub(crate) type Execute<H> =
    fn(&Arc<Templates<H>>, Shared<'_, H>, &str, Value) -> Result<Vec<u8>, Error>;

/// A call of a function: what the function may ask for and do.
#[derive(Debug)]
pub struct Call<'c, H: 'static> {
    shared: Shared<'c, H>,
    templates: &'c Arc<Templates<H>>,
    at: Option<(&'c Tree, At<'c>)>,
    execute: Execute<H>,
}

impl<'c, H: Meter> Call<'c, H> {
    pub(crate) fn new(
        shared: Shared<'c, H>,
        templates: &'c Arc<Templates<H>>,
        at: Option<(&'c Tree, At<'c>)>,
        execute: Execute<H>,
    ) -> Self {
        Self { shared, templates, at, execute }
    }

    /// What the caller of the template lends to all functions.
    pub fn host(&mut self) -> &mut H {
        self.shared.host
    }

    /// The host as a meter, for code that knows no more of it.
    pub fn meter(&mut self) -> &mut dyn Meter {
        self.shared.host
    }

    /// Pays for work.
    ///
    /// # Errors
    /// See [`Meter::steps`].
    pub fn steps(&mut self, steps: u64) -> Result<(), Stop> {
        self.shared.host.steps(steps)
    }

    /// Pays for memory.
    ///
    /// # Errors
    /// See [`Meter::room`].
    pub fn room(&mut self, bytes: u64) -> Result<(), Stop> {
        self.shared.host.room(bytes)
    }

    /// The templates that the calling one belongs to.
    #[must_use]
    pub fn templates(&self) -> &Arc<Templates<H>> {
        self.templates
    }

    /// How many templates are being executed, one within the other.
    #[must_use]
    pub fn nested(&self) -> usize {
        self.shared.nested
    }

    /// The name of the template that calls, and where the call stands.
    #[must_use]
    pub fn location(&self) -> Option<(&str, Location)> {
        let (tree, at) = self.at?;
        let (line, column) = tree.source.position(at.offset() as usize);
        Some((&tree.name, Location { name: tree.source.name.clone(), line, column }))
    }

    /// Executes a template of the calling one's, and gives its output.
    ///
    /// # Errors
    /// There is no such template, it fails, or it is stopped.
    pub fn execute(&mut self, name: &str, data: Value) -> Result<Vec<u8>, Error> {
        let templates = self.templates;
        self.execute_in(templates, name, data)
    }

    /// Executes a template of others, such as a fork of the calling one's.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_in(
        &mut self,
        templates: &Arc<Templates<H>>,
        name: &str,
        data: Value,
    ) -> Result<Vec<u8>, Error> {
        (self.execute)(templates, self.shared.lend(), name, data)
    }

    /// Puts an entry into a map, which all who hold the map see.
    ///
    /// # Errors
    /// The map is nil, or there is no room.
    pub fn insert(&mut self, map: &Map, key: Str, value: Value) -> Result<(), Failure> {
        self.room(ENTRY + key.len() as u64)?;
        if map.note() {
            self.shared.changed.push(map.clone());
        }
        match map.write(|entries| entries.insert(key, value)) {
            Some(_) => Ok(()),
            None => Err(Failure::text("assignment to entry in nil map")),
        }
    }

    /// Takes an entry out of a map.
    pub fn remove(&mut self, map: &Map, key: &Str) -> Option<Value> {
        map.write(|entries| entries.remove(key.as_bytes())).flatten()
    }
}

/// What an entry of a map takes in memory, about, besides the bytes of its key.
const ENTRY: u64 = 96;
