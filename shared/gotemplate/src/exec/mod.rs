//! Executing templates: nodes are walked, pipelines evaluated, output is collected.

mod eval;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ecow::EcoString;
use smallvec::{SmallVec, smallvec};
use vela_gocompat::strconv;

use crate::call::Call;
use crate::error::{Error, ExecError, Failure, Location};
use crate::fmt;
use crate::meter::Meter;
use crate::output::Output;
use crate::parse::node::{At, Branch, Invocation, Node, Pipeline, Show, Tree, variable_name};
use crate::shared::{Depth, Shared};
use crate::stack::Stack;
use crate::templates::Templates;
use crate::types::Type;
use crate::value::{Map, Value};

/// Executes templates. What functions change in maps, later executions see.
///
/// When it is dropped, the maps that functions changed are emptied: one that holds itself would
/// never be freed.
#[derive(Debug)]
pub struct Executor<'a, H: 'static> {
    templates: Arc<Templates<H>>,
    host: &'a mut H,
    changed: Vec<Map>,
    depth: Depth,
    stopped: Option<Location>,
}

impl<'a, H: Meter> Executor<'a, H> {
    /// Executes these templates; `host` is lent to their functions.
    pub fn new(templates: Arc<Templates<H>>, host: &'a mut H) -> Self {
        Self { templates, host, changed: Vec::new(), depth: Depth::default(), stopped: None }
    }

    /// With another bound of depth.
    #[must_use]
    pub fn depth(mut self, depth: Depth) -> Self {
        self.depth = depth;
        self
    }

    /// What is lent to the functions.
    pub fn host(&mut self) -> &mut H {
        self.host
    }

    /// Where the last execution was stopped: the innermost node that was visited, in a text that has
    /// a name of its own.
    #[must_use]
    pub fn stopped(&self) -> Option<&Location> {
        self.stopped.as_ref()
    }

    /// Executes the template of this name over `data`, and gives its output.
    ///
    /// # Errors
    /// There is no such template, it fails, or it is stopped.
    pub fn execute(&mut self, name: &str, data: Value) -> Result<Vec<u8>, Error> {
        self.stopped = None;
        let templates = Arc::clone(&self.templates);
        run(&templates, self.shared(), name, data)
    }

    /// As [`Self::execute`]; the output shares long texts with the templates and values that have them.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_sharing(&mut self, name: &str, data: Value) -> Result<Output, Error> {
        self.stopped = None;
        let templates = Arc::clone(&self.templates);
        write(&templates, self.shared(), name, data, true)
    }

    /// Does what functions can do, such as changing a map.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn act<T>(
        &mut self,
        act: impl FnOnce(&mut Call<'_, H>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let templates = Arc::clone(&self.templates);
        act(&mut Call::new(self.shared(), &templates, None, run))
    }

    fn shared(&mut self) -> Shared<'_, H> {
        let stack = Stack::here();
        let (host, changed, stopped) = (&mut *self.host, &mut self.changed, &mut self.stopped);
        Shared { host, changed, stopped, depth: self.depth, nested: 0, stack }
    }
}

impl<H> Drop for Executor<'_, H> {
    fn drop(&mut self) {
        for map in self.changed.drain(..) {
            drop(map.take());
        }
    }
}

/// Bytes of output that room is made for in advance, at the most.
const MOST_EXPECTED: usize = 1 << 20;

/// Executes a template with an output of its own.
fn run<H: Meter>(
    templates: &Arc<Templates<H>>,
    shared: Shared<'_, H>,
    name: &str,
    data: Value,
) -> Result<Vec<u8>, Error> {
    Ok(write(templates, shared, name, data, false)?.into_own())
}

fn write<H: Meter>(
    templates: &Arc<Templates<H>>,
    mut shared: Shared<'_, H>,
    name: &str,
    data: Value,
    is_shared: bool,
) -> Result<Output, Error> {
    let Some(tree) = templates.get(name) else {
        return Err(Error::NotDefined { name: name.into(), set: templates.name().into() });
    };
    // A nil interface becomes no value on its way through Go's `Execute`.
    let dot = Operand::plain(if let Value::Nil = data { Value::NoValue } else { data });
    shared.nested += 1;
    // A file makes about as much as it is long; what is executed within it is small.
    let long = if is_shared { tree.long } else { 0 };
    let copied = tree.source.text.len().saturating_sub(long);
    let expected = if shared.nested == 1 { copied.min(MOST_EXPECTED) } else { 0 };
    let mut execution = Execution {
        templates,
        tree,
        shared,
        out: Output::new(is_shared, expected),
        variables: vec![(0, dot.clone())],
        at: None,
    };
    match execution.nodes(&dot, &tree.root) {
        Ok(_) => Ok(execution.out),
        Err(error) => {
            if matches!(error, Error::Stop(_)) {
                execution.note_stop();
            }
            Err(error)
        }
    }
}

/// A value, and whether an interface holds it: what comes out of a map or list of interfaces and
/// went through no pipeline. Messages name its type so.
#[derive(Debug, Clone)]
struct Operand {
    value: Value,
    boxed: bool,
}

