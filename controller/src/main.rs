//! The controller of vela-rs.

fn main() {}
