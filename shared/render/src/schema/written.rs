//! Parts of a schema that depend on how its parameters are written, not on their meaning.
//!
//! The schema is stored, and what is stored has to be the reference's. Its generator
//! (`encoding/openapi` of the CUE library) lists the alternatives of a field twice, the second
//! time without the default, if the field is declared once and the declaration stands behind a
//! condition: `if type == "emptyDir" {medium: *"" | "Memory"}` gives `["", "Memory", "Memory"]`.
//! Lists and references end the condition; a second declaration does too.

use cue_syntax::ast::{Ast, BinaryOp, DeclId, DeclKind, Expr, ExprId, Label, List, UnaryOp};
use cue_syntax::{ParseLimits, parse};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// Lists the alternatives of fields behind conditions as the reference does.
pub(super) fn repeat_alternatives(text: &str, schema: &mut Map<String, Json>) {
    let (file, errors) = parse("", text, &ParseLimits::default());
    if !errors.is_empty() {
        return;
    }
    let mut fields = Fields::default();
    fields.collect(&file.ast, file.decls, false);
    if let Some(&[(value, _)]) = fields.0.get("parameter").map(Vec::as_slice) {
        value_of(&file.ast, value, false, schema);
    }
}

/// The declarations of the fields of a struct, by name: the value, and whether it stands behind a
/// condition.
#[derive(Default)]
struct Fields<'a>(BTreeMap<&'a str, Vec<(ExprId, bool)>>);

impl<'a> Fields<'a> {
    fn collect(&mut self, ast: &'a Ast, decls: List<DeclId>, conditional: bool) {
        for decl in ast.decls(decls) {
            match ast.decl(decl).kind {
                DeclKind::Field(id) => {
                    let field = ast.field(id);
                    if let Label::Ident(name) | Label::String(name) = field.label {
                        let all = self.0.entry(ast.str(name)).or_default();
                        all.push((field.value, conditional));
                    }
                }
                DeclKind::Comprehension(id) => {
                    if let Expr::Struct { decls, .. } = ast.expr(ast.comprehension(id).body) {
                        self.collect(ast, decls, true);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Goes through a value with its schema. The parser bounds how deep it nests.
fn value_of(ast: &Ast, value: ExprId, conditional: bool, schema: &mut Map<String, Json>) {
    match ast.expr(value) {
        Expr::Struct { decls, .. } => {
            let mut fields = Fields::default();
            fields.collect(ast, decls, conditional);
            let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut)
            else {
                return;
            };
            for (name, declared) in fields.0 {
                if let [(value, conditional)] = declared.as_slice()
                    && let Some(Json::Object(property)) = properties.get_mut(name)
                {
                    value_of(ast, *value, *conditional, property);
                }
            }
        }
        Expr::List(elements) => {
            if let Some(Expr::Ellipsis(Some(item))) =
                ast.exprs(elements).last().map(|e| ast.expr(e))
                && let Some(Json::Object(items)) = schema.get_mut("items")
            {
                value_of(ast, item, false, items);
            }
        }
        Expr::Paren(inner) => value_of(ast, inner, conditional, schema),
        Expr::Binary(BinaryOp::Or, ..) if conditional && marks_one(ast, value) => repeat(schema),
        _ => {}
    }
}

/// Whether exactly one alternative is marked as the default.
fn marks_one(ast: &Ast, mut chain: ExprId) -> bool {
    let mut marked = 0;
    let is_marked = |e| matches!(ast.expr(e), Expr::Unary(UnaryOp::Default, _));
    while let Expr::Binary(BinaryOp::Or, left, right) = ast.expr(chain) {
        marked += usize::from(is_marked(right));
        chain = left;
    }
    marked + usize::from(is_marked(chain)) == 1
}

/// Appends the alternatives without the default, in the order in which an evaluator that moves the
/// default to the front has them.
fn repeat(schema: &mut Map<String, Json>) {
    let default = schema.get("default").cloned();
    let Some(Json::Array(all)) = schema.get_mut("enum") else { return };
    let mut again = all.clone();
    if let Some(default) = default {
        let Some(at) = again.iter().position(|one| *one == default) else { return };
        again.swap(0, at);
        again.remove(0);
    }
    all.append(&mut again);
}

#[cfg(test)]
mod tests {
    use crate::{Definition, DefinitionKind, Renderer};
    use serde_json::json;

    #[test]
    fn alternatives_behind_a_condition_are_listed_again_without_the_default() {
        let repeated = json!(["a", "b", "b"]);
        let once = json!(["a", "b"]);
        for (text, path, expected) in [
            (r#"t: true, if t {x: *"a" | "b"}"#, "x", &repeated),
            (r#"t: true, if t if t {x?: (*"a" | "b")}"#, "x", &repeated),
            (r#"t: true, if t {if t {x!: null | *"a" | "b"}}"#, "x", &repeated),
            (r#"t: true, if t {x: y: *"a" | "b"}"#, "x/properties/y", &repeated),
            (r#"x: [...{t: true, if t {y: *"a" | "b"}}]"#, "x/items/properties/y", &repeated),
            (r#"x: *"a" | "b""#, "x", &once),
            (r#"t: true, if t {x: "a" | "b"}"#, "x", &once),
            (r#"t: true, if t {x: [...*"a" | "b"]}"#, "x/items", &once),
            (r#"t: true, x: string, if t {x: *"a" | "b"}"#, "x", &once),
            (r##"t: true, if t {x: #E}, #E: *"a" | "b""##, "x", &once),
            (
                r#"t: true, if t {x: "a" | "b" | *"c" | "d"}"#,
                "x",
                &json!(["a", "b", "c", "d", "b", "a", "d"]),
            ),
        ] {
            let spec = json!({
                "schematic": {"cue": {"template": format!("parameter: {{{text}}}\n")}},
            });
            let definition = Definition::from_spec(DefinitionKind::Component, "d", &spec);
            let schema = Renderer::default().schema(&definition).unwrap();
            let found = schema.pointer(&format!("/properties/{path}/enum"));
            assert_eq!(found, Some(expected), "{text}");
        }
    }
}
