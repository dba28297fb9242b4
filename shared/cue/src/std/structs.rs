//! Package `struct`: counting validators, implemented by the evaluator because fields may be
//! incomplete.

use super::args::lazy;
use super::{Lazy, Member, Param};
use crate::kind::Kind;

pub(super) static PACKAGE: &[Member] = &[
    lazy("MinFields", &[Param::STRUCT, Param::INT], Kind::BOOL, Lazy::StructMinFields),
    lazy("MaxFields", &[Param::STRUCT, Param::INT], Kind::BOOL, Lazy::StructMaxFields),
];
