//! Commands and operands: fields, methods, functions, constants, and the types they must have.

use ecow::EcoString;
use vela_gocompat::strconv;

use super::{Done, Execution, Operand, Values, no_values, run};
use crate::args::Args;
use crate::builtin::{Builtin, callable};
use crate::call::Call;
use crate::error::{Error, Failure};
use crate::meter::Meter;
use crate::object::{Object, Underlying};
use crate::parse::node::{At, Callee, Chain, Command, Expr, ExprKind, Number, Show};
use crate::signature::{Param, Signature};
use crate::templates::MissingKey;
use crate::types::Type;
use crate::value::{Map, Value};

/// The arguments a command has for what it calls: those written, and the value piped into it.
struct Given<'t> {
    written: &'t [Expr],
    piped: Option<Value>,
}

impl Given<'_> {
    const NONE: Self = Given { written: &[], piped: None };

    fn is_empty(&self) -> bool {
        self.written.is_empty() && self.piped.is_none()
    }
}

/// Whether a function sees what is in an interface or only that it is one.
#[derive(Clone, Copy)]
enum Boxes {
    Open,
    Hide,
}

impl<'t, H: Meter> Execution<'t, '_, H> {
    pub(super) fn command(
        &mut self,
        dot: &Operand,
        command: &'t Command,
        piped: Option<Value>,
    ) -> Done<Operand> {
        let first = &command.first;
        let given = Given { written: &command.rest, piped };
        match &first.kind {
            ExprKind::Field(fields) => {
                self.at = Some(At::Expr(first));
                self.fields(dot, dot.clone(), first, fields, given)
            }
            ExprKind::Chain(chain) => self.chain(dot, first, chain, given),
            ExprKind::Variable(variable, fields) => {
                self.variable(dot, first, *variable, fields, given)
            }
            ExprKind::Function { end, callee } => {
                self.at = Some(At::Expr(first));
                let name = self.tree.up_to(first, *end);
                self.function(dot, At::Command(command), name, *callee, given)
            }
            ExprKind::Pipeline(pipeline) => {
                self.no_arguments(first, &given)?;
                self.pipeline(dot, pipeline).map(Operand::plain)
            }
            ExprKind::Dot | ExprKind::Nil | ExprKind::Bool(_) => {
                self.constant_command(dot, first, &given)
            }
            ExprKind::Number(_) | ExprKind::String(_) => self.constant_command(dot, first, &given),
        }
    }

    fn constant_command(
        &mut self,
        dot: &Operand,
        expr: &'t Expr,
        given: &Given<'_>,
    ) -> Done<Operand> {
        self.at = Some(At::Expr(expr));
        self.no_arguments(expr, given)?;
        Ok(match &expr.kind {
            ExprKind::Dot => dot.clone(),
            ExprKind::Nil => return self.fail("nil is not a command"),
            ExprKind::Bool(value) => Operand::plain(Value::Bool(*value)),
            ExprKind::Number(number) => Operand::plain(self.number(number)?),
            ExprKind::String(literal) => Operand::plain(Value::String(literal.text.clone())),
            _ => Operand::plain(Value::NoValue),
        })
    }

    fn show(&self, expr: &'t Expr) -> String {
        Show(self.tree, At::Expr(expr)).to_string()
    }

    fn no_arguments(&self, expr: &'t Expr, given: &Given<'_>) -> Done<()> {
        if given.is_empty() {
            return Ok(());
        }
        self.fail(format!("can't give argument to non-function {}", self.show(expr)))
    }

    /// A constant where no type is asked for.
    fn number(&self, number: &Number) -> Done<Value> {
        match number {
            Number { is_float: true, float: Some(float), .. } => Ok(Value::Float(*float)),
            Number { int: Some(int), .. } => Ok(Value::int(*int)),
            Number { text, .. } => self.fail(format!("{text} overflows int")),
        }
    }

    fn variable(
        &mut self,
        dot: &Operand,
        expr: &'t Expr,
        variable: u32,
        fields: &'t [EcoString],
        given: Given<'t>,
    ) -> Done<Operand> {
        self.at = Some(At::Expr(expr));
        let known = self.variables.iter().rev().find(|(known, _)| *known == variable);
        let Some((_, value)) = known else {
            return self.undefined(variable);
        };
        let value = value.clone();
        if fields.is_empty() {
            self.no_arguments(expr, &given)?;
            return Ok(value);
        }
        self.fields(dot, value, expr, fields, given)
    }

    fn chain(
        &mut self,
        dot: &Operand,
        expr: &'t Expr,
        chain: &'t Chain,
        given: Given<'t>,
    ) -> Done<Operand> {
        let of = &chain.of;
        self.at = Some(At::Expr(of));
        let of = match &of.kind {
            ExprKind::Pipeline(pipeline) => Operand::plain(self.pipeline(dot, pipeline)?),
            ExprKind::Function { end, callee } => {
                let name = self.tree.up_to(of, *end);
                self.function(dot, At::Expr(of), name, *callee, Given::NONE)?
            }
            // The parser makes no other chains.
            _ => Operand::plain(Value::NoValue),
        };
        self.fields(dot, of, expr, &chain.fields, given)
    }

    /// `.a.b.c`: the last one, which may be a method, gets the arguments.
    fn fields(
        &mut self,
        dot: &Operand,
        mut receiver: Operand,
        expr: &'t Expr,
        fields: &'t [EcoString],
        given: Given<'t>,
    ) -> Done<Operand> {
        let Some((last, before)) = fields.split_last() else {
            return Ok(receiver);
        };
        for name in before {
            receiver = self.field(dot, &receiver, expr, name, Given::NONE)?;
        }
        self.field(dot, &receiver, expr, last, given)
    }

    fn field(
        &mut self,
        dot: &Operand,
        receiver: &Operand,
        expr: &'t Expr,
        name: &'t str,
        given: Given<'t>,
    ) -> Done<Operand> {
        match &receiver.value {
            Value::NoValue if self.templates.missing() == MissingKey::Error => {
                self.fail(format!("nil data; no entry for key {}", strconv::quote(name)))
            }
            Value::NoValue => Ok(Operand::plain(Value::NoValue)),
            Value::Nil => self.fail(format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(map) => self.entry(map, name, &given),
            Value::Object(object) => {
                if let Some(signature) = object.method(name) {
                    let args = self.arguments(dot, name, signature, given, Boxes::Open)?;
                    let object = std::rc::Rc::clone(object);
                    return self.method(&*object, At::Expr(expr), name, &args);
                }
                match object.underlying() {
                    Underlying::Value(Value::Map(map)) => self.entry(&map, name, &given),
                    _ => match object.field(name) {
                        Some(_) if !given.is_empty() => self.fail(format!(
                            "{name} has arguments but cannot be invoked as function"
                        )),
                        Some(value) => Ok(Operand::plain(value)),
                        None => self.no_field(receiver, name),
                    },
                }
            }
            _ => self.no_field(receiver, name),
        }
    }

    fn no_field<T>(&self, receiver: &Operand, name: &str) -> Done<T> {
        self.fail(format!("can't evaluate field {name} in type {}", receiver.type_name()))
    }

    fn entry(&self, map: &Map, name: &str, given: &Given<'_>) -> Done<Operand> {
        if !given.is_empty() {
            return self.fail(format!("{name} is not a method but has arguments"));
        }
        let of = map.element();
        match (map.get(name), self.templates.missing()) {
            (Some(value), _) => Ok(Operand::element(value, of)),
            (None, MissingKey::Default) => Ok(Operand::plain(Value::NoValue)),
            (None, MissingKey::Zero) => Ok(Operand::element(Value::zero(of), of)),
            (None, MissingKey::Error) => {
                self.fail(format!("map has no entry for key {}", strconv::quote(name)))
            }
        }
    }

    fn method(
        &mut self,
        object: &dyn Object,
        at: At<'t>,
        name: &str,
        args: &Values,
    ) -> Done<Operand> {
        let result = object.call(name, Args::new(args), self.shared.host);
        self.called(at, name, result)
    }

    fn called(&mut self, at: At<'t>, name: &str, result: Result<Value, Failure>) -> Done<Operand> {
        match result {
            Ok(value) => Ok(Operand::plain(value)),
            Err(Failure::Stop(stop)) => Err(Error::Stop(stop)),
            Err(failure) => {
                self.at = Some(at);
                let message = format!("error calling {name}: {failure}");
                let source = match failure {
                    Failure::Other(error) => Some(error),
                    _ => None,
                };
                Err(self.error(message, source))
            }
        }
    }

    fn function(
        &mut self,
        dot: &Operand,
        at: At<'t>,
        name: &'t str,
        callee: Callee,
        given: Given<'t>,
    ) -> Done<Operand> {
        match callee {
            Callee::Builtin(builtin @ (Builtin::And | Builtin::Or)) => {
                self.logic(dot, name, builtin == Builtin::Or, given)
            }
            Callee::Builtin(Builtin::Call) => self.call(dot, at, given),
            Callee::Builtin(builtin) => {
                let boxes = if builtin == Builtin::Slice { Boxes::Hide } else { Boxes::Open };
                let args = self.arguments(dot, name, builtin.signature(), given, boxes)?;
                let result = builtin.run(Args::new(&args), self.shared.host);
                self.called(at, name, result)
            }
            Callee::Given(position) => {
                let templates = self.templates;
                let Some(function) = templates.functions().at(position as usize) else {
                    let name = strconv::quote(name);
                    return self.fail(format!("{name} is not a defined function"));
                };
                let args = self.arguments(dot, name, function.signature, given, Boxes::Open)?;
                let at_call = Some((self.tree, at));
                let mut call = Call::new(self.shared.lend(), templates, at_call, run);
                let result = (function.run)(&mut call, Args::new(&args));
                self.called(at, name, result)
            }
        }
    }

    /// `and` and `or`: arguments behind the one that decides are not evaluated.
    fn logic(
        &mut self,
        dot: &Operand,
        name: &str,
        decides: bool,
        given: Given<'t>,
    ) -> Done<Operand> {
        if given.is_empty() {
            return self.fail(format!("wrong number of args for {name}: want at least 1 got 0"));
        }
        let mut value = Value::NoValue;
        for expr in given.written {
            value = self.operand(dot, Param::Reflect, expr)?.value;
            if value.is_true() == decides {
                return Ok(Operand::plain(value));
            }
        }
        Ok(Operand::plain(given.piped.unwrap_or(value)))
    }

    /// `call`: the first argument is a function.
    fn call(&mut self, dot: &Operand, at: At<'t>, given: Given<'t>) -> Done<Operand> {
        let called = match (given.written.first(), &given.piped) {
            (Some(expr), _) => self.show(expr),
            (None, Some(Value::String(text))) => text.to_string(),
            (None, Some(value)) => match value.type_of() {
                Some(of) => format!("<{of} Value>"),
                None => "<invalid Value>".to_owned(),
            },
            (None, None) => String::new(),
        };
        let signature = Builtin::Call.signature();
        let args = self.arguments(dot, "call", signature, given, Boxes::Open)?;
        let (function, args) = match args.split_first() {
            Some((function, args)) => (function.clone(), args),
            None => (Value::NoValue, [].as_slice()),
        };
        let result = callable(&called, &function)
            .and_then(|signature| fit(&called, signature, args))
            .and_then(|args| match &function {
                Value::Object(object) => object.call("", Args::new(&args), self.shared.host),
                _ => Err(Failure::text("call of nil")),
            });
        self.called(at, "call", result)
    }

    /// Evaluates arguments and gives them the types of the parameters.
    fn arguments(
        &mut self,
        dot: &Operand,
        name: &str,
        signature: Signature,
        given: Given<'t>,
        boxes: Boxes,
    ) -> Done<Values> {
        let Signature { fixed, rest } = signature;
        let count = given.written.len() + usize::from(given.piped.is_some());
        if rest.is_some() && count < fixed.len() {
            let (want, got) = (fixed.len(), given.written.len());
            let message =
                format!("wrong number of args for {name}: want at least {want} got {got}");
            return self.fail(message);
        }
        if rest.is_none() && count != fixed.len() {
            let want = fixed.len();
            return self.fail(format!("wrong number of args for {name}: want {want} got {count}"));
        }
        let mut values = no_values();
        let param = |at: usize| fixed.get(at).copied().or(rest).unwrap_or(Param::ANY);
        for (i, expr) in given.written.iter().enumerate() {
            let operand = self.operand(dot, param(i), expr)?;
            values.push(match (boxes, i) {
                (Boxes::Hide, 1..) if operand.boxed => Value::Nil,
                _ => operand.value,
            });
        }
        if let Some(piped) = given.piped {
            let value = self.validate(Operand::plain(piped), param(values.len()))?;
            values.push(value);
        }
        Ok(values)
    }

    fn operand(&mut self, dot: &Operand, param: Param, expr: &'t Expr) -> Done<Operand> {
        self.at = Some(At::Expr(expr));
        let operand = match &expr.kind {
            ExprKind::Dot => dot.clone(),
            ExprKind::Field(fields) => self.fields(dot, dot.clone(), expr, fields, Given::NONE)?,
            ExprKind::Variable(variable, fields) => {
                self.variable(dot, expr, *variable, fields, Given::NONE)?
            }
            ExprKind::Pipeline(pipeline) => Operand::plain(self.pipeline(dot, pipeline)?),
            ExprKind::Function { end, callee } => {
                let name = self.tree.up_to(expr, *end);
                self.function(dot, At::Expr(expr), name, *callee, Given::NONE)?
            }
            ExprKind::Chain(chain) => self.chain(dot, expr, chain, Given::NONE)?,
            ExprKind::Nil => {
                return match param {
                    Param::Reflect => Ok(Operand::plain(Value::NoValue)),
                    Param::Of(of) if of.has_nil() => Ok(Operand::plain(Value::zero(of))),
                    Param::Of(of) => self.fail(format!("cannot assign nil to {of}")),
                };
            }
            _ => return self.constant(param, expr).map(Operand::plain),
        };
        let boxed = operand.boxed;
        Ok(Operand { value: self.validate(operand, param)?, boxed })
    }

    /// A constant for a parameter: numbers take the parameter's type if they can.
    fn constant(&mut self, param: Param, expr: &'t Expr) -> Done<Value> {
        let value = match (&expr.kind, param) {
            (ExprKind::Number(number), Param::Reflect | Param::Of(Type::Any)) => {
                return self.number(number);
            }
            (ExprKind::Bool(value), Param::Reflect | Param::Of(Type::Any | Type::Bool)) => {
                Some(Value::Bool(*value))
            }
            (ExprKind::String(literal), Param::Reflect | Param::Of(Type::Any | Type::String)) => {
                Some(Value::String(literal.text.clone()))
            }
            (ExprKind::Number(number), Param::Of(Type::Float64)) => number.float.map(Value::Float),
            (ExprKind::Number(number), Param::Of(Type::Int(int))) => {
                number.int.map(|n| Value::Int(int, int.wrap(n)))
            }
            (ExprKind::Number(number), Param::Of(Type::Uint(uint))) => {
                number.uint.map(|n| Value::Uint(uint, uint.wrap(n)))
            }
            _ => None,
        };
        if let Some(value) = value {
            return Ok(value);
        }
        let shown = self.show(expr);
        let Param::Of(of) = param else {
            return self.fail(format!("can't handle {shown} for arg of type reflect.Value"));
        };
        let expected = match of {
            Type::Bool => "bool",
            Type::String => "string",
            Type::Int(_) => "integer",
            Type::Uint(_) => "unsigned integer",
            Type::Float64 => "float",
            _ => return self.fail(format!("can't handle {shown} for arg of type {of}")),
        };
        self.fail(format!("expected {expected}; found {shown}"))
    }

    /// Sees to it that a value can be passed for a parameter.
    fn validate(&self, operand: Operand, param: Param) -> Done<Value> {
        let Param::Of(of) = param else {
            return Ok(operand.value);
        };
        match operand.value {
            Value::NoValue if of.has_nil() => Ok(Value::zero(of)),
            Value::NoValue => self.fail(format!("invalid value; expected {of}")),
            Value::Nil if of == Type::Any => Ok(Value::Nil),
            Value::Nil => {
                self.fail(format!("wrong type for value; expected {of}; got interface {{}}"))
            }
            value if assignable(&value, of) => Ok(value),
            value => {
                let got = value.type_of().unwrap_or(Type::Any);
                self.fail(format!("wrong type for value; expected {of}; got {got}"))
            }
        }
    }
}

