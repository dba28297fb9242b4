//! Seals: how we know our own writing among values that anybody can write.
//!
//! A seal is a keyed hash over what it vouches for. Both deployables hold the key, nobody else does: begin at
//! [`Keys::sign`]. What a seal vouches for is named by [`digest`] where it is a tree of JSON. A [`Stamp`] is the seal that
//! says who wrote an object.

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod content;
mod digest;
mod keys;
mod stamp;

pub use content::{Content, author};
pub use digest::digest;
pub use keys::{Domain, KeyError, KeyHolder, Keys, MIN_KEY};
pub use stamp::{Evidence, Stamp, Subject, application};
