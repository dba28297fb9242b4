//! Running a template over data.

use super::format::{js, print, sprintf};
use super::parse::{Branch, Node, Operand, Pipeline, Template};
use crate::limits::{Budget, LimitError};
use crate::std::args::{fail, short};
use crate::std::{BuiltinError, html, net};
use crate::value::Value;

/// Depth of `{{template}}` calls beyond which a recursion is endless.
const MOST_CALLS: usize = 100;

const FUNCTIONS: [&str; 18] = [
    "and", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print",
    "printf", "println", "slice", "urlquery",
];

pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

pub(super) fn execute(
    template: &Template,
    data: &Value,
    budget: &mut Budget,
) -> Result<String, BuiltinError> {
    let mut run = Run {
        template,
        budget,
        out: String::new(),
        variables: vec![("$".to_owned(), Some(data.clone()))],
        calls: 0,
    };
    run.nodes(&template.root, &Some(data.clone()))?;
    Ok(run.out)
}

/// A value, or nothing: null and missing fields.
type Val = Option<Value>;

#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

struct Run<'a, 'b> {
    template: &'a Template,
    budget: &'b mut Budget,
    out: String,
    variables: Vec<(String, Val)>,
    calls: usize,
}

fn present(value: &Value) -> Val {
    match value {
        Value::Null => None,
        value => Some(value.clone()),
    }
}

/// Go's truth: not empty, not zero.
fn truth(value: &Val) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(b)) => *b,
        Some(Value::Number(n)) => !n.to_decimal().is_zero(),
        Some(Value::String(s)) => !s.is_empty(),
        Some(Value::Bytes(b)) => !b.is_empty(),
        Some(Value::List(l)) => !l.is_empty(),
        Some(Value::Struct(s)) => !s.is_empty(),
    }
}

