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
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        if candidate.len() > MAX_LENGTH {
            continue;
        }
        let other: Vec<char> = candidate.to_lowercase().chars().collect();
        let allowed = (wanted.len().max(other.len()) / 3).clamp(1, 4);
        if wanted.len().abs_diff(other.len()) > allowed {
            continue;
        }
        let distance = distance(&wanted, &other);
        if distance <= allowed && best.is_none_or(|(d, _)| distance < d) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap of neighbours) that turn one into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut previous_a: Option<char> = None;
    for (i, &ca) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(above.len());
        row.push(i + 1);
        let mut previous_b: Option<char> = None;
        for (j, &cb) in b.iter().enumerate() {
            let at = |row: &[usize], k: usize| row.get(k).copied().unwrap_or(usize::MAX / 2);
            let mut d = (at(&above, j + 1) + 1)
                .min(at(&row, j) + 1)
                .min(at(&above, j) + usize::from(ca != cb));
            if j > 0 && previous_a == Some(cb) && previous_b == Some(ca) {
                d = d.min(at(&before, j - 1) + 1);
            }
            row.push(d);
            previous_b = Some(cb);
        }
        before = above;
        above = row;
        previous_a = Some(ca);
    }
    above.last().copied().unwrap_or(0)
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
