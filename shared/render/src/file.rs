//! Definition files: metadata and template in one `.cue` file, as authors write them.

use crate::messages;
use cue_syntax::ast::{DeclId, DeclKind, Expr, ExprId, Label, List, UnaryOp};
use cue_syntax::{File, ParseLimits, parse};
use serde_json::{Map, Value as Json, json};
use vela_api::DefinitionKind;

/// What is wrong with a definition file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// `file.cue:3:5`, empty if no place is to blame.
    pub position: String,
    /// What.
    pub message: String,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.position.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.position, self.message)
        }
    }
}

impl std::error::Error for FileError {}

/// Reads a definition file and makes the object that is stored; its namespace is left open.
///
/// # Errors
/// The first thing that is wrong.
pub fn load(name: &str, text: &str) -> Result<Json, FileError> {
    let (file, errors) = parse(name, text, &ParseLimits::default());
    let at = |offset: u32| format!("{name}:{}", file.position(offset));
    if let Some(error) = errors.first() {
        return Err(FileError { position: at(error.span.start), message: error.message.clone() });
    }
    let reader = Reader { file: &file, name };
    let mut metadata: Option<(String, ExprId)> = None;
    let mut template: Option<ExprId> = None;
    for id in file.ast.decls(file.decls) {
        let decl = file.ast.decl(id);
        let DeclKind::Field(field) = decl.kind else {
            return Err(reader.error(decl.span.start, messages::unexpected_declaration()));
        };
        let field = file.ast.field(field);
        let label = match field.label {
            Label::Ident(symbol) | Label::String(symbol) => file.ast.str(symbol).to_owned(),
            _ => {
                return Err(reader.error(decl.span.start, messages::unexpected_declaration()));
            }
        };
        if label == "template" {
            template = Some(field.value);
        } else if let Some((other, _)) = &metadata {
            return Err(
                reader.error(decl.span.start, messages::duplicate_definition(other, &label))
            );
        } else {
            metadata = Some((label, field.value));
        }
    }
    let nowhere = |message: String| FileError { position: String::new(), message };
    let (definition, value) = metadata.ok_or_else(|| nowhere(messages::no_metadata()))?;
    let template = template.ok_or_else(|| nowhere(messages::no_template()))?;
    let metadata = reader.value(value)?;
    let body = reader.body(template)?;
    object(&definition, &metadata, &reader.stored(&body))
        .map_err(|error| reader.error(0, error.to_string()))
}

struct Reader<'a> {
    file: &'a File,
    name: &'a str,
}

