//! Expressions, by the shape that their value is planned to have.
//!
//! What comes back can stand as an operand of anything: compound expressions have parentheses.

use super::{Grower, HIDDEN, INTS, LABELS, MAX_DEPTH, STRINGS, Shape};

/// Productions of expressions.
#[derive(Clone, Copy)]
enum Rule {
    Literal,
    Reference,
    Operator,
    Unify,
    Disjunction,
    Constraint,
    Function,
    Standard,
    Validator,
    Presence,
    Comprehension,
    Close,
    Marshal,
    Guarded,
}

impl Grower {
    /// An expression for a value of this shape, and now and then of another.
    pub(super) fn value(&mut self, shape: &Shape, depth: usize) -> String {
        if !self.more() || depth > MAX_DEPTH {
            return self.literal(shape, depth);
        }
        if self.percent(3) {
            let other = self.shape(depth + 1);
            return self.literal(&other, depth);
        }
        let w = self.weights;
        let mut rules = vec![
            (w.literal, Rule::Literal),
            (w.reference, Rule::Reference),
            (w.unify, Rule::Unify),
            (w.disjunction, Rule::Disjunction),
            (w.function, Rule::Function),
            (w.validator, Rule::Validator),
            (2, Rule::Guarded),
        ];
        match shape {
            Shape::Int => rules.extend([
                (w.arithmetic, Rule::Operator),
                (w.bound, Rule::Constraint),
                (w.standard, Rule::Standard),
            ]),
            Shape::Str => rules.extend([
                (w.arithmetic, Rule::Operator),
                (w.bound, Rule::Constraint),
                (w.standard, Rule::Standard),
                (w.marshal, Rule::Marshal),
            ]),
            Shape::Bool => rules.extend([
                (w.arithmetic, Rule::Operator),
                (w.presence, Rule::Presence),
                (w.standard, Rule::Standard),
            ]),
            Shape::List(_) => rules.extend([
                (w.list_comprehension, Rule::Comprehension),
                (w.standard, Rule::Standard),
            ]),
            Shape::Struct(_) => rules.extend([(w.close, Rule::Close), (w.literal, Rule::Literal)]),
        }
        match self.weighed(&rules) {
            Some(Rule::Reference) => self.refer(shape, depth),
            Some(Rule::Operator) => self.operator(shape, depth),
            Some(Rule::Unify) => {
                let (a, b) = (self.value(shape, depth + 1), self.loose(shape, depth + 1));
                if self.percent(50) { format!("({a} & {b})") } else { format!("({b} & {a})") }
            }
            Some(Rule::Disjunction) => self.disjunction(shape, depth),
            Some(Rule::Constraint) => self.constraint(shape, depth),
            Some(Rule::Function) => self.function(shape, depth),
            Some(Rule::Standard) => self.standard(shape, depth),
            Some(Rule::Validator) => {
                let (validator, value) =
                    (self.validator(shape, depth), self.value(shape, depth + 1));
                format!("({validator} & {value})")
            }
            Some(Rule::Presence) => self.presence(depth),
            Some(Rule::Comprehension) => self.list_comprehension(shape, depth),
            Some(Rule::Close) => format!("close({})", self.literal(shape, depth)),
            Some(Rule::Marshal) => {
                self.imports.insert("encoding/json");
                let fields = Shape::Struct(self.plan(depth + 1));
                let value = match self.reference(|shape| matches!(shape, Shape::Struct(_))) {
                    Some(path) if self.percent(70) => path,
                    _ => self.value(&fields, depth + 1),
                };
                format!("json.Marshal({value})")
            }
            Some(Rule::Guarded) => {
                let (condition, value) = (self.condition(depth), self.value(shape, depth + 1));
                let other = self.literal(shape, depth + 1);
                format!("[if {condition} {{{value}}}, {other}][0]")
            }
            Some(Rule::Literal) | None => self.literal(shape, depth),
        }
    }

