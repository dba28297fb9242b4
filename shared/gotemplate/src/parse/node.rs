//! The tree of a template, and its nodes as messages show them.

use std::fmt;
use std::sync::Arc;

use ecow::EcoString;
use vela_gocompat::strconv;

use crate::builtin::Builtin;
use crate::text::Str;

/// A text that was parsed, with the name under which messages know it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: EcoString,
    pub(crate) text: EcoString,
}

impl Source {
    /// Line from 1, and column in bytes from 0.
    pub(crate) fn position(&self, at: usize) -> (usize, usize) {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let column = before.iter().rposition(|b| *b == b'\n').map_or(at, |end| at - end - 1);
        (line, column)
    }

    pub(crate) fn slice(&self, range: Span) -> &str {
        self.text.get(range.range()).unwrap_or_default()
    }
}

/// Bytes of a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) at: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.at as usize..self.end as usize
    }
}

/// A template: what a file holds outside of definitions, or one definition.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: EcoString,
    pub(crate) source: Arc<Source>,
    /// The names of variables, by their number; `$` is the first.
    pub(crate) variables: Box<[EcoString]>,
    pub(crate) root: Nodes,
    /// Bytes of the texts that an output may share.
    pub(crate) long: usize,
}

impl Tree {
    /// The source from an expression's beginning up to an end.
    pub(crate) fn up_to(&self, expr: &Expr, end: u32) -> &str {
        self.source.slice(Span { at: expr.at, end })
    }

    /// Whether there is nothing but blanks and comments.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.iter().all(|node| match node {
            Node::Text(span) => self.source.slice(*span).trim().is_empty(),
            _ => false,
        })
    }
}

/// Nodes in their order. Trees stay as long as their chart does, so lists of them have no room to grow.
pub(crate) type Nodes = Box<[Node]>;

#[derive(Debug)]
pub(crate) enum Node {
    Text(Span),
    Action(Pipeline),
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template(Box<Invocation>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipeline: Pipeline,
    pub(crate) body: Nodes,
    pub(crate) otherwise: Nodes,
}

#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) at: u32,
    pub(crate) name: EcoString,
    pub(crate) argument: Option<Pipeline>,
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) at: u32,
    /// `$x :=`, and `$i, $x :=` of a range.
    pub(crate) variables: Box<[u32]>,
    /// `=` instead of `:=`
    pub(crate) assigns: bool,
    pub(crate) commands: Box<[Command]>,
}

/// An operand, or a function, field or variable with arguments.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) at: u32,
    pub(crate) first: Expr,
    pub(crate) rest: Box<[Expr]>,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) at: u32,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Box<Number>),
    String(Box<Literal>),
    /// `.a.b`
    Field(Box<[EcoString]>),
    /// `$x.a.b`
    Variable(u32, Box<[EcoString]>),
    Function {
        /// Where its name ends in the source.
        end: u32,
        callee: Callee,
    },
    /// `(pipeline).a.b`, `function.a.b`
    Chain(Box<Chain>),
    Pipeline(Box<Pipeline>),
}

/// A text between quotes.
#[derive(Debug)]
pub(crate) struct Literal {
    pub(crate) text: Str,
    /// Where it ends in the source, with its quotes.
    pub(crate) end: u32,
}

/// Fields of what an expression gives.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) of: Expr,
    pub(crate) fields: Box<[EcoString]>,
}

/// What the name of a function stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callee {
    Builtin(Builtin),
    /// The position among the functions of the caller.
    Given(u32),
}

/// A constant with all the types that can hold it.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    /// Whether the constant is a float where nothing asks for a type.
    pub(crate) is_float: bool,
    pub(crate) text: EcoString,
}

/// A node that was visited: what an error says it is at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At<'t> {
    Action(&'t Pipeline),
    Template(&'t Invocation),
    Pipeline(&'t Pipeline),
    Command(&'t Command),
    Expr(&'t Expr),
}

impl At<'_> {
    pub(crate) fn offset(self) -> u32 {
        match self {
            Self::Action(pipeline) | Self::Pipeline(pipeline) => pipeline.at,
            Self::Template(invocation) => invocation.at,
            Self::Command(command) => command.at,
            Self::Expr(expr) => expr.at,
        }
    }
}

/// A node in source form.
#[derive(Clone, Copy)]
pub(crate) struct Show<'t>(pub(crate) &'t Tree, pub(crate) At<'t>);

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(tree, at) = *self;
        match at {
            At::Action(pipeline) => write!(f, "{{{{{}}}}}", Self(tree, At::Pipeline(pipeline))),
            At::Template(Invocation { name, argument, .. }) => {
                write!(f, "{{{{template {}", strconv::quote(name))?;
                if let Some(pipeline) = argument {
                    write!(f, " {}", Self(tree, At::Pipeline(pipeline)))?;
                }
                f.write_str("}}")
            }
            At::Pipeline(pipeline) => {
                for (i, variable) in pipeline.variables.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{}", variable_name(tree, *variable))?;
                }
                match (pipeline.variables.is_empty(), pipeline.assigns) {
                    (true, _) => {}
                    (false, true) => f.write_str(" = ")?,
                    (false, false) => f.write_str(" := ")?,
                }
                for (i, command) in pipeline.commands.iter().enumerate() {
                    let pipe = if i > 0 { " | " } else { "" };
                    write!(f, "{pipe}{}", Self(tree, At::Command(command)))?;
                }
                Ok(())
            }
            At::Command(command) => {
                operand(tree, &command.first, f)?;
                for argument in &command.rest {
                    f.write_str(" ")?;
                    operand(tree, argument, f)?;
                }
                Ok(())
            }
            At::Expr(expr) => match &expr.kind {
                ExprKind::Dot => f.write_str("."),
                ExprKind::Nil => f.write_str("nil"),
                ExprKind::Bool(value) => write!(f, "{value}"),
                ExprKind::Number(number) => f.write_str(&number.text),
                ExprKind::String(literal) => f.write_str(tree.up_to(expr, literal.end)),
                ExprKind::Field(fields) => dotted(fields, f),
                ExprKind::Variable(variable, fields) => {
                    f.write_str(variable_name(tree, *variable))?;
                    dotted(fields, f)
                }
                ExprKind::Function { end, .. } => f.write_str(tree.up_to(expr, *end)),
                ExprKind::Chain(chain) => {
                    operand(tree, &chain.of, f)?;
                    dotted(&chain.fields, f)
                }
                ExprKind::Pipeline(pipeline) => Self(tree, At::Pipeline(pipeline)).fmt(f),
            },
        }
    }
}

pub(crate) fn variable_name(tree: &Tree, variable: u32) -> &str {
    tree.variables.get(variable as usize).map_or("", EcoString::as_str)
}

/// A part of a command: pipelines stand in parentheses there.
fn operand(tree: &Tree, expr: &Expr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let show = Show(tree, At::Expr(expr));
    match expr.kind {
        ExprKind::Pipeline(_) => write!(f, "({show})"),
        _ => write!(f, "{show}"),
    }
}

fn dotted(fields: &[EcoString], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fields.iter().try_for_each(|field| write!(f, ".{field}"))
}
