//! Names as CUE writes them.

/// The name without what makes it unique.
pub(crate) fn plain_name(name: &str) -> &str {
    name.split_once('\0').map_or(name, |(plain, _)| plain)
}

/// Whether a label needs no quotes where labels are shown; keywords are labels like others there.
pub(crate) fn is_ident(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '$' || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '$' || c == '_')
        && !name.starts_with('_')
}
