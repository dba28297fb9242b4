//! Words, numbers and texts that functions, YAML and printing find hard.

use super::Dice;

const WORDS: [&str; 60] = [
    "",
    "a",
    "b",
    "abc",
    "hello world",
    "Hello World",
    "fooBar",
    "foo_bar-baz",
    "HTTPServer",
    "HTTP20Server2go",
    "aB1c",
    "  padded  ",
    "x\ty",
    "line\nline2",
    "line\n",
    "\nline",
    "a\r\nb",
    "naïve Café",
    "日本語 テキスト",
    "😀 emoji",
    "ß ǆ İ ı",
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "null",
    "~",
    "NaN",
    ".inf",
    "-",
    "?",
    ":",
    "a: b",
    "a #b",
    "#x",
    "- x",
    "{a: b}",
    "[1, 2]",
    "&a",
    "*a",
    "!t",
    "%d %s",
    "'q'",
    "\"dq\"",
    "back\\slash",
    "`tick`",
    "a,b,,c",
    "1,2,3",
    "a=b&c=d",
    "<tag> & \"attr\"",
    "http://user:pw@host.io:8080/p/a?q=1&r=%20#frag",
    "2020-01-02",
    "2020-01-02T03:04:05Z",
    "--- ",
    "aGVsbG8=",
    "NBSWY3DP",
    "{{ .x }}",
    "a.b.c",
];

const NUMBERS: [&str; 40] = [
    "0",
    "1",
    "2",
    "-1",
    "3",
    "7",
    "10",
    "42",
    "80",
    "100",
    "255",
    "256",
    "-128",
    "1000",
    "65535",
    "1000000",
    "123456789",
    "2147483647",
    "2147483648",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e21",
    "1e20",
    "123456789012345678901",
    "0.1",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "3.14159",
    "1e-7",
    "0.00001",
    "1e100",
    "1.7976931348623157e308",
    "-0.0",
    "1234567.5",
];

/// Texts that look like numbers.
const NUMERALS: [&str; 36] = [
    "0",
    "1",
    "-1",
    "+1",
    "007",
    "08",
    "0x1F",
    "0o17",
    "0b11",
    "1_000",
    "1e3",
    "1.0",
    "1.",
    ".5",
    "1.50",
    "1.000",
    "12.7",
    "-3.7",
    "1e21",
    "9223372036854775807",
    "9223372036854775808",
    "0x",
    "1:30",
    "190:20:30",
    "0.1.2",
    " 1",
    "1 ",
    "Inf",
    "-inf",
    "nan",
    "1h",
    "1h30m",
    "90",
    "1.5h",
    "-2m3.5s",
    "100ms",
];

const VERSIONS: [&str; 24] = [
    "1.2.3",
    "v1.2.3",
    "1.2",
    "1",
    "v1",
    "1.2.3-alpha",
    "1.2.3-alpha.1",
    "1.2.3-0",
    "1.2.3-01",
    "1.2.3+build.5",
    "1.2.3-rc.1+b",
    "0.0.1",
    "0.1.0",
    "2.0.0",
    "10.20.30",
    "v1.34.0",
    "1.34.0-gke.100",
    "1.25.0+k3s1",
    "01.2.3",
    "1.2.3.4",
    "",
    "x",
    "1.2.x",
    "99999999999999999999.1.1",
];

const CONSTRAINTS: [&str; 40] = [
    "*",
    "",
    "1.2.3",
    "=1.2.3",
    "!=1.2.3",
    "!=1.2",
    "!=1",
    ">1.2.3",
    ">1.2",
    ">1",
    ">=1.2",
    "<1.2.3",
    "<1.2",
    "<=1.2",
    "<=1",
    "=>1.2",
    "=<1.2",
    "~1.2.3",
    "~1.2",
    "~1",
    "~>1.2",
    "~0.0.0",
    "^1.2.3",
    "^0.1",
    "^0.0.3",
    "^0",
    "^1.x",
    "1.x",
    "1.2.*",
    "X",
    ">=1.2.3-0",
    ">=1.25-0 <2",
    ">=1.2, <2.0",
    "1.2 - 2.0",
    "1.2.3 || >=2",
    ">= 1.2.3",
    ">1.2.3-alpha <2.0.0-0",
    "~1.2.3-beta",
    "^1.2.3-0 || <1.0.0",
    "foo",
];

