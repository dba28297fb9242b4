//! What an execution shares with those within it: host, maps that changed, depth.

use crate::error::Location;
use crate::stack::Stack;
use crate::value::Map;

/// How deep templates may execute templates.
#[derive(Debug, Clone, Copy)]
pub struct Depth {
    /// Templates within templates, through actions and functions.
    pub templates: usize,
    /// Bytes of the thread's stack that the execution may take. What a template takes depends on
    /// the build; this bound keeps the process alive.
    pub stack: usize,
}

impl Default for Depth {
    /// Go's bound, on a thread with the usual stack of 2 MiB.
    fn default() -> Self {
        Self { templates: 100_000, stack: 1 << 20 }
    }
}

/// What an execution shares with those within it.
#[derive(Debug)]
pub(crate) struct Shared<'a, H> {
    pub(crate) host: &'a mut H,
    pub(crate) changed: &'a mut Vec<Map>,
    /// Where an execution was stopped.
    pub(crate) stopped: &'a mut Option<Location>,
    pub(crate) depth: Depth,
    pub(crate) nested: usize,
    /// The stack at the outermost execution.
    pub(crate) stack: Stack,
}

impl<H> Shared<'_, H> {
    pub(crate) fn lend(&mut self) -> Shared<'_, H> {
        let (host, changed, stopped) = (&mut *self.host, &mut *self.changed, &mut *self.stopped);
        Shared { host, changed, stopped, ..*self }
    }

    /// Whether one template more may be executed, as far as the stack is concerned.
    pub(crate) fn has_stack(&self) -> bool {
        self.stack.grew_less_than(self.depth.stack)
    }
}
