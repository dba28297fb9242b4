//! What stands before the declarations: attributes, the package clause, imports.

use super::{Parse, Parser};
use crate::ast::{DeclKind, Expr, File, Import};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn preamble(&mut self, file: &mut File) -> Parse<()> {
        self.advance()?;
        self.file_attributes()?;
        if self.at_word("package") {
            self.attached = self.token.comments;
            self.advance()?;
            let name = self.ident()?;
            let text = self.ast.str(name.symbol);
            if is_definition(text) {
                let message = format!("invalid package name {text}");
                self.report(message, name.span);
            }
            file.package = Some(name);
            self.skip_decl_comma()?;
        }
        self.file_attributes()?;
        while self.at_word("import") {
            self.attached = self.token.comments;
            self.advance()?;
            if self.at(TokenKind::LeftParen) {
                self.advance()?;
                while !self.at(TokenKind::RightParen) && !self.at(TokenKind::Eof) {
                    let import = self.import()?;
                    file.imports.push(import);
                }
                self.expect(TokenKind::RightParen)?;
                self.skip_decl_comma()?;
            } else {
                let import = self.import()?;
                file.imports.push(import);
            }
            self.file_attributes()?;
        }
        Ok(())
    }

    /// The comma of a package or import clause; a comment behind it belongs to the clause.
    fn skip_decl_comma(&mut self) -> Parse<()> {
        let before = self.token.comments;
        if !self.at_comma() && !self.at(TokenKind::Eof) && !self.at(TokenKind::RightParen) {
            return self.expected("','");
        }
        if self.at_comma() {
            self.advance()?;
        }
        let behind = self.lexer.comments().get(before as usize).is_some_and(|comment| comment.line);
        self.attached = before + u32::from(behind);
        Ok(())
    }

    fn file_attributes(&mut self) -> Parse<()> {
        while self.at(TokenKind::Attribute) {
            self.begin_decl();
            let symbol = self.ast.add_str(self.token_text());
            let span = self.token.span;
            self.advance()?;
            self.end_decl(DeclKind::Attribute(symbol), span, 0)?;
        }
        Ok(())
    }

    fn import(&mut self) -> Parse<Import> {
        let start = self.token.span.start;
        let mut name = None;
        if self.at(TokenKind::Ident) {
            let ident = self.ident()?;
            if is_definition(self.ast.str(ident.symbol)) {
                self.report("cannot import package as definition identifier", ident.span);
            }
            name = Some(ident);
        }
        if !self.at(TokenKind::String) {
            return self.expected("'STRING'");
        }
        let span = self.token.span;
        let path = match self.string()? {
            Expr::String(symbol) if is_import_path(self.ast.str(symbol)) => symbol,
            _ => {
                let message = format!("invalid import path: {}", self.token_text());
                return self.fail(message, span);
            }
        };
        self.advance()?;
        let span = self.span_from(start);
        self.skip_decl_comma()?;
        Ok(Import { name, path, span })
    }
}

fn is_definition(name: &str) -> bool {
    name.starts_with('#') || name.starts_with("_#")
}

fn is_import_path(path: &str) -> bool {
    const ILLEGAL: &str = "!\"#$%&'()*,:;<=>?[]^{|}`\u{fffd}";
    let bare = path.rsplit_once(':').map_or(path, |(bare, _)| bare);
    !bare.is_empty() && !bare.contains(|c: char| c.is_control() || c == ' ' || ILLEGAL.contains(c))
}
