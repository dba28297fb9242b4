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
//!
//! # A worked example
//!
//! ```cue
//! #A: {n: int, out: n + 1}
//! x: #A & {n: 2}
//! ```
//!
//! Somebody demands `x` deep.
//!
//! 1. *Expand `x`.* Its one conjunct is the expression `#A & {n: 2}`. The reference is followed to the vertex `#A`, whose own
//!    conjunct is the struct literal, and the two operands are distributed: `x` gets the arcs `n` (conjuncts `int` and `2`)
//!    and `out` (conjunct `n + 1`, in an environment whose struct is `x`, so that `n` means `x.n`). The conjuncts of `#A` carry the
//!    close id of the reference. Nothing is computed yet.
//! 2. *Settle `x`.* It has no tasks and no alternatives; it is a struct.
//! 3. *Deep.* The arcs are settled one by one. `n`: the kind of `int` meets the atom `2`, the result is `2`. `out`: the sum
//!    demands `x.n` settled, which it is, and gives `3`. Then closedness is checked: `n` and `out` each have a conjunct that
//!    came through the reference, so both are allowed.
//!
//! In `{a: b, b: a & 1}` settling `a` follows the reference to `b`, which demands `a` while `a` is in progress: the demand is
//! answered with what is known of `a` (nothing), `b` becomes `1`, `a` becomes `1`, and `b`, provisional until then, is confirmed.

mod arith;
mod call;
mod closed;
mod comprehension;
mod data;
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
mod marks;
mod order;
mod reference;
mod scalar;
mod sort;
mod spare;
mod state;
mod validator;
mod value;

pub(crate) use data::{
    ArcKind, Conj, Data, Deep, EnvId, ErrId, Forward, Func, Mode, Src, Val, Vid,
};
pub(crate) use input::DataSeed;
pub(crate) use scalar::pinned;
pub(crate) use state::{Machine, State};

use data::Msg;

/// The message of a value that is not known yet; it names the value when it is printed.
pub(crate) fn incomplete() -> Msg {
    Msg::Incomplete
}

/// A message with a text of its own.
pub(crate) fn text(text: &str) -> Msg {
    Msg::Text(text.into())
}
