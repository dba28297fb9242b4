//! The admission server of vela-rs.

fn main() {}
