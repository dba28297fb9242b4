//! Expressions of templates.

use super::Dice;
use super::functions::{FUNCTIONS, Function, Kind};

/// A name in scope and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// Grows expressions.
#[derive(Debug)]
pub(crate) struct Expressions<'a> {
    pub(crate) dice: &'a mut Dice,
    pub(crate) variables: Vec<Variable>,
    /// What `.` holds; none: the root.
    pub(crate) dot: Option<Kind>,
    /// In a hundred arguments, those that are of any type.
    pub(crate) strays: u32,
    /// Only functions that this admits.
    pub(crate) only: fn(&Function) -> bool,
}

impl Expressions<'_> {
    /// An expression that can be an argument.
    pub(crate) fn operand(&mut self, kind: Kind, depth: usize) -> String {
        let kind = if self.dice.percent(self.strays) { self.any_kind() } else { kind };
        if depth == 0 || self.dice.percent(45) {
            return self.leaf(kind);
        }
        match self.call(kind, depth) {
            Some(call) => match self.dice.0.u32(..30) {
                0 => format!("({call}).a"),
                _ => format!("({call})"),
            },
            None => self.leaf(kind),
        }
    }

    /// What can stand in an action: an operand or a pipeline.
    pub(crate) fn pipeline(&mut self, kind: Kind, depth: usize) -> String {
        if depth > 0
            && self.dice.percent(85)
            && let Some(call) = self.call(kind, depth)
        {
            return call;
        }
        self.leaf(kind)
    }

    fn any_kind(&mut self) -> Kind {
        let kinds = [
            Kind::Text,
            Kind::Int,
            Kind::Number,
            Kind::Float,
            Kind::Bool,
            Kind::List,
            Kind::Map,
            Kind::Any,
            Kind::Time,
        ];
        self.dice.pick(&kinds).copied().unwrap_or(Kind::Any)
    }

    fn call(&mut self, kind: Kind, depth: usize) -> Option<String> {
        let fits = |function: &&Function| {
            let result = function.result;
            match kind {
                Kind::Any => true,
                Kind::Number => matches!(result, Kind::Number | Kind::Int | Kind::Float),
                Kind::Text | Kind::Document => result == Kind::Text,
                kind => result == kind,
            }
        };
        let admitted = self.only;
        let fitting: Vec<&Function> =
            FUNCTIONS.iter().filter(|f| admitted(f)).filter(fits).collect();
        let fitting =
            if fitting.is_empty() { FUNCTIONS.iter().filter(fits).collect() } else { fitting };
        let function = *self.dice.pick(&fitting)?;
        let mut kinds = function.fixed.clone();
        if let Some(rest) = function.rest {
            kinds.extend(std::iter::repeat_n(rest, self.dice.up_to(3)));
        }
        if self.dice.percent(2) {
            kinds.pop();
        }
        let name = function.name;
        if name == "tpl" {
            let text = self.dice.one_of(&[
                "{{ . }}",
                "{{ .a }}",
                "x{{ toYaml . }}",
                "{{ define \\\"q\\\" }}q{{ end }}{{ include \\\"q\\\" . }}",
                "{{ .missing }}",
                "plain",
                "{{ $.a.b }}",
                "{{ if }}",
                "{{ tpl \\\"{{ . }}\\\" 1 }}",
                "{{- $x := . }} {{ $x }} ",
            ]);
            let operand = self.operand(Kind::Any, depth - 1);
            return Some(format!("tpl \"{text}\" {operand}"));
        }
        let mut args: Vec<String> =
            kinds.iter().map(|kind| self.operand(*kind, depth - 1)).collect();
        // Bounds keep results small.
        if matches!(name, "repeat" | "indent" | "nindent" | "until")
            && let Some(first) = args.first_mut()
        {
            *first = self
                .dice
                .one_of(&["0", "1", "2", "3", "4", "10", "(int 2)", "-1", "(int 2.7)"])
                .to_owned();
        }
        if matches!(name, "untilStep" | "seq" | "wrap" | "wrapWith") {
            for arg in args.iter_mut().take(3) {
                if name.starts_with("wrap") && arg.starts_with('"') {
                    continue;
                }
                *arg = self
                    .dice
                    .one_of(&["0", "1", "2", "3", "5", "-1", "10", "-3", "(int 2.7)"])
                    .to_owned();
                if name.starts_with("wrap") {
                    break;
                }
            }
        }
        if name == "derivePassword" {
            let kinds = ["long", "maximum", "medium", "short", "basic", "pin", "x"];
            return Some(format!(
                "derivePassword 1 \"{}\" \"pw\" \"user\" \"site\"",
                self.dice.one_of(&kinds)
            ));
        }
        if matches!(name, "kindIs" | "typeIs" | "typeIsLike")
            && let Some(first) = args.first_mut()
        {
            let types = [
                "\"string\"",
                "\"int\"",
                "\"int64\"",
                "\"float64\"",
                "\"bool\"",
                "\"slice\"",
                "\"map\"",
                "\"invalid\"",
                "\"[]interface {}\"",
                "\"map[string]interface {}\"",
                "\"chartutil.Values\"",
                "\"*semver.Version\"",
                "\"<nil>\"",
            ];
            *first = self.dice.one_of(&types).to_owned();
        }
        // The last argument can come through a pipe.
        if !args.is_empty() && self.dice.percent(25) {
            let last = args.pop().unwrap_or_default();
            let last = match last.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
                Some(inner)
                    if inner.matches('(').count() == inner.matches(')').count()
                        && !inner.contains(").") =>
                {
                    inner.to_owned()
                }
                _ => last,
            };
            return Some(format!("{last} | {name} {}", args.join(" ")).trim_end().to_owned());
        }
        Some(format!("{name} {}", args.join(" ")).trim_end().to_owned())
    }

    fn leaf(&mut self, kind: Kind) -> String {
        if self.dice.percent(25) {
            let held: Vec<String> = self
                .variables
                .iter()
                .filter(|variable| variable.kind == kind || kind == Kind::Any)
                .map(|variable| variable.name.clone())
                .collect();
            if let Some(name) = self.dice.pick(&held) {
                return name.clone();
            }
            if let Some(dot) = self.dot
                && (dot == kind || kind == Kind::Any)
            {
                return ".".to_owned();
            }
        }
        let root = if self.dot.is_some() { "$" } else { "" };
        let value =
            |dice: &mut Dice, names: &[&str]| format!("{root}.Values.{}", dice.one_of(names));
        let dice = &mut *self.dice;
        if dice.percent(30) {
            let names: &[&str] = match kind {
                Kind::Text => &["s1", "s2", "s3", "m.s", "m.deep.s"],
                Kind::Int | Kind::Number => &["i", "f", "big", "neg", "m.i"],
                Kind::Float => &["f", "i"],
                Kind::Bool => &["t", "n"],
                Kind::List => &["l", "ls", "li", "e", "m.l"],
                Kind::Map => &["m", "m.deep", "em", "mm"],
                Kind::Any => &[
                    "s1",
                    "i",
                    "f",
                    "t",
                    "l",
                    "m",
                    "null",
                    "missing",
                    "e",
                    "em",
                    "mm",
                    "es",
                    "z",
                    "m.null",
                    "m.missing.x",
                    "big",
                ],
                Kind::Document => &["doc"],
                _ => &[],
            };
            let rarely = kind == Kind::Int && dice.percent(90);
            if !names.is_empty() && !rarely {
                return value(dice, names);
            }
        }
        let quoted = |dice: &mut Dice, text: &str| dice.literal(text);
        match kind {
            Kind::Text => {
                let text = dice.text();
                quoted(dice, &text)
            }
            Kind::Int => dice
                .one_of(&[
                    "0",
                    "1",
                    "2",
                    "3",
                    "5",
                    "-1",
                    "10",
                    "'a'",
                    "0x10",
                    "(int 3)",
                    "(len \"abc\")",
                    "1_0",
                    "(int \"7\")",
                    "017",
                    "-2",
                ])
                .to_owned(),
            Kind::Number => match dice.0.u32(..4) {
                0 => {
                    let text = dice.numeral();
                    quoted(dice, text)
                }
                _ => {
                    let number = dice.number();
                    if number.contains('e') || number.len() < 19 || number.contains('.') {
                        number
                    } else {
                        format!("(int64 {number:?})")
                    }
                }
            },
            Kind::Float => {
                let number = dice.number();
                format!("(float64 {number:?})")
            }
            Kind::Bool => dice.one_of(&["true", "false", "(eq 1 1)", "(not true)"]).to_owned(),
            Kind::List => dice
                .one_of(&[
                    "(list)",
                    "(list 1 2 3)",
                    "(list \"b\" \"a\" \"b\")",
                    "(list nil 0 \"\" false)",
                    "(list 1 1.0 \"1\")",
                    "(list (list 1 2) (list 3))",
                    "(splitList \",\" \"x,y,z\")",
                    "(until 4)",
                    "(list (dict \"a\" 1) (dict \"a\" 2))",
                    "(list \"a\" nil)",
                    "(list 3 1 2)",
                    "(list true 1.5 \"s\")",
                ])
                .to_owned(),
            Kind::Map => dice
                .one_of(&[
                    "(dict)",
                    "(dict \"a\" 1)",
                    "(dict \"a\" (dict \"b\" 2) \"c\" \"d\")",
                    "(dict \"x\" nil \"y\" false \"z\" 0)",
                    "(dict \"s\" \"over\" \"i\" 0)",
                    "(dict \"scheme\" \"http\" \"host\" \"h\" \"path\" \"/p\")",
                    "(deepCopy .Values.m)",
                    "(split \",\" \"x,y\")",
                    "(dict \"a\" (list 1 2))",
                    "(dict \"deep\" (dict \"s\" \"o\" \"n\" 1))",
                ])
                .replace(".Values", &format!("{root}.Values")),
            Kind::Pattern => format!("\"{}\"", dice.pattern()),
            Kind::Replacement => format!("\"{}\"", dice.replacement()),
            Kind::Version => {
                let text = dice.version();
                quoted(dice, &text)
            }
            Kind::Constraint => {
                let text = dice.constraint();
                quoted(dice, &text)
            }
            Kind::Layout => format!("\"{}\"", dice.layout()),
            Kind::Date => format!("\"{}\"", dice.date()),
            Kind::Zone => format!("\"{}\"", dice.zone()),
            Kind::Duration => format!("\"{}\"", dice.duration()),
            Kind::Url => format!("\"{}\"", dice.url()),
            Kind::Path => format!("\"{}\"", dice.path()),
            Kind::Time => match dice.0.u32(..3) {
                0 => format!("(toDate \"2006-01-02\" \"{}\")", dice.date()),
                1 => format!(
                    "(toDate \"2006-01-02T15:04:05Z07:00\" \"{}\")",
                    dice.one_of(&[
                        "2020-02-03T04:05:06Z",
                        "2021-12-31T23:59:59+02:00",
                        "1969-12-31T23:59:59.5Z"
                    ])
                ),
                _ => format!(
                    "(dateModify \"{}\" (toDate \"2006-01-02\" \"2020-01-02\"))",
                    dice.duration()
                ),
            },
            Kind::Document => {
                let text = super::yaml::document(dice);
                quoted(dice, &text)
            }
            Kind::Format => {
                let text = format(dice);
                quoted(dice, &text)
            }
            Kind::Any => match dice.0.u32(..14) {
                0 => "nil".to_owned(),
                1 => format!("{root}.Release"),
                2 => format!(
                    "{root}.Chart.{}",
                    dice.one_of(&[
                        "Name",
                        "Version",
                        "AppVersion",
                        "Annotations",
                        "Keywords",
                        "Type",
                        "X"
                    ])
                ),
                3 => format!(
                    "{root}.Capabilities.{}",
                    dice.one_of(&[
                        "KubeVersion",
                        "KubeVersion.Minor",
                        "APIVersions",
                        "HelmVersion.Version",
                        "KubeVersion.GitVersion"
                    ])
                ),
                4 => format!("(semver \"{}\")", dice.version()),
                5 => format!("{root}.Template.{}", dice.one_of(&["Name", "BasePath"])),
                6 => format!("{root}.Values"),
                _ => {
                    let kind = self.any_kind();
                    if kind == Kind::Any { "1".to_owned() } else { self.leaf(kind) }
                }
            },
        }
    }
}

/// A layout of printf.
fn format(dice: &mut Dice) -> String {
    let mut out = String::new();
    for _ in 0..=dice.up_to(3) {
        if dice.percent(25) {
            out += dice.one_of(&["x", " ", "é", "%%", "\n", ":"]);
        }
        out.push('%');
        for _ in 0..dice.up_to(2) {
            out += dice.one_of(&["", "", "-", "+", "#", "0", " "]);
        }
        if dice.percent(10) {
            out += dice.one_of(&["[1]", "[2]", "[3]", "[0]", "[x]", "["]);
        }
        out += dice.one_of(&["", "", "", "", "1", "5", "8", "12", "*", "03"]);
        out += dice.one_of(&["", "", "", "", ".", ".0", ".2", ".5", ".10", ".*", ".[1]*"]);
        out += dice.one_of(&[
            "v", "v", "s", "d", "q", "x", "X", "t", "T", "f", "e", "E", "g", "G", "c", "U", "o",
            "O", "b", "F", "w", "z", "",
        ]);
    }
    out
}
