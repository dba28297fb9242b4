//! Everything that talks to API servers.
