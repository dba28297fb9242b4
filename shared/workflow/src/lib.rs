//! The workflow engine: a pure state machine over steps.
