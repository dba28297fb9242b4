//! Feature gates: one table of the names of `pkg/features/controller_features.go` and of the
//! workflow engine, shared by both deployables so that one value block of the chart fits both.

use std::fmt;

use crate::nearest;

macro_rules! gates {
    ($($(#[$doc:meta])* $field:ident $name:literal = $default:literal;)*) => {
        /// The state of every gate. Both deployables know all of them; each reads those it needs.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(clippy::struct_excessive_bools, reason = "a gate is a switch, there are many")]
        pub struct Gates {
            $($(#[$doc])* pub $field: bool,)*
        }

        impl Default for Gates {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Gates {
            /// Every gate: name and default.
            pub const KNOWN: &'static [(&'static str, bool)] = &[$(($name, $default),)*];

            fn set(&mut self, name: &str, value: bool) -> bool {
                match name {
                    $($name => self.$field = value,)*
                    _ => return false,
                }
                true
            }

            /// Name and state of every gate, in the order of the table.
            pub fn states(&self) -> Vec<(&'static str, bool)> {
                vec![$(($name, self.$field),)*]
            }
        }
    };
}

gates! {
    /// Accept `clusterSelector` in topology policies.
    deprecated_policy_spec "DeprecatedPolicySpec" = false;
    /// ref-objects: accept the old `apiVersion`/`kind` identifiers.
    legacy_object_type_identifier "LegacyObjectTypeIdentifier" = false;
    /// ref-objects: accept the old label selector key.
    deprecated_object_label_selector "DeprecatedObjectLabelSelector" = false;
    /// Migrate ResourceTrackers of releases before 1.2.
    legacy_resource_tracker_gc "LegacyResourceTrackerGC" = false;
    /// Adopt objects that carry no owner labels.
    legacy_resource_owner_validation "LegacyResourceOwnerValidation" = false;
    /// Forbid ref-objects from URLs.
    disable_refer_objects_from_url "DisableReferObjectsFromURL" = false;
    /// Update by replacing instead of patching.
    apply_resource_by_replace "ApplyResourceByReplace" = false;
    /// Stamp and impersonate the identity of the Application's author.
    authenticate_application "AuthenticateApplication" = false;
    /// Check that the requester may read the definitions an Application uses.
    validate_definition_permissions "ValidateDefinitionPermissions" = false;
    /// Compress ResourceTrackers with gzip.
    gzip_resource_tracker "GzipResourceTracker" = false;
    /// Compress ResourceTrackers with zstd.
    zstd_resource_tracker "ZstdResourceTracker" = false;
    /// Apply once for all Applications.
    apply_once "ApplyOnce" = false;
    /// Dispatch in the stages PreDispatch, DefaultDispatch, PostDispatch.
    multi_stage_component_apply "MultiStageComponentApply" = true;
    /// Compress ApplicationRevisions with gzip.
    gzip_application_revision "GzipApplicationRevision" = false;
    /// Compress ApplicationRevisions with zstd.
    zstd_application_revision "ZstdApplicationRevision" = false;
    /// Dry-run a dispatch on the server before recording it.
    pre_dispatch_dry_run "PreDispatchDryRun" = true;
    /// Validate components although sharding is on.
    validate_component_when_sharding "ValidateComponentWhenSharding" = false;
    /// Do not assign shards in the webhook.
    disable_webhook_auto_schedule "DisableWebhookAutoSchedule" = false;
    /// Do not write cluster versions at start.
    disable_bootstrap_cluster_info "DisableBootstrapClusterInfo" = false;
    /// Strip managed fields from caches.
    informer_cache_filter_unnecessary_fields "InformerCacheFilterUnnecessaryFields" = true;
    /// Share definition bodies among cached ApplicationRevisions.
    shared_definition_storage "SharedDefinitionStorageForApplicationRevision" = true;
    /// Read workflow context ConfigMaps without a cache.
    disable_workflow_context_config_map_cache "DisableWorkflowContextConfigMapCache" = true;
    /// Validate parameters with CUE at admission.
    enable_cue_validation "EnableCueValidation" = false;
    /// Gauges for each Application.
    enable_application_status_metrics "EnableApplicationStatusMetrics" = false;
    /// Refuse definitions whose output kinds do not exist.
    validate_resources_exist "ValidateResourcesExist" = false;
    /// Apply policies marked `global`.
    enable_global_policies "EnableGlobalPolicies" = false;
    /// Run policies of scope Application.
    enable_application_scoped_policies "EnableApplicationScopedPolicies" = false;
    /// Refuse parameters that a template does not declare.
    validate_undeclared_parameters "ValidateUndeclaredParameters" = false;
    /// Suspend a workflow when a step fails for good.
    enable_suspend_on_failure "EnableSuspendOnFailure" = false;
    /// Back up finished workflow records.
    enable_backup_workflow_record "EnableBackupWorkflowRecord" = false;
    /// Patch the workflow status after each step.
    enable_patch_status_at_once "EnablePatchStatusAtOnce" = false;
    /// Wake workflows by events of the objects they wait for.
    enable_watch_event_listener "EnableWatchEventListener" = false;
    /// Run WorkflowRuns, workflows without an Application.
    enable_workflow_run "EnableWorkflowRun" = false;
}

/// Why `--feature-gates` was not understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GateError {
    /// The name is in no table.
    #[error("unknown feature gate {name:?}{}", Hint(*.nearest))]
    Unknown {
        /// As written.
        name: String,
        /// The known name closest to it.
        nearest: Option<&'static str>,
    },
    /// Not `name=bool`.
    #[error("feature gate {0:?} is not of the form Name=true or Name=false")]
    Syntax(String),
}

struct Hint(Option<&'static str>);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, ", did you mean {name:?}?"),
            None => Ok(()),
        }
    }
}

impl Gates {
    /// Reads the values of `--feature-gates`, which repeats, separates by commas, and may carry
    /// blanks on either side of `=`.
    pub fn parse<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Result<Self, GateError> {
        let mut gates = Self::default();
        for value in values {
            for item in value.as_ref().split(',').map(str::trim).filter(|item| !item.is_empty()) {
                let (name, state) =
                    item.split_once('=').ok_or_else(|| GateError::Syntax(item.to_owned()))?;
                let name = name.trim();
                let state = crate::flags::boolean(state.trim())
                    .map_err(|_| GateError::Syntax(item.to_owned()))?;
                if !gates.set(name, state) {
                    let nearest = nearest(name, Self::KNOWN.iter().map(|(name, _)| *name));
                    return Err(GateError::Unknown { name: name.to_owned(), nearest });
                }
            }
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_blanks_and_defaults() {
        let gates =
            Gates::parse(["ApplyOnce=true, PreDispatchDryRun= false", "ZstdResourceTracker=1"]);
        let gates = gates.unwrap();
        assert!(gates.apply_once && !gates.pre_dispatch_dry_run && gates.zstd_resource_tracker);
        assert!(gates.multi_stage_component_apply);
        assert_eq!(Gates::parse([""]).unwrap(), Gates::default());
        assert_eq!(Gates::default().states(), Gates::KNOWN);
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let error = Gates::parse(["EnableCueValidaton=true"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown feature gate \"EnableCueValidaton\", did you mean \"EnableCueValidation\"?"
        );
        let error = Gates::parse(["ApplyOnce"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "feature gate \"ApplyOnce\" is not of the form Name=true or Name=false"
        );
    }
}
