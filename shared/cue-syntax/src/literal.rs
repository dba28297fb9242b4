//! The values of literals.
