//! `vela-controller ui`: a page that shows Applications, as far as its viewer may see them.
//!
//! The server has no rights and no sessions of its own: each request reaches the API server as the viewer (`viewer.rs`), is only
//! a read or, for plans, a dry run, and is answered with values that `summary.rs`, `detail.rs`, `objects.rs` and `history.rs`
//! choose. `access.rs` refuses requests that a page of somebody else could have caused. The page itself is in `assets/`: what
//! tenants write reaches it as JSON and becomes text, never markup.

mod access;
mod assets;
mod command;
mod detail;
mod history;
mod objects;
mod server;
mod summary;
mod viewer;

pub use command::{COMMAND, main};
