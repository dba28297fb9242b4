//! The admission server of vela-rs.
