//! Expressions.

use super::scope::Entry;
use super::{Compiler, Import};
use crate::decimal::Decimal;
use crate::ir::{
    Alternative, BuiltinId, BytesId, CallId, CallTmpl, Callee, Core, DisjId, Expr, ExprId,
    FieldDecl, Marker, NumId, Part, PartsId, SliceId, StdRef, StructId, StructTmpl, TextId,
};
use crate::kind::Kind;
use crate::std::Item;
use crate::value::Number;
use cue_syntax::ast::{self, BinaryOp, UnaryOp};
use cue_syntax::{File, Span};
use smallvec::{SmallVec, smallvec};

/// A step of a left-deep chain, compiled without recursion.
enum Link {
    Binary(BinaryOp, ast::ExprId),
    Selector(ast::Selector),
    Index(ast::ExprId),
    Slice(Option<ast::ExprId>, Option<ast::ExprId>),
    Call(ast::List<ast::ExprId>),
    Paren,
}

impl Compiler<'_> {
    /// Compiles an expression. Chains such as `a + b + c` or `a.b.c` nest to the left; they are
    /// walked in a loop, so that only real nesting (which the parser limits) recurses.
    pub(super) fn expr(&mut self, file: &File, id: ast::ExprId) -> ExprId {
        let mut chain = SmallVec::<[(Link, Span); 4]>::new();
        let mut at = id;
        loop {
            let (link, next) = match file.ast.expr(at) {
                ast::Expr::Binary(BinaryOp::Or, ..) => break,
                ast::Expr::Binary(op, a, b) => (Link::Binary(op, b), a),
                ast::Expr::Selector(x, sel) => (Link::Selector(sel), x),
                ast::Expr::Index(x, i) => (Link::Index(i), x),
                ast::Expr::Slice(x, lo, hi) => (Link::Slice(lo, hi), x),
                ast::Expr::Call(f, args) => (Link::Call(args), f),
                ast::Expr::Paren(x) => (Link::Paren, x),
                _ => break,
            };
            chain.push((link, file.ast.span(at)));
            at = next;
        }
        // The innermost operand may be a package or builtin name: only some links accept those.
        let mut head = self.head(file, at);
        while let Some((link, span)) = chain.pop() {
            head = self.link(file, head, &link, span);
        }
        match head {
            Head::Expr(e) => e,
            Head::Std(path, span) => self.std_struct(&path, span),
        }
    }

    fn link(&mut self, file: &File, head: Head, link: &Link, span: Span) -> Head {
        if let Link::Selector(sel) = link
            && !sel.quoted
        {
            self.check_pattern(file, sel.symbol, span);
        }
        if let (Link::Selector(sel), Head::Std(path, _)) = (link, &head) {
            return Head::Expr(self.std_member(path, file.ast.str(sel.symbol), span));
        }
        let x = match head {
            Head::Expr(e) => e,
            Head::Std(path, at) => self.std_struct(&path, at),
        };
        Head::Expr(match *link {
            Link::Paren => x,
            Link::Binary(op, b) => self.binary(file, op, x, b, span),
            Link::Selector(sel) => {
                let label = if sel.quoted {
                    self.string_label(file, sel.symbol)
                } else {
                    self.symbol_label(file, sel.symbol)
                };
                self.add(Expr::Sel(x, label), span)
            }
            Link::Index(i) => {
                let i = self.expr(file, i);
                self.add(Expr::Index(x, i), span)
            }
            Link::Slice(lo, hi) => {
                let lo = lo.map(|e| self.expr(file, e));
                let hi = hi.map(|e| self.expr(file, e));
                let id = SliceId(u32::try_from(self.ir.slices.len()).unwrap_or(u32::MAX));
                self.ir.slices.push((lo, hi));
                self.add(Expr::Slice(x, id), span)
            }
            Link::Call(args) => {
                let args = file.ast.exprs(args).map(|a| self.expr(file, a)).collect();
                let callee = match self.ir.expr(x) {
                    Expr::CoreFunc(core) => Callee::Core(core),
                    Expr::StdFunc(id) => Callee::Std(id),
                    _ => Callee::Expr(x),
                };
                let id = CallId(u32::try_from(self.ir.calls.len()).unwrap_or(u32::MAX));
                self.ir.calls.push(CallTmpl { callee, args });
                self.add(Expr::Call(id), span)
            }
        })
    }

    fn binary(
        &mut self,
        file: &File,
        op: BinaryOp,
        a: ExprId,
        b: ast::ExprId,
        span: Span,
    ) -> ExprId {
        let b = self.expr(file, b);
        if op != BinaryOp::And {
            self.check_operand(op, a);
            self.check_operand(op, b);
        }
        let e = match op {
            BinaryOp::And => Expr::And(a, b),
            BinaryOp::Equal | BinaryOp::NotEqual => {
                let present = op == BinaryOp::NotEqual;
                let bottom = |e| matches!(self.ir.expr(e), Expr::Bottom);
                if bottom(b) {
                    Expr::Presence(a, present)
                } else if bottom(a) {
                    Expr::Presence(b, present)
                } else {
                    Expr::Binary(op, a, b)
                }
            }
            _ => Expr::Binary(op, a, b),
        };
        self.add(e, span)
    }

    /// An operand that is a type or a bound, as written, can never be a concrete value.
    fn check_operand(&mut self, op: BinaryOp, x: ExprId) {
        let hopeless = match self.ir.expr(x) {
            Expr::Kind(_) | Expr::Bound(..) | Expr::Top => true,
            Expr::And(..) => self.ranges.contains(&x),
            _ => false,
        };
        if hopeless {
            let (pos, end) = self.ir.pos[x.idx()];
            let text = self.ir.text(x).to_owned();
            let message =
                format!("invalid operand {text} ('{}' requires concrete value)", op.text());
            self.error(Span::new(pos.start, end), message);
        }
    }

    fn head(&mut self, file: &File, id: ast::ExprId) -> Head {
        let span = file.ast.span(id);
        let expr = match file.ast.expr(id) {
            ast::Expr::Ident(symbol) => {
                self.check_pattern(file, symbol, span);
                return self.ident(file, symbol, span);
            }
            ast::Expr::Bad => Expr::Bottom,
            ast::Expr::Bottom => Expr::Bottom,
            ast::Expr::Top => Expr::Top,
            ast::Expr::Null => Expr::Null,
            ast::Expr::Bool(b) => Expr::Bool(b),
            ast::Expr::Number(symbol) => self.number(file.ast.str(symbol), span),
            ast::Expr::String(symbol) => Expr::Str(self.text(file.ast.str(symbol))),
            ast::Expr::Bytes(id) => Expr::Bytes(self.bytes(file.ast.bytes(id))),
            ast::Expr::Interpolation { parts, bytes } => {
                let parts = file
                    .ast
                    .parts(parts)
                    .iter()
                    .map(|part| match *part {
                        ast::Part::Text(s) => Part::Text(self.text(file.ast.str(s))),
                        ast::Part::Bytes(id) => Part::Bytes(self.bytes(file.ast.bytes(id))),
                        ast::Part::Expr(e) => Part::Expr(self.expr(file, e)),
                    })
                    .collect();
                let id = PartsId(u32::try_from(self.ir.parts.len()).unwrap_or(u32::MAX));
                self.ir.parts.push(parts);
                Expr::Interp(id, bytes)
            }
            ast::Expr::Struct { decls, .. } => {
                return Head::Expr(self.struct_lit(file, decls, span));
            }
            ast::Expr::List(list) => return Head::Expr(self.list(file, list, span)),
            ast::Expr::Comprehension(comp) => Expr::Comp(self.comprehension(file, comp)),
            ast::Expr::Ellipsis(_) => Expr::Top,
            ast::Expr::Unary(op, x) => return Head::Expr(self.unary(file, op, x, span)),
            ast::Expr::Binary(..) => return Head::Expr(self.disjunction(file, id, span)),
            ast::Expr::Alias(ident, value) => {
                let entry = Entry::Frame { used: false, span: ident.span, alias: true };
                self.check_clash(file, ident);
                self.push_alias(file, ident, entry);
                let value = self.expr(file, value);
                self.pop_scope();
                Expr::AliasScope(value)
            }
            // Chains never reach here.
            ast::Expr::Paren(x) => return Head::Expr(self.expr(file, x)),
            ast::Expr::Selector(..)
            | ast::Expr::Index(..)
            | ast::Expr::Slice(..)
            | ast::Expr::Call(..) => Expr::Bottom,
        };
        Head::Expr(self.add(expr, span))
    }

    /// An alias or let named `_` binds nothing.
    pub(super) fn check_alias(&mut self, file: &File, ident: ast::Ident) {
        if file.ast.str(ident.symbol) == "_" {
            self.error(ident.span, "cannot use _ as alias or let clause");
        }
    }

    /// Opens a scope with one name.
    pub(super) fn push_alias(&mut self, file: &File, ident: ast::Ident, entry: Entry) {
        self.check_alias(file, ident);
        let name = self.name(file, ident.symbol);
        self.scopes.push();
        self.scopes.declare(name, entry);
    }

    fn unary(&mut self, file: &File, op: UnaryOp, x: ast::ExprId, span: Span) -> ExprId {
        // `---1`: a chain of prefix operators is a loop, too.
        let mut ops: SmallVec<[(UnaryOp, Span); 2]> = smallvec![(op, span)];
        let mut at = x;
        while let ast::Expr::Unary(op, x) = file.ast.expr(at) {
            ops.push((op, file.ast.span(at)));
            at = x;
        }
        let mut e = self.expr(file, at);
        for (op, span) in ops.into_iter().rev() {
            let node = match op {
                UnaryOp::Minus if matches!(self.ir.expr(e), Expr::Int(_) | Expr::Num(_)) => {
                    self.negated(e)
                }
                UnaryOp::Plus | UnaryOp::Minus | UnaryOp::Not => Expr::Unary(op, e),
                UnaryOp::Default => {
                    self.error(span, "preference mark not allowed at this position");
                    Expr::Bottom
                }
                _ => Expr::Bound(op, e),
            };
            e = self.add(node, span);
        }
        e
    }

    fn negated(&mut self, e: ExprId) -> Expr {
        let n = match self.ir.expr(e) {
            Expr::Int(i) => match i.checked_neg() {
                Some(i) => return Expr::Int(i),
                None => Number::from(i),
            },
            Expr::Num(id) => self.ir.nums[id.idx()].clone(),
            other => return other,
        };
        let d = n.to_decimal().neg();
        self.num(if n.is_int() { Number::int(d) } else { Number::float(d) })
    }

    fn num(&mut self, n: Number) -> Expr {
        if n.is_int()
            && let Some(i) = n.as_i64()
        {
            return Expr::Int(i);
        }
        let id = NumId(u32::try_from(self.ir.nums.len()).unwrap_or(u32::MAX));
        self.ir.nums.push(n);
        Expr::Num(id)
    }

    fn number(&mut self, text: &str, span: Span) -> Expr {
        // Any 18 digits fit, and only digits (of a number that was read) are a number so.
        if text.len() <= 18
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(i) = text.parse()
        {
            return Expr::Int(i);
        }
        match Decimal::parse_literal(text) {
            Ok((d, true)) => self.num(Number::int(d)),
            Ok((d, false)) => self.num(Number::float(d)),
            Err(error) => {
                self.error(span, error.to_string());
                Expr::Bottom
            }
        }
    }

    fn text(&mut self, text: &str) -> TextId {
        let id = TextId(u32::try_from(self.ir.texts.len()).unwrap_or(u32::MAX));
        self.ir.texts.push(text.into());
        id
    }

    fn bytes(&mut self, bytes: &[u8]) -> BytesId {
        let id = BytesId(u32::try_from(self.ir.bytes.len()).unwrap_or(u32::MAX));
        self.ir.bytes.push(bytes.into());
        id
    }

    /// `a | b | c`: one flat list; parentheses start another disjunction.
    fn disjunction(&mut self, file: &File, id: ast::ExprId, span: Span) -> ExprId {
        let mut terms = SmallVec::<[ast::ExprId; 8]>::new();
        let mut at = id;
        while let ast::Expr::Binary(BinaryOp::Or, a, b) = file.ast.expr(at) {
            terms.push(b);
            at = a;
        }
        terms.push(at);
        let alternatives = terms
            .into_iter()
            .rev()
            .map(|term| {
                // A mark more marks nothing else.
                let mut of = term;
                while let ast::Expr::Unary(UnaryOp::Default, x) = file.ast.expr(of) {
                    of = x;
                }
                Alternative { marked: of != term, expr: self.expr(file, of) }
            })
            .collect();
        let id = DisjId(u32::try_from(self.ir.disjs.len()).unwrap_or(u32::MAX));
        self.ir.disjs.push(alternatives);
        self.add(Expr::Disj(id), span)
    }

    fn ident(&mut self, file: &File, symbol: ast::Symbol, span: Span) -> Head {
        let name = file.ast.str(symbol);
        if name == "_" {
            return Head::Expr(self.add(Expr::Top, span));
        }
        let interned = self.name(file, symbol);
        if let Some(e) = self.resolve_name(interned, span) {
            return Head::Expr(self.add(e, span));
        }
        if let Some(import) = self.imports.get_mut(name) {
            import.used = true;
            return match import.what.clone() {
                Import::Std(path) => Head::Std(path, span),
                Import::Host(id) => Head::Expr(self.add(Expr::Package(id), span)),
                Import::Missing => Head::Expr(self.add(Expr::Bottom, span)),
            };
        }
        if name == "__no_sharing" {
            // A debugging aid of the reference: any value.
            return Head::Expr(self.add(Expr::Kind(Kind::TOP), span));
        }
        let plain = name.strip_prefix("__").unwrap_or(name);
        if let Some(e) = self.predeclared(plain, span) {
            return Head::Expr(e);
        }
        let known = self.scopes.names().map(|known| self.ir.names.name(known).as_str());
        let imports = self.imports.keys().map(String::as_str);
        let mut known: Vec<&str> = known.chain(imports).filter(|known| *known != name).collect();
        known.sort_unstable();
        let hint = vela_gocompat::nearest(name, known).map(|n| format!("did you mean {n}?"));
        self.error(span, format!("reference {name:?} not found"));
        if let Some(error) = self.errors.last_mut() {
            error.hint = hint;
        }
        Head::Expr(self.add(Expr::Bottom, span))
    }

    fn predeclared(&mut self, name: &str, span: Span) -> Option<ExprId> {
        let e = match name {
            "string" => Expr::Kind(Kind::STRING),
            "bytes" => Expr::Kind(Kind::BYTES),
            "bool" => Expr::Kind(Kind::BOOL),
            "int" => Expr::Kind(Kind::INT),
            "float" => Expr::Kind(Kind::FLOAT),
            "number" => Expr::Kind(Kind::NUMBER),
            "len" => Expr::CoreFunc(Core::Len),
            "close" => Expr::CoreFunc(Core::Close),
            "and" => Expr::CoreFunc(Core::And),
            "or" => Expr::CoreFunc(Core::Or),
            "div" => Expr::CoreFunc(Core::Div),
            "mod" => Expr::CoreFunc(Core::Mod),
            "quo" => Expr::CoreFunc(Core::Quo),
            "rem" => Expr::CoreFunc(Core::Rem),
            "matchN" => Expr::CoreFunc(Core::MatchN),
            "matchIf" => Expr::CoreFunc(Core::MatchIf),
            "error" => Expr::CoreFunc(Core::Error),
            _ => return self.range_type(name, span),
        };
        Some(self.add(e, span))
    }

    fn range_type(&mut self, name: &str, span: Span) -> Option<ExprId> {
        const F32: &str = "3.40282346638528859811704183484516925440e+38";
        const F64: &str = "1.797693134862315708145274237317043567981e+308";
        let (low, high): (String, Option<String>) = match name {
            "uint" => ("0".into(), None),
            "rune" => ("0".into(), Some("1114111".into())),
            "float32" => (format!("-{F32}"), Some(F32.into())),
            "float64" => (format!("-{F64}"), Some(F64.into())),
            _ => {
                let (bits, signed) = match name {
                    "int8" => (8, true),
                    "int16" => (16, true),
                    "int32" => (32, true),
                    "int64" => (64, true),
                    "int128" => (128, true),
                    "uint8" => (8, false),
                    "uint16" => (16, false),
                    "uint32" => (32, false),
                    "uint64" => (64, false),
                    "uint128" => (128, false),
                    _ => return None,
                };
                if signed {
                    let half: num_bigint::BigInt = num_bigint::BigInt::from(1) << (bits - 1);
                    ((-half.clone()).to_string(), Some((half - 1_i32).to_string()))
                } else {
                    let full: num_bigint::BigInt = num_bigint::BigInt::from(1) << bits;
                    ("0".into(), Some((full - 1_i32).to_string()))
                }
            }
        };
        let float = name.starts_with("float");
        let bound = |c: &mut Self, op, text: &str| {
            let d = Decimal::parse(text).ok()?;
            let n = c.num(if float { Number::float(d) } else { Number::int(d) });
            let n = c.add(n, span);
            Some(c.add(Expr::Bound(op, n), span))
        };
        let mut e = bound(self, UnaryOp::GreaterEqual, &low)?;
        if let Some(high) = high {
            let high = bound(self, UnaryOp::LessEqual, &high)?;
            e = self.add(Expr::And(e, high), span);
        }
        if !float {
            let int = self.add(Expr::Kind(Kind::INT), span);
            e = self.add(Expr::And(int, e), span);
        }
        self.ranges.insert(e);
        Some(e)
    }

    fn std_member(&mut self, path: &ecow::EcoString, name: &str, span: Span) -> ExprId {
        let Some(member) = crate::std::lookup(path, name) else {
            // Looked up when evaluated, as in any other struct.
            let empty = StructId(u32::try_from(self.ir.structs.len()).unwrap_or(u32::MAX));
            self.ir.structs.push(StructTmpl { surely_struct: true, ..StructTmpl::default() });
            let empty = self.add(Expr::Struct(empty), span);
            let label = self.label(name);
            return self.add(Expr::Sel(empty, label), span);
        };
        match &member.item {
            Item::Func(builtin) => {
                let id = BuiltinId(u32::try_from(self.ir.builtins.len()).unwrap_or(u32::MAX));
                self.ir.builtins.push(StdRef { package: path.clone(), name: member.name, builtin });
                self.add(Expr::StdFunc(id), span)
            }
            Item::Cue(text) => self.std_const(path, member.name, text, span),
        }
    }

    /// A package as a value: a struct of its members, made once.
    fn std_struct(&mut self, path: &ecow::EcoString, span: Span) -> ExprId {
        if let Some(&e) = self.consts.get(&(path.clone(), "")) {
            return e;
        }
        let mut fields = Vec::new();
        for member in crate::std::package(path).unwrap_or_default() {
            let value = self.std_member(path, member.name, span);
            let label = self.label(member.name);
            fields.push(FieldDecl { label, marker: Marker::Regular, value });
        }
        let id = StructId(u32::try_from(self.ir.structs.len()).unwrap_or(u32::MAX));
        self.ir.structs.push(StructTmpl { fields, surely_struct: true, ..StructTmpl::default() });
        let e = self.add(Expr::Struct(id), span);
        self.consts.insert((path.clone(), ""), e);
        e
    }

    /// A constant of a package: its text is compiled once, outside all scopes.
    fn std_const(
        &mut self,
        path: &ecow::EcoString,
        name: &'static str,
        text: &'static str,
        span: Span,
    ) -> ExprId {
        if let Some(&e) = self.consts.get(&(path.clone(), name)) {
            return e;
        }
        let text = format!("x: {text}");
        let (file, errors) = cue_syntax::parse(path, &text, &cue_syntax::ParseLimits::default());
        let value = file.ast.decls(file.decls).next().and_then(|d| match file.ast.decl(d).kind {
            ast::DeclKind::Field(id) => Some(file.ast.field(id).value),
            _ => None,
        });
        let (Some(value), true) = (value, errors.is_empty()) else {
            self.error(span, format!("constant {name} of package {path} is not valid"));
            return self.add(Expr::Bottom, span);
        };
        let outer = (std::mem::take(&mut self.scopes), std::mem::take(&mut self.symbols));
        let e = self.expr(&file, value);
        (self.scopes, self.symbols) = outer;
        self.consts.insert((path.clone(), name), e);
        e
    }
}

/// The innermost operand of a chain.
enum Head {
    Expr(ExprId),
    /// A standard package.
    Std(ecow::EcoString, Span),
}
