//! The integration tests: one binary, one shared control plane, a namespace per test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets something unexpected fails there"
)]

mod accounts;
mod admission;
mod application;
mod calls;
mod certificates;
mod charts;
mod charts_sharing;
mod contract;
mod control_plane;
mod crash;
mod definition_history;
mod definitions;
mod deputy;
mod edits;
mod elsewhere;
mod examples;
mod faults;
mod fleet;
mod fleet_client;
mod fleet_faults;
mod fleet_labels;
mod fleet_overload;
mod fleet_unowned;
mod gated;
mod gateway;
mod gateway_original;
mod gitops;
mod helm;
mod helm_bad_input;
mod helm_credentials;
mod helm_defects;
mod helm_docs;
mod helm_life;
mod helm_releases;
mod home;
mod hostile;
mod large;
mod lease;
mod matrix;
mod members;
mod metrics;
mod operations;
mod original_client;
mod original_controller;
mod original_shards;
mod plan;
mod plan_recorded;
mod processes;
mod protection;
mod rbac;
mod reviews;
mod scoped;
mod set_aside;
mod shard_rights;
mod shards;
mod stamps;
mod steps;
mod streamed_lists;
mod tenants;
mod traces;
mod ui;
mod unattended;
mod upgrade;
mod versions;
mod views;
mod webhook;
mod workflow;
mod workflow_run;
mod writers;
