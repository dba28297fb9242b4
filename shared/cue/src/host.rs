//! Host packages and host calls: CUE text with `#do` and `#provider`, answered by the host.

use crate::api::{Evaluation, Node};
use crate::value::Value;
use ecow::EcoString;

/// A call the host is asked to answer: a struct whose `#do` is a concrete string.
#[derive(Debug, Clone)]
pub struct Call {
    /// The text of `#provider`, empty if there is none.
    pub provider: EcoString,
    /// The text of `#do`.
    pub name: EcoString,
    /// Labels from the root to the struct.
    pub path: Vec<EcoString>,
    /// The struct itself: `$params` and so on are looked up in it.
    pub node: Node,
}

/// The host's answer to a [`Call`].
#[derive(Debug, Clone)]
pub enum Answer {
    /// Unify this with the struct (usually `{"$returns": ...}`) and go on.
    Unify(Value),
    /// Go on without a change.
    Nothing,
    /// Evaluate no further calls in this pass (waiting, failed, suspended; the host knows why).
    Stop,
}

/// Answers calls.
pub trait Host {
    /// Called for each call in walk order: children before parents, lists by index, each path at
    /// most once per evaluation.
    fn call(&mut self, evaluation: &mut Evaluation, call: &Call) -> Answer;
}
