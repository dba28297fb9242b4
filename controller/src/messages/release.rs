//! Releases of charts, their hooks and values.

use std::time::Duration;

/// A release that cannot be brought to the cluster.
pub(crate) fn release_failed(why: &str) -> String {
    format!("release: {why}")
}

/// A template that asks for several charts.
pub(crate) const ONE_CHART: &str =
    "a component is one release: its template may call for only one chart";

/// A template that is evaluated where charts are not rendered.
pub(crate) const NO_CHART_YET: &str = "the chart is not rendered here";

/// A template that sends a request where none is sent.
pub(crate) const NO_HTTP_HERE: &str = "rendering a component must not send requests";

/// A hook that is not tried again before the next run of the workflow.
pub(crate) const HOOK_FAILED_BEFORE: &str = "it already failed in this run of the workflow";

/// A hook whose object somebody removed.
pub(crate) const HOOK_REMOVED: &str = "it was removed before it ended";

/// A hook that takes too long.
pub(crate) fn hook_timeout(timeout: Duration) -> String {
    format!("it did not end within {timeout:?}")
}

/// A hook that is running.
pub(crate) fn hook_has_not_ended(object: &str) -> String {
    format!("hook {object} has not ended")
}

/// A hook of a deletion that failed.
pub(crate) fn hook_passed_over(moment: &str, why: &str) -> String {
    format!("{moment}: {why}; the deletion continues without it")
}

/// What a deletion waits for.
pub(crate) fn waiting_for_releases(releases: &[String]) -> String {
    format!("waiting for hooks of releases: {}", releases.join("; "))
}

/// Hooks of a deletion whose time is over.
pub(crate) fn hooks_late(moment: &str) -> String {
    format!("{moment} hooks took too long; the deletion continues without them")
}

/// A release whose objects have to go before its last hooks run.
pub(crate) const OBJECTS_ARE_GOING: &str = "its objects are being deleted";

/// What was waited for in vain.
pub(crate) fn not_within(what: &str, timeout: Duration) -> String {
    format!("{what}, which took longer than {timeout:?}")
}

/// A release whose deletion waits for its hooks.
pub(crate) fn release_waits(release: &str, why: &str) -> String {
    format!("release {release}: {why}")
}

/// A release whose revision failed and was rolled back.
pub(crate) fn rolled_back(failed: i64, to: i64, why: &str) -> String {
    format!("revision {failed} failed and was rolled back to revision {to}: {why}")
}

/// A release whose newest record somebody else wrote.
pub(crate) fn put_over(release: &str, to: i64) -> String {
    format!(
        "another client changed release {release}; revision {to}, which the Application describes, was restored"
    )
}

/// A CustomResourceDefinition that has to be waited for.
pub(crate) fn not_served_yet(name: &str) -> String {
    format!("CustomResourceDefinition {name} is not served yet")
}

/// A revision that failed and is not tried again now.
pub(crate) fn given_up(why: &str) -> String {
    format!("{why}; it is retried with the next run of the workflow")
}

/// A release that Flux manages.
pub(crate) fn release_of_flux(release: &str, object: &str, annotation: &str) -> String {
    format!(
        "release {release} is managed by HelmRelease {object}: suspend that (spec.suspend: true), then delete it while it is \
         suspended, or annotate the Application with {annotation}: \"true\""
    )
}

/// Objects of a release that did not become ready in time.
pub(crate) fn not_ready_within(what: &str, timeout: Duration) -> String {
    format!("not ready within {timeout:?}: {what}")
}

/// The object of a hook of an earlier revision.
pub(crate) fn hook_being_removed(object: &str) -> String {
    format!("hook {object} of an earlier revision is being removed")
}

/// A record of a release that is there already.
pub(crate) fn made_by_others(name: &str) -> String {
    format!("{name} was created by another client in the meantime")
}

/// Values of another namespace.
pub(crate) fn foreign_values(source: &str, more: &str) -> String {
    format!(
        "valuesFrom: {source}: cross-namespace sources are not permitted, only those of the Application's namespace{more}"
    )
}

/// A chart that makes too many lookups.
pub(crate) fn too_many_lookups(most: usize) -> String {
    format!("a chart may look up {most} objects")
}
