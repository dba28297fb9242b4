//! The evaluator: nodes ("vertices") with the conjuncts that define them, computed on demand.
//!
//! A vertex goes through phases, each idempotent. *Expanded*: its conjuncts are distributed over
//! its fields, references followed; work that needs other values (comprehensions, dynamic fields,
//! calls) is queued as tasks. *Settled*: the tasks are done, alternatives are chosen, its own value
//! is known. *Deep*: the same for everything below, closedness checked. Whoever needs a value names
//! the least phase that will do.
//!
//! Meeting a vertex that is in the middle of its own computation gives what is known so far; a
//! result made of such partial knowledge is provisional and computed again when next asked for.

mod arith;
mod call;
mod closed;
mod comprehension;
mod deep;
mod disjunction;
mod equal;
mod error;
mod expand;
mod field;
mod follow;
mod input;
mod list;
mod list_call;
mod order;
mod reference;
mod scalar;
mod spare;
mod state;
mod validator;
mod value;

pub(crate) use error::ErrId;
pub(crate) use input::DataSeed;
pub(crate) use state::{ArcKind, Machine, State, Val, Vid};

pub(crate) use scalar::pinned;
pub(crate) use state::{Conj, Data, Deep, EnvId, Forward, Func, Mode, Src};

use error::Msg;

pub(crate) fn incomplete() -> Msg {
    Msg::Incomplete
}

pub(crate) fn text(text: &str) -> Msg {
    Msg::Text(text.into())
}
