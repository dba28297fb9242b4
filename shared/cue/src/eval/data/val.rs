//! Values as expressions see them.

use super::id::{EnvId, Vid};
use crate::ir::{BuiltinId, Core, ExprId};
use crate::kind::Kind;
use crate::value::Number;
use cue_syntax::ast::UnaryOp;
use ecow::EcoString;
use std::sync::Arc;

/// A value as expressions see it. Structs, lists and undecided disjunctions are nodes.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    Top,
    Null,
    Bool(bool),
    Int(i64),
    Num(Number),
    Str(EcoString),
    Bytes(Arc<[u8]>),
    Kind(Kind),
    /// `>=5`, `!="a"`, `=~"^a"`
    Bound(UnaryOp, Arc<Self>),
    /// A builtin that constrains the value it is unified with.
    Validator(Arc<Validator>),
    /// A kind together with bounds and validators.
    All(Arc<Vec<Self>>),
    CoreFunc(Core),
    Node(Vid),
}

/// A builtin waiting for its first argument.
#[derive(Debug)]
pub(crate) struct Validator {
    pub(crate) func: Func,
    pub(crate) args: Vec<Val>,
    /// The call or name in the source.
    pub(crate) expr: ExprId,
    pub(crate) env: EnvId,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Func {
    Core(Core),
    Std(BuiltinId),
}

impl Val {
    pub(crate) fn from_number(n: Number) -> Self {
        match n.as_i64() {
            Some(i) if n.is_int() => Self::Int(i),
            _ => Self::Num(n),
        }
    }

    /// The number of a numeric atom.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Int(i) => Some(Number::from(*i)),
            Self::Num(n) => Some(n.clone()),
            _ => None,
        }
    }

    pub(crate) fn is_atom(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Bool(_)
                | Self::Int(_)
                | Self::Num(_)
                | Self::Str(_)
                | Self::Bytes(_)
                | Self::CoreFunc(_)
        )
    }
}