    /// A value, a type or a constraint: what others are unified with.
    fn loose(&mut self, shape: &Shape, depth: usize) -> String {
        match self.rng.u32(..4) {
            0 => self.kind(shape),
            1 => self.constraint(shape, depth),
            _ => self.value(shape, depth),
        }
    }

    /// The type of a shape.
    pub(super) fn kind(&mut self, shape: &Shape) -> String {
        match shape {
            _ if self.percent(10) => "_".to_owned(),
            Shape::Int => self.one_of(&["int", "number", "int"]).to_owned(),
            Shape::Str => "string".to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::List(element) => {
                let element = self.kind(element);
                format!("[...{element}]")
            }
            Shape::Struct(fields) => {
                let mut members = Vec::new();
                for field in fields.clone() {
                    let marker = self.one_of(&["", "?", "!", ""]);
                    let kind = self.kind(&field.shape);
                    members.push(format!("{}{marker}: {kind}", field.label));
                }
                if self.percent(30) {
                    members.push("...".to_owned());
                }
                format!("{{{}}}", members.join(", "))
            }
        }
    }

    /// A literal, with grown members.
    pub(super) fn literal(&mut self, shape: &Shape, depth: usize) -> String {
        match shape {
            Shape::Int => self.one_of(&INTS).to_owned(),
            Shape::Str => format!("{:?}", self.one_of(&STRINGS)),
            Shape::Bool => self.one_of(&["true", "false"]).to_owned(),
            Shape::List(element) => {
                let count = self.rng.usize(..3);
                let mut items: Vec<String> = Vec::new();
                for _ in 0..count {
                    items.push(self.value(element, depth + 1));
                }
                if self.percent(10) {
                    items.push("...".to_owned());
                }
                format!("[{}]", items.join(", "))
            }
            Shape::Struct(_) if depth > MAX_DEPTH + 1 => "{}".to_owned(),
            Shape::Struct(fields) => {
                let body = self.declarations(fields, depth);
                format!("{{\n{body}\n}}")
            }
        }
    }

    fn refer(&mut self, shape: &Shape, depth: usize) -> String {
        let found = self.reference(|other| same(shape, other));
        match found {
            Some(path) => path,
            None if self.percent(20) => {
                // A field that may not be there.
                let label = self.one_of(&LABELS);
                match self.reference(|shape| matches!(shape, Shape::Struct(_))) {
                    Some(path) => format!("{path}.{label}"),
                    None => self.literal(shape, depth),
                }
            }
            None => self.literal(shape, depth),
        }
    }

    fn operator(&mut self, shape: &Shape, depth: usize) -> String {
        let int = |g: &mut Self| g.value(&Shape::Int, depth + 1);
        match shape {
            Shape::Int => match self.rng.u32(..4) {
                0 => {
                    let shape = match self.rng.u32(..3) {
                        0 => Shape::Str,
                        1 => Shape::List(Box::new(Shape::Int)),
                        _ => Shape::Struct(self.plan(depth + 1)),
                    };
                    format!("len({})", self.value(&shape, depth + 1))
                }
                _ => {
                    let operator = self.one_of(&["+", "-", "*", "div", "mod"]);
                    format!("({} {operator} {})", int(self), int(self))
                }
            },
            Shape::Str if self.percent(50) => {
                let part = if self.percent(50) { Shape::Int } else { Shape::Str };
                format!("\"v\\({})\"", self.value(&part, depth + 1))
            }
            Shape::Str => {
                let (a, b) = (self.value(shape, depth + 1), self.value(shape, depth + 1));
                format!("({a} + {b})")
            }
            _ => self.condition(depth),
        }
    }

