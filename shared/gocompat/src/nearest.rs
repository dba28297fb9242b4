//! Did-you-mean: the closest of a list of known names.

/// The known name closest to `name`, if it is close enough to be a likely typing error.
///
/// Distance is Damerau-Levenshtein (restricted), case-insensitive; a third of the longer name may
/// differ, at most four edits. Ties go to the first in the list.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name is user input of any length: beyond this it is no typing error of ours.
    const MAX_LENGTH: usize = 128;
    if name.is_empty() || name.len() > MAX_LENGTH {
        return None;
    }
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        if candidate.len() > MAX_LENGTH {
            continue;
        }
        let other = candidate.to_lowercase();
        let other_length = other.chars().count();
        let allowed = (length.max(other_length) / 3).clamp(1, 4);
        if length.abs_diff(other_length) > allowed {
            continue;
        }
        let distance = strsim::osa_distance(&wanted, &other);
        if distance <= allowed && best.is_none_or(|(d, _)| distance < d) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_typing_errors_only() {
        let known = ["webservice", "worker", "cron-task", "image", "port"];
        for (name, want) in [
            ("webservise", Some("webservice")),
            ("WebService", Some("webservice")),
            ("imagge", Some("image")),
            ("iamge", Some("image")),
            ("prot", Some("port")),
            ("database", None),
            ("", None),
            ("w", None),
        ] {
            assert_eq!(nearest(name, known), want, "{name}");
        }
    }
}
