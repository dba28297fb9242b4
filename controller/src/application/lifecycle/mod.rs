//! The life of an Application around its phases: the finalizer and the deletion, conflicts of its own writes, failed reconciles and
//! who hears of them, and what releases before 1.2 left.

pub(crate) mod conflict;
pub(crate) mod failure;
pub mod finalizer;
pub(in crate::application) mod legacy;
pub(in crate::application) mod notify;
pub(in crate::application) mod on_failure;
pub(in crate::application) mod planned;
