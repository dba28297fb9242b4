//! Random templates: mostly sound, sometimes with a few characters too many or too few.

use fastrand::Rng;

const FIELDS: &[&str] = &[
    ".a",
    ".a.b",
    ".a.b.c",
    ".a.n",
    ".a.z",
    ".a.z.q",
    ".a.x",
    ".a.x.y",
    ".nul",
    ".nul.x",
    ".s",
    ".e",
    ".t",
    ".i",
    ".j",
    ".u",
    ".f",
    ".big",
    ".small",
    ".cut",
    ".l",
    ".strings",
    ".ints",
    ".empty",
    ".none",
    ".nomap",
    ".smap",
    ".smap.k",
    ".v",
    ".v.Major",
    ".v.Pre",
    ".pair",
    ".pair.A",
    ".pair.B",
    ".Values",
    ".Values.k",
    ".Values.Keys",
    ".bytes",
    ".missing",
    ".missing.x",
    ".",
    "$",
    "$.s",
    "$.a.b",
    "$.l",
    "$.nul.x",
];

const CONSTANTS: &[&str] = &[
    "0", "1", "2", "-1", "3.0", "1.5", "1e6", "'a'", "0x1f", "true", "false", "nil", "\"\"",
    "\"x\"", "\"b\"", "\"k\"", "`r`", "\"%d\"", "\"d\"", "\"é\"",
];

const VERBS: &[&str] = &[
    "v", "d", "s", "q", "x", "X", "t", "T", "c", "U", "e", "E", "f", "F", "g", "G", "b", "o", "O",
    "z", "%", "w",
];

/// What kind of argument a function takes.
#[derive(Clone, Copy)]
enum Wanted {
    Any,
    Int,
    Index,
    Float,
    Text,
    Bool,
    List,
    Map,
    Name,
    /// Of one kind with the others.
    Same,
}