impl Reader<'_> {
    fn error(&self, offset: u32, message: String) -> FileError {
        FileError { position: format!("{}:{}", self.name, self.file.position(offset)), message }
    }

    /// The text between the braces of the template.
    fn body(&self, template: ExprId) -> Result<String, FileError> {
        let span = self.file.ast.span(template);
        if !matches!(self.file.ast.expr(template), Expr::Struct { braces: true, .. }) {
            return Err(self.error(span.start, messages::template_not_a_struct()));
        }
        let text = self.file.text(span);
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let mut body = String::with_capacity(inner.len());
        for line in inner.lines() {
            body.push_str(line.strip_prefix('\t').unwrap_or(line).trim_end());
            body.push('\n');
        }
        Ok(body.trim_matches('\n').to_owned() + "\n")
    }

    /// The imports, then the body: what is stored.
    fn stored(&self, body: &str) -> String {
        let mut out = String::new();
        match self.file.imports.as_slice() {
            [] => {}
            [one] => {
                out.push_str("import ");
                out.push_str(self.file.text(one.span).trim());
                out.push_str("\n\n");
            }
            many => {
                out.push_str("import (\n");
                for import in many {
                    out.push('\t');
                    out.push_str(self.file.text(import.span).trim());
                    out.push('\n');
                }
                out.push_str(")\n\n");
            }
        }
        out.push_str(body);
        out
    }

    /// The data an expression spells out.
    fn value(&self, id: ExprId) -> Result<Json, FileError> {
        let ast = &self.file.ast;
        match ast.expr(id) {
            Expr::Null => Ok(Json::Null),
            Expr::Bool(b) => Ok(Json::Bool(b)),
            Expr::String(symbol) => Ok(ast.str(symbol).into()),
            Expr::Number(symbol) => self.number(id, ast.str(symbol)),
            Expr::Paren(inner) => self.value(inner),
            Expr::Unary(UnaryOp::Minus, inner) => match self.value(inner)? {
                Json::Number(n) => self.number(id, &format!("-{n}")),
                _ => Err(self.not_data(id)),
            },
            Expr::List(items) => {
                let mut out = Vec::new();
                for item in ast.exprs(items) {
                    out.push(self.value(item)?);
                }
                Ok(Json::Array(out))
            }
            Expr::Struct { decls, .. } => self.fields(id, decls),
            _ => Err(self.not_data(id)),
        }
    }

    fn not_data(&self, id: ExprId) -> FileError {
        self.error(self.file.ast.span(id).start, messages::metadata_not_data())
    }

    fn number(&self, id: ExprId, text: &str) -> Result<Json, FileError> {
        serde_json::from_str(&text.replace('_', "")).map_err(|_| self.not_data(id))
    }

    fn fields(&self, id: ExprId, decls: List<DeclId>) -> Result<Json, FileError> {
        let ast = &self.file.ast;
        let mut out = Map::new();
        for decl in ast.decls(decls) {
            let field = match ast.decl(decl).kind {
                DeclKind::Field(field) => ast.field(field),
                DeclKind::Attribute(_) => continue,
                _ => return Err(self.not_data(id)),
            };
            let label = match field.label {
                Label::Ident(symbol) | Label::String(symbol) => ast.str(symbol).to_owned(),
                _ => return Err(self.not_data(id)),
            };
            let value = if STATUS.contains(&label.as_str())
                && matches!(ast.expr(field.value), Expr::Struct { .. })
            {
                self.status_block(field.value)
            } else {
                self.value(field.value)?
            };
            merge(&mut out, label, value);
        }
        Ok(Json::Object(out))
    }

    /// A status block written as CUE instead of as text.
    fn status_block(&self, id: ExprId) -> Json {
        let text = self.file.text(self.file.ast.span(id)).trim();
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let lines: Vec<&str> = inner.lines().collect();
        let indent = lines
            .iter()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.len() - line.trim_start_matches('\t').len())
            .min()
            .unwrap_or(0);
        let body: Vec<String> = lines
            .iter()
            .map(|line| line.get(indent..).unwrap_or_default().replace('\t', "  "))
            .collect();
        let body = body.join("\n").trim_matches('\n').to_owned();
        if body.is_empty() { "{}".into() } else { body.into() }
    }
}

const STATUS: [&str; 3] = ["healthPolicy", "customStatus", "details"];

/// `a: b: 1` and `a: c: 2` are one struct.
fn merge(out: &mut Map<String, Json>, label: String, value: Json) {
    match (out.get_mut(&label), value) {
        (Some(Json::Object(known)), Json::Object(more)) => {
            for (key, value) in more {
                merge(known, key, value);
            }
        }
        (_, value) => {
            out.insert(label, value);
        }
    }
}

/// Annotations and labels that are not ours get a prefix of their own.
fn prefixed(given: Option<&Json>) -> Map<String, Json> {
    let mut out = Map::new();
    for (key, value) in given.and_then(Json::as_object).into_iter().flatten() {
        let key = if key.contains("oam.dev") {
            key.clone()
        } else {
            format!("custom.definition.oam.dev/{key}")
        };
        out.insert(key, value.clone());
    }
    out
}

/// Why a definition file makes no object.
#[derive(Debug, thiserror::Error)]
enum InvalidObject {
    #[error("{}", messages::invalid_type(.0))]
    Type(String),
    /// A field that the kind of definition does not have.
    #[error("{}", messages::invalid_spec(.0))]
    Field(String),
}

fn object(name: &str, metadata: &Json, template: &str) -> Result<Json, InvalidObject> {
    let word = metadata.get("type").and_then(Json::as_str).unwrap_or_default();
    let kind = DefinitionKind::ALL
        .into_iter()
        .find(|k| k.word() == word)
        .ok_or_else(|| InvalidObject::Type(word.to_owned()))?;
    let mut annotations = prefixed(metadata.get("annotations"));
    if let Some(description) = metadata.get("description") {
        annotations.insert("definition.oam.dev/description".into(), description.clone());
    }
    if let Some(alias) = metadata.get("alias") {
        annotations.insert("definition.oam.dev/alias".into(), alias.clone());
    }
    let mut spec = match metadata.get("attributes") {
        None => Map::new(),
        Some(Json::Object(attributes)) => attributes.clone(),
        Some(_) => return Err(InvalidObject::Field("attributes".to_owned())),
    };
    for key in spec.keys() {
        if !known_attributes(kind).contains(&key.as_str()) {
            return Err(InvalidObject::Field(key.clone()));
        }
    }
    spec.insert("schematic".into(), json!({ "cue": { "template": template } }));
    let mut meta = Map::new();
    meta.insert("name".into(), name.into());
    meta.insert("annotations".into(), Json::Object(annotations));
    let labels = prefixed(metadata.get("labels"));
    if !labels.is_empty() {
        meta.insert("labels".into(), Json::Object(labels));
    }
    Ok(json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": kind.kind(),
        "metadata": meta,
        "spec": spec,
    }))
}