    /// A bool: a comparison, a presence test, a reference.
    pub(super) fn condition(&mut self, depth: usize) -> String {
        if !self.more() {
            return "true".to_owned();
        }
        match self.rng.u32(..8) {
            0..=2 => self.presence(depth),
            3 | 4 => {
                let shape = if self.percent(70) { Shape::Int } else { Shape::Str };
                let operator = self.one_of(&["==", "!=", "<", ">="]);
                let (a, b) = (self.refer(&shape, depth), self.literal(&shape, depth));
                format!("({a} {operator} {b})")
            }
            5 => self.refer(&Shape::Bool, depth),
            6 => {
                let operator = self.one_of(&["&&", "||"]);
                format!("({} {operator} {})", self.condition(depth + 1), self.condition(depth + 1))
            }
            _ => format!("!{}", self.condition(depth + 1)),
        }
    }

    /// `x != _|_` or `x == _|_`.
    fn presence(&mut self, depth: usize) -> String {
        let path = self.reference(|_| true).unwrap_or_else(|| self.literal(&Shape::Int, depth));
        let path = if self.percent(25) { format!("{path}.{}", self.one_of(&LABELS)) } else { path };
        let operator = self.one_of(&["!=", "!=", "=="]);
        format!("({path} {operator} _|_)")
    }

    fn disjunction(&mut self, shape: &Shape, depth: usize) -> String {
        let count = self.rng.usize(2..=3);
        let marked = self.percent(self.weights.default).then(|| self.rng.usize(..count));
        let mut alternatives = Vec::new();
        for at in 0..count {
            let alternative = match self.rng.u32(..6) {
                0 => self.kind(shape),
                1 if depth < MAX_DEPTH => {
                    let other = self.shape(depth + 1);
                    self.literal(&other, depth + 1)
                }
                2 => self.constraint(shape, depth + 1),
                3 => self.value(shape, depth + 1),
                _ => self.literal(shape, depth + 1),
            };
            let mark = if marked == Some(at) { "*" } else { "" };
            alternatives.push(format!("{mark}{alternative}"));
        }
        format!("({})", alternatives.join(" | "))
    }

    fn constraint(&mut self, shape: &Shape, depth: usize) -> String {
        match shape {
            Shape::Int => {
                let low = self.rng.i32(-2..3);
                let high = self.rng.i32(1..9);
                match self.rng.u32(..5) {
                    0 => format!(">={low}"),
                    1 => format!("(>={low} & <={high})"),
                    2 => format!("!={low}"),
                    3 => format!("(<{high} | >{})", high + 3),
                    _ => {
                        let limit = self.refer(&Shape::Int, depth);
                        let operator = self.one_of(&[">=", "<", "<=", ">"]);
                        format!("({operator}{limit})")
                    }
                }
            }
            Shape::Str => {
                let pattern = self.one_of(&["^a", "o+$", "^[a-z]*$", "-"]);
                let operator = self.one_of(&["=~", "!~"]);
                match self.rng.u32(..3) {
                    0 => format!("!={:?}", self.one_of(&STRINGS)),
                    _ => format!("{operator}{pattern:?}"),
                }
            }
            _ => self.kind(shape),
        }
    }

    /// A struct used as a function.
    fn function(&mut self, shape: &Shape, depth: usize) -> String {
        // A definition with an input serves as one, too.
        if self.percent(40)
            && let Some(path) = self.reference(|other| matches!(other, Shape::Struct(_)))
        {
            let (label, out) = (self.one_of(&LABELS), self.one_of(&LABELS));
            let input = if self.percent(60) { Shape::Int } else { self.shape(depth + 1) };
            let argument = self.value(&input, depth + 1);
            return format!("({path} & {{{label}: {argument}}}).{out}");
        }
        let input = if self.percent(60) { Shape::Int } else { self.shape(depth + 1) };
        let kind = self.kind(&input);
        let name = self.one_of(&HIDDEN);
        self.scopes.push(vec![super::Name::bound("in".to_owned(), input.clone())]);
        let out = self.value(shape, depth + 1);
        let between = if self.percent(30) {
            let value = self.value(&input, depth + 1);
            format!(", {name}: {value}")
        } else {
            String::new()
        };
        self.scopes.pop();
        let argument = self.value(&input, depth + 1);
        let input = if self.percent(15) { format!("*{argument} | {kind}") } else { kind };
        format!("({{in: {input}{between}, out: {out}}} & {{in: {argument}}}).out")
    }

