//! Templates: actions, control actions, definitions.

use super::expr::{Expressions, Variable};
use super::functions::{Function, Kind};
use super::values;
use super::{Dice, Family};
use crate::case::Case;

/// A case with one template of a family.
pub(crate) fn grow(dice: &mut Dice, family: Family, size: usize) -> Case {
    let values = values::document(dice);
    let only: fn(&Function) -> bool = match family {
        Family::Printing => |function| {
            matches!(
                function.name,
                "print"
                    | "println"
                    | "printf"
                    | "html"
                    | "js"
                    | "urlquery"
                    | "toString"
                    | "quote"
                    | "squote"
                    | "cat"
                    | "list"
                    | "dict"
                    | "join"
            )
        },
        Family::Numbers => |function| {
            let numbers = |kind: &Kind| matches!(kind, Kind::Int | Kind::Number | Kind::Float);
            function.fixed.iter().chain(&function.rest).any(numbers)
                || numbers(&function.result)
                || matches!(
                    function.name,
                    "printf"
                        | "toYaml"
                        | "toJson"
                        | "quote"
                        | "toString"
                        | "typeOf"
                        | "eq"
                        | "toToml"
                        | "toYamlPretty"
                )
        },
        _ => |_| true,
    };
    let strays = match family {
        Family::Types => 40,
        Family::Control => 2,
        _ => 4,
    };
    let expressions = Expressions { dice, variables: Vec::new(), dot: None, strays, only };
    let mut grower = Grower {
        expressions,
        family,
        left: size,
        names: Vec::new(),
        in_range: false,
        fresh: 0,
        root: true,
    };
    let text = grower.file();
    let text = if family == Family::Syntax { grower.damaged(&text) } else { text };
    Case::template(text, values)
}

struct Grower<'a> {
    expressions: Expressions<'a>,
    family: Family,
    /// Productions that may still be used.
    left: usize,
    /// Of definitions.
    names: Vec<String>,
    in_range: bool,
    fresh: usize,
    /// Whether `$` has `.Values`.
    root: bool,
}

