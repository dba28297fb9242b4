//! Names as CUE and texts as JSON write them.

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

/// The bytes with which something may begin that is escaped.
const MAY_BE_ESCAPED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte, 0..0x20 | 0x22 | 0x5c | 0xe2);
        byte += 1;
    }
    table
};

/// A string in JSON; the separators of lines that JavaScript does not want in strings are escaped if
/// wanted, as Go does.
pub(crate) fn write_quoted(text: &str, separators: bool, out: &mut String) {
    out.push('"');
    let bytes = text.as_bytes();
    let (mut done, mut at) = (0, 0);
    // All that is escaped begins with a byte that is no part of another character.
    let special = |byte: &u8| MAY_BE_ESCAPED[usize::from(*byte)];
    while let Some(plain) = bytes.get(at..).and_then(|rest| rest.iter().position(special)) {
        at += plain;
        let byte = bytes[at];
        at += 1;
        let (escape, len) = match byte {
            b'"' => ("\\\"", 1),
            b'\\' => ("\\\\", 1),
            b'\n' => ("\\n", 1),
            b'\r' => ("\\r", 1),
            b'\t' => ("\\t", 1),
            8 => ("\\b", 1),
            12 => ("\\f", 1),
            0..0x20 => ("", 1),
            0xe2 if separators => match bytes.get(at..at + 2) {
                Some([0x80, 0xa8]) => ("\\u2028", 3),
                Some([0x80, 0xa9]) => ("\\u2029", 3),
                _ => continue,
            },
            _ => continue,
        };
        out.push_str(text.get(done..at - 1).unwrap_or_default());
        match escape {
            "" => out.push_str(&format!("\\u{byte:04x}")),
            escape => out.push_str(escape),
        }
        done = at - 1 + len;
        at = done;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out.push('"');
}
