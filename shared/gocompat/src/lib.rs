//! What must equal Go byte for byte: JSON, durations, hashes, numbers, regular expressions.
//!
//! KubeVela's objects carry text that Go wrote: annotations that are compared, hashes that decide
//! whether there is a new revision, durations and times in specs and statuses. Whoever replaces the
//! Go control plane has to write the same bytes. This crate holds those rules and nothing else: no
//! IO, no clock, no Kubernetes types.
//!
//! | module | Go | for |
//! |---|---|---|
//! | [`json`] | `encoding/json` | annotations, hashed and compressed JSON |
//! | [`duration`] | `time.ParseDuration`, `Duration.String` | timeouts, intervals, suspend steps |
//! | [`time`] | `metav1.Time`, `time.Parse`, `Time.Format` | timestamps, CUE's `time` package |
//! | [`strconv`] | `strconv` | numbers and quoting in texts and messages |
//! | [`regexp`] | `regexp` (RE2 syntax) | CUE's `=~` and `regexp` package |
//! | [`path`] | `path.Clean` | names in charts |
//! | [`hashstructure`] | `mitchellh/hashstructure/v2` | revision hashes of definitions |
//! | [`nearest()`] | nothing: the one did-you-mean that all crates share | messages |
//! | [`spew`] and [`fnv`] | `DeepHashObject`, `hash/fnv` | names of revisions and workflow steps |

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod duration;
pub mod fnv;
pub mod hashstructure;
pub mod json;
mod nearest;
pub mod path;
pub mod regexp;
pub mod spew;
pub mod strconv;
pub mod time;

pub use nearest::nearest;
