//! Whether a denial of ours says at least what a denial of the reference says.
//!
//! Words differ on purpose (compatibility notes webhook-9, webhook-16), so what is compared is what
//! a cause is about: the type, the parameter, the field, or the rule that spoke.

/// What the reference says, and what ours may say for it.
const SAME: &[(&str, &[&str])] = &[
    ("duplicated step name", &["duplicated step name", "a step needs a name"]),
    ("there is no content to decode", &["there is no content to decode", "not a JSON object"]),
    (
        "invalid definitionRevision name",
        &["invalid definitionRevision name", "no revision of", "not found in namespace"],
    ),
    ("json parse error", &["cannot be decoded", "must be an object"]),
    ("fail to parse settings", &["must be an object"]),
    ("fail to parse properties", &["must be an object"]),
    ("into Go value of type", &["must be"]),
    ("invalid list index", &["index out of range"]),
    ("division by zero", &["division by zero"]),
    ("expect resource to be", &["expect resource to be", "not a JSON object"]),
    ("expected resource to be", &["expect resource to be", "not a JSON object"]),
    ("trait definition of  not found", &["a trait needs a type"]),
    ("is different with existing definitionRevision", &["has another spec"]),
    ("definition reference is omitted", &["the trait has no effect"]),
    ("must have a CUE schematic", &["needs a template"]),
    ("'enabled' field must be of type bool", &["the field enabled is"]),
    ("cannot have parameters without default values", &["need defaults"]),
    ("global policies must have scope", &["a global policy has spec.scope"]),
    ("of the workload field in", &["spec.workload"]),
    ("cannot set steps and ref", &["either steps or a ref"]),
    ("service-account annotation is not permitted", &["cannot choose a ServiceAccount"]),
    ("invalid timeout", &["is not a timeout"]),
    ("immutable field cannot be", &["the parameter is immutable"]),
    ("outputs item name must be unique", &["have an output"]),
    ("name and labelSelector cannot be both set", &["by name or by labelSelector"]),
    ("neither resource or apiVersion/kind", &["set resource, or apiVersion and kind"]),
    ("legacy object type identifier is disabled", &["LegacyObjectTypeIdentifier"]),
    ("objects from url", &["urls are not supported"]),
    ("cannot refer to objects outside", &["may only name objects of"]),
    ("failed to parse CUE template", &["the template is not valid CUE"]),
    ("is registered for version", &["unexpected kind"]),
];

/// Types that need no definition, so that nobody needs a permission for them (webhook-10).
const BUILTIN: [&str; 3] = ["suspend", "step-group", "apply-component"];

/// The first cause of the reference's message that is not in ours.
pub(crate) fn missing(theirs: &str, ours: &str) -> Option<String> {
    let theirs = theirs.split(" (requestUID=").next().unwrap_or_default();
    items(theirs).into_iter().find(|cause| !explains(cause, ours)).map(str::to_owned)
}

/// The numbered causes, or the whole message.
fn items(message: &str) -> Vec<&str> {
    let mut items: Vec<&str> = Vec::new();
    let mut rest = message;
    for n in 1.. {
        let Some((before, after)) = rest.split_once(&format!("\n  {n}) ")) else { break };
        if n > 1 {
            items.push(before);
        }
        rest = after;
    }
    items.push(rest);
    items
}

fn explains(cause: &str, ours: &str) -> bool {
    if let Some(rest) = after(cause, " cannot get ") {
        let name = quoted(rest).split('@').next().unwrap_or_default();
        return BUILTIN.contains(&name) || ours.contains(name);
    }
    if let Some(field) = after(cause, "into Go struct field ") {
        let path = field.split(' ').next().unwrap_or_default();
        let label = path.rsplit('.').next().unwrap_or_default();
        return ours.contains(label) || ours.contains("cannot be decoded");
    }
    for list in ["undeclared parameters: ", "missing parameters: "] {
        if let Some(names) = after(cause, list) {
            let names = names.trim_end_matches('.').split(',').map(str::trim);
            return names.into_iter().all(|name| ours.contains(name));
        }
    }
    let parameters: Vec<String> = cause
        .split("parameter.")
        .skip(1)
        .filter_map(|rest| rest.split_once(": "))
        .map(|(path, _)| path)
        .filter(|path| !path.contains([' ', '\n']))
        .map(indexed)
        .collect();
    if !parameters.is_empty() {
        return parameters.iter().all(|path| ours.contains(path.as_str()));
    }
    if let Some((_, alternatives)) = SAME.iter().find(|(phrase, _)| cause.contains(phrase)) {
        return alternatives.iter().any(|text| ours.contains(text));
    }
    if let Some((before, _)) = cause.split_once("\" not found") {
        let name = before.rsplit('"').next().unwrap_or_default();
        // the revision x-v1 of a definition is what the type x@v1 asks for
        return ours.contains(name) || ours.contains(&name.replace("-v", "@v"));
    }
    if let Some(rest) = after(cause, "trait definition of ") {
        return ours.contains(rest.trim_end_matches(['.', '\n']).trim_end_matches(" not found"));
    }
    let words: Vec<&str> = cause.split_whitespace().map(bare).collect();
    let spoken: Vec<&str> = ours.split_whitespace().map(bare).collect();
    words.windows(3).any(|run| spoken.windows(3).any(|other| other == run))
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

fn quoted(text: &str) -> &str {
    text.split('"').nth(1).unwrap_or_default()
}

/// `ports.0.port` as `ports[0].port`.
fn indexed(path: &str) -> String {
    let mut out = String::new();
    for label in path.split('.') {
        if label.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str(&format!("[{label}]"));
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(label);
        }
    }
    out
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}
