//! The standard packages that an expression of a command line may use without an import.

use cue_syntax::ast::{DeclKind, Expr, Label};
use cue_syntax::{ParseLimits, parse};

const PATHS: [&str; 29] = [
    "crypto/ed25519",
    "crypto/hmac",
    "crypto/md5",
    "crypto/sha1",
    "crypto/sha256",
    "crypto/sha512",
    "encoding/base64",
    "encoding/csv",
    "encoding/hex",
    "encoding/json",
    "encoding/toml",
    "encoding/yaml",
    "html",
    "list",
    "math",
    "math/bits",
    "net",
    "path",
    "regexp",
    "strconv",
    "strings",
    "struct",
    "text/tabwriter",
    "text/template",
    "time",
    "uuid",
    "tool/cli",
    "tool/exec",
    "tool/file",
];

/// Import clauses for the packages that are selected from by their last name, unless the files
/// have a field of that name.
pub(crate) fn imports(expression: &str, files: &[(&str, &str)]) -> String {
    let is_declared = |path: &&str| files.iter().any(|(_, text)| declares(text, last(path)));
    let paths = mentioned(expression).into_iter().filter(|path| !is_declared(path));
    paths.map(|path| format!("import {path:?}\n")).collect()
}

/// The packages that an expression selects from.
pub(crate) fn mentioned(expression: &str) -> Vec<&'static str> {
    let (file, _) = parse("", &format!("_: ({expression})"), &ParseLimits::default());
    let selected = file.ast.all_exprs().filter_map(|expr| match expr {
        Expr::Selector(base, _) => match file.ast.expr(base) {
            Expr::Ident(name) => Some(file.ast.str(name)),
            _ => None,
        },
        _ => None,
    });
    let selected: Vec<&str> = selected.collect();
    PATHS.into_iter().filter(|path| selected.contains(&last(path))).collect()
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a file has a field of that name at its top.
fn declares(text: &str, name: &str) -> bool {
    let (file, _) = parse("", text, &ParseLimits::default());
    file.ast.decls(file.decls).any(|id| match file.ast.decl(id).kind {
        DeclKind::Field(field) => match file.ast.field(field).label {
            Label::Ident(symbol) => file.ast.str(symbol) == name,
            _ => false,
        },
        _ => false,
    })
}