impl Run<'_, '_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Val) -> Result<Flow, BuiltinError> {
        let scope = self.variables.len();
        let mut flow = Flow::Next;
        for node in nodes {
            self.budget.steps(1)?;
            flow = self.node(node, dot)?;
            if self.out.len() as u64 > self.budget.limits().string {
                return Err(self.budget.cross(LimitError::String).into());
            }
            if flow != Flow::Next {
                break;
            }
        }
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn node(&mut self, node: &Node, dot: &Val) -> Result<Flow, BuiltinError> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    match value {
                        None => self.out.push_str("<no value>"),
                        Some(value) => {
                            self.pay(Some(&value))?;
                            print(&value, &mut self.out);
                        }
                    }
                }
            }
            Node::If(branch) => return self.branch(branch, dot, false),
            Node::With(branch) => return self.branch(branch, dot, true),
            Node::Range(branch) => return self.range(branch, dot),
            Node::Template(name, argument) => {
                let template = self.template;
                let Some(body) = template.defined.get(name) else {
                    return fail(format!("template: template {name:?} not defined"));
                };
                let argument = match argument {
                    Some(pipeline) => self.pipeline(pipeline, dot)?,
                    None => None,
                };
                self.calls += 1;
                if self.calls > MOST_CALLS {
                    return Err(self.budget.cross(LimitError::Depth).into());
                }
                let outer = std::mem::replace(
                    &mut self.variables,
                    vec![("$".to_owned(), argument.clone())],
                );
                self.nodes(body, &argument)?;
                self.variables = outer;
                self.calls -= 1;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn branch(&mut self, branch: &Branch, dot: &Val, with: bool) -> Result<Flow, BuiltinError> {
        let scope = self.variables.len();
        let value = self.pipeline(&branch.pipeline, dot)?;
        let flow = if truth(&value) {
            self.nodes(&branch.body, if with { &value } else { dot })?
        } else {
            self.nodes(&branch.otherwise, dot)?
        };
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn range(&mut self, branch: &Branch, dot: &Val) -> Result<Flow, BuiltinError> {
        let scope = self.variables.len();
        let pipeline = &branch.pipeline;
        let over = self.commands(&pipeline.commands, dot)?;
        let items: Vec<(Value, Value)> = match over {
            None => Vec::new(),
            Some(Value::List(elements)) => {
                elements.into_iter().enumerate().map(|(i, v)| (Value::from(i as i64), v)).collect()
            }
            Some(Value::Struct(fields)) => {
                let mut fields: Vec<_> =
                    fields.into_iter().map(|(k, v)| (Value::String(k), v)).collect();
                fields.sort_by(|a, b| a.0.as_str().cmp(&b.0.as_str()));
                fields
            }
            Some(Value::Number(n)) if n.is_int() => {
                let n = n.as_i64().and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
                self.budget.list(n)?;
                (0..n as i64).map(|i| (Value::from(i), Value::from(i))).collect()
            }
            Some(other) => {
                return fail(format!("template: range can't iterate over {}", short(&other)));
            }
        };
        if items.is_empty() {
            return self.nodes(&branch.otherwise, dot);
        }
        for (key, value) in items {
            self.budget.steps(1)?;
            match pipeline.variables.as_slice() {
                [x] => self.set(x, present(&value), pipeline.assign)?,
                [x, y] => {
                    self.set(x, Some(key), pipeline.assign)?;
                    self.set(y, present(&value), pipeline.assign)?;
                }
                _ => {}
            }
            let flow = self.nodes(&branch.body, &present(&value))?;
            self.variables.truncate(scope);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    /// A value is copied where it is used.
    fn pay(&mut self, value: Option<&Value>) -> Result<(), BuiltinError> {
        let size = value.map_or(0, Value::size);
        self.budget.steps(size >> 5)?;
        Ok(self.budget.room(size)?)
    }

    fn set(&mut self, name: &str, value: Val, assign: bool) -> Result<(), BuiltinError> {
        if !assign {
            self.variables.push((name.to_owned(), value));
            return Ok(());
        }
        match self.variables.iter_mut().rev().find(|(n, _)| n == name) {
            Some((_, slot)) => {
                *slot = value;
                Ok(())
            }
            None => fail(format!("template: undefined variable {name:?}")),
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Val) -> Result<Val, BuiltinError> {
        let value = self.commands(&pipeline.commands, dot)?;
        if let [name] = pipeline.variables.as_slice() {
            self.set(name, value.clone(), pipeline.assign)?;
        }
        Ok(value)
    }

    fn commands(&mut self, commands: &[Vec<Operand>], dot: &Val) -> Result<Val, BuiltinError> {
        let mut value = None;
        for (i, command) in commands.iter().enumerate() {
            self.budget.steps(1)?;
            let last = (i > 0).then_some(value);
            value = self.command(command, last, dot)?;
        }
        Ok(value)
    }

    /// One command; `last` is what the command before gave, the final argument of a function.
    fn command(
        &mut self,
        command: &[Operand],
        last: Option<Val>,
        dot: &Val,
    ) -> Result<Val, BuiltinError> {
        let Some((first, rest)) = command.split_first() else {
            return Ok(None);
        };
        let Operand::Function(name) = first else {
            if !rest.is_empty() || last.is_some() {
                return fail("template: can't give argument to non-function");
            }
            return self.operand(first, dot);
        };
        // These two look at further arguments only if they have to.
        if name == "and" || name == "or" {
            let mut value = None;
            let operands = rest.len() + usize::from(last.is_some());
            if operands == 0 {
                return fail(format!(
                    "template: wrong number of args for {name}: want at least 1 got 0"
                ));
            }
            for operand in rest {
                value = self.operand(operand, dot)?;
                if truth(&value) == (name == "or") {
                    return Ok(value);
                }
            }
            return Ok(last.unwrap_or(value));
        }
        let mut args = Vec::with_capacity(rest.len() + 1);
        for operand in rest {
            args.push(self.operand(operand, dot)?);
        }
        args.extend(last);
        self.call(name, &args)
    }

    fn operand(&mut self, operand: &Operand, dot: &Val) -> Result<Val, BuiltinError> {
        Ok(match operand {
            Operand::Dot => {
                self.pay(dot.as_ref())?;
                dot.clone().filter(|v| !matches!(v, Value::Null))
            }
            Operand::Nil => None,
            Operand::Literal(value) => Some(value.clone()),
            Operand::Variable(name) => match self.variables.iter().rev().find(|(n, _)| n == name) {
                Some((_, value)) => {
                    let value = value.clone();
                    self.pay(value.as_ref())?;
                    value
                }
                None => return fail(format!("template: undefined variable {name:?}")),
            },
            Operand::Function(name) => self.call(name, &[])?,
            Operand::Parens(pipeline) => self.commands(&pipeline.commands, dot)?,
            Operand::Fields(base, fields) => {
                let mut value = self.operand(base, dot)?;
                for field in fields {
                    value = match &value {
                        Some(Value::Struct(s)) => s.get(field.as_str()).and_then(present),
                        None => {
                            return fail(format!("template: nil data; no entry for key {field:?}"));
                        }
                        Some(other) => {
                            return fail(format!(
                                "template: can't evaluate field {field} in {}",
                                short(other)
                            ));
                        }
                    };
                }
                value
            }
        })
    }

    fn call(&mut self, name: &str, args: &[Val]) -> Result<Val, BuiltinError> {
        let values: Vec<Value> = args.iter().map(|a| a.clone().unwrap_or_default()).collect();
        // Each may be printed once, and escaped.
        let size: u64 = values.iter().map(Value::size).sum();
        self.budget.steps(size >> 5)?;
        self.budget.room(size.saturating_mul(6))?;
        for number in values.iter().filter_map(Value::as_number) {
            self.budget.arithmetic(number.whole_words())?;
        }
        let text = |sep: &str| {
            let mut out = String::new();
            for (i, value) in values.iter().enumerate() {
                // Print puts spaces between operands when neither is a string.
                let before = i.checked_sub(1).and_then(|j| values.get(j));
                let strings =
                    value.as_str().is_some() || before.is_some_and(|b| b.as_str().is_some());
                if i > 0 && (sep == "ln" || (sep == "v" && !strings)) {
                    out.push(' ');
                }
                print(value, &mut out);
            }
            out
        };
        let made = match name {
            "print" => Value::from(text("v")),
            "println" => Value::from(text("ln") + "\n"),
            "html" => Value::from(html::escape(&text("v"))),
            "js" => Value::from(js(&text("v"))),
            "urlquery" => Value::from(net::query_escape(&text("v"))),
            "printf" => match values.split_first() {
                Some((Value::String(template), rest)) => {
                    Value::from(sprintf(template, rest, self.budget.limits().string))
                }
                _ => return fail("template: wrong type of value for printf"),
            },
            "not" => match args {
                [value] => Value::Bool(!truth(value)),
                _ => return wrong_count(name, 1, args.len()),
            },
            "len" => match values.as_slice() {
                [Value::String(s)] => Value::from(s.len() as i64),
                [Value::Bytes(b)] => Value::from(b.len() as i64),
                [Value::List(l)] => Value::from(l.len() as i64),
                [Value::Struct(s)] => Value::from(s.len() as i64),
                [other] => return fail(format!("template: len of type {}", other.kind())),
                _ => return wrong_count(name, 1, args.len()),
            },
            "index" => return index(&values),
            "slice" => slice(&values)?,
            "eq" => match values.split_first() {
                Some((first, rest)) if !rest.is_empty() => {
                    Value::Bool(rest.iter().any(|v| crate::std::list::equal(first, v)))
                }
                _ => return fail("template: missing argument for comparison"),
            },
            "ne" | "lt" | "le" | "gt" | "ge" => match values.as_slice() {
                [a, b] => Value::Bool(compare(name, a, b)?),
                _ => return wrong_count(name, 2, args.len()),
            },
            _ => return fail(format!("template: function {name:?} not defined")),
        };
        if let Value::String(s) = &made {
            self.budget.string(s.len() as u64)?;
        }
        Ok(Some(made))
    }
}

fn wrong_count<T>(name: &str, want: usize, got: usize) -> Result<T, BuiltinError> {
    fail(format!("template: wrong number of args for {name}: want {want} got {got}"))
}

fn compare(name: &str, a: &Value, b: &Value) -> Result<bool, BuiltinError> {
    if name == "ne" {
        return Ok(!crate::std::list::equal(a, b));
    }
    let order = match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.compare(b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        _ => return fail("template: incompatible types for comparison"),
    };
    Ok(match name {
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        "gt" => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn index(values: &[Value]) -> Result<Val, BuiltinError> {
    let Some((base, keys)) = values.split_first() else {
        return wrong_count("index", 1, 0);
    };
    let mut value = base.clone();
    for key in keys {
        value = match (&value, key) {
            (Value::Struct(fields), Value::String(key)) => match fields.get(key) {
                Some(value) => value.clone(),
                None => Value::Null,
            },
            (Value::List(_) | Value::String(_) | Value::Bytes(_), Value::Number(n)) => {
                let at = n.as_i64().and_then(|n| usize::try_from(n).ok());
                let found = at.and_then(|at| match &value {
                    Value::List(l) => l.get(at).cloned(),
                    other => other.as_bytes()?.get(at).map(|b| Value::from(i64::from(*b))),
                });
                match found {
                    Some(value) => value,
                    None => {
                        return fail(format!(
                            "template: error calling index: index out of range: {n}"
                        ));
                    }
                }
            }
            (other, _) => {
                return fail(format!(
                    "template: error calling index: can't index item of type {}",
                    other.kind()
                ));
            }
        };
    }
    Ok(present(&value))
}

fn slice(values: &[Value]) -> Result<Value, BuiltinError> {
    let bound = |i: usize, default: usize| match values.get(i) {
        None => Some(default),
        Some(v) => v.as_i64().and_then(|n| usize::try_from(n).ok()),
    };
    let out_of_range = || fail("template: error calling slice: index out of range");
    let part = match values.first() {
        Some(Value::String(s)) => {
            bound(1, 0).zip(bound(2, s.len())).and_then(|(a, b)| s.get(a..b)).map(Value::from)
        }
        Some(Value::List(l)) => bound(1, 0)
            .zip(bound(2, l.len()))
            .and_then(|(a, b)| l.get(a..b))
            .map(|l| Value::List(l.to_vec())),
        _ => return fail("template: error calling slice: can't slice item"),
    };
    part.map_or_else(out_of_range, Ok)
}
