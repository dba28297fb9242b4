//! Values and conditions that a command line sets from outside: `@tag` behind fields, `@if` above
//! the package clause.

use std::collections::BTreeSet;

use cue::Class;
use cue_syntax::ast::{BinaryOp, DeclId, DeclKind, Expr, ExprId, Field, File, Label, UnaryOp};
use cue_syntax::{ParseLimits, Span, parse, quote};

use super::arguments::Refusal;
use super::eval::one_error;

/// What `-t` and `-T` give.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    values: Vec<(String, String)>,
    words: BTreeSet<String>,
    /// What `var=` may name, if variables are asked for.
    variables: Option<Vec<(&'static str, String)>>,
}

impl Tags {
    /// `name=value`, or a word.
    pub(crate) fn set(&mut self, text: &str) {
        match text.split_once('=') {
            Some((name, value)) => self.values.push((name.to_owned(), value.to_owned())),
            None => {
                self.words.insert(text.to_owned());
            }
        }
    }

    pub(crate) fn with_variables(&mut self, folder: Option<&str>) {
        let mut variables = vec![
            ("now", "2026-01-01T00:00:00Z".to_owned()),
            ("os", "linux".to_owned()),
            ("arch", "amd64".to_owned()),
            ("username", "user".to_owned()),
            ("hostname", "host".to_owned()),
            ("rand", "4".to_owned()),
        ];
        variables.extend(folder.map(|folder| ("cwd", format!("/{folder}"))));
        self.variables = Some(variables);
    }

    /// Whether the conditions above the package clause of a file hold.
    pub(crate) fn admit(&self, text: &str) -> bool {
        let (file, _) = parse("", text, &ParseLimits::default());
        let end = file.package.map_or(u32::MAX, |package| package.span.start);
        file.ast.decls(file.decls).all(|id| {
            let decl = file.ast.decl(id);
            let DeclKind::Attribute(symbol) = decl.kind else { return true };
            let attribute = file.ast.str(symbol);
            match body(attribute, "if") {
                Some(condition) if decl.span.start < end => self.holds(condition),
                _ => true,
            }
        })
    }

    fn holds(&self, condition: &str) -> bool {
        let (file, _) = parse("", condition, &ParseLimits::default());
        let mut decls = file.ast.decls(file.decls);
        match decls.next().map(|id| file.ast.decl(id).kind) {
            Some(DeclKind::Embed(expr)) => self.is_set(&file, expr),
            _ => false,
        }
    }

    fn is_set(&self, file: &File, expr: ExprId) -> bool {
        match file.ast.expr(expr) {
            Expr::Ident(symbol) => self.words.contains(file.ast.str(symbol)),
            Expr::Paren(inner) => self.is_set(file, inner),
            Expr::Unary(UnaryOp::Not, inner) => !self.is_set(file, inner),
            Expr::Binary(BinaryOp::LogicalAnd, a, b) => {
                self.is_set(file, a) && self.is_set(file, b)
            }
            Expr::Binary(BinaryOp::LogicalOr, a, b) => self.is_set(file, a) || self.is_set(file, b),
            _ => false,
        }
    }

    /// The text with the values of the command line in the fields that ask for them.
    pub(crate) fn inject(&self, text: &str) -> Result<String, Refusal> {
        if !text.contains("@tag(") {
            return Ok(text.to_owned());
        }
        let (file, _) = parse("", text, &ParseLimits::default());
        let asking = Asking::of(&file, "tag");
        if let Some(within) = asking.refused {
            return Err(one_error(Class::Eval, format!("@tag within {within}")).into());
        }
        let mut out = text.to_owned();
        for (span, attribute) in asking.found.into_iter().rev() {
            let Some(value) = self.value(attribute)? else { continue };
            let (start, end) = (span.start as usize, span.end as usize);
            let old = out.get(start..end).unwrap_or_default().to_owned();
            out.replace_range(start..end, &format!("({old}) & ({value})"));
        }
        Ok(out)
    }

    /// The value that an attribute `@tag(name,type=int,short=a|b,var=now)` asks for, as CUE.
    fn value(&self, attribute: &str) -> Result<Option<String>, Refusal> {
        let mut parts = attribute.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let options: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let option = |key| options.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let given = self.values.iter().find(|(other, _)| other == name);
        let word = || {
            let mut words = option("short").unwrap_or_default().split('|');
            words.find(|word| self.words.contains(*word)).map(str::to_owned)
        };
        let mut value = given.map(|(_, value)| value.clone()).or_else(word);
        if let (None, Some(variables), Some(wanted)) = (&value, &self.variables, option("var")) {
            value = match variables.iter().find(|(name, _)| *name == wanted) {
                Some((_, text)) => Some(text.clone()),
                None if wanted == "cwd" => {
                    let reason = "the folder of the command is not recorded";
                    return Err(Refusal::Unsupported(reason.to_owned()));
                }
                None => {
                    return Err(one_error(Class::Eval, format!("no variable {wanted}")).into());
                }
            };
        }
        let Some(value) = value else { return Ok(None) };
        let is_number = value.trim_start_matches('-').parse::<f64>().is_ok();
        let is_given = match option("type") {
            _ if option("var") == Some("rand") => true,
            None | Some("string") => return Ok(Some(quote(&value))),
            Some("bool") => matches!(value.as_str(), "true" | "false"),
            Some("int") => is_number && !value.contains('.'),
            Some("number") => is_number,
            Some(_) => false,
        };
        match is_given {
            true => Ok(Some(value)),
            false => Err(one_error(Class::Eval, format!("tag {name} is not {value}")).into()),
        }
    }

