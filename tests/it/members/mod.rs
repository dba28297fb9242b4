//! A hub with two real members: what becomes of their faults, of their Secrets, of their names, and as whom Applications act
//! in them. The letters are those of the faults that a control plane of several clusters must bear.
//!
//! The hub and the members are shared (`vela_tests::members`), so the tests of these modules run one after the other. Each
//! member is etcd and an API server only: what is deployed are ConfigMaps.

mod away;
mod charts;
mod identity;
mod load;
mod names;
mod proof;
mod secrets;
mod steps;