    fn list_comprehension(&mut self, shape: &Shape, depth: usize) -> String {
        let element = match shape {
            Shape::List(element) => (**element).clone(),
            _ => Shape::Int,
        };
        let (clauses, scope) = self.clauses(depth);
        self.scopes.push(scope);
        let item = self.value(&element, depth + 1);
        self.scopes.pop();
        let after = if self.percent(25) {
            format!(", {}", self.value(&element, depth + 1))
        } else {
            String::new()
        };
        format!("[{clauses} {{{item}}}{after}]")
    }

    /// The clauses of a comprehension and the names they bind.
    pub(super) fn clauses(&mut self, depth: usize) -> (String, Vec<super::Name>) {
        let mut text = Vec::new();
        let mut scope = Vec::new();
        if self.percent(45) {
            let condition = self.condition(depth);
            text.push(format!("if {condition}"));
        }
        if text.is_empty() || self.percent(30) {
            let source = Shape::List(Box::new(Shape::Int));
            let (source, key, value) = match self.reference(iterable) {
                Some(path) if self.percent(75) => (path, Shape::Str, Shape::Int),
                _ => (self.literal(&source, depth + 1), Shape::Int, Shape::Int),
            };
            let (k, v) = (self.fresh("k"), self.fresh("v"));
            text.push(format!("for {k}, {v} in {source}"));
            scope.push(super::Name::bound(k, key));
            scope.push(super::Name::bound(v, value));
        }
        if self.percent(15) {
            self.scopes.push(scope.clone());
            let condition = self.condition(depth);
            self.scopes.pop();
            text.push(format!("if {condition}"));
        }
        (text.join(" "), scope)
    }

    /// A validator that values of this shape may meet.
    pub(super) fn validator(&mut self, shape: &Shape, depth: usize) -> String {
        let schema = |g: &mut Self| match g.rng.u32(..9) {
            0..=3 => g.kind(shape),
            4..=6 => g.constraint(shape, depth + 1),
            7 => g.literal(shape, depth + 1),
            _ if depth < MAX_DEPTH => g.validator(shape, depth + 1),
            _ => g.kind(shape),
        };
        match (self.rng.u32(..4), shape) {
            (0, Shape::List(element)) => {
                self.imports.insert("list");
                let count = self.one_of(&["0", "1", "2", ">=1", "<2", "int"]);
                let element = if self.percent(60) {
                    self.kind(element)
                } else {
                    self.loose(element, depth + 1)
                };
                format!("list.MatchN({count}, {element})")
            }
            (1, Shape::List(_)) => {
                self.imports.insert("list");
                let name =
                    self.one_of(&["list.MinItems(1)", "list.MaxItems(1)", "list.UniqueItems()"]);
                name.to_owned()
            }
            (0, Shape::Str) => {
                self.imports.insert("strings");
                self.one_of(&["strings.MinRunes(2)", "strings.MaxRunes(1)"]).to_owned()
            }
            (0, Shape::Struct(_)) => {
                self.imports.insert("struct");
                self.one_of(&["struct.MinFields(1)", "struct.MaxFields(1)"]).to_owned()
            }
            (1, _) => {
                let (a, b, c) = (schema(self), schema(self), schema(self));
                format!("matchIf({a}, {b}, {c})")
            }
            _ => {
                let count = self.one_of(&["0", "1", "2", ">=1", "<2"]);
                let (a, b) = (schema(self), schema(self));
                format!("matchN({count}, [{a}, {b}])")
            }
        }
    }

