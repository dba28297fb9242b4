//! The harness: a real control plane, fixtures, integration tests.