pub(crate) struct Generator {
    random: Rng,
    depth: u32,
    /// The templates that may be executed here: none twice, or it has no end.
    templates: &'static [&'static str],
    /// Blocks so far: each has a name of its own.
    blocks: u32,
    /// Variables that are in scope, more or less.
    variables: Vec<&'static str>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            depth: 0,
            templates: &[],
            blocks: 0,
            variables: Vec::new(),
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.usize(..from.len())]
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.random.u32(..one_in) == 0
    }

    /// A template, and the option it is executed with.
    pub(crate) fn template(&mut self) -> (String, &'static str) {
        self.variables.clear();
        self.blocks = 0;
        let mut text = String::new();
        for (name, templates) in [("x", [].as_slice()), ("d", &["x"])] {
            self.templates = if templates.is_empty() { &["none"] } else { templates };
            if !self.chance(10) {
                self.depth += 1;
                let body = self.nodes(1);
                self.depth -= 1;
                text.push_str(&format!("{{{{define \"{name}\"}}}}{body}{{{{end}}}}"));
                self.variables.clear();
            }
        }
        self.templates = &["d", "x", "d", "x", "d", "x", "d", "none"];
        let count = self.random.u32(1..3);
        text.push_str(&self.nodes(count));
        if self.chance(8) {
            text = self.damage(&text);
        }
        let missing = self.pick(&["default", "default", "zero", "zero", "zero", "error"]);
        (text, missing)
    }

    /// Takes a character out, or puts one in.
    fn damage(&mut self, text: &str) -> String {
        let mut characters: Vec<char> = text.chars().collect();
        for _ in 0..self.random.u32(1..3) {
            if characters.is_empty() {
                break;
            }
            let at = self.random.usize(..characters.len());
            if self.random.bool() {
                characters.remove(at);
            } else {
                let c = self.pick(&[
                    '{', '}', '(', ')', '.', '$', '"', '\'', '`', '|', '-', ' ', '\n', ':', '=',
                    ',', '@', '1', 'x', 'é', '\\', '/', '*', '+', '\t',
                ]);
                characters.insert(at, c);
            }
        }
        characters.into_iter().collect()
    }

    fn nodes(&mut self, count: u32) -> String {
        let scope = self.variables.len();
        let nodes = (0..count).map(|_| self.node()).collect();
        self.variables.truncate(scope);
        nodes
    }

    fn open(&mut self) -> &'static str {
        self.pick(&["{{", "{{", "{{ ", "{{- ", "{{\n"])
    }

    fn close(&mut self) -> &'static str {
        self.pick(&["}}", "}}", " }}", " -}}", "\n}}"])
    }

    fn node(&mut self) -> String {
        self.depth += 1;
        let (open, close) = (self.open(), self.close());
        let kind = if self.depth > 4 { self.random.u32(..5) } else { self.random.u32(..14) };
        let node = match kind {
            0 => self.pick(&["a", " b ", "\n", "c\n  ", "é", "-"]).to_owned(),
            1..=4 => format!("{open}{}{close}", self.pipeline()),
            5 | 6 => {
                let word = self.pick(&["if", "with"]);
                let pipeline = self.pipeline();
                let body = self.nodes(1);
                let other = match self.random.u32(..4) {
                    0 => format!("{{{{else}}}}{}", self.nodes(1)),
                    1 => {
                        let pipeline = self.pipeline();
                        format!("{{{{else {word} {pipeline}}}}}{}", self.nodes(1))
                    }
                    _ => String::new(),
                };
                format!("{open}{word} {pipeline}{close}{body}{other}{{{{end}}}}")
            }
            7 | 8 => {
                let over = self.pick(&[Wanted::List, Wanted::Map, Wanted::Int]);
                let over = self.wanted(over);
                let declared =
                    self.pick(&["", "$i := ", "$e := ", "$i, $e := ", "$i, $e := ", "$i = "]);
                let scope = self.variables.len();
                if declared.contains(":=") {
                    self.variables
                        .extend(["$i", "$e"].iter().filter(|name| declared.contains(**name)));
                }
                let leave = self.pick(&["", "", "", "{{break}}", "{{continue}}"]);
                let body = self.nodes(1);
                self.variables.truncate(scope);
                let other = if self.chance(3) {
                    format!("{{{{else}}}}{}", self.nodes(1))
                } else {
                    String::new()
                };
                format!("{open}range {declared}{over}{close}{body}{leave}{other}{{{{end}}}}")
            }
            9 | 10 => {
                let name = self.pick(&["$x", "$y"]);
                let assigns =
                    if self.variables.contains(&name) && self.random.bool() { "=" } else { ":=" };
                let pipeline = self.pipeline();
                self.variables.push(name);
                format!("{open}{name} {assigns} {pipeline}{close}")
            }
            11 => {
                let name = self.pick(self.templates);
                let argument = if self.random.bool() { self.pipeline() } else { String::new() };
                format!("{open}template \"{name}\" {argument}{close}")
            }
            12 => self.pick(&["{{/* c */}}", "{{- /* c */}}", "{{/* c\n */ -}}"]).to_owned(),
            _ => {
                let (argument, body) = (self.pipeline(), self.nodes(1));
                self.blocks += 1;
                let name = self.blocks;
                format!("{open}block \"b{name}\" {argument}{close}{body}{{{{end}}}}")
            }
        };
        self.depth -= 1;
        node
    }

    fn pipeline(&mut self) -> String {
        let mut text = self.command(false);
        while self.chance(4) {
            text.push_str(self.pick(&[" | ", "|"]));
            text.push_str(&self.command(true));
        }
        text
    }

    fn command(&mut self, piped: bool) -> String {
        if piped || self.random.bool() { self.call(piped) } else { self.argument() }
    }

    /// A call, whose arguments mostly have the right types.
    fn call(&mut self, piped: bool) -> String {
        use Wanted::{Any, Bool, Float, Index, Int, List, Map, Name, Same, Text};
        let (name, wanted): (&str, &[Wanted]) = match self.random.u32(..31) {
            0 => ("and", &[Any, Any, Any]),
            1 => ("or", &[Any, Any]),
            2 => ("not", &[Any]),
            3 => ("len", &[List]),
            4 => ("index", &[List, Index]),
            5 => ("index", &[Map, Name]),
            6 => ("index", &[Map, Name, Name]),
            7 => ("slice", &[Text, Index, Int]),
            8 => ("slice", &[List, Index]),
            9 => ("html", &[Any]),
            10 => ("js", &[Text]),
            11 => ("urlquery", &[Any]),
            12 => ("print", &[Any, Any, Any]),
            13 => ("println", &[Any, Any]),
            14..=16 => return self.printf(),
            17 => ("eq", &[Same, Same, Same]),
            18 => ("ne", &[Same, Same]),
            19 => ("lt", &[Same, Same]),
            20 => ("le", &[Same, Same]),
            21 => (self.pick(&["gt", "ge"]), &[Same, Same]),
            22 => ("list", &[Any, Any]),
            23 => ("repeat", &[Int, Text]),
            24 => ("half", &[Float]),
            25 => ("include", &[Name, Any]),
            26 => ("keys", &[Map]),
            27 => ("count", &[List]),
            28 => (self.pick(&["one", "long", "none"]), &[]),
            29 => (".v.Has", &[Text]),
            _ => match self.random.u32(..5) {
                0 => ("flip", &[Bool]),
                1 => ("joined", &[List]),
                2 => ("small", &[Int]),
                3 => ("fail", &[Text]),
                _ => ("call", &[Any]),
            },
        };
        let same = self.pick(&[Int, Float, Text, Any]);
        let given = wanted.len().saturating_sub(usize::from(piped));
        let count = if self.chance(20) { self.random.usize(..4) } else { given };
        let mut text = name.to_owned();
        for at in 0..count {
            text.push(' ');
            let argument = match wanted.get(at) {
                Some(Name) if name == "include" => format!("\"{}\"", self.pick(self.templates)),
                Some(Same) => self.wanted(same),
                Some(wanted) => self.wanted(*wanted),
                None => self.argument(),
            };
            text.push_str(&argument);
        }
        text
    }

    fn wanted(&mut self, wanted: Wanted) -> String {
        if self.chance(12) {
            return self.argument();
        }
        let among: &[&str] = match wanted {
            Wanted::Int => &["1", "2", ".i", "3.0", "'\\x02'", "(len .s)", "(index .ints 0)"],
            Wanted::Index => &["0", "1", "(len .e)"],
            Wanted::Float => &["1.5", "2", ".f", ".big", ".a.n"],
            Wanted::Text => &[".s", ".e", "\"x\"", "`r`", ".cut", "(print .i)", ".smap.k"],
            Wanted::Bool => &["true", ".t", "(not .e)"],
            Wanted::List => {
                &[".missing.x", ".l", ".strings", ".empty", ".none", "(list 1 .s)", ".bytes"]
            }
            Wanted::Map => &[".a", ".Values", "(one)", ".smap", ".nomap", "$"],
            Wanted::Name => &["\"b\"", "\"k\"", "\"x\"", "\"none\""],
            Wanted::Any | Wanted::Same => return self.argument(),
        };
        // Within a range or with, the dot is another.
        let text = self.pick(among);
        let text = if let Some(field) = text.strip_prefix('.') {
            format!("$.{field}")
        } else {
            text.to_owned()
        };
        text.replace(" .", " $.")
    }

    fn printf(&mut self) -> String {
        let mut format = String::new();
        let count = self.random.usize(1..4);
        for _ in 0..count {
            format.push_str(self.pick(&["", "a", " ", "é"]));
            format.push('%');
            for _ in 0..self.random.usize(..3) {
                format.push_str(self.pick(&["+", "-", "#", "0", " "]));
            }
            if self.chance(3) {
                format.push_str(self.pick(&["1", "5", "12", "*", "[1]*"]));
            }
            if self.chance(3) {
                format.push_str(self.pick(&[".", ".0", ".2", ".9", ".*"]));
            }
            if self.chance(12) {
                format.push_str(self.pick(&["[1]", "[2]", "[9]", "[", "[]"]));
            }
            format.push_str(self.pick(VERBS));
        }
        let mut text = format!("printf \"{format}\"");
        let given = if self.chance(5) { self.random.usize(..5) } else { count };
        for _ in 0..given {
            text.push(' ');
            text.push_str(&self.argument());
        }
        text
    }

    fn argument(&mut self) -> String {
        self.depth += 1;
        let argument = match self.random.u32(..12) {
            0 => self.pick(FIELDS).to_owned(),
            1..=4 => match self.pick(FIELDS) {
                // Within a range or with, the dot is another.
                field if field.len() > 1 && field.starts_with('.') => format!("${field}"),
                field => field.to_owned(),
            },
            5..=7 => self.pick(CONSTANTS).to_owned(),
            8 | 9 if !self.variables.is_empty() => {
                let variables = self.variables.clone();
                let fields = self.pick(&["", "", "", ".b", ".x.y"]);
                format!("{}{fields}", self.pick(&variables))
            }
            10 | 11 if self.depth < 6 => {
                let fields = self.pick(&["", "", "", ".b", ".n", ".x.y"]);
                format!("({}){fields}", self.pipeline())
            }
            _ => self.pick(&["one", "none", "one.x", "one.n", "long", ".i"]).to_owned(),
        };
        self.depth -= 1;
        argument
    }
}