    /// A call of a standard package, also of what is rarely called.
    fn standard(&mut self, shape: &Shape, depth: usize) -> String {
        let depth = depth + 1;
        let ints = Shape::List(Box::new(Shape::Int));
        let strings = Shape::List(Box::new(Shape::Str));
        match shape {
            Shape::Int => {
                let call = self.one_of(&[
                    "list.Sum",
                    "list.Max",
                    "list.Min",
                    "strings.Index",
                    "strconv.Atoi",
                    "math.Abs",
                    "strings.Count",
                ]);
                self.import(call);
                match call {
                    "math.Abs" => format!("{call}({})", self.value(&Shape::Int, depth)),
                    "strconv.Atoi" => {
                        format!("{call}(\"\\({})\")", self.value(&Shape::Int, depth))
                    }
                    "strings.Index" | "strings.Count" => {
                        let (a, b) =
                            (self.value(&Shape::Str, depth), self.literal(&Shape::Str, depth));
                        format!("{call}({a}, {b})")
                    }
                    _ => format!("{call}({})", self.value(&ints, depth)),
                }
            }
            Shape::Str => {
                let call = self.one_of(&[
                    "strings.Join",
                    "strings.ToUpper",
                    "strings.TrimPrefix",
                    "strings.Replace",
                    "json.Marshal",
                    "path.Base",
                    "path.Dir",
                    "path.Ext",
                    "path.Join",
                    "path.Clean",
                    "path.Rel",
                    "path.Resolve",
                    "path.ToSlash",
                    "path.FromSlash",
                    "path.VolumeName",
                    "strconv.FormatInt",
                    "base64.Encode",
                    "yaml.Marshal",
                    "strings.Repeat",
                ]);
                self.import(call);
                let system = self.one_of(&["path.Unix", "path.Windows", "path.Plan9"]);
                let file = self.one_of(&[
                    "/a/b.c",
                    "a/../b",
                    "C:\\\\a\\\\b.c",
                    "a//b/",
                    ".",
                    "\\\\\\\\h\\\\s\\\\x",
                ]);
                match call {
                    "strings.Join" => {
                        format!(
                            "{call}({}, {:?})",
                            self.value(&strings, depth),
                            self.one_of(&STRINGS)
                        )
                    }
                    "strings.TrimPrefix" => {
                        let (a, b) =
                            (self.value(&Shape::Str, depth), self.literal(&Shape::Str, depth));
                        format!("{call}({a}, {b})")
                    }
                    "strings.Replace" => {
                        let a = self.value(&Shape::Str, depth);
                        format!("{call}({a}, \"a\", \"b\", {})", self.one_of(&INTS))
                    }
                    "strings.Repeat" => {
                        let a = self.value(&Shape::Str, depth);
                        format!("{call}({a}, {})", self.one_of(&["0", "1", "2", "-1"]))
                    }
                    "json.Marshal" | "yaml.Marshal" => {
                        let shape = self.shape(depth);
                        let value = match self.rng.u32(..4) {
                            0 => self.kind(&shape),
                            _ => self.value(&shape, depth),
                        };
                        format!("{call}({value})")
                    }
                    "path.Join" => format!("{call}([\"{file}\", \"../q\"], {system})"),
                    "path.Rel" | "path.Resolve" => {
                        let base = self.one_of(&["/a", "a/b", "C:\\\\a", "..", ""]);
                        format!("{call}(\"{base}\", \"{file}\", {system})")
                    }
                    "path.Base" | "path.Dir" | "path.Ext" | "path.Clean" | "path.ToSlash"
                    | "path.FromSlash" | "path.VolumeName" => {
                        format!("{call}(\"{file}\", {system})")
                    }
                    "strconv.FormatInt" => {
                        format!("{call}({}, 10)", self.value(&Shape::Int, depth))
                    }
                    "base64.Encode" => format!("{call}(null, {})", self.value(&Shape::Str, depth)),
                    _ => format!("{call}({})", self.value(&Shape::Str, depth)),
                }
            }
            Shape::Bool => {
                let call = self.one_of(&[
                    "strings.HasPrefix",
                    "strings.Contains",
                    "list.Contains",
                    "regexp.Match",
                    "list.IsSortedStrings",
                    "list.MatchN",
                    "json.Validate",
                    "path.IsAbs",
                    "path.Match",
                ]);
                self.import(call);
                let system = self.one_of(&["path.Unix", "path.Windows", "path.Plan9"]);
                let file = self.one_of(&["/a/b", "a/b", "C:\\\\a", "b*", "[a-c]", ""]);
                match call {
                    "path.IsAbs" => format!("{call}(\"{file}\", {system})"),
                    "path.Match" => {
                        let pattern = self.one_of(&["*", "a/?", "[a-c]*", "[", "\\\\b"]);
                        format!("{call}(\"{pattern}\", \"{file}\", {system})")
                    }
                    "list.MatchN" => {
                        let count = self.one_of(&["0", "1", ">=1", "<2", "int"]);
                        let (list, kind) =
                            (self.value(&ints, depth), self.loose(&Shape::Int, depth));
                        format!("{call}({list}, {count}, {kind})")
                    }
                    "json.Validate" => {
                        let shape = self.shape(depth);
                        let (value, kind) = (self.value(&shape, depth), self.kind(&shape));
                        format!("{call}(json.Marshal({value}), {kind})")
                    }
                    "list.Contains" => {
                        let (a, b) = (self.value(&ints, depth), self.value(&Shape::Int, depth));
                        format!("{call}({a}, {b})")
                    }
                    "list.IsSortedStrings" => format!("{call}({})", self.value(&strings, depth)),
                    "regexp.Match" => format!("{call}(\"^a\", {})", self.value(&Shape::Str, depth)),
                    _ => {
                        let (a, b) =
                            (self.value(&Shape::Str, depth), self.literal(&Shape::Str, depth));
                        format!("{call}({a}, {b})")
                    }
                }
            }
            Shape::List(_) => {
                let call = self.one_of(&[
                    "list.Concat",
                    "list.Repeat",
                    "list.Slice",
                    "list.Take",
                    "list.Drop",
                    "list.Reverse",
                    "list.FlattenN",
                    "list.Sort",
                    "strings.Split",
                    "list.Range",
                ]);
                self.import(call);
                match call {
                    "list.Concat" | "list.FlattenN" => {
                        let (a, b) = (self.value(shape, depth), self.value(shape, depth));
                        let rest = if call == "list.FlattenN" { ", 1" } else { "" };
                        format!("{call}([{a}, {b}]{rest})")
                    }
                    "list.Slice" => format!("{call}({}, 0, 1)", self.value(shape, depth)),
                    "list.Reverse" => format!("{call}({})", self.value(shape, depth)),
                    "list.Sort" => format!("{call}({}, list.Ascending)", self.value(shape, depth)),
                    "strings.Split" => format!("{call}({}, \"b\")", self.value(&Shape::Str, depth)),
                    "list.Range" => format!("{call}(0, {}, 1)", self.value(&Shape::Int, depth)),
                    _ => format!("{call}({}, {})", self.value(shape, depth), self.one_of(&INTS)),
                }
            }
            Shape::Struct(_) => {
                self.import("json.Unmarshal");
                format!("json.Unmarshal(json.Marshal({}))", self.literal(shape, depth))
            }
        }
    }

    fn import(&mut self, call: &str) {
        let path = match call.split('.').next().unwrap_or_default() {
            "strings" => "strings",
            "list" => "list",
            "math" => "math",
            "path" => "path",
            "regexp" => "regexp",
            "strconv" => "strconv",
            "base64" => "encoding/base64",
            "yaml" => "encoding/yaml",
            _ => "encoding/json",
        };
        self.imports.insert(path);
    }
}

fn iterable(shape: &Shape) -> bool {
    matches!(shape, Shape::List(_) | Shape::Struct(_))
}

fn same(a: &Shape, b: &Shape) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}