/// Whether a value can be passed for a type: it is of the type, or its type has a name for it, or
/// it points to it.
fn assignable(value: &Value, of: Type) -> bool {
    if of == Type::Any || value.type_of() == Some(of) {
        return true;
    }
    let Value::Object(object) = value else {
        return false;
    };
    match (object.underlying(), of, object.type_of()) {
        (Underlying::Value(value), Type::List(_) | Type::Map(_), _) => value.type_of() == Some(of),
        (Underlying::Pointer, Type::Named(name), Type::Named(pointer)) => {
            pointer.strip_prefix('*') == Some(name)
        }
        _ => false,
    }
}

/// Arguments of `call`, which has looser rules for them.
fn fit(name: &str, signature: Signature, args: &[Value]) -> Result<Values, Failure> {
    let Signature { fixed, rest } = signature;
    let (got, want) = (args.len(), fixed.len());
    if rest.is_some() && got < want {
        return Err(Failure::text(format!(
            "wrong number of args for {name}: got {got} want at least {want}"
        )));
    }
    if rest.is_none() && got != want {
        return Err(Failure::text(format!(
            "wrong number of args for {name}: got {got} want {want}"
        )));
    }
    let param = |at: usize| fixed.get(at).copied().or(rest).unwrap_or(Param::ANY);
    args.iter()
        .enumerate()
        .map(|(i, value)| {
            let Param::Of(of) = param(i) else {
                return Ok(value.clone());
            };
            match (value, of) {
                (Value::NoValue | Value::Nil, of) if of.has_nil() => Ok(Value::zero(of)),
                (Value::NoValue | Value::Nil, of) => {
                    Err(Failure::text(format!("arg {i}: value is nil; should be of type {of}")))
                }
                (Value::Int(_, n), Type::Int(int)) => Ok(Value::Int(int, int.wrap(*n))),
                (Value::Uint(_, n), Type::Int(int)) => Ok(Value::Int(int, int.wrap(*n as i64))),
                (Value::Int(_, n), Type::Uint(uint)) => Ok(Value::Uint(uint, uint.wrap(*n as u64))),
                (Value::Uint(_, n), Type::Uint(uint)) => Ok(Value::Uint(uint, uint.wrap(*n))),
                (value, of) if assignable(value, of) => Ok(value.clone()),
                (value, of) => {
                    let got = value.type_of().unwrap_or(Type::Any);
                    Err(Failure::text(format!("arg {i}: value has type {got}; should be {of}")))
                }
            }
        })
        .collect()
}
