//! The variables of a Terraform module, as far as a schema needs them.
//!
//! Our own: what is not understood is left out, where hcl-rs reads all of a module or nothing.

use serde_json::{Map, Value as Json, json};

/// A `variable` block.
#[derive(Debug, Default, PartialEq)]
struct Variable {
    name: String,
    kind: String,
    description: String,
    default: Option<Json>,
}

/// The schema of a module's variables and of what every Terraform component accepts besides.
pub(crate) fn schema(configuration: &str) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for variable in variables(configuration) {
        let mut property = Map::new();
        property.insert("title".into(), variable.name.clone().into());
        if !variable.description.is_empty() {
            property.insert("description".into(), variable.description.into());
        }
        property.insert("type".into(), word(&variable.kind, variable.default.as_ref()).into());
        match variable.default {
            Some(default) => {
                property.insert("default".into(), default);
            }
            None => required.push(Json::from(variable.name.clone())),
        }
        properties.insert(variable.name, Json::Object(property));
    }
    for (name, property) in common() {
        properties.insert(name.to_owned(), property);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        if let Some(object) = schema.as_object_mut() {
            object.insert("required".into(), required.into());
        }
    }
    schema
}

fn word(kind: &str, default: Option<&Json>) -> &'static str {
    match kind.split('(').next().unwrap_or_default().trim() {
        "string" => "string",
        "number" => "number",
        "bool" => "boolean",
        "list" | "set" | "tuple" => "array",
        "map" | "object" => "object",
        _ => match default {
            Some(Json::Bool(_)) => "boolean",
            Some(Json::Number(_)) => "number",
            Some(Json::Array(_)) => "array",
            Some(Json::Object(_)) => "object",
            _ => "string",
        },
    }
}

/// Part of the schema that clients read; the descriptions are the reference's, since recorded
/// schemas are compared with them.
fn common() -> [(&'static str, Json); 4] {
    let text = |title: &str, description: &str| json!({ "title": title, "description": description, "type": "string" });
    [
        (
            "writeConnectionSecretToRef",
            json!({
                "title": "writeConnectionSecretToRef",
                "description": "The secret which the cloud resource connection will be written to",
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": text("name", "The secret name which the cloud resource connection will be written to"),
                    "namespace": text("namespace", "The secret namespace which the cloud resource connection will be written to"),
                },
            }),
        ),
        (
            "providerRef",
            json!({
                "title": "providerRef",
                "description": "specifies the Provider",
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": text("name", "The name of the Terraform Cloud provider"),
                    "namespace": {
                        "title": "namespace",
                        "default": "default",
                        "description": "The namespace of the Terraform Cloud provider",
                        "type": "string",
                    },
                },
            }),
        ),
        (
            "deleteResource",
            json!({
                "title": "deleteResource",
                "default": true,
                "description": "DeleteResource will determine whether provisioned cloud resources will be deleted when application is deleted",
                "type": "boolean",
            }),
        ),
        (
            "region",
            text("region", "Region is cloud provider's region. It will override providerRef"),
        ),
    ]
}

/// Reads the variable blocks; what is not understood is left out.
fn variables(configuration: &str) -> Vec<Variable> {
    let mut reader = Reader { text: configuration, at: 0 };
    let mut out = Vec::new();
    while let Some(token) = reader.token() {
        match token {
            "variable" => {
                let name = reader.token().unwrap_or_default().trim_matches('"').to_owned();
                if reader.token() != Some("{") {
                    continue;
                }
                let mut variable = Variable { name, ..Variable::default() };
                while let Some(key) = reader.token() {
                    if key == "}" {
                        break;
                    }
                    match reader.token() {
                        Some("{") => reader.skip_block(),
                        Some("=") => match key {
                            "type" => variable.kind = reader.expression().to_owned(),
                            "description" => {
                                variable.description = reader
                                    .value()
                                    .and_then(|v| v.as_str().map(str::to_owned))
                                    .unwrap_or_default();
                            }
                            "default" => variable.default = reader.value(),
                            _ => {
                                reader.expression();
                            }
                        },
                        _ => break,
                    }
                }
                out.push(variable);
            }
            "{" => reader.skip_block(),
            _ => {}
        }
    }
    out
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with('#') || trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                self.at += trimmed.find("*/").map_or(trimmed.len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    fn token(&mut self) -> Option<&'a str> {
        self.skip_space();
        let rest = self.rest();
        let first = rest.chars().next()?;
        let len = if first == '"' {
            string_end(rest)
        } else if first.is_alphanumeric() || first == '_' || first == '-' {
            rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))
                .unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        self.at += len;
        rest.get(..len)
    }

    /// After the opening brace: to behind the closing one.
    fn skip_block(&mut self) {
        let mut depth = 1_u32;
        while let Some(token) = self.token() {
            match token {
                "{" | "[" | "(" => depth += 1,
                "}" | "]" | ")" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// An expression as text, to the end of its line or of its brackets.
    fn expression(&mut self) -> &'a str {
        self.skip_space();
        let start = self.at;
        self.token();
        let rest = self.rest();
        if rest.trim_start_matches([' ', '\t']).starts_with(['(', '[', '{']) {
            self.token();
            self.skip_block();
        }
        self.text.get(start..self.at).unwrap_or_default().trim()
    }

    /// A literal value.
    fn value(&mut self) -> Option<Json> {
        let token = self.token()?;
        match token {
            "[" => {
                let mut items = Vec::new();
                loop {
                    self.skip_space();
                    if self.rest().starts_with(']') {
                        self.at += 1;
                        return Some(items.into());
                    }
                    if self.rest().starts_with(',') {
                        self.at += 1;
                        continue;
                    }
                    items.push(self.value()?);
                }
            }
            "{" => {
                let mut fields = Map::new();
                loop {
                    self.skip_space();
                    if self.rest().starts_with('}') {
                        self.at += 1;
                        return Some(fields.into());
                    }
                    if self.rest().starts_with(',') {
                        self.at += 1;
                        continue;
                    }
                    let key = self.token()?.trim_matches('"').to_owned();
                    self.token().filter(|t| matches!(*t, "=" | ":"))?;
                    let value = self.value()?;
                    fields.insert(key, value);
                }
            }
            text => serde_json::from_str(text).ok(),
        }
    }
}

fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return index + 1,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{Variable, variables};
    use serde_json::json;

    #[test]
    fn reads_variables() {
        let text = "# note\nvariable \"a\" {\n  type = list(string)\n  default = [\"x\", 1]\n}\nresource \"r\" \"n\" { x = { y = 1 } }\nvariable b {\n description = \"d \\\"q\\\"\"\n validation {\n  condition = true\n }\n}\n";
        assert_eq!(
            variables(text),
            [
                Variable {
                    name: "a".into(),
                    kind: "list(string)".into(),
                    default: Some(json!(["x", 1])),
                    ..Variable::default()
                },
                Variable { name: "b".into(), description: "d \"q\"".into(), ..Variable::default() },
            ]
        );
    }

    #[test]
    fn broken_text_ends() {
        for text in ["variable", "variable \"", "variable x {", "variable x { default = [", "}}}"] {
            let _ = variables(text);
        }
    }
}
