//! Template text to trees: one for the text, one for each definition in it.

mod lex;
pub(crate) mod node;
mod number;
mod operand;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use ecow::EcoString;
use smallvec::SmallVec;
use vela_gocompat::strconv;

use crate::error::ParseError;
use crate::output::LONG;
use crate::stack::Stack;
use lex::{Item, Lexer, Token};
use node::{
    Branch, Callee, Command, ExprKind, Invocation, Node, Nodes, Pipeline, Source, Span, Tree,
};

/// Blocks within blocks and parentheses within parentheses: parsing and execution recurse with them.
/// Go has no bound for blocks and 10000 for parentheses; charts come to about ten.
const MOST_NESTED: usize = 250;

/// Bytes of the stack that parsing may take: a level takes more in a build for debugging.
const MOST_STACK: usize = 1 << 20;

/// Offsets have 32 bits.
const LONGEST: usize = 1 << 30;

/// Parses a text. `find` tells what the name of a function stands for.
pub(crate) fn parse(
    name: &str,
    text: &EcoString,
    find: &dyn Fn(&str) -> Option<Callee>,
) -> Result<Vec<Tree>, ParseError> {
    let source = Arc::new(Source { name: name.into(), text: text.clone() });
    let mut parser = Parser {
        lexer: Lexer::new(text, find("break").is_none(), find("continue").is_none()),
        ahead: SmallVec::new(),
        source,
        find,
        trees: Vec::new(),
        frame: Frame::default(),
        nested: 0,
        stack: Stack::here(),
    };
    if text.len() > LONGEST {
        return parser.fail("template is longer than 1 GiB");
    }
    let root = parser.top()?;
    parser.add(name.into(), root)?;
    Ok(parser.trees)
}

type Parsed<T> = Result<T, ParseError>;

/// What belongs to the tree that is parsed, not to the text.
#[derive(Default)]
struct Frame {
    /// All names, by number, and the numbers of those that are in scope.
    names: Vec<EcoString>,
    scope: Vec<u32>,
    /// The line of the token that was read last: errors name it.
    line: usize,
    /// The line on which the present action began.
    action: Option<usize>,
    ranges: usize,
    /// Bytes of long texts.
    long: usize,
}

impl Frame {
    fn new() -> Self {
        Self { names: vec!["$".into()], scope: vec![0], ..Self::default() }
    }

    fn number(&mut self, name: &str) -> u32 {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        });
        at as u32
    }
}

/// What a list of nodes ends with.
enum Closing {
    End,
    Else,
}

impl Closing {
    fn show(&self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else => "{{else}}",
        }
    }
}

enum Element {
    Node(Node),
    Closing(Closing),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    If,
    With,
    Range,
}

impl Control {
    fn name(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }
}

struct Parser<'s> {
    lexer: Lexer<'s>,
    /// Tokens that were looked at, the next one last.
    ahead: SmallVec<[Item<'s>; 3]>,
    source: Arc<Source>,
    find: &'s dyn Fn(&str) -> Option<Callee>,
    trees: Vec<Tree>,
    frame: Frame,
    nested: usize,
    stack: Stack,
}

impl<'s> Parser<'s> {
    fn fail<T>(&self, message: impl Into<Cow<'static, str>>) -> Parsed<T> {
        Err(ParseError {
            name: self.source.name.clone(),
            line: self.frame.line,
            message: message.into().into_owned(),
        })
    }

    fn unexpected<T>(&self, item: &Item<'_>, context: &str) -> Parsed<T> {
        if item.token != Token::Error {
            return self.fail(format!("unexpected {} in {context}", item.show()));
        }
        let mut message = item.show();
        if let Some(line) = self.frame.action.filter(|line| *line != item.line) {
            let within = if message.ends_with(" action") { "" } else { " in action" };
            message.push_str(&format!("{within} started at {}:{line}", self.source.name));
        }
        self.fail(message)
    }

