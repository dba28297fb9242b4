//! Commands: operands, their fields, and the terms they begin with.

use ecow::EcoString;
use smallvec::{SmallVec, smallvec};
use vela_gocompat::strconv;

use super::lex::{Item, Token};
use super::node::{Chain, Command, Expr, ExprKind, Literal, Span};
use super::{Parsed, Parser, number, span};
use crate::text::Str;

impl Parser<'_> {
    /// Operands up to a `|` or the end of the pipeline, which is left.
    pub(super) fn command(&mut self) -> Parsed<Command> {
        let at = self.peek_non_space().at as u32;
        let mut operands: SmallVec<[Expr; 4]> = SmallVec::new();
        loop {
            self.peek_non_space();
            operands.extend(self.operand()?);
            let item = self.next();
            match item.token {
                Token::Space => continue,
                Token::RightDelim | Token::RightParen => self.back(item),
                Token::Pipe => {}
                _ => return self.unexpected(&item, "operand"),
            }
            break;
        }
        let mut operands = operands.into_iter();
        match operands.next() {
            Some(first) => Ok(Command { at, first, rest: operands.collect() }),
            None => self.fail("empty command"),
        }
    }

    /// A term and fields of it.
    fn operand(&mut self) -> Parsed<Option<Expr>> {
        let Some(term) = self.term()? else {
            return Ok(None);
        };
        if self.peek() != Token::Field {
            return Ok(Some(term));
        }
        let first = self.next();
        let at = first.at as u32;
        let mut fields: SmallVec<[EcoString; 4]> = smallvec![field(&first)];
        while self.peek() == Token::Field {
            fields.push(field(&self.next()));
        }
        let kind = match term.kind {
            ExprKind::Field(known) => ExprKind::Field(known.into_iter().chain(fields).collect()),
            ExprKind::Variable(variable, _) => {
                ExprKind::Variable(variable, fields.into_boxed_slice())
            }
            ExprKind::Bool(_)
            | ExprKind::String(_)
            | ExprKind::Number(_)
            | ExprKind::Nil
            | ExprKind::Dot => {
                let term = self.source.slice(Span { at: term.at, end: at });
                return self.fail(format!("unexpected . after term {}", strconv::quote(term)));
            }
            _ => {
                let fields = fields.into_boxed_slice();
                ExprKind::Chain(Box::new(Chain { of: term, fields }))
            }
        };
        Ok(Some(Expr { at, kind }))
    }

    fn term(&mut self) -> Parsed<Option<Expr>> {
        let item = self.next_non_space();
        let kind = match item.token {
            Token::Identifier => match (self.find)(&item.text) {
                Some(callee) => ExprKind::Function { end: span(&item).end, callee },
                None => {
                    let name = strconv::quote(&item.text);
                    return self.fail(format!("function {name} not defined"));
                }
            },
            Token::Dot => ExprKind::Dot,
            Token::Nil => ExprKind::Nil,
            Token::Variable => {
                let number = self.frame.number(&item.text);
                if !self.frame.scope.contains(&number) {
                    let name = strconv::quote(&item.text);
                    return self.fail(format!("undefined variable {name}"));
                }
                ExprKind::Variable(number, Box::default())
            }
            Token::Field => ExprKind::Field(Box::new([field(&item)])),
            Token::Bool => ExprKind::Bool(item.text == "true"),
            Token::Number | Token::CharConstant | Token::Complex => {
                let number = match item.token {
                    Token::Number => number::number(&item.text),
                    Token::CharConstant => number::character(&item.text),
                    _ => Err(number::complex(&item.text)),
                };
                match number {
                    Ok(number) => ExprKind::Number(Box::new(number)),
                    Err(error) => return self.fail(error.to_string()),
                }
            }
            Token::LeftParen => {
                let pipeline = self.nest("max expression depth exceeded", |parser| {
                    parser.pipeline("parenthesized pipeline", Token::RightParen)
                })?;
                let at = pipeline.at;
                return Ok(Some(Expr { at, kind: ExprKind::Pipeline(Box::new(pipeline)) }));
            }
            Token::String | Token::RawString => {
                let text = self.unquote(&item)?;
                ExprKind::String(Box::new(Literal { text, end: span(&item).end }))
            }
            _ => {
                self.back(item);
                return Ok(None);
            }
        };
        Ok(Some(Expr { at: item.at as u32, kind }))
    }

    pub(super) fn unquote(&self, item: &Item<'_>) -> Parsed<Str> {
        match strconv::unquote(&item.text) {
            Some(text) => Ok(text.into()),
            None => self.fail("invalid syntax"),
        }
    }
}

/// The name of a field token, which begins with its dot.
fn field(item: &Item<'_>) -> EcoString {
    item.text.strip_prefix('.').unwrap_or(&item.text).into()
}
