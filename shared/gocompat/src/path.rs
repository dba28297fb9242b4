//! Go's `path`: names that slashes separate.

/// `path.Clean`: the shortest name of the same place.
#[must_use]
pub fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    let parts = parts.join("/");
    match (is_absolute, parts.is_empty()) {
        (true, _) => format!("/{parts}"),
        (false, true) => ".".to_owned(),
        (false, false) => parts,
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn names_are_as_short_as_go_makes_them() {
        for (path, expected) in [
            ("", "."),
            (".", "."),
            ("a//b/./c/", "a/b/c"),
            ("a/../..", ".."),
            ("../../a", "../../a"),
            ("/..", "/"),
            ("/../a/../b", "/b"),
            ("/", "/"),
        ] {
            assert_eq!(clean(path), expected, "{path}");
        }
    }
}