impl Operand {
    fn plain(value: Value) -> Self {
        Self { value, boxed: false }
    }

    /// An element of a list or map of this element type.
    fn element(value: Value, of: Type) -> Self {
        Self { value, boxed: of == Type::Any }
    }

    /// What messages call the type.
    fn type_name(&self) -> EcoString {
        match self.value.type_of() {
            Some(of) if !self.boxed => ecow::eco_format!("{of}"),
            _ => "interface {}".into(),
        }
    }
}

/// Whether a list of nodes was left early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// One template that is executed.
struct Execution<'t, 'a, H: 'static> {
    templates: &'t Arc<Templates<H>>,
    tree: &'t Tree,
    shared: Shared<'a, H>,
    out: Output,
    /// By the number of the name; the last of a name counts.
    variables: Vec<(u32, Operand)>,
    /// The node that was visited last: errors are there.
    at: Option<At<'t>>,
}

type Done<T> = Result<T, Error>;

impl<'t, H: Meter> Execution<'t, '_, H> {
    fn fail<T>(&self, message: impl Into<String>) -> Done<T> {
        Err(self.error(message.into(), None))
    }

    fn error(
        &self,
        message: String,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::Exec(Box::new(ExecError {
            template: self.tree.name.clone(),
            location: self.location(),
            context: self.at.map_or_else(String::new, |at| Show(self.tree, at).to_string()),
            message,
            source,
        }))
    }

    /// Remembers where the execution is stopped. A text that a function was given has the name of the
    /// whole set: then the caller knows better.
    fn note_stop(&mut self) {
        let set = self.templates.name();
        if self.shared.stopped.as_ref().is_none_or(|known| known.name == set) {
            *self.shared.stopped = Some(self.location());
        }
    }

    fn location(&self) -> Location {
        let offset = self.at.map_or(0, At::offset) as usize;
        let (line, column) = self.tree.source.position(offset);
        Location { name: self.tree.source.name.clone(), line, column }
    }

    fn nodes(&mut self, dot: &Operand, nodes: &'t [Node]) -> Done<Flow> {
        if !self.shared.has_stack() {
            return self.too_deep();
        }
        for node in nodes {
            self.shared.host.steps(1)?;
            let flow = self.node(dot, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn too_deep<T>(&self) -> Done<T> {
        self.fail(format!("exceeded maximum template depth ({})", self.shared.nested))
    }

    fn node(&mut self, dot: &Operand, node: &'t Node) -> Done<Flow> {
        match node {
            Node::Text(span) => {
                let source = &self.tree.source;
                self.shared.host.room(source.slice(*span).len() as u64)?;
                self.out.push_literal(&source.text, *span);
            }
            Node::Action(pipeline) => {
                let value = self.pipeline(dot, pipeline)?;
                if pipeline.variables.is_empty() {
                    self.at = Some(At::Action(pipeline));
                    self.print(&value)?;
                }
            }
            Node::If(branch) => return self.branch(dot, branch, false),
            Node::With(branch) => return self.branch(dot, branch, true),
            Node::Range(branch) => {
                let scope = self.variables.len();
                let flow = self.range(dot, branch);
                self.variables.truncate(scope);
                return flow;
            }
            Node::Template(invocation) => self.invoke(dot, invocation)?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, value: &Value) -> Done<()> {
        if let Value::String(text) = value {
            self.shared.host.room(text.len() as u64)?;
            self.out.push_value(text);
            return Ok(());
        }
        if value.kind() == crate::types::Kind::Func {
            let of = value.type_of().map_or_else(String::new, |of| of.to_string());
            let node = self.at.map_or_else(String::new, |at| Show(self.tree, at).to_string());
            return self.fail(format!("can't print {node} of type {of}"));
        }
        let text = fmt::action(value, self.shared.host)?;
        self.out.push(&text);
        Ok(())
    }

    fn branch(&mut self, dot: &Operand, branch: &'t Branch, with: bool) -> Done<Flow> {
        let scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipeline)?;
        let flow = match (value.is_true(), with) {
            (true, true) => self.nodes(&Operand::plain(value), &branch.body),
            (true, false) => self.nodes(dot, &branch.body),
            (false, _) => self.nodes(dot, &branch.otherwise),
        };
        self.variables.truncate(scope);
        flow
    }

    fn range(&mut self, dot: &Operand, branch: &'t Branch) -> Done<Flow> {
        let pipeline = &branch.pipeline;
        let over = self.pipeline(dot, pipeline)?;
        let mut ran = false;
        match over.underlying() {
            Value::Int(int, end) => {
                self.one_variable(pipeline, &over)?;
                for i in 0..end {
                    ran = true;
                    let value = Operand::plain(Value::Int(int, i));
                    if self.iteration(branch, Value::NoValue, &value)? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Uint(uint, end) => {
                self.one_variable(pipeline, &over)?;
                for i in 0..end {
                    ran = true;
                    let value = Operand::plain(Value::Uint(uint, i));
                    if self.iteration(branch, Value::NoValue, &value)? == Flow::Break {
                        break;
                    }
                }
            }
            Value::List(list) => {
                let of = list.element();
                for (i, element) in list.as_slice().iter().enumerate() {
                    ran = true;
                    let value = Operand::element(element.clone(), of);
                    if self.iteration(branch, Value::int(i as i64), &value)? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Bytes(bytes) => {
                for (i, byte) in bytes.as_bytes().iter().enumerate() {
                    ran = true;
                    let byte = Value::Uint(crate::types::Uint::Uint8, u64::from(*byte));
                    let value = Operand::plain(byte);
                    if self.iteration(branch, Value::int(i as i64), &value)? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                self.shared.host.room(64 * map.len() as u64)?;
                let of = map.element();
                for (key, value) in map.entries() {
                    ran = true;
                    let value = Operand::element(value, of);
                    if self.iteration(branch, Value::String(key), &value)? == Flow::Break {
                        break;
                    }
                }
            }
            Value::NoValue | Value::Nil => {}
            _ => {
                let text = fmt::reflected(&over, 'v', self.shared.host)?;
                return self.fail(format!("range can't iterate over {text}"));
            }
        }
        if ran {
            return Ok(Flow::Next);
        }
        // As in Go, `break` in the `else` leaves this range, `continue` goes on with the outer one.
        match self.nodes(dot, &branch.otherwise)? {
            Flow::Break => Ok(Flow::Next),
            flow => Ok(flow),
        }
    }

    fn one_variable(&mut self, pipeline: &Pipeline, over: &Value) -> Done<()> {
        if pipeline.variables.len() < 2 {
            return Ok(());
        }
        let text = fmt::reflected(over, 'v', self.shared.host)?;
        self.fail(format!("can't use {text} to iterate over more than one variable"))
    }

    fn iteration(&mut self, branch: &'t Branch, key: Value, value: &Operand) -> Done<Flow> {
        self.shared.host.steps(1)?;
        let scope = self.variables.len();
        let key = Operand::plain(key);
        match (&*branch.pipeline.variables, branch.pipeline.assigns) {
            ([first], true) => self.assign(*first, value.clone())?,
            ([first, second, ..], true) => {
                self.assign(*first, key)?;
                self.assign(*second, value.clone())?;
            }
            // The pipeline declared them; they are the last ones.
            ([_], false) => self.set_last(1, value.clone()),
            ([_, _, ..], false) => {
                self.set_last(1, value.clone());
                self.set_last(2, key);
            }
            ([], _) => {}
        }
        let flow = self.nodes(value, &branch.body);
        self.variables.truncate(scope);
        flow
    }

    fn set_last(&mut self, from_end: usize, value: Operand) {
        let at = self.variables.len().checked_sub(from_end);
        if let Some((_, variable)) = at.and_then(|at| self.variables.get_mut(at)) {
            *variable = value;
        }
    }

    fn assign(&mut self, name: u32, value: Operand) -> Done<()> {
        match self.variables.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, variable)) => {
                *variable = value;
                Ok(())
            }
            None => self.undefined(name),
        }
    }

    /// A variable that the parser saw, in a branch that was not taken.
    fn undefined<T>(&self, name: u32) -> Done<T> {
        self.fail(format!("undefined variable: {}", variable_name(self.tree, name)))
    }

    fn invoke(&mut self, dot: &Operand, invocation: &'t Invocation) -> Done<()> {
        self.at = Some(At::Template(invocation));
        let Some(tree) = self.templates.get(&invocation.name) else {
            let name = strconv::quote(&invocation.name);
            return self.fail(format!("template {name} not defined"));
        };
        if self.shared.nested > self.shared.depth.templates {
            return self.too_deep();
        }
        let argument = match &invocation.argument {
            Some(pipeline) => self.pipeline(dot, pipeline)?,
            None => Value::NoValue,
        };
        let argument = Operand::plain(argument);
        let outer = (self.tree, self.at, std::mem::take(&mut self.variables));
        self.tree = tree;
        self.variables.push((0, argument.clone()));
        self.shared.nested += 1;
        let flow = self.nodes(&argument, &tree.root);
        self.shared.nested -= 1;
        flow?;
        (self.tree, self.at, self.variables) = outer;
        Ok(())
    }

    /// The value of a pipeline, which is also declared or assigned. An interface around it is gone.
    fn pipeline(&mut self, dot: &Operand, pipeline: &'t Pipeline) -> Done<Value> {
        self.at = Some(At::Pipeline(pipeline));
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(match self.command(dot, command, value)?.value {
                Value::Nil => Value::NoValue,
                value => value,
            });
        }
        let value = value.unwrap_or_default();
        for variable in &pipeline.variables {
            let value = Operand::plain(value.clone());
            if pipeline.assigns {
                self.assign(*variable, value)?;
            } else {
                self.variables.push((*variable, value));
            }
        }
        Ok(value)
    }
}

/// Arguments of a call; few have more than four.
type Values = SmallVec<[Value; 4]>;

fn no_values() -> Values {
    smallvec![]
}
