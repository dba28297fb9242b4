//! Releases: components whose template calls `helm.#Render`.
//!
//! [`resolve`] answers the template: the record of the release says what it is as long as nothing that decides has changed,
//! else the chart is fetched and rendered for a new revision. It writes nothing. `steps.rs` brings a revision to the cluster
//! around the ordinary dispatch: namespace, CRDs, record, hooks; the objects themselves are dispatched, tracked, kept and
//! collected like all others. Requests are made as the Application.

mod entry;
mod error;
mod external;
mod failed;
mod flux;
mod hooks;
pub mod objects;
pub mod ready;
pub mod records;
mod released;
mod render;
mod resolve;
pub mod steps;
pub mod uninstall;
pub mod values;
mod world;

pub use entry::Waits;
pub use error::ReleaseError;
pub use external::{has_values, revision_of, run_of};
pub use objects::is_first;
pub use ready::waits_for;
pub use released::Released;
pub use resolve::{may_be_asked_for, resolve, resolve_call};
pub use steps::{begin, fail, finish, restore, unestablished};