/// The fields of a definition's spec; any other attribute is a mistake.
fn known_attributes(kind: DefinitionKind) -> &'static [&'static str] {
    match kind {
        DefinitionKind::Component => &[
            "workload",
            "childResourceKinds",
            "revisionLabel",
            "podSpecPath",
            "status",
            "extension",
            "version",
        ],
        DefinitionKind::Trait => &[
            "definitionRef",
            "revisionEnabled",
            "workloadRefPath",
            "podDisruptive",
            "appliesToWorkloads",
            "conflictsWith",
            "status",
            "extension",
            "version",
            "manageWorkload",
            "controlPlaneOnly",
            "stage",
        ],
        DefinitionKind::Policy => {
            &["definitionRef", "manageHealthCheck", "version", "scope", "global", "priority"]
        }
        DefinitionKind::WorkflowStep => &["definitionRef", "version"],
        DefinitionKind::Workload => &[
            "definitionRef",
            "childResourceKinds",
            "revisionLabel",
            "podSpecPath",
            "status",
            "extension",
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::load;
    use serde_json::json;

    const FILE: &str = r#"
import "strconv"

"queue-worker": {
	type:        "component"
	alias:       ""
	description: "Runs a queue consumer"
	annotations: {"team": "blue", "definition.oam.dev/x": "y"}
	labels: "ui-hidden": "true"
	attributes: {
		workload: definition: {apiVersion: "apps/v1", kind: "Deployment"}
		workload: type: "deployments.apps"
		status: healthPolicy: {
			isHealth: true
		}
	}
}
template: {
	// a comment
	output: replicas: strconv.Atoi(parameter.n)

	parameter: n: string
}
"#;

    #[test]
    fn a_file_becomes_an_object() {
        let object = load("q.cue", FILE).unwrap();
        assert_eq!(
            object,
            json!({
                "apiVersion": "core.oam.dev/v1beta1",
                "kind": "ComponentDefinition",
                "metadata": {
                    "name": "queue-worker",
                    "annotations": {
                        "custom.definition.oam.dev/team": "blue",
                        "definition.oam.dev/x": "y",
                        "definition.oam.dev/alias": "",
                        "definition.oam.dev/description": "Runs a queue consumer",
                    },
                    "labels": { "custom.definition.oam.dev/ui-hidden": "true" },
                },
                "spec": {
                    "workload": {
                        "definition": { "apiVersion": "apps/v1", "kind": "Deployment" },
                        "type": "deployments.apps",
                    },
                    "status": { "healthPolicy": "isHealth: true" },
                    "schematic": { "cue": { "template":
                        "import \"strconv\"\n\n// a comment\noutput: replicas: strconv.Atoi(parameter.n)\n\nparameter: n: string\n" } },
                },
            })
        );
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, message) in [
            ("a: {type: \"component\"}", "the file has no template"),
            ("template: {}", "the file has no metadata of a definition"),
            ("a: {type: \"x\"}\ntemplate: {}", "f.cue:1:1: invalid type x"),
            (
                "a: {type: \"trait\"}\nb: {}\ntemplate: {}",
                "f.cue:2:1: a file must have one definition; this one has a and b",
            ),
            ("a: {type: \"trait\"}\ntemplate: 1", "f.cue:2:11: the template must be a struct"),
            (
                "a: {type: \"trait\", attributes: stages: \"\"}\ntemplate: {}",
                "f.cue:1:1: invalid definition spec: unknown field \"stages\"",
            ),
            ("a: {", "f.cue:1:5: expected '}', found 'EOF'"),
        ] {
            assert_eq!(load("f.cue", text).unwrap_err().to_string(), message, "{text}");
        }
    }
}