const PATTERNS: [&str; 34] = [
    "a",
    "[a-z]+",
    "^a.*b$",
    "(a)(b)?",
    "\\\\d+",
    "\\\\s",
    "[[:alpha:]]",
    "a|b|",
    "x*",
    "(?i)HELLO",
    "(?P<n>o)",
    ".",
    "\\\\bfoo\\\\b",
    "[^a-c]",
    "a{2,3}",
    "(",
    "[",
    "a**",
    "\\\\pL+",
    "\\\\p{Greek}",
    "",
    "$",
    "^",
    "(?m)^l",
    "(?s).+",
    "l+?",
    "(a+)+$",
    "\\\\Q.\\\\E",
    "\\\\x41",
    "[\\\\w.-]+@",
    "(?:ab)+",
    "\\\\z",
    "(l)(i)(n)e",
    "[,;]",
];

const REPLACEMENTS: [&str; 12] =
    ["", "x", "$0", "$1", "${1}", "${1}x", "$1x", "$2$1", "${n}", "$$", "$", "<$0>"];

const LAYOUTS: [&str; 18] = [
    "2006-01-02",
    "2006-01-02T15:04:05Z07:00",
    "Mon Jan _2 15:04:05 2006",
    "02 Jan 06 15:04 MST",
    "Monday, 02-Jan-06",
    "15:04",
    "3:04PM",
    "2006-01-02 15:04:05.000",
    "2006-01-02 15:04:05.999999999 -0700",
    "January 2, 2006",
    "002 __2",
    "06/1/2",
    "",
    "x",
    "2006-01-02T15:04:05.999",
    "pm PM",
    "Z0700 Z07:00:00 -07",
    "20060102150405",
];

const DATES: [&str; 10] = [
    "2020-01-02",
    "1999-12-31",
    "2024-02-29",
    "2023-02-29",
    "0001-01-01",
    "2020-1-2",
    "x",
    "",
    "2006-01-02 03:04:05",
    "9999-12-31",
];

const ZONES: [&str; 10] = [
    "UTC",
    "",
    "Local",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Nowhere/Land",
    "EST",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
];

const DURATIONS: [&str; 14] = [
    "1h",
    "-1.5h",
    "90m",
    "36h",
    "1h2m3s",
    "24h",
    "720h",
    "10000h",
    "100ms",
    "1",
    "x",
    "",
    "-1h",
    "2h45m30.5s",
];

const URLS: [&str; 18] = [
    "http://host",
    "https://user:pw@host.io:8080/p/a?q=1#f",
    "//host/p",
    "/p/a/",
    "mailto:a@b.c",
    "http://[::1]:80/",
    "?q",
    "#f",
    "http://h/a%20b?x=%zz",
    "http://h/%zz",
    "http://a b/",
    ":x",
    "ftp://h:x/",
    "a/b:c",
    "http://h?",
    "http://user@h/",
    "file:///etc",
    "http://höst/ü",
];

const PATHS: [&str; 14] = [
    "/a/b/c.txt",
    "a/b/../c",
    "",
    ".",
    "..",
    "/",
    "//a//b/",
    "a.tar.gz",
    "/a/b/",
    ".hidden",
    "a/.",
    "../../x",
    "a/b.c/d",
    "x.",
];

/// Pieces of texts.
const PIECES: [&str; 40] = [
    "a", "b", "Z", "0", "9", " ", "  ", "\n", "\t", "-", "_", ":", ": ", "#", " #", "'", "\"",
    "\\", "{", "}", "[", "]", ",", "&", "*", "!", "|", ">", "%", "@", "`", "é", "日", "😀",
    "\u{7f}", "\u{a0}", "\u{feff}", "\u{2028}", ".", "---",
];

impl Dice {
    /// A text of one or another sort, not quoted.
    pub(crate) fn text(&mut self) -> String {
        match self.0.u32(..20) {
            0..=8 => self.one_of(&WORDS).to_owned(),
            9 | 10 => self.one_of(&NUMERALS).to_owned(),
            11..=15 => self.pieces(6),
            16 => self.one_of(&VERSIONS).to_owned(),
            17 => self.long(),
            18 => self.one_of(&URLS).to_owned(),
            _ => self.one_of(&PATHS).to_owned(),
        }
    }

