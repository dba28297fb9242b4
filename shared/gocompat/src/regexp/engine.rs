//! Searching under a meter: every search pays for what it may cost before it runs.
//!
//! What a search costs is bounded by the states of the pattern's automaton times the bytes of the
//! text, whatever the engine does. A lazy DFA goes first and is driven here, byte by byte: it pays
//! as it goes and knows where it stopped, so a match near the beginning of a long text costs
//! little. Where it gives up, and for groups, the PikeVM searches the part of the text that is
//! left or that matched, which is paid for at once.

use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, BuildError, NFA, WhichCaptures};
use regex_automata::util::captures::Captures;
use regex_automata::util::primitives::PatternID;
use regex_automata::util::{interpolate, syntax};
use regex_automata::{Anchored, Input};

use super::{CACHE_LIMIT, NEST_LIMIT};

/// Most places for groups while matching: states times both ends of every group. 8 MiB.
const MAX_SLOTS: usize = 1 << 20;
/// How often the lazy DFA may empty its cache before it gives up.
const MAX_CLEARS: usize = 3;
/// Bytes that the lazy DFA goes at most before it pays for them.
const CHUNK: usize = 256;

/// Pays for searches.
pub trait Meter {
    /// What ends a search that cannot be paid for.
    type Error;

    /// Pays for this many states of an automaton, each for one byte.
    ///
    /// # Errors
    /// When there is no more to pay with; the search ends.
    fn work(&mut self, amount: u64) -> Result<(), Self::Error>;
}

/// A fixed amount of work, for those who have no budget of their own.
#[derive(Debug, Clone, Copy)]
pub struct Allowance(pub u64);

/// A search costs more than an [`Allowance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent;

impl Meter for Allowance {
    type Error = Spent;

    fn work(&mut self, amount: u64) -> Result<(), Spent> {
        self.0 = self.0.checked_sub(amount).ok_or(Spent)?;
        Ok(())
    }
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Regexp {
    pike: PikeVM,
    /// Not for patterns whose DFA does not fit the cache.
    dfa: Option<DFA>,
    /// States of the automaton: what a byte costs.
    states: u64,
    /// The same with what is copied for groups.
    states_of_groups: u64,
}

/// What a search works with, for all searches of one text.
struct Scratch {
    pike: Option<pikevm::Cache>,
    dfa: Option<dfa::Cache>,
    groups: Captures,
}

/// Where a match ends.
enum End {
    Nowhere,
    At(usize),
    /// The lazy DFA gave up.
    Unknown,
}

/// A match with its groups.
#[derive(Debug)]
pub struct Found<'a> {
    text: &'a str,
    groups: &'a Captures,
}

impl<'a> Found<'a> {
    /// Where the match begins and ends.
    #[must_use]
    pub fn span(&self) -> (usize, usize) {
        self.groups.get_group(0).map_or((0, 0), |span| (span.start, span.end))
    }

    /// The text of a group, 0 for the whole match; `None` if it took no part.
    #[must_use]
    pub fn group(&self, index: usize) -> Option<&'a str> {
        self.text.get(self.groups.get_group(index)?.range())
    }

    /// The text of a named group.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&'a str> {
        self.text.get(self.groups.get_group_by_name(name)?.range())
    }

    /// Appends a template in which `$1` and `${name}` stand for groups, and stops when the text has
    /// become longer than `most`.
    pub fn expand(&self, template: &str, most: usize, out: &mut String) {
        let append = |index: usize, out: &mut String| {
            if out.len() <= most {
                out.push_str(self.group(index).unwrap_or_default());
            }
        };
        let index = |name: &str| self.groups.group_info().to_index(PatternID::ZERO, name);
        interpolate::string(template, append, index, out);
    }

    /// How many groups there are, with the whole match.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.group_len()
    }
}

pub(super) fn automaton(
    translated: &str,
    captures: WhichCaptures,
    size: usize,
) -> Result<NFA, Box<BuildError>> {
    let config = thompson::Config::new().which_captures(captures).nfa_size_limit(Some(size));
    thompson::Compiler::new()
        .configure(config)
        .syntax(syntax::Config::new().nest_limit(NEST_LIMIT))
        .build(translated)
        .map_err(Box::new)
}

impl Regexp {
    /// The engines of an automaton; `None` if its groups take too much.
    pub(super) fn new(nfa: &NFA) -> Option<Self> {
        let (states, slots) = (nfa.states().len(), nfa.group_info().slot_len());
        if states.saturating_mul(slots) > MAX_SLOTS {
            return None;
        }
        let lazy = dfa::Config::new()
            .cache_capacity(CACHE_LIMIT)
            .minimum_cache_clear_count(Some(MAX_CLEARS));
        Some(Self {
            pike: PikeVM::new_from_nfa(nfa.clone()).ok()?,
            dfa: dfa::Builder::new().configure(lazy).build_from_nfa(nfa.clone()).ok(),
            states: states as u64,
            states_of_groups: (states + states.saturating_mul(slots) / 8) as u64,
        })
    }

