//! Declarations: the planned fields of a struct, and what else stands among them.

use super::{Grower, LABELS, MAX_DEPTH, Name, Planned, STRINGS, Shape};

/// Productions of declarations more_declarations the planned fields.
#[derive(Clone, Copy)]
enum Rule {
    Nothing,
    Again,
    Comprehension,
    Embed,
    EmbedScalar,
    Optional,
    Required,
    Pattern,
    Dynamic,
    Let,
    Ellipsis,
}

/// A declaration; a `let` is left out if nothing refers to it.
struct Declaration {
    text: String,
    name: Option<String>,
}

impl Grower {
    /// The declarations of a struct with these fields.
    pub(super) fn declarations(&mut self, fields: &[Planned], depth: usize) -> String {
        let scope = fields
            .iter()
            .map(|field| Name {
                text: field.label.clone(),
                shape: field.shape.clone(),
                done: false,
            })
            .collect();
        self.scopes.push(scope);
        let mut all: Vec<Declaration> = Vec::new();
        let mut lets = Vec::new();
        for field in fields {
            if let Some(more) = self.more_declarations(fields, depth, &mut lets) {
                all.push(more);
            }
            let text = self.field(field, depth);
            all.push(Declaration { text, name: None });
            for name in self.scopes.last_mut().into_iter().flatten() {
                name.done |= name.text == field.label;
            }
        }
        if let Some(more) = self.more_declarations(fields, depth, &mut lets) {
            all.push(more);
        }
        if self.percent(self.weights.ellipsis) {
            all.push(Declaration { text: "...".to_owned(), name: None });
        }
        self.scopes.pop();
        // Last first: a let may be used by a later one that is not used itself.
        let mut texts: Vec<String> = Vec::new();
        for declaration in all {
            let unused = declaration.name.is_some_and(|name| !self.used.contains(&name));
            if !unused {
                texts.push(declaration.text);
            }
        }
        texts.join("\n")
    }

    fn field(&mut self, field: &Planned, depth: usize) -> String {
        let Planned { label, shape } = field;
        if self.percent(self.weights.alias) {
            let alias = self.fresh("X");
            let name = Name::bound(alias.clone(), shape.clone());
            let inner = self.percent(50) && matches!(shape, Shape::Struct(_));
            if let Some(scope) = self.scopes.last_mut() {
                scope.push(name);
            }
            let value =
                if inner { self.literal(shape, depth + 1) } else { self.value(shape, depth + 1) };
            if inner && let Some(scope) = self.scopes.last_mut() {
                scope.pop();
            }
            return match (self.used.contains(&alias), inner) {
                (false, _) => {
                    // Nothing may refer to it later: it would be an alias that is not there.
                    for scope in &mut self.scopes {
                        scope.retain(|name| name.text != alias);
                    }
                    format!("{label}: {value}")
                }
                (true, true) => format!("{label}: {alias}={value}"),
                (true, false) => format!("{alias}={label}: {value}"),
            };
        }
        let marker = match self.rng.u32(..100) {
            at if at < self.weights.optional / 2 => "?",
            at if at < (self.weights.optional + self.weights.required) / 2 => "!",
            _ => "",
        };
        let value = self.value(shape, depth + 1);
        format!("{label}{marker}: {value}")
    }

