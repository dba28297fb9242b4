//! Every flag that `vela-core` has or had (`cmd/core/app/options`), so that a program of ours can
//! distinguish "not mine" from "misspelled".

/// Whether a flag is followed by a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// A boolean: a value only with `=`.
    Nothing,
    /// `--flag=value` or `--flag value`.
    Value,
}

/// What became of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// One of our programs reads it.
    Current,
    /// Nothing reads it any more.
    Retired,
}

use Fate::{Current, Retired};
use Takes::{Nothing, Value};

#[rustfmt::skip]
pub(super) const VELA_CORE: &[(&str, Takes, Fate)] = &[
    ("health-addr", Value, Current),
    ("storage-driver", Value, Retired),
    ("enable-leader-election", Nothing, Current),
    ("leader-election-namespace", Value, Current),
    ("leader-election-lease-duration", Value, Current),
    ("leader-election-renew-deadline", Value, Current),
    ("leader-election-retry-period", Value, Current),
    ("use-webhook", Nothing, Current),
    ("webhook-cert-dir", Value, Current),
    ("webhook-port", Value, Current),
    ("metrics-addr", Value, Current),
    ("log-file-path", Value, Retired),
    ("log-file-max-size", Value, Retired),
    ("log-debug", Nothing, Current),
    ("dev-logs", Nothing, Current),
    ("profiling-addr", Value, Current),
    ("kube-api-qps", Value, Current),
    ("kube-api-burst", Value, Current),
    ("informer-sync-period", Value, Current),
    ("enable-cluster-gateway", Nothing, Current),
    ("enable-cluster-metrics", Nothing, Current),
    ("cluster-metrics-interval", Value, Current),
    ("cluster-gateway-url", Value, Current),
    ("cluster-gateway-ca-file", Value, Current),
    ("disable-remote-cluster-client", Nothing, Current),
    ("remote-cluster-client-cache-timeout", Value, Current),
    ("remote-cluster-client-cache-prune-probability", Value, Current),
    ("enable-external-package-for-default-compiler", Nothing, Current),
    ("enable-external-package-watch-for-default-compiler", Nothing, Current),
    ("enable-cue-version-compatibility", Nothing, Current),
    ("cue-compatibility-cache-size", Value, Current),
    ("application-re-sync-period", Value, Current),
    ("system-definition-namespace", Value, Current),
    ("perf-enabled", Nothing, Retired),
    ("optimize-cached-gvks", Value, Current),
    ("optimize-list-op", Nothing, Current),
    ("application-revision-definition-storage-prune-duration", Value, Current),
    ("optimize-mark-with-prob", Value, Current),
    ("optimize-disable-component-revision", Nothing, Current),
    ("optimize-disable-application-revision", Nothing, Current),
    ("optimize-enable-in-memory-workflow-context", Nothing, Current),
    ("optimize-disable-resource-apply-double-check", Nothing, Current),
    ("optimize-enable-resource-tracker-delete-only-trigger", Nothing, Current),
    ("allow-cross-namespace-resource", Nothing, Current),
    ("allow-resource-types", Value, Current),
    ("ref-objects-available-scope", Value, Current),
    ("authentication-with-user", Nothing, Current),
    ("authentication-default-user", Value, Current),
    ("authentication-group-pattern", Value, Current),
    ("max-dispatch-concurrent", Value, Current),
    ("max-workflow-wait-backoff-time", Value, Current),
    ("max-workflow-failed-backoff-time", Value, Current),
    ("max-workflow-step-error-retry-times", Value, Current),
    ("revision-limit", Value, Retired),
    ("application-revision-limit", Value, Current),
    ("definition-revision-limit", Value, Current),
    ("autogen-workload-definition", Nothing, Current),
    ("concurrent-reconciles", Value, Current),
    ("ignore-app-without-controller-version", Nothing, Current),
    ("ignore-definition-without-controller-version", Nothing, Current),
    ("controller-client-request-timeout", Value, Current),
    ("controller-client-long-running-request-timeout", Value, Current),
    ("controller-client-mutating-request-timeout", Value, Current),
    ("reconcile-timeout", Value, Current),
    ("reconcile-termination-graceful-period", Value, Current),
    ("enable-sharding", Nothing, Current),
    ("shard-id", Value, Current),
    ("schedulable-shards", Value, Current),
    ("sharding-slave-discovery-resync-period", Value, Current),
    ("feature-gates", Value, Current),
    ("kubeconfig", Value, Current),
    // klog's; only the verbosity means something here
    ("v", Value, Current),
    ("vmodule", Value, Retired),
    ("logtostderr", Nothing, Retired),
    ("alsologtostderr", Nothing, Retired),
    ("log_dir", Value, Retired),
    ("log_file", Value, Retired),
    ("log_file_max_size", Value, Retired),
    ("skip_headers", Nothing, Retired),
    ("skip_log_headers", Nothing, Retired),
    ("stderrthreshold", Value, Retired),
    ("add_dir_header", Nothing, Retired),
    ("one_output", Nothing, Retired),
    ("log_backtrace_at", Value, Retired),
    // removed upstream, still found in old manifests
    ("disable-caps", Value, Retired),
    ("oam-spec-var", Value, Retired),
    ("pprof-addr", Value, Retired),
    ("apply-once-only", Value, Retired),
];
