//! What an evaluation leaves behind for the next one on the same thread: empty arenas.
//!
//! A render of a template takes some microseconds; to ask the allocator for every arena, for the
//! fields of every struct and for what only some vertices have would be a good part of that, and
//! nearly all the memory allocated. Nothing of an evaluation's contents outlives it.

use super::data::{Extra, Vertex};
use super::state::State;
use crate::label::{Interner, Label};
use std::cell::Cell;

thread_local! {
    static SPARE: Cell<Option<Box<Arenas>>> = const { Cell::new(None) };
}

/// Small parts of so many vertices are kept.
const MOST_VERTICES: usize = 4096;
/// An evaluation whose arenas take more than this gives its memory back: it was no template.
const MOST_BYTES: u64 = 2 << 20;
/// So does a field list or a collection of a vertex that has grown beyond this.
const MOST_FIELDS: usize = 256;

type Fields = Vec<(Label, super::data::Vid)>;

/// Small parts of vertices, emptied.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    #[allow(clippy::vec_box, reason = "the boxes themselves are what is kept")]
    extras: Vec<Box<Extra>>,
    fields: Vec<Fields>,
}

impl Parts {
    /// An empty part for a vertex that needs one.
    pub(crate) fn extra(&mut self) -> Box<Extra> {
        self.extras.pop().unwrap_or_default()
    }

    /// An empty list of fields.
    pub(crate) fn fields(&mut self) -> Fields {
        self.fields.pop().unwrap_or_else(|| Vec::with_capacity(8))
    }

    fn take_from(&mut self, vertex: &mut Vertex) {
        if let Some(mut extra) = vertex.extra.take()
            && self.extras.len() < MOST_VERTICES
            && extra.clear()
        {
            self.extras.push(extra);
        }
        let mut fields = std::mem::take(&mut vertex.arcs);
        if (1..=MOST_FIELDS).contains(&fields.capacity()) && self.fields.len() < MOST_VERTICES {
            fields.clear();
            self.fields.push(fields);
        }
    }
}

macro_rules! arenas {
    ($($name:ident: $type:ty,)*) => {
        /// The arenas of an evaluation that has ended.
        #[derive(Debug, Default)]
        struct Arenas { parts: Parts, vertices: Vec<Vertex>, names: Interner, $($name: $type,)* }

        impl Arenas {
            fn take_from(state: &mut State) -> Self {
                $(state.$name.clear();)*
                let mut arenas = Self {
                    parts: std::mem::take(&mut state.parts),
                    vertices: std::mem::take(&mut state.vertices),
                    names: Interner::default().with_memory_of(std::mem::take(&mut state.names)),
                    $($name: std::mem::take(&mut state.$name),)*
                };
                for vertex in &mut arenas.vertices {
                    arenas.parts.take_from(vertex);
                }
                arenas.vertices.clear();
                arenas
            }

            fn give_to(self, state: &mut State) {
                state.parts = self.parts;
                state.vertices = self.vertices;
                state.names = std::mem::take(&mut state.names).with_memory_of(self.names);
                $(state.$name = self.$name;)*
            }
        }
    };
}

arenas! {
    envs: Vec<super::data::Env>,
    refs: Vec<super::data::Refs>,
    data: Vec<super::data::Data>,
    items: Vec<(Label, super::data::DataId)>,
    open_items: Vec<(Label, super::data::DataId)>,
    vals: Vec<super::data::Val>,
    errs: Vec<super::data::Err>,
    close: Vec<super::data::CloseNode>,
}

impl State {
    /// Takes over the empty arenas of the evaluation before this one.
    pub(crate) fn reuse(&mut self) {
        if let Some(spare) = SPARE.try_with(Cell::take).ok().flatten() {
            spare.give_to(self);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // One large evaluation must not pin its memory to the thread.
        if self.vertices.len() > MOST_VERTICES || self.held().0 > MOST_BYTES {
            return;
        }
        let spare = Box::new(Arenas::take_from(self));
        // The thread may be ending.
        let _ = SPARE.try_with(|cell| cell.set(Some(spare)));
    }
}
