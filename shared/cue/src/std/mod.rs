//! The standard packages: tables of members, looked up when a program is compiled.
//!
//! A package is a slice of [`Member`]s. Most members are functions over concrete values
//! ([`Run::Pure`]): the evaluator evaluates the arguments completely (defaults taken), checks them
//! against [`Builtin::params`] and calls the function. The kinds of the arguments are thus known
//! inside; `Value` accessors (`as_str`, `as_i64`, ...) suffice.
//!
//! What needs unevaluated arguments (`list.Sort` with its comparator, `list.MatchN`, functions
//! that hand list elements through) is named by [`Run::Lazy`] and implemented in `eval/call.rs`.
//!
//! Validators are no extra: a function whose result kind is `bool` and that is used with its first
//! parameter missing (`strings.MinRunes(3)`), or as a value when it has one parameter
//! (`net.IPv4`), constrains the value it is unified with, which becomes the first argument.
//! A validator that wants its own error text returns `Err`.
//!
//! Constants (`math.Pi`, `list.Comparer`, `time.Second`) are CUE expressions ([`Item::Cue`]).

mod args;
mod base64;
mod bits;
mod builtin;
mod crypto;
mod csv;
mod hex;
mod html;
pub(crate) mod json;
pub(crate) mod list;
mod math;
mod net;
mod path;
mod regexp;
mod strconv;
mod strings;
mod structs;
mod tabwriter;
mod template;
mod time;
mod toml;
mod uuid;
pub(crate) mod yaml;

pub use builtin::{Builtin, BuiltinError, Item, Lazy, Member, Param, Run};

/// Every package, by import path.
static TABLE: &[(&str, &[Member])] = &[
    ("crypto/ed25519", crypto::ED25519),
    ("crypto/hmac", crypto::HMAC),
    ("crypto/md5", crypto::MD5),
    ("crypto/sha1", crypto::SHA1),
    ("crypto/sha256", crypto::SHA256),
    ("crypto/sha512", crypto::SHA512),
    ("encoding/base64", base64::PACKAGE),
    ("encoding/csv", csv::PACKAGE),
    ("encoding/hex", hex::PACKAGE),
    ("encoding/json", json::PACKAGE),
    ("encoding/toml", toml::PACKAGE),
    ("encoding/yaml", yaml::PACKAGE),
    ("html", html::PACKAGE),
    ("list", list::PACKAGE),
    ("math", math::PACKAGE),
    ("math/bits", bits::PACKAGE),
    ("net", net::PACKAGE),
    ("path", path::PACKAGE),
    ("regexp", regexp::PACKAGE),
    ("strconv", strconv::PACKAGE),
    ("strings", strings::PACKAGE),
    ("struct", structs::PACKAGE),
    ("text/tabwriter", tabwriter::PACKAGE),
    ("text/template", template::PACKAGE),
    ("time", time::PACKAGE),
    ("uuid", uuid::PACKAGE),
];

/// The members of a package by import path; `None` for a package that does not exist.
#[must_use]
pub fn package(path: &str) -> Option<&'static [Member]> {
    TABLE.iter().find(|(p, _)| *p == path).map(|(_, members)| *members)
}

/// A member of a package.
#[must_use]
pub fn lookup(path: &str, name: &str) -> Option<&'static Member> {
    package(path)?.iter().find(|m| m.name == name)
}

#[cfg(test)]
mod tests;
