//! Errors of a program, their texts yet to be made.

use super::id::{ErrId, Vid};
use crate::error::Class;
use crate::ir::ExprId;
use crate::kind::Kind;
use crate::label::Label;
use crate::limits::LimitError;
use smallvec::SmallVec;

#[derive(Clone, Debug)]
pub(crate) enum Msg {
    Text(String),
    /// `undefined field: x`, and where it was looked for.
    Undefined(Label, Vid),
    /// `cannot reference optional field: x`
    CannotReference(Label),
    /// `unresolved disjunction`, the text made from the vertex.
    Unresolved,
    /// `non-concrete value string in operand to +`
    NonConcrete(Kind, &'static str),
    /// `x: incomplete value string`, the text made from the vertex.
    Incomplete,
    /// `field not allowed`
    NotAllowed,
    /// `incompatible list lengths (1 and 2)`
    ListLengths(u32, u32),
    /// `explicit error (_|_ literal) in source`
    Bottom,
    StructuralCycle,
    Cycle(ExprId),
    /// The same, of a field that may yet come of what asks for it.
    Pending(ExprId),
    /// The same, of a field that may yet get the name which asks for it.
    Naming(ExprId),
    /// The same, of a field whose alternatives cannot be chosen from before it is known.
    Choosing(ExprId),
    /// The same, of a struct that is asked about as a whole by something in it.
    Enclosing(ExprId),
    Limit(LimitError),
}

#[derive(Clone, Debug)]
pub(crate) struct Err {
    pub(crate) class: Class,
    pub(crate) msg: Msg,
    pub(crate) vertex: Vid,
    pub(crate) at: SmallVec<[ExprId; 2]>,
    /// The errors of the alternatives of a disjunction.
    pub(crate) causes: Vec<ErrId>,
}