    /// Bytes that it takes, and a search next to it.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let nfa = self.pike.get_nfa();
        let searching = self.states.saturating_mul(64)
            + (nfa.states().len().saturating_mul(nfa.group_info().slot_len()) as u64) * 16
            + CACHE_LIMIT as u64;
        nfa.memory_usage() as u64 + searching
    }

    /// Work that compiling it was.
    #[must_use]
    pub fn made(&self) -> u64 {
        // A state takes some 24 bytes, and the time of a few visits.
        self.pike.get_nfa().memory_usage() as u64 / 8
    }

    fn scratch(&self) -> Scratch {
        Scratch { pike: None, dfa: None, groups: self.pike.create_captures() }
    }

    /// Whether it matches somewhere in the text.
    ///
    /// # Errors
    /// When the search cannot be paid for.
    pub fn is_match<M: Meter>(&self, text: &str, meter: &mut M) -> Result<bool, M::Error> {
        let mut scratch = self.scratch();
        let input = Input::new(text).earliest(true);
        match self.end_of(&mut scratch, &input, meter)? {
            End::Nowhere => return Ok(false),
            End::At(end) if text.is_char_boundary(end) => return Ok(true),
            End::At(_) | End::Unknown => {}
        }
        meter.work(self.states.saturating_mul(text.len() as u64 + 1))?;
        let cache = scratch.pike.get_or_insert_with(|| self.pike.create_cache());
        Ok(self.pike.search_slots(cache, &input, &mut []).is_some())
    }

    /// The first match.
    ///
    /// # Errors
    /// When the search cannot be paid for, or what `then` says.
    pub fn first<M: Meter, T>(
        &self,
        text: &str,
        meter: &mut M,
        then: impl FnOnce(&mut M, Found<'_>) -> Result<T, M::Error>,
    ) -> Result<Option<T>, M::Error> {
        let mut scratch = self.scratch();
        if !self.search(&mut scratch, text, 0, meter)? {
            return Ok(None);
        }
        then(meter, Found { text, groups: &scratch.groups }).map(Some)
    }

    /// All matches that do not overlap, up to `most`; an empty one right behind another does not
    /// count.
    ///
    /// # Errors
    /// When the searches cannot be paid for, or what `then` says.
    pub fn each<M: Meter>(
        &self,
        text: &str,
        most: usize,
        meter: &mut M,
        mut then: impl FnMut(&mut M, &Found<'_>) -> Result<(), M::Error>,
    ) -> Result<(), M::Error> {
        let mut scratch = self.scratch();
        let (mut at, mut behind, mut count) = (0, None, 0);
        while count < most && self.search(&mut scratch, text, at, meter)? {
            let found = Found { text, groups: &scratch.groups };
            let (start, end) = found.span();
            at = end;
            if start == end && behind == Some(end) {
                match text.get(end..).and_then(|rest| rest.chars().next()) {
                    Some(c) => at += c.len_utf8(),
                    None => break,
                }
                continue;
            }
            behind = Some(end);
            count += 1;
            then(meter, &found)?;
        }
        Ok(())
    }

    /// The names of its groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pike.get_nfa().group_info().pattern_names(PatternID::ZERO).flatten()
    }

    /// Searches the first match behind a position; its groups are in the scratch.
    fn search<M: Meter>(
        &self,
        scratch: &mut Scratch,
        text: &str,
        from: usize,
        meter: &mut M,
    ) -> Result<bool, M::Error> {
        let input = Input::new(text).range(from..);
        let input = match self.end_of(scratch, &input, meter)? {
            End::Nowhere => return Ok(false),
            End::At(end) if text.is_char_boundary(end) => input.range(from..end),
            End::At(_) | End::Unknown => input,
        };
        meter.work(self.states_of_groups.saturating_mul(input.get_span().len() as u64 + 1))?;
        let Scratch { pike, groups, .. } = scratch;
        let cache = pike.get_or_insert_with(|| self.pike.create_cache());
        self.pike.search(cache, &input, groups);
        Ok(groups.is_match())
    }

    /// Where the first match ends: leftmost, and of those the one that the pattern prefers.
    fn end_of<M: Meter>(
        &self,
        scratch: &mut Scratch,
        input: &Input<'_>,
        meter: &mut M,
    ) -> Result<End, M::Error> {
        debug_assert_eq!(input.get_anchored(), Anchored::No, "all searches are unanchored");
        let Some(dfa) = &self.dfa else { return Ok(End::Unknown) };
        meter.work(self.states)?;
        let cache = scratch.dfa.get_or_insert_with(|| dfa.create_cache());
        let Ok(mut state) = dfa.start_state_forward(cache, input) else {
            return Ok(End::Unknown);
        };
        let mut end = End::Nowhere;
        let mut at = input.start();
        let rest = input.haystack().get(at..).unwrap_or_default();
        for chunk in rest.chunks(CHUNK) {
            let gone = at;
            let pay = |meter: &mut M, to: usize| {
                meter.work(self.states.saturating_mul((to - gone) as u64))
            };
            for &byte in chunk {
                let Ok(next) = dfa.next_state(cache, state, byte) else {
                    return Ok(End::Unknown);
                };
                state = next;
                if state.is_tagged() {
                    if state.is_match() {
                        // A state says so one byte behind the end of the match.
                        end = End::At(at);
                    }
                    if state.is_dead() || state.is_match() && input.get_earliest() {
                        pay(meter, at + 1)?;
                        return Ok(end);
                    }
                    if state.is_quit() {
                        return Ok(End::Unknown);
                    }
                }
                at += 1;
            }
            pay(meter, at)?;
        }
        let Ok(state) = dfa.next_eoi_state(cache, state) else { return Ok(End::Unknown) };
        Ok(if state.is_match() { End::At(at) } else { end })
    }
}
