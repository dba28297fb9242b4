//! Template text to a tree.

use std::collections::HashMap;

use crate::decimal::Decimal;
use crate::value::{Number, Value};

/// Nesting of blocks and parentheses beyond which a template is refused.
const MOST_NESTED: usize = 200;

#[derive(Debug)]
pub(super) struct Error {
    pub(super) line: usize,
    pub(super) message: String,
}

type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Default)]
pub(super) struct Template {
    pub(super) root: Vec<Node>,
    pub(super) defined: HashMap<String, Vec<Node>>,
}

#[derive(Debug)]
pub(super) enum Node {
    Text(String),
    Print(Pipeline),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template(String, Option<Pipeline>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct Branch {
    pub(super) pipeline: Pipeline,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct Pipeline {
    /// `$x :=` or `$i, $x :=`
    pub(super) variables: Vec<String>,
    /// `=` instead of `:=`
    pub(super) assign: bool,
    pub(super) commands: Vec<Vec<Operand>>,
}

#[derive(Debug)]
pub(super) enum Operand {
    Dot,
    Nil,
    Literal(Value),
    Variable(String),
    Function(String),
    Parens(Pipeline),
    /// An operand followed by fields: `.a.b`, `$x.a`, `(f).a`
    Fields(Box<Self>, Vec<String>),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Literal(Value),
    Variable(String),
    Word(String),
    Field(String),
    Dot,
    Open,
    Close,
    Pipe,
    Comma,
    Declare,
    Assign,
    Space,
}

/// Text or the tokens of an action.
enum Piece {
    Text(String),
    Action(usize, Vec<Token>),
}

pub(super) fn parse(source: &str) -> Result<Template> {
    let mut parser = Parser {
        pieces: pieces(source)?.into_iter().peekable(),
        template: Template::default(),
        depth: 0,
        line: 1,
    };
    let (root, end) = parser.nodes()?;
    match end {
        End::Eof => {}
        End::Close => return parser.error("unexpected {{end}}"),
        End::Else(_) => return parser.error("unexpected {{else}}"),
    }
    parser.template.root = root;
    Ok(parser.template)
}

fn error<T>(line: usize, message: impl Into<String>) -> Result<T> {
    Err(Error { line, message: message.into() })
}

/// Splits at `{{` and `}}`, applying trim marks and dropping comments.
fn pieces(source: &str) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = source;
    let mut line = 1;
    let mut trim = false;
    while let Some(at) = rest.find("{{") {
        let (text, behind) = rest.split_at_checked(at).unwrap_or((rest, ""));
        line += text.matches('\n').count();
        let mut body = behind.get(2..).unwrap_or_default();
        let left = body.starts_with('-')
            && body.get(1..).is_some_and(|b| b.starts_with([' ', '\t', '\n', '\r']));
        if left {
            body = body.get(1..).unwrap_or_default();
        }
        let text = if trim { text.trim_start() } else { text };
        let text = if left { text.trim_end() } else { text };
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        let comment = body.trim_start();
        let (tokens, behind) = if comment.starts_with("/*") {
            let Some(end) = comment.find("*/") else {
                return error(line, "unclosed comment");
            };
            (None, comment.get(end + 2..).unwrap_or_default())
        } else {
            let (tokens, behind) = tokens(body, line)?;
            (Some(tokens), behind)
        };
        line += rest
            .len()
            .checked_sub(behind.len())
            .and_then(|n| rest.get(at..n))
            .map_or(0, |a| a.matches('\n').count());
        let trimmed = behind.trim_start_matches([' ', '\t', '\n', '\r']);
        if trimmed.starts_with("-}}") && trimmed.len() < behind.len() {
            trim = true;
            rest = trimmed.get(3..).unwrap_or_default();
        } else if let Some(after) = trimmed.strip_prefix("}}") {
            trim = false;
            rest = after;
        } else {
            return error(line, "unclosed action");
        }
        if let Some(tokens) = tokens {
            pieces.push(Piece::Action(line, tokens));
        }
    }
    let text = if trim { rest.trim_start() } else { rest };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
    Ok(pieces)
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The tokens up to the end mark of an action; what is left begins with it.
fn tokens(source: &str, line: usize) -> Result<(Vec<Token>, &str)> {
    let mut tokens = Vec::new();
    let mut rest = source;
    loop {
        let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let spaced = trimmed.len() < rest.len();
        if trimmed.starts_with("}}") || (spaced && trimmed.starts_with("-}}")) {
            return Ok((tokens, rest));
        }
        if spaced && !tokens.is_empty() {
            tokens.push(Token::Space);
        }
        rest = trimmed;
        let Some(c) = rest.chars().next() else {
            return error(line, "unclosed action");
        };
        let word_len = |from: usize| {
            let text = rest.get(from..).unwrap_or_default();
            text.find(|c| !is_word(c)).unwrap_or(text.len())
        };
        let (token, len) = match c {
            '"' | '`' | '\'' => {
                let len = quoted_len(rest, c);
                let text = len.and_then(|n| rest.get(..n));
                let Some(bytes) = text.and_then(vela_gocompat::strconv::unquote) else {
                    return error(line, "unterminated quoted string");
                };
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let value = if c == '\'' {
                    Value::from(i64::from(text.chars().next().map_or(0, u32::from)))
                } else {
                    Value::from(text)
                };
                (Token::Literal(value), len.unwrap_or(1))
            }
            '$' => {
                let len = 1 + word_len(1);
                (Token::Variable(rest.get(..len).unwrap_or_default().to_owned()), len)
            }
            '.' if rest
                .get(1..)
                .is_some_and(|r| r.starts_with(|c: char| c == '_' || c.is_alphabetic())) =>
            {
                let len = 1 + word_len(1);
                (Token::Field(rest.get(1..len).unwrap_or_default().to_owned()), len)
            }
            '0'..='9' | '+' | '-' | '.' => match number(rest) {
                Some((value, len)) => (Token::Literal(value), len),
                None if c == '.' => (Token::Dot, 1),
                None => {
                    return error(
                        line,
                        format!(
                            "bad number syntax: {:?}",
                            rest.get(..word_len(1) + 1).unwrap_or_default()
                        ),
                    );
                }
            },
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '|' => (Token::Pipe, 1),
            ',' => (Token::Comma, 1),
            ':' if rest.starts_with(":=") => (Token::Declare, 2),
            '=' => (Token::Assign, 1),
            c if is_word(c) => {
                let len = word_len(0);
                (Token::Word(rest.get(..len).unwrap_or_default().to_owned()), len)
            }
            c => return error(line, format!("unexpected {c:?} in command")),
        };
        tokens.push(token);
        rest = rest.get(len..).unwrap_or_default();
    }
}

/// Length of a quoted literal with both quotes.
fn quoted_len(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn number(text: &str) -> Option<(Value, usize)> {
    let len = text
        .char_indices()
        .find(|(i, c)| {
            let sign = matches!(c, '+' | '-')
                && (*i == 0 || text.get(..*i).is_some_and(|t| t.ends_with(['e', 'E'])));
            !(is_word(*c) || *c == '.' || sign)
        })
        .map_or(text.len(), |(i, _)| i);
    let body = text.get(..len)?;
    if let Ok(n) = vela_gocompat::strconv::parse_int(body, 0, 64) {
        return Some((Value::from(n), len));
    }
    if !body.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let n = Decimal::parse(&body.replace('_', "")).ok()?;
    Some((Value::Number(Number::float(n)), len))
}

/// What ended a list of nodes.
enum End {
    Eof,
    Close,
    /// The tokens behind `else`.
    Else(Vec<Token>),
}

struct Parser {
    pieces: std::iter::Peekable<std::vec::IntoIter<Piece>>,
    template: Template,
    depth: usize,
    line: usize,
}

impl Parser {
    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        error(self.line, message)
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MOST_NESTED { self.error("template nests too deeply") } else { Ok(()) }
    }

    fn nodes(&mut self) -> Result<(Vec<Node>, End)> {
        self.enter()?;
        let mut nodes = Vec::new();
        let end = loop {
            let Some(piece) = self.pieces.next() else { break End::Eof };
            let (line, tokens) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(line, tokens) => (line, tokens),
            };
            self.line = line;
            let word = match tokens.first() {
                Some(Token::Word(word)) => word.clone(),
                _ => String::new(),
            };
            let mut rest = tokens
                .iter()
                .skip(1)
                .skip_while(|t| **t == Token::Space)
                .cloned()
                .collect::<Vec<_>>();
            match word.as_str() {
                "end" if rest.is_empty() => break End::Close,
                "else" => break End::Else(rest),
                "break" if rest.is_empty() => nodes.push(Node::Break),
                "continue" if rest.is_empty() => nodes.push(Node::Continue),
                "if" => nodes.push(Node::If(self.branch("if", &rest)?)),
                "with" => nodes.push(Node::With(self.branch("with", &rest)?)),
                "range" => nodes.push(Node::Range(self.branch("range", &rest)?)),
                "define" | "block" | "template" => {
                    let name = match rest.first() {
                        Some(Token::Literal(Value::String(name))) => name.to_string(),
                        _ => return self.error(format!("missing name in {word} clause")),
                    };
                    rest.remove(0);
                    let argument = match rest.iter().all(|t| *t == Token::Space) {
                        true => None,
                        false => Some(self.pipeline(&rest)?),
                    };
                    if word == "template" {
                        nodes.push(Node::Template(name, argument));
                        continue;
                    }
                    let (body, end) = self.nodes()?;
                    if !matches!(end, End::Close) {
                        return self.error(format!("unexpected EOF in {word} clause"));
                    }
                    self.template.defined.insert(name.clone(), body);
                    if word == "block" {
                        nodes.push(Node::Template(name, argument));
                    }
                }
                _ => nodes.push(Node::Print(self.pipeline(&tokens)?)),
            }
        };
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn branch(&mut self, word: &str, tokens: &[Token]) -> Result<Branch> {
        let pipeline = self.pipeline(tokens)?;
        let (body, end) = self.nodes()?;
        let otherwise = match end {
            End::Close => Vec::new(),
            End::Eof => return self.error("unexpected EOF"),
            End::Else(tokens) if tokens.is_empty() => {
                let (nodes, end) = self.nodes()?;
                if !matches!(end, End::Close) {
                    return self.error("expected end; found {{else}}");
                }
                nodes
            }
            // `else if` and `else with` share the end of the whole chain.
            End::Else(tokens) => match tokens.first() {
                Some(Token::Word(next)) if next == word && word != "range" => {
                    let rest: Vec<_> = tokens
                        .iter()
                        .skip(1)
                        .skip_while(|t| **t == Token::Space)
                        .cloned()
                        .collect();
                    self.enter()?;
                    let inner = self.branch(word, &rest)?;
                    self.depth -= 1;
                    vec![if word == "if" { Node::If(inner) } else { Node::With(inner) }]
                }
                _ => return self.error("unexpected token in {{else}}"),
            },
        };
        Ok(Branch { pipeline, body, otherwise })
    }

    fn pipeline(&mut self, tokens: &[Token]) -> Result<Pipeline> {
        let spaceless: Vec<&Token> = tokens.iter().filter(|t| **t != Token::Space).collect();
        let (variables, assign, skip): (_, _, usize) = match spaceless.as_slice() {
            [Token::Variable(x), op @ (Token::Declare | Token::Assign), ..] => {
                (vec![x.clone()], **op == Token::Assign, 2)
            }
            [
                Token::Variable(x),
                Token::Comma,
                Token::Variable(y),
                op @ (Token::Declare | Token::Assign),
                ..,
            ] => (vec![x.clone(), y.clone()], **op == Token::Assign, 4),
            _ => (Vec::new(), false, 0),
        };
        // Skip as many tokens that are no spaces.
        let mut left = skip;
        let start = tokens.iter().position(|t| {
            let found = left == 0;
            if *t != Token::Space {
                left = left.saturating_sub(1);
            }
            found
        });
        let mut cursor =
            Cursor { tokens: tokens.get(start.unwrap_or(tokens.len())..).unwrap_or_default() };
        let commands = self.commands(&mut cursor)?;
        if !cursor.tokens.is_empty() {
            return self.error("unexpected right paren");
        }
        Ok(Pipeline { variables, assign, commands })
    }

    fn commands(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<Vec<Operand>>> {
        self.enter()?;
        let mut commands = Vec::new();
        let mut command = Vec::new();
        loop {
            cursor.space();
            match cursor.peek() {
                None | Some(Token::Close) => break,
                Some(Token::Pipe) => {
                    cursor.advance();
                    if command.is_empty() {
                        return self.error("missing value for command");
                    }
                    commands.push(std::mem::take(&mut command));
                }
                Some(_) => command.push(self.operand(cursor)?),
            }
        }
        if command.is_empty() {
            return self.error("missing value for command");
        }
        commands.push(command);
        self.depth -= 1;
        Ok(commands)
    }

    fn operand(&mut self, cursor: &mut Cursor<'_>) -> Result<Operand> {
        let Some(token) = cursor.advance() else {
            return self.error("missing value for command");
        };
        let mut fields = Vec::new();
        let base = match token {
            Token::Dot => Operand::Dot,
            Token::Field(name) => {
                fields.push(name.clone());
                Operand::Dot
            }
            Token::Literal(value) => Operand::Literal(value.clone()),
            Token::Variable(name) => Operand::Variable(name.clone()),
            Token::Word(word) => match word.as_str() {
                "true" => Operand::Literal(Value::Bool(true)),
                "false" => Operand::Literal(Value::Bool(false)),
                "nil" => Operand::Nil,
                _ if super::exec::is_function(word) => Operand::Function(word.clone()),
                _ => return self.error(format!("function {word:?} not defined")),
            },
            Token::Open => {
                let commands = self.commands(cursor)?;
                if cursor.advance() != Some(&Token::Close) {
                    return self.error("unclosed left paren");
                }
                Operand::Parens(Pipeline { variables: Vec::new(), assign: false, commands })
            }
            other => return self.error(format!("unexpected {other:?} in operand")),
        };
        while let Some(Token::Field(name)) = cursor.peek() {
            fields.push(name.clone());
            cursor.advance();
        }
        Ok(if fields.is_empty() { base } else { Operand::Fields(Box::new(base), fields) })
    }
}

struct Cursor<'a> {
    tokens: &'a [Token],
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.first()
    }

    fn advance(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn space(&mut self) {
        while self.peek() == Some(&Token::Space) {
            self.advance();
        }
    }
}
