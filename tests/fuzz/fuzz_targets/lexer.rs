//! Any text: tokens come to an end and cover the text in order; literals decode or fail.

#![no_main]

use cue_syntax::lexer::{Lexer, TokenKind};
use cue_syntax::literal::{Number, unquote};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut lexer = Lexer::new(text);
    let mut last = 0;
    // Every token but an implied comma takes a byte, and no two commas are implied in a row.
    for _ in 0..=2 * text.len() + 2 {
        let token = lexer.next_token();
        assert!(last <= token.span.start && token.span.start <= token.span.end);
        last = token.span.end;
        let span = token.span.start as usize..token.span.end as usize;
        let piece = text.get(span).expect("tokens end at character boundaries");
        match token.kind {
            TokenKind::Eof => return,
            TokenKind::String => drop(unquote(piece)),
            TokenKind::Int | TokenKind::Float => drop(Number::parse(piece)),
            _ => {}
        }
    }
    panic!("no end");
});