    /// Refuses what is given to no file: names of fields' tags, and words that neither a field nor
    /// a condition has.
    pub(crate) fn all_used<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Result<(), Refusal> {
        let texts: Vec<&str> = texts.collect();
        let attributes = |name: &str| -> Vec<&str> {
            let start = format!("@{name}(");
            let lines = texts.iter().flat_map(|text| text.lines());
            lines.filter_map(|line| Some(line.split_once(&start)?.1)).collect()
        };
        let (tags, conditions) = (attributes("tag"), attributes("if"));
        let has_name = |name: &str| {
            tags.iter().any(|tag| tag.split([',', ')']).next().map(str::trim) == Some(name))
        };
        let is_end = |c: char| !c.is_alphanumeric() && c != '_';
        let has_word = |word: &str| {
            tags.iter().chain(&conditions).any(|it| it.split(is_end).any(|other| other == word))
        };
        let unused = self.values.iter().map(|(name, _)| name).find(|name| !has_name(name));
        match unused.or_else(|| self.words.iter().find(|word| !has_word(word))) {
            Some(name) => Err(one_error(Class::Eval, format!("no file has a tag {name}")).into()),
            None => Ok(()),
        }
    }
}

/// What stands between the parentheses of an attribute of that name.
pub(crate) fn body<'t>(attribute: &'t str, name: &str) -> Option<&'t str> {
    attribute.strip_prefix('@')?.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

/// The fields with an attribute, found on a walk that knows where none may stand.
pub(crate) struct Asking<'f> {
    file: &'f File,
    name: &'static str,
    /// The values of those fields and what stands in the attribute, in order.
    pub(crate) found: Vec<(Span, &'f str)>,
    pub(crate) refused: Option<&'static str>,
}

impl<'f> Asking<'f> {
    pub(crate) fn of(file: &'f File, name: &'static str) -> Self {
        let mut asking = Self { file, name, found: Vec::new(), refused: None };
        asking.decls(file.ast.decls(file.decls).collect(), None);
        asking.found.sort_by_key(|(span, _)| span.start);
        asking
    }

    fn decls(&mut self, decls: Vec<DeclId>, within: Option<&'static str>) {
        let file = self.file;
        for decl in decls {
            match file.ast.decl(decl).kind {
                DeclKind::Field(field) => self.field(file.ast.field(field), within),
                DeclKind::Embed(expr) => self.expr(expr, within),
                DeclKind::Comprehension(id) => {
                    self.expr(file.ast.comprehension(id).body, within.or(Some("a comprehension")));
                }
                _ => {}
            }
        }
    }

    fn field(&mut self, field: &'f Field, within: Option<&'static str>) {
        let file = self.file;
        let is_constraint = field.marker != cue_syntax::ast::Marker::Regular
            || matches!(field.label, Label::Pattern { .. } | Label::Dynamic(_));
        let within = if is_constraint { within.or(Some("a constraint")) } else { within };
        let mut value = field.value;
        if let Expr::Alias(_, inner) = file.ast.expr(value) {
            value = inner;
        }
        for symbol in file.ast.symbols(field.attributes) {
            if let Some(attribute) = body(file.ast.str(symbol), self.name) {
                self.refused = self.refused.or(within);
                self.found.push((file.ast.span(value), attribute));
            }
        }
        self.expr(value, within);
    }

    fn expr(&mut self, expr: ExprId, within: Option<&'static str>) {
        let file = self.file;
        match file.ast.expr(expr) {
            Expr::Struct { decls, .. } => self.decls(file.ast.decls(decls).collect(), within),
            Expr::List(elements) => {
                for element in file.ast.exprs(elements) {
                    self.expr(element, within.or(Some("a list")));
                }
            }
            Expr::Comprehension(id) => {
                self.expr(file.ast.comprehension(id).body, within.or(Some("a comprehension")));
            }
            Expr::Paren(inner) | Expr::Unary(_, inner) => self.expr(inner, within),
            Expr::Binary(_, left, right) => {
                self.expr(left, within);
                self.expr(right, within);
            }
            _ => {}
        }
    }
}
