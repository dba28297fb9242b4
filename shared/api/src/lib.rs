//! The kinds of core.oam.dev and the names that belong to them.