    pub(crate) fn pieces(&mut self, most: usize) -> String {
        (0..self.up_to(most)).map(|_| self.one_of(&PIECES)).collect()
    }

    /// A text about as long as a line of YAML, or longer.
    pub(crate) fn long(&mut self) -> String {
        let mut out = String::new();
        let most = 60 + self.up_to(140);
        while out.len() < most {
            let word = match self.0.u32(..12) {
                0 => self.pieces(3),
                1 => self.one_of(&WORDS).to_owned(),
                _ => "abcdefghijkl".chars().take(1 + self.up_to(11)).collect(),
            };
            out += &word;
            out += if self.percent(95) { " " } else { "  " };
        }
        if self.percent(80) { out.trim_end().to_owned() } else { out }
    }

    pub(crate) fn number(&mut self) -> String {
        match self.0.u32(..10) {
            0..=5 => self.one_of(&NUMBERS).to_owned(),
            6 | 7 => self.0.i64(-100..1000).to_string(),
            8 => format!("{:?}", self.0.f64() * 1000.0),
            _ => format!("{:?}", f64::from_bits(self.0.u64(..)).clamp(-1e300, 1e300))
                .replace("NaN", "0.25"),
        }
    }

    pub(crate) fn numeral(&mut self) -> &'static str {
        self.one_of(&NUMERALS)
    }

    pub(crate) fn version(&mut self) -> String {
        if self.percent(70) {
            return self.one_of(&VERSIONS).to_owned();
        }
        let part = |dice: &mut Self| dice.one_of(&["0", "1", "2", "3", "10", "x"]);
        let (a, b, c) = (part(self), part(self), part(self));
        let tail = self.one_of(&["", "", "-a", "-1", "-a.b", "+m", "-a+m"]);
        format!("{}{a}.{b}.{c}{tail}", self.one_of(&["", "", "v"]))
    }

    pub(crate) fn constraint(&mut self) -> String {
        if self.percent(60) {
            return self.one_of(&CONSTRAINTS).to_owned();
        }
        let mut out = String::new();
        for at in 0..=self.up_to(2) {
            if at > 0 {
                out += self.one_of(&[" ", ", ", ",", " || ", "||", " - "]);
            }
            out += self.one_of(&["", "=", "!=", ">", "<", ">=", "<=", "~", "^", "~>", "> ", "=>"]);
            out += &self.version();
        }
        out
    }

    pub(crate) fn pattern(&mut self) -> String {
        if self.percent(75) {
            return self.one_of(&PATTERNS).to_owned();
        }
        (0..=self.up_to(3)).map(|_| self.one_of(&PATTERNS)).collect()
    }

    pub(crate) fn replacement(&mut self) -> &'static str {
        self.one_of(&REPLACEMENTS)
    }

    pub(crate) fn layout(&mut self) -> &'static str {
        self.one_of(&LAYOUTS)
    }

    pub(crate) fn date(&mut self) -> &'static str {
        self.one_of(&DATES)
    }

    pub(crate) fn zone(&mut self) -> &'static str {
        self.one_of(&ZONES)
    }

    pub(crate) fn duration(&mut self) -> &'static str {
        self.one_of(&DURATIONS)
    }

    pub(crate) fn url(&mut self) -> &'static str {
        self.one_of(&URLS)
    }

    pub(crate) fn path(&mut self) -> &'static str {
        self.one_of(&PATHS)
    }

    /// A literal of a template for a text.
    pub(crate) fn literal(&mut self, text: &str) -> String {
        if !text.contains('`') && self.percent(15) {
            return format!("`{text}`");
        }
        let mut out = String::from("\"");
        for char in text.chars() {
            match char {
                '"' => out += "\\\"",
                '\\' => out += "\\\\",
                '\n' => out += "\\n",
                '\t' => out += "\\t",
                '\r' => out += "\\r",
                char if (char as u32) < 32 || (char as u32) == 127 => {
                    out += &format!("\\x{:02x}", char as u32);
                }
                char => out.push(char),
            }
        }
        out.push('"');
        out
    }
}