    fn next(&mut self) -> Item<'s> {
        self.ahead.pop().unwrap_or_else(|| {
            let item = self.lexer.next();
            self.frame.line = item.line;
            item
        })
    }

    fn back(&mut self, item: Item<'s>) {
        self.ahead.push(item);
    }

    fn peek(&mut self) -> Token {
        let item = self.next();
        let token = item.token;
        self.back(item);
        token
    }

    fn next_non_space(&mut self) -> Item<'s> {
        loop {
            let item = self.next();
            if item.token != Token::Space {
                return item;
            }
        }
    }

    fn peek_non_space(&mut self) -> Item<'s> {
        let item = self.next_non_space();
        self.back(item.clone());
        item
    }

    fn expect(&mut self, token: Token, context: &str) -> Parsed<Item<'s>> {
        let item = self.next_non_space();
        if item.token == token { Ok(item) } else { self.unexpected(&item, context) }
    }

    fn nest<T>(
        &mut self,
        too_deep: &'static str,
        parse: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        if self.nested >= MOST_NESTED || !self.stack.grew_less_than(MOST_STACK) {
            return self.fail(too_deep);
        }
        self.nested += 1;
        let parsed = parse(self)?;
        self.nested -= 1;
        Ok(parsed)
    }

    /// The whole text.
    fn top(&mut self) -> Parsed<Nodes> {
        self.frame = Frame::new();
        let mut nodes = Vec::new();
        loop {
            let item = self.next();
            if item.token == Token::Eof {
                return Ok(nodes.into());
            }
            if item.token == Token::LeftDelim {
                let word = self.next_non_space();
                if word.token == Token::Define {
                    self.definition()?;
                    continue;
                }
                self.back(word);
            }
            self.back(item);
            match self.element()? {
                Element::Node(node) => nodes.push(node),
                Element::Closing(closing) => {
                    return self.fail(format!("unexpected {}", closing.show()));
                }
            }
        }
    }

    /// Parses the body of a definition and its `{{end}}` with a frame of its own.
    fn body(&mut self, name: Option<EcoString>, context: &str) -> Parsed<()> {
        let outer = std::mem::replace(&mut self.frame, Frame::new());
        let block = name.is_some();
        let name = match name {
            Some(name) => name,
            None => {
                let item = self.next_non_space();
                if !matches!(item.token, Token::String | Token::RawString) {
                    return self.unexpected(&item, context);
                }
                let name = self.unquote(&item)?;
                self.expect(Token::RightDelim, context)?;
                name.to_str_lossy().into()
            }
        };
        let (root, closing) = self.nest(BLOCKS, Self::nodes)?;
        if let Closing::Else = closing {
            if block {
                // Go names the line of the block there, and that of the `else` in a definition.
                self.frame = outer;
            }
            return self.fail(format!("unexpected {} in {context}", closing.show()));
        }
        self.add(name, root)?;
        self.frame = outer;
        Ok(())
    }

    fn definition(&mut self) -> Parsed<()> {
        self.body(None, "define clause")
    }

    /// Keeps a tree. Of two of a name one has to be empty, and the other counts.
    fn add(&mut self, name: EcoString, root: Nodes) -> Parsed<()> {
        let variables = std::mem::take(&mut self.frame.names).into();
        let (source, long) = (Arc::clone(&self.source), self.frame.long);
        let tree = Tree { name, source, variables, root, long };
        match self.trees.iter_mut().find(|known| known.name == tree.name) {
            None => self.trees.push(tree),
            Some(known) if known.is_empty() => *known = tree,
            Some(_) if tree.is_empty() => {}
            Some(_) => {
                let name = strconv::quote(&tree.name);
                return self.fail(format!("template: multiple definition of template {name}"));
            }
        }
        Ok(())
    }

    /// Nodes up to an `{{end}}` or `{{else}}`.
    fn nodes(&mut self) -> Parsed<(Nodes, Closing)> {
        let mut nodes = Vec::new();
        while self.peek_non_space().token != Token::Eof {
            match self.element()? {
                Element::Node(node) => nodes.push(node),
                Element::Closing(closing) => return Ok((nodes.into(), closing)),
            }
        }
        self.fail("unexpected EOF")
    }

    /// A text or an action.
    fn element(&mut self) -> Parsed<Element> {
        let item = self.next_non_space();
        match item.token {
            Token::Text => {
                if item.text.len() >= LONG {
                    self.frame.long += item.text.len();
                }
                Ok(Element::Node(Node::Text(span(&item))))
            }
            Token::LeftDelim => {
                self.frame.action = Some(item.line);
                let element = self.action()?;
                self.frame.action = None;
                Ok(element)
            }
            _ => self.unexpected(&item, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Element> {
        let item = self.next_non_space();
        let node = match item.token {
            Token::Block => self.invocation(true)?,
            Token::Template => self.invocation(false)?,
            Token::Break => self.leave("{{break}}", Node::Break)?,
            Token::Continue => self.leave("{{continue}}", Node::Continue)?,
            Token::If => Node::If(Box::new(self.control(Control::If)?)),
            Token::With => Node::With(Box::new(self.control(Control::With)?)),
            Token::Range => Node::Range(Box::new(self.control(Control::Range)?)),
            Token::End => {
                self.expect(Token::RightDelim, "end")?;
                return Ok(Element::Closing(Closing::End));
            }
            Token::Else => {
                // What follows `else if` is parsed like an `if` inside of the `else`.
                if !matches!(self.peek_non_space().token, Token::If | Token::With) {
                    self.expect(Token::RightDelim, "else")?;
                }
                return Ok(Element::Closing(Closing::Else));
            }
            _ => {
                self.back(item);
                Node::Action(self.pipeline("command", Token::RightDelim)?)
            }
        };
        Ok(Element::Node(node))
    }

    fn leave(&mut self, name: &'static str, node: Node) -> Parsed<Node> {
        let item = self.next_non_space();
        if item.token != Token::RightDelim {
            return self.unexpected(&item, name);
        }
        if self.frame.ranges == 0 {
            return self.fail(format!("{name} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    fn control(&mut self, control: Control) -> Parsed<Branch> {
        self.nest(BLOCKS, |parser| {
            let scope = parser.frame.scope.len();
            let branch = parser.branch(control);
            parser.frame.scope.truncate(scope);
            branch
        })
    }

    fn branch(&mut self, control: Control) -> Parsed<Branch> {
        let pipeline = self.pipeline(control.name(), Token::RightDelim)?;
        let ranges = usize::from(control == Control::Range);
        self.frame.ranges += ranges;
        let (body, closing) = self.nodes()?;
        self.frame.ranges -= ranges;
        let mut otherwise = Nodes::default();
        if let Closing::Else = closing {
            let next = self.peek();
            if control == Control::If && next == Token::If {
                self.next();
                otherwise = Box::new([Node::If(Box::new(self.control(control)?))]);
            } else if control == Control::With && next == Token::With {
                self.next();
                otherwise = Box::new([Node::With(Box::new(self.control(control)?))]);
            } else {
                let (nodes, closing) = self.nodes()?;
                if let Closing::Else = closing {
                    return self.fail(format!("expected end; found {}", closing.show()));
                }
                otherwise = nodes;
            }
        }
        Ok(Branch { pipeline, body, otherwise })
    }

    /// `template "name" pipeline`, or `block`, which also defines the template.
    fn invocation(&mut self, block: bool) -> Parsed<Node> {
        let context = if block { "block clause" } else { "template clause" };
        let item = self.next_non_space();
        if !matches!(item.token, Token::String | Token::RawString) {
            return self.unexpected(&item, context);
        }
        let name: EcoString = self.unquote(&item)?.to_str_lossy().into();
        let mut argument = None;
        if block || self.peek_non_space().token != Token::RightDelim {
            argument = Some(self.pipeline(context, Token::RightDelim)?);
        } else {
            self.next_non_space();
        }
        if block {
            self.body(Some(name.clone()), context)?;
        }
        Ok(Node::Template(Box::new(Invocation { at: item.at as u32, name, argument })))
    }

    fn pipeline(&mut self, context: &str, end: Token) -> Parsed<Pipeline> {
        let at = self.peek_non_space().at as u32;
        let (variables, assigns) = self.declarations(context)?;
        let mut commands: SmallVec<[Command; 2]> = SmallVec::new();
        loop {
            let item = self.next_non_space();
            match item.token {
                token if token == end => break,
                Token::Bool
                | Token::CharConstant
                | Token::Complex
                | Token::Dot
                | Token::Field
                | Token::Identifier
                | Token::Number
                | Token::Nil
                | Token::RawString
                | Token::String
                | Token::Variable
                | Token::LeftParen => {
                    self.back(item);
                    let command = self.command()?;
                    commands.push(command);
                }
                _ => return self.unexpected(&item, context),
            }
        }
        if commands.is_empty() {
            return self.fail(format!("missing value for {context}"));
        }
        let constant = |command: &Command| {
            matches!(
                command.first.kind,
                ExprKind::Bool(_)
                    | ExprKind::Dot
                    | ExprKind::Nil
                    | ExprKind::Number(_)
                    | ExprKind::String(_)
            )
        };
        if let Some(stage) = commands.iter().skip(1).position(constant) {
            let stage = stage + 2;
            return self.fail(format!("non executable command in pipeline stage {stage}"));
        }
        let (variables, commands) = (variables.as_slice().into(), commands.into_boxed_slice());
        Ok(Pipeline { at, variables, assigns, commands })
    }

    /// `$x :=`, `$x =`, and `$i, $x :=` of a range: the variables, and whether it is `=`.
    fn declarations(&mut self, context: &str) -> Parsed<(SmallVec<[u32; 2]>, bool)> {
        let mut variables = SmallVec::new();
        while self.peek_non_space().token == Token::Variable {
            let variable = self.next();
            let after = self.next();
            let mut next = after.clone();
            if after.token == Token::Space {
                next = self.next_non_space();
            }
            let assigns = next.token == Token::Assign;
            let comma = next.token == Token::Char && next.text == ",";
            if !assigns && !comma && next.token != Token::Declare {
                // No declaration: an argument, to be read again.
                self.back(next);
                if after.token == Token::Space {
                    self.back(after);
                }
                self.back(variable);
                break;
            }
            let number = self.frame.number(&variable.text);
            self.frame.scope.push(number);
            variables.push(number);
            if !comma {
                return Ok((variables, assigns));
            }
            if context != "range" || variables.len() >= 2 {
                return self.fail(format!("too many declarations in {context}"));
            }
            let next = self.peek_non_space().token;
            if !matches!(next, Token::Variable | Token::RightDelim | Token::RightParen) {
                return self.fail("range can only initialize variables");
            }
        }
        Ok((variables, false))
    }
}

const BLOCKS: &str = "blocks nest too deep";

fn span(item: &Item<'_>) -> Span {
    Span { at: item.at as u32, end: (item.at + item.text.len()) as u32 }
}
