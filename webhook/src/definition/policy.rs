//! PolicyDefinitions: global ones apply themselves and must be able to.

use serde_json::Value;

use super::cue;
use super::subject::Subject;
use crate::messages;

/// Above this a priority is probably a slip.
const HIGH_PRIORITY: i64 = 9999;

pub(crate) fn check(subject: &Subject<'_>, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    let gates = &subject.world.settings.gates;
    let is_global = subject.spec.get("global").and_then(Value::as_bool) == Some(true);
    let scope = subject.text("/scope");
    let mut own = Vec::new();
    let vetted = cue::check(subject, problems, warnings);
    if !subject.spec.pointer("/schematic/cue").is_some_and(Value::is_object) {
        own.push(messages::POLICY_WITHOUT_CUE.to_owned());
    }
    if is_global {
        if !vetted.required_parameters.is_empty() {
            own.push(messages::global_without_defaults(subject.name, &vetted.required_parameters));
        }
        if scope != "Application" {
            own.push(messages::global_scope(scope));
        }
        match subject.spec.get("priority").and_then(Value::as_i64) {
            None | Some(0) => warnings.push(messages::GLOBAL_WITHOUT_PRIORITY.to_owned()),
            Some(priority) if priority > HIGH_PRIORITY => {
                warnings.push(messages::high_priority(priority));
            }
            Some(_) => {}
        }
        if !gates.enable_global_policies {
            warnings.push(messages::GLOBAL_GATE_OFF.to_owned());
        }
    }
    if scope == "Application" && !gates.enable_application_scoped_policies {
        warnings.push(messages::SCOPED_GATE_OFF.to_owned());
    }
    if vetted.is_enabled_mistyped {
        own.push(messages::ENABLED_NOT_BOOL.to_owned());
    }
    if !own.is_empty() {
        problems.push(messages::invalid_policy(&own));
    }
}
