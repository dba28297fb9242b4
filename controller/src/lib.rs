//! The controller of vela-rs.
