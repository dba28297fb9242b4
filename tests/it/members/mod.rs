//! A hub with two real members: what becomes of their faults, of their Secrets, of their names, and as whom Applications act
//! in them. The letters are those of the faults that a control plane of several clusters must bear.
//!
//! Which test holds which rule about clusters (`sim`: `controller/src/simulation`, `state`, `layer`, ...: modules of
//! `vela_cluster::members`, `registry`: its `tests`):
//!
//! | what a cluster is | test |
//! |---|---|
//! | two names, one cluster | `names::an_object_is_never_deleted_under_another_name_of_its_cluster`, sim `clusters`; not proven: `registry::who_says_that_he_is_somebody_else_is_not_believed` |
//! | one of them is the hub | `names::the_hub_under_a_name_of_its_own_is_the_hub` |
//! | renamed | `names::a_renamed_cluster_is_the_same`, `registry::names_of_one_cluster_are_one_and_a_renamed_one_is_found` |
//! | another one under the name | `names::a_cluster_that_took_the_place_of_another_gets_nothing_unasked`, `names::a_cluster_that_was_wiped_and_joined_again_is_filled_on_request`, sim `replaced` |
//! | Secret deleted and made again at once | `registry::a_secret_that_comes_back_in_time_was_never_gone_and_a_list_says_who_is` |
//! | it may not be read who it is | `member::who_does_not_show_his_identity_is_known_by_his_name_unless_somebody_else_has_it` |
//!
//! | state | test |
//! |---|---|
//! | `Unknown`, `Connected` | `state::the_first_answer_connects_whatever_it_says_and_the_first_failure_disconnects` |
//! | `Degraded` | `state::slow_late_and_busy_members_are_degraded_until_they_are_well_for_a_minute`, `gate::so_many_are_under_way_and_fewer_where_it_is_degraded` |
//! | `Disconnected` | `state::three_failures_in_a_row_over_two_seconds_disconnect`, `layer::a_request_without_an_answer_has_the_member_probed_and_ends_with_its_connection`, `away` |
//! | `CredentialRefused` | `state::a_refused_credential_closes_until_an_answer_to_the_probe`, `secrets::a_revoked_credential_is_noticed_and_a_new_one_used_at_once` |
//! | `Invalid` | `secret::every_kind_of_secret_is_read_or_says_which_field_is_wrong`, `secrets::refused_addresses_get_nothing` |
//! | not registered | `registry::what_is_not_known_is_not_gone` |
//! | probes | `state::probes_come_at_growing_distances_and_only_where_nothing_else_is_heard` |
//! | answers of somebody in front | `layer::only_a_status_about_the_object_says_that_it_is_gone`, `layer::refused_credentials_and_answers_of_something_in_front_are_told_from_results`, `proof` |
//! | events | `clusters::report` of the controller |
//!
//! | collection | test |
//! |---|---|
//! | gone only with proof | sim `clusters::nothing_is_forgotten_for_an_answer_that_proves_nothing`, `proof` |
//! | kind not served | sim `policies::objects_of_a_kind_that_is_gone_are_gone`, `discovery` |
//! | each cluster on its own | sim `clusters::a_deletion_goes_on_where_it_can_and_waits_where_it_cannot`, `away` |
//! | Secret gone: ledger, then trackers | `names::a_cluster_that_is_detached_leaves_a_ledger`, sim `ledger::what_was_deployed_to_a_cluster_that_is_taken_away_stands_in_the_ledger`, `clusters::the_process_may_die_at_every_write_to_every_cluster` |
//! | taken out of trackers, also while nobody works | sim `ledger::what_is_stripped_from_trackers_stands_in_the_ledger`, `ledger::what_was_stripped_while_nobody_was_at_work_stands_in_the_ledger` |
//! | taken out of trackers, of the own cluster | `names::what_is_detached_of_the_hub_is_recorded_again`, sim `ledger::what_is_stripped_of_the_own_cluster_is_recorded_again` |
//! | ledger that cannot be written | sim `ledger::what_cannot_be_noted_is_not_forgotten` |
//! | Secret back | `names::a_cluster_that_comes_back_is_managed_again`, sim `ledger::what_was_left_behind_comes_back_with_its_cluster`, `ledger::what_is_noted_late_comes_back_all_the_same`, `ledger::which_cluster_it_was_is_known_until_nothing_is_recorded_of_it` |
//! | `collect`, `forget` | `clusters::rejoin` of the controller |
//! | a cluster is asked to be forgotten | sim `ledger::a_cluster_that_is_asked_to_be_forgotten_holds_nothing_up` |
//! | several clusters switched off | sim `other_clusters` |
//! | size of the ledger | `clusters::ledger` of the controller |
//!
//! | what a user sees | test |
//! |---|---|
//! | condition `Clusters` | `application::status` of the controller (every reason, many clusters), `away`, `secrets::a_revoked_credential_is_noticed_and_a_new_one_used_at_once`, sim `replaced`, `clusters::clusters_that_match_since_are_reported`, `clusters::why_a_cluster_cannot_be_used_is_the_reason` |
//! | `services[]`, `appliedResources[]` | `away`, sim `cluster_faults` |
//! | events on Applications | `names::a_cluster_that_is_detached_leaves_a_ledger`, `names::a_cluster_that_took_the_place_of_another_gets_nothing_unasked` |
//! | events on Secrets | `clusters::report` of the controller, `away`, `secrets`, `names::an_object_is_never_deleted_under_another_name_of_its_cluster` |
//! | metrics | `metrics` (names), sim `clusters::what_a_cluster_is_like_is_measured`, `metrics::nodes` of the controller, `load` (requests in flight) |
//! | alarms | `metrics` of `tests/tidy`: what they ask for is there and documented |
//!
//! The hub and the members are shared (`vela_tests::members`), so the tests of these modules run one after the other. Each
//! member is etcd and an API server only: what is deployed are ConfigMaps.

mod away;
mod charts;
mod identity;
mod load;
mod names;
mod plans;
mod proof;
mod secrets;
mod steps;