    /// One more declaration, or none.
    fn more_declarations(
        &mut self,
        fields: &[Planned],
        depth: usize,
        lets: &mut Vec<String>,
    ) -> Option<Declaration> {
        if depth > MAX_DEPTH || !self.more() {
            return None;
        }
        let w = self.weights;
        let rule = self.weighed(&[
            (60, Rule::Nothing),
            (6, Rule::Again),
            (w.comprehension, Rule::Comprehension),
            (w.embed, Rule::Embed),
            (w.embed_scalar, Rule::EmbedScalar),
            (w.optional, Rule::Optional),
            (w.required, Rule::Required),
            (w.pattern, Rule::Pattern),
            (w.dynamic, Rule::Dynamic),
            (w.let_clause, Rule::Let),
            (w.ellipsis / 2, Rule::Ellipsis),
        ])?;
        let label = self.one_of(&LABELS).to_owned();
        let again = fields.get(self.rng.usize(..fields.len().max(1)));
        let text = match rule {
            Rule::Nothing => return None,
            Rule::Again => self.field(again?, depth),
            Rule::Comprehension => self.comprehension(fields, depth),
            Rule::Embed => {
                let found = self.reference(|shape| matches!(shape, Shape::Struct(_)));
                match (found, self.rng.u32(..4)) {
                    (Some(path), 0..=2) => path,
                    _ => {
                        let shape = Shape::Struct(self.plan(depth + 1));
                        self.value(&shape, depth + 1)
                    }
                }
            }
            Rule::EmbedScalar => {
                let shape = if self.percent(50) { Shape::Int } else { self.shape(MAX_DEPTH) };
                if self.percent(40) { self.kind(&shape) } else { self.value(&shape, depth + 1) }
            }
            Rule::Optional | Rule::Required => {
                let marker = if matches!(rule, Rule::Optional) { "?" } else { "!" };
                let shape = self.shape(depth + 1);
                let value = if self.percent(60) {
                    self.kind(&shape)
                } else {
                    self.value(&shape, depth + 1)
                };
                format!("{label}{marker}: {value}")
            }
            Rule::Pattern => {
                let pattern =
                    self.one_of(&["string", "=~\"^[a-c]$\"", "!=\"a\"", "\"x\" | \"y\"", "_"]);
                let shape = self.shape(depth + 1);
                let alias = self.percent(25).then(|| self.fresh("L"));
                let bind = alias.as_ref().map(|name| format!("{name}=")).unwrap_or_default();
                let scope = alias.into_iter().map(|text| Name::bound(text, Shape::Str)).collect();
                self.scopes.push(scope);
                let value = if self.percent(50) {
                    self.kind(&shape)
                } else {
                    self.value(&shape, depth + 1)
                };
                let used = self.scopes.pop().and_then(|scope| scope.into_iter().next());
                let bind = used.filter(|name| self.used.contains(&name.text)).map_or("", |_| &bind);
                format!("[{bind}{pattern}]: {value}")
            }
            Rule::Dynamic => {
                let key = self.value(&Shape::Str, depth + 1);
                let shape = self.shape(depth + 1);
                let value = self.value(&shape, depth + 1);
                let key =
                    if self.percent(50) { format!("({key})") } else { format!("\"\\({key})\"") };
                format!("{key}: {value}")
            }
            Rule::Let => {
                let shape = self.shape(depth + 1);
                let value = self.value(&shape, depth + 1);
                let name = self.fresh("let_");
                if let Some(scope) = self.scopes.last_mut() {
                    scope.push(Name::bound(name.clone(), shape));
                }
                lets.push(name.clone());
                let text = format!("let {name} = {value}");
                return Some(Declaration { text, name: Some(name) });
            }
            Rule::Ellipsis => "...".to_owned(),
        };
        Some(Declaration { text, name: None })
    }

    /// Fields under guards or for each of something, some of them among those that are planned.
    fn comprehension(&mut self, fields: &[Planned], depth: usize) -> String {
        let (clauses, scope) = self.clauses(depth);
        self.scopes.push(scope);
        let loops = clauses.contains("for ");
        let planned = fields.get(self.rng.usize(..fields.len().max(1))).cloned();
        let body = match self.rng.u32(..6) {
            0 | 1 => match planned {
                Some(field) => self.field(&field, depth + 1),
                None => String::new(),
            },
            2 if loops => {
                let key = self.reference(|shape| matches!(shape, Shape::Str));
                let key = key.unwrap_or_else(|| format!("{:?}", self.one_of(&STRINGS)));
                let value = self.value(&Shape::Int, depth + 1);
                format!("\"\\({key})\": {value}")
            }
            3 => {
                let shape = Shape::Struct(self.plan(depth + 1));
                self.refer_or(&shape, depth + 1)
            }
            _ => {
                let inner = self.plan(depth + 1);
                self.declarations(&inner, depth + 1)
            }
        };
        self.scopes.pop();
        format!("{clauses} {{\n{body}\n}}")
    }

    fn refer_or(&mut self, shape: &Shape, depth: usize) -> String {
        self.reference(|other| matches!(other, Shape::Struct(_)))
            .unwrap_or_else(|| self.literal(shape, depth))
    }
}
