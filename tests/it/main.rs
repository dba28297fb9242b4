//! The integration tests: one binary, one shared control plane, a namespace per test.

mod control_plane;