impl Grower<'_> {
    fn dice(&mut self) -> &mut Dice {
        self.expressions.dice
    }

    fn file(&mut self) -> String {
        let simple = !matches!(self.family, Family::Control | Family::Syntax);
        if simple && self.dice().percent(85) {
            // Few calls: an error in one hides what the others do.
            let mut out = String::new();
            for at in 0..=self.dice().up_to(2) {
                if at > 0 {
                    out.push('\n');
                }
                let depth = 1 + self.dice().up_to(2);
                let kind = if self.dice().percent(60) { Kind::Any } else { Kind::Text };
                let pipeline = self.expressions.pipeline(kind, depth);
                let shown = match self.dice().0.u32(..8) {
                    0 => format!("{pipeline} | toJson"),
                    1 => format!("printf \"%#v\" ({pipeline})"),
                    2 => format!("{pipeline} | toYaml"),
                    _ => pipeline,
                };
                out += &format!("[{{{{ {shown} }}}}]");
            }
            return out;
        }
        let mut out = String::new();
        for _ in 0..self.dice().up_to(2) {
            out += &self.definition();
        }
        out += &self.nodes(3);
        if self.dice().percent(20) {
            out += &self.definition();
        }
        out
    }

    fn definition(&mut self) -> String {
        let name = self.dice().one_of(&["a", "b", "c", "micro.x"]).to_owned();
        if !self.names.contains(&name) {
            self.names.push(name.clone());
        }
        let dot = self.expressions.dot.replace(Kind::Any);
        let variables = std::mem::take(&mut self.expressions.variables);
        let (in_range, root) = (std::mem::take(&mut self.in_range), std::mem::take(&mut self.root));
        let body =
            if self.dice().percent(10) { " \n {{/* c */}}".to_owned() } else { self.nodes(2) };
        self.expressions.dot = dot;
        self.expressions.variables = variables;
        (self.in_range, self.root) = (in_range, root);
        let (open, close, end) = (self.open(), self.close(), self.simple("end"));
        format!("{open}define \"{name}\"{close}{body}{end}")
    }

    fn open(&mut self) -> &'static str {
        if self.dice().percent(30) { "{{- " } else { "{{ " }
    }

    fn close(&mut self) -> &'static str {
        if self.dice().percent(30) { " -}}" } else { " }}" }
    }

    fn simple(&mut self, word: &str) -> String {
        format!("{}{word}{}", self.open(), self.close())
    }

    fn action(&mut self, inside: &str) -> String {
        format!("{}{inside}{}", self.open(), self.close())
    }

    fn nodes(&mut self, depth: usize) -> String {
        let scope = self.expressions.variables.len();
        let mut out = String::new();
        for _ in 0..=self.dice().up_to(3) {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            out += &self.node(depth);
            if self.dice().percent(50) {
                out += self.dice().one_of(&[
                    " ", "\n", "x", "\n  ", "\t", "a: ", "\n\n", "- ", "é", "{", "}", "#", "\r\n",
                ]);
            }
        }
        self.expressions.variables.truncate(scope);
        out
    }

    fn node(&mut self, depth: usize) -> String {
        let choice = self.dice().0.u32(..if depth == 0 { 9 } else { 20 });
        match choice {
            0..=4 => {
                let pipeline = self.expressions.pipeline(Kind::Any, 2);
                self.action(&pipeline)
            }
            5 => self.declaration(),
            6 => self.comment(),
            7 if self.in_range => {
                let word = self.dice().one_of(&["break", "continue"]).to_owned();
                let condition = self.expressions.pipeline(Kind::Bool, 1);
                format!(
                    "{}{}{}",
                    self.action(&format!("if {condition}")),
                    self.simple(&word),
                    self.simple("end")
                )
            }
            7 | 8 => self.inclusion(),
            9..=12 => self.branch("if", depth),
            13..=15 => self.branch("with", depth),
            16..=18 => self.range(depth),
            _ if self.root && self.dice().percent(50) => {
                let name = self.fresh("blk");
                let body = self.nodes(depth - 1);
                let operand = self.expressions.operand(Kind::Any, 1);
                format!(
                    "{}{body}{}",
                    self.action(&format!("block \"{name}\" {operand}")),
                    self.simple("end")
                )
            }
            _ => self.inclusion(),
        }
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.fresh += 1;
        format!("{prefix}{}", self.fresh)
    }

    fn declaration(&mut self) -> String {
        let kinds =
            [Kind::Text, Kind::Number, Kind::List, Kind::Map, Kind::Bool, Kind::Any, Kind::Int];
        let kind = self.dice().pick(&kinds).copied().unwrap_or(Kind::Any);
        let pipeline = self.expressions.pipeline(kind, 2);
        let known = self.expressions.variables.clone();
        if self.dice().percent(40)
            && let Some(variable) = self.dice().pick(&known)
        {
            return self.action(&format!("{} = {pipeline}", variable.name));
        }
        let name = format!("${}", self.dice().one_of(&["x", "y", "z", "v"]));
        let text = self.action(&format!("{name} := {pipeline}"));
        self.expressions.variables.push(Variable { name, kind });
        text
    }

    fn comment(&mut self) -> String {
        self.dice()
            .one_of(&[
                "{{/* c */}}",
                "{{- /* c */ -}}",
                "{{/* {{ x }} */}}",
                "{{- /* multi\nline */}}",
                "{{/**/}}",
                "{{ /* c */ }}",
            ])
            .to_owned()
    }

    fn inclusion(&mut self) -> String {
        let names = self.names.clone();
        let name = match self.dice().pick(&names) {
            Some(name) if self.dice().percent(90) => name.clone(),
            _ => self.dice().one_of(&["a", "b", "nope"]).to_owned(),
        };
        let operand = self.expressions.operand(Kind::Any, 1);
        match self.dice().0.u32(..4) {
            0 => self.action(&format!("template \"{name}\" {operand}")),
            1 => self.action(&format!("template \"{name}\"")),
            2 => self.action(&format!("include \"{name}\" {operand} | nindent 2")),
            _ => self.action(&format!("include \"{name}\" {operand}")),
        }
    }

    /// Declares a variable in the head of a control action, perhaps.
    fn head(&mut self, kind: Kind) -> String {
        let pipeline = self.expressions.pipeline(kind, 2);
        if self.dice().percent(20) {
            let name = format!("${}", self.dice().one_of(&["x", "w"]));
            self.expressions.variables.push(Variable { name: name.clone(), kind });
            return format!("{name} := {pipeline}");
        }
        pipeline
    }

    fn branch(&mut self, word: &str, depth: usize) -> String {
        let scope = self.expressions.variables.len();
        let kinds = [Kind::Bool, Kind::Map, Kind::Any, Kind::Text, Kind::List];
        let kind = self.dice().pick(&kinds).copied().unwrap_or(Kind::Any);
        let head = self.head(kind);
        let mut out = self.action(&format!("{word} {head}"));
        let dot = self.expressions.dot;
        if word == "with" {
            self.expressions.dot = Some(kind);
        }
        out += &self.nodes(depth - 1);
        self.expressions.dot = dot;
        if self.dice().percent(30) {
            let head = self.head(Kind::Any);
            out += &self.action(&format!("else {word} {head}"));
            out += &self.nodes(depth - 1);
        }
        if self.dice().percent(40) {
            out += &self.simple("else");
            out += &self.nodes(depth - 1);
        }
        self.expressions.variables.truncate(scope);
        out + &self.simple("end")
    }

    fn range(&mut self, depth: usize) -> String {
        let scope = self.expressions.variables.len();
        let kinds = [Kind::List, Kind::List, Kind::Map, Kind::Int, Kind::Any];
        let kind = self.dice().pick(&kinds).copied().unwrap_or(Kind::List);
        let over = if kind == Kind::Int {
            self.dice().one_of(&["0", "1", "3", "(int 2)", "-1", "\"ab\"", "2.5"]).to_owned()
        } else {
            self.expressions.pipeline(kind, 1)
        };
        let declare = |grower: &mut Self, name: &str, kind| {
            grower.expressions.variables.push(Variable { name: name.to_owned(), kind });
        };
        let head = match self.dice().0.u32(..5) {
            0 | 1 => over,
            2 => {
                declare(self, "$e", Kind::Any);
                format!("$e := {over}")
            }
            3 => {
                declare(self, "$k", Kind::Any);
                declare(self, "$e", Kind::Any);
                format!("$k, $e := {over}")
            }
            _ => {
                let known = self.expressions.variables.clone();
                match self.dice().pick(&known) {
                    Some(variable) => format!("{} = {over}", variable.name),
                    None => over,
                }
            }
        };
        let mut out = self.action(&format!("range {head}"));
        let dot = self.expressions.dot.replace(Kind::Any);
        let outer = std::mem::replace(&mut self.in_range, true);
        out += &self.nodes(depth - 1);
        if self.dice().percent(30) {
            let word = self.dice().one_of(&["break", "continue"]).to_owned();
            out += &self.simple(&word);
        }
        self.in_range = outer;
        self.expressions.dot = dot;
        self.expressions.variables.truncate(scope);
        if self.dice().percent(25) {
            out += &self.simple("else");
            out += &self.nodes(depth - 1);
        }
        out + &self.simple("end")
    }

    /// Takes away, doubles and puts in what the grammar does not foresee.
    fn damaged(&mut self, text: &str) -> String {
        const INSERTED: [&str; 44] = [
            "{{", "}}", "{{-", "-}}", "(", ")", "|", "$", "$x", ".", "..", ",", ":=", "=", "\"",
            "`", "'", "'a'", "/*", "*/", "end", "else", "if", "range", "with", "define", "block",
            "template", "break", "nil", "0x", "1.5.2", "1i", "é", "\u{0}", "\n", "-", "_x", "true",
            "\\", "%", "!", "else if", "{{/*",
        ];
        let chars: Vec<char> = text.chars().collect();
        let mut out = String::new();
        let dice = &mut *self.expressions.dice;
        let rate = 1 + dice.0.u32(..4);
        let mut skip = 0;
        for (at, char) in chars.iter().enumerate() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            if dice.0.u32(..200) < rate {
                match dice.0.u32(..4) {
                    0 => skip = dice.up_to(4),
                    1 => {
                        out.push(*char);
                        out.extend(chars.iter().skip(at).take(dice.up_to(6)));
                    }
                    _ => {
                        out += dice.one_of(&INSERTED);
                        out.push(*char);
                    }
                }
            } else {
                out.push(*char);
            }
        }
        out
    }
}
