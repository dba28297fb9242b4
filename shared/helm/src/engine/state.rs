//! What all functions of one render share: the host, and what is left of the budget.

use std::collections::HashMap;
use std::rc::Rc;

use gotemplate::{Failure, Meter, Stop, Str};
use vela_gocompat::regexp::Regexp;

use crate::host::Host;
use crate::keys::{Algorithm, PrivateKey};
use crate::limits::Budget;

/// A bound of a render that was crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// The host says that it took too long.
    #[error("rendering takes longer than it may")]
    Time,
    /// Too many nodes were executed.
    #[error("rendering takes more than {0} steps")]
    Steps(u64),
    /// Functions made too much.
    #[error("rendering makes more than {0} bytes")]
    Work(u64),
    /// One text is too long.
    #[error("a text is longer than {0} bytes")]
    Text(usize),
    /// All rendered files together are too long.
    #[error("the rendered files are longer than {0} bytes")]
    Total(usize),
    /// A list would have too many elements.
    #[error("a list has more than {0} elements")]
    Elements(usize),
    /// `tpl` calls itself.
    #[error("tpl is nested deeper than {0} levels")]
    Tpl(usize),
    /// A text is too long for `tpl`.
    #[error("tpl is given more than {0} bytes")]
    TplText(usize),
    /// Too many keys were asked for.
    #[error("more than {0} private keys are generated")]
    Keys(usize),
    /// A value is nested too deep to be written as text.
    #[error("a value is nested deeper than {0} levels")]
    Depth(usize),
    /// The values are too large.
    #[error("the values are larger than {0} bytes")]
    Values(usize),
    /// There are too many objects.
    #[error("the chart has more than {0} objects")]
    Objects(usize),
}

/// A text of `required` or `fail`, from where it is thrown to where it is reported.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// How many steps pass between two looks at the clock.
const STEPS_PER_CHECK: u64 = 16_384;

/// Shared by the functions of a render.
pub(crate) struct State {
    pub(crate) host: Box<dyn Host>,
    pub(crate) budget: Budget,
    steps: u64,
    next_check: u64,
    made: u64,
    keys: usize,
    /// How often a template is being included at this moment, by name.
    pub(crate) including: HashMap<Str, usize>,
    /// How many `tpl` are running within each other.
    pub(crate) tpl: usize,
    /// Patterns that were compiled.
    pub(crate) patterns: HashMap<String, Rc<Regexp>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("steps", &self.steps).field("made", &self.made).finish()
    }
}

impl State {
    pub(crate) fn new(host: Box<dyn Host>, budget: Budget) -> Self {
        Self {
            host,
            budget,
            steps: 0,
            next_check: STEPS_PER_CHECK,
            made: 0,
            keys: 0,
            including: HashMap::new(),
            tpl: 0,
            patterns: HashMap::new(),
        }
    }

    /// A new private key, paid for.
    pub(crate) fn private_key(&mut self, algorithm: Algorithm) -> Result<PrivateKey, Failure> {
        self.keys += 1;
        if self.keys > self.budget.keys {
            return Err(over(OverBudget::Keys(self.budget.keys)));
        }
        self.host.private_key(algorithm).map_err(Failure::other)
    }

    /// Checks the number of elements that a list is about to have, and pays for them.
    pub(crate) fn elements(&mut self, count: usize) -> Result<(), Failure> {
        if count > self.budget.elements {
            return Err(over(OverBudget::Elements(self.budget.elements)));
        }
        self.steps(count as u64 / 4)?;
        self.room(count as u64 * 24)?;
        Ok(())
    }

    /// Checks the length of a text that is about to be made, and pays for it.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), Failure> {
        if bytes > self.budget.file {
            return Err(over(OverBudget::Text(self.budget.file)));
        }
        self.room(bytes as u64)?;
        Ok(())
    }
}

/// A crossed bound as the end of the execution.
pub(crate) fn over(bound: OverBudget) -> Failure {
    Failure::Stop(Stop::new(bound))
}

impl Meter for State {
    fn steps(&mut self, steps: u64) -> Result<(), Stop> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.budget.steps {
            return Err(Stop::new(OverBudget::Steps(self.budget.steps)));
        }
        if self.steps >= self.next_check {
            self.next_check = self.steps.saturating_add(STEPS_PER_CHECK);
            if self.host.is_over() {
                return Err(Stop::new(OverBudget::Time));
            }
        }
        Ok(())
    }

    fn room(&mut self, bytes: u64) -> Result<(), Stop> {
        self.made = self.made.saturating_add(bytes);
        if self.made > self.budget.work {
            return Err(Stop::new(OverBudget::Work(self.budget.work)));
        }
        // Making bytes takes time too.
        self.steps(bytes / 64)
    }
}

/// Searches of regular expressions are paid for as steps.
pub(crate) struct Searching<'a>(pub(crate) &'a mut State);

/// Work of a search that costs one step.
const WORK_A_STEP: u64 = 16;

impl vela_gocompat::regexp::Meter for Searching<'_> {
    type Error = Failure;

    fn work(&mut self, amount: u64) -> Result<(), Failure> {
        Ok(self.0.steps(amount / WORK_A_STEP)?)
    }
}
