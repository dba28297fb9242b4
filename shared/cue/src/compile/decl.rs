//! Declarations: structs, fields, comprehensions, lists.

use super::scope::{Entry, Name};
use super::{Compiler, Segment};
use crate::ir::{
    Clause, CompId, CompTmpl, DynamicDecl, Expr, ExprId, FieldDecl, ListId, ListTmpl, Marker,
    PatternDecl, StructId, StructTmpl,
};
use cue_syntax::ast::{self, DeclId, DeclKind, List};
use cue_syntax::{File, Span};

impl Compiler<'_> {
    /// The fields that bind names (identifier labels) of some declarations, and whether each has an alias.
    pub(super) fn field_names(
        &mut self,
        file: &File,
        decls: List<DeclId>,
        mut enter: impl FnMut(&mut Self, Name, Entry, bool),
    ) {
        for decl in file.ast.decls(decls) {
            if let DeclKind::Field(id) = file.ast.decl(decl).kind
                && let ast::Label::Ident(symbol) = file.ast.field(id).label
                && file.ast.str(symbol) != "_"
            {
                let name = self.name(file, symbol);
                let label = self.symbol_label(file, symbol);
                enter(self, name, Entry::Field(label), file.ast.field(id).alias.is_some());
            }
        }
    }

    /// Enters the lets and field aliases.
    fn declare_lets(&mut self, file: &File, decls: List<DeclId>) {
        for decl in file.ast.decls(decls) {
            let (ident, entry) = match file.ast.decl(decl).kind {
                DeclKind::Let(ident, _) | DeclKind::Alias(ident, _) => {
                    self.check_alias(file, ident);
                    let label = self.let_label(file.ast.str(ident.symbol));
                    (ident, Entry::Let { label, used: false, span: ident.span })
                }
                DeclKind::Field(id) => {
                    let field = file.ast.field(id);
                    if let ast::Label::Pattern { alias: Some(alias), .. } = field.label {
                        // The name of the label, which the value sees; no field may have it.
                        self.check_clash(file, alias);
                    }
                    let Some(ident) = field.alias else { continue };
                    let label = match field.label {
                        ast::Label::Interpolation(_) | ast::Label::Dynamic(_) => {
                            let label = self.let_label(file.ast.str(ident.symbol));
                            let entry = Entry::Let { label, used: false, span: ident.span };
                            let name = self.name(file, ident.symbol);
                            self.scopes.declare(name, entry);
                            continue;
                        }
                        ast::Label::Ident(s) => self.symbol_label(file, s),
                        ast::Label::String(s) => self.string_label(file, s),
                        ast::Label::Pattern { .. } => continue,
                    };
                    self.check_alias(file, ident);
                    (ident, Entry::FieldAlias { label, used: false, span: ident.span })
                }
                _ => continue,
            };
            let (text, span) = (file.ast.str(ident.symbol), ident.span);
            if text == "_" {
                continue;
            }
            let name = self.name(file, ident.symbol);
            self.check_clash(file, ident);
            if !matches!(self.scopes.here(name), None | Some(Entry::Field(_))) {
                self.error(span, format!("alias {text:?} redeclared in this scope"));
            }
            self.scopes.declare(name, entry);
        }
    }

    /// An alias or let may not have the name of a field around it.
    pub(super) fn check_clash(&mut self, file: &File, ident: ast::Ident) {
        let name = self.name(file, ident.symbol);
        if self.scopes.clashes(name) {
            let text = file.ast.str(ident.symbol);
            let why = "cannot have both alias and field with name";
            self.error(ident.span, format!("{why} {text:?} in same scope"));
        }
    }

    /// A file's declarations, in the scope of its package, whose fields are `names`; some of them are
    /// known in the file of a number only.
    pub(super) fn root_struct(
        &mut self,
        file: &File,
        number: usize,
        names: &[(Name, Entry, Option<usize>)],
    ) -> ExprId {
        self.scopes.push();
        for &(name, entry, only) in names {
            if only.is_none_or(|only| only == number) {
                self.scopes.declare(name, entry);
            }
        }
        self.struct_body(file, file.decls, Span::new(0, 0))
    }

    pub(super) fn struct_lit(&mut self, file: &File, decls: List<DeclId>, span: Span) -> ExprId {
        self.scopes.push();
        self.field_names(file, decls, |c, name, entry, _| c.scopes.declare(name, entry));
        self.struct_body(file, decls, span)
    }

    /// The struct whose scope is open and knows its fields.
    fn struct_body(&mut self, file: &File, decls: List<DeclId>, span: Span) -> ExprId {
        self.declare_lets(file, decls);
        let is_field = |id: &DeclId| matches!(file.ast.decl(*id).kind, DeclKind::Field(_));
        let fields = Vec::with_capacity(file.ast.decls(decls).filter(is_field).count());
        let mut tmpl = StructTmpl { fields, ..StructTmpl::default() };
        for id in file.ast.decls(decls) {
            let decl = file.ast.decl(id);
            match decl.kind {
                DeclKind::Field(field) => self.field(file, id, field, &mut tmpl),
                DeclKind::Embed(e) => {
                    let e = self.expr(file, e);
                    tmpl.more().embeds.push(e);
                }
                DeclKind::Comprehension(comp) => {
                    let comp = self.comprehension(file, comp);
                    self.leave_kind_open(comp);
                    tmpl.more().comps.push(comp);
                }
                DeclKind::Ellipsis(of) => {
                    if let Some(of) = of {
                        self.expr(file, of);
                    }
                    tmpl.open = true;
                }
                DeclKind::Let(ident, e) | DeclKind::Alias(ident, e) => {
                    let name = self.name(file, ident.symbol);
                    let Some(Entry::Let { label, .. }) = self.scopes.here(name) else {
                        continue;
                    };
                    self.uses_let(label, ident.span);
                    self.open_lets.push(label);
                    self.path.push(Segment::Text("let[]"));
                    let value = self.expr(file, e);
                    self.path.pop();
                    self.open_lets.pop();
                    self.ir.lets.insert(label, value);
                }
                DeclKind::Attribute(_) | DeclKind::Bad => {}
            }
        }
        self.pop_scope();
        // Next to embeddings and comprehensions only fields decide; patterns apply to whatever the
        // embedding is, and an optional field says only what the field would be.
        let there = |f: &FieldDecl| f.label.is_string() && f.marker != Marker::Optional;
        tmpl.surely_struct = (tmpl.embeds().is_empty() && tmpl.comps().is_empty())
            || tmpl.dynamics().iter().any(|f| f.marker != Marker::Optional)
            || tmpl.fields.iter().any(there);
        let id = StructId(u32::try_from(self.ir.structs.len()).unwrap_or(u32::MAX));
        self.ir.structs.push(tmpl);
        self.add(Expr::Struct(id), span)
    }

    fn field(&mut self, file: &File, decl: DeclId, id: ast::FieldId, tmpl: &mut StructTmpl) {
        let field = file.ast.field(id);
        let docs = self.docs_of(file, decl, field.value);
        let marker = match field.marker {
            ast::Marker::Regular => Marker::Regular,
            ast::Marker::Optional => Marker::Optional,
            ast::Marker::Required => Marker::Required,
        };
        let label = match field.label {
            ast::Label::Ident(s) => {
                if file.ast.str(s) == "_" {
                    self.error(field.label_span, "cannot use _ as label");
                }
                self.symbol_label(file, s)
            }
            ast::Label::String(s) => self.string_label(file, s),
            ast::Label::Interpolation(e) | ast::Label::Dynamic(e) => {
                let label = self.expr(file, e);
                if let Some(ident) = field.alias
                    && let name = self.name(file, ident.symbol)
                    && let Some(Entry::Let { label: alias, .. }) = self.scopes.here(name)
                {
                    // The alias is the field of this struct that the label expression names.
                    let this = self.add(Expr::Frame { up: 0 }, ident.span);
                    let value = self.add(Expr::Index(this, label), ident.span);
                    self.ir.lets.insert(alias, value);
                }
                let value = self.field_value(file, field.value, Segment::Text("?"));
                self.docs(docs, value);
                tmpl.more().dynamics.push(DynamicDecl { label, marker, value });
                return;
            }
            ast::Label::Pattern { alias, pattern } => {
                let pattern = self.pattern(file, pattern);
                let framed = alias.is_some() || field.alias.is_some();
                if framed {
                    self.scopes.push();
                }
                if let Some(ident) = alias {
                    let name = self.name(file, ident.symbol);
                    self.scopes.declare(name, Entry::Key);
                }
                if let Some(ident) = field.alias {
                    let entry = Entry::Frame { used: false, span: ident.span, alias: true };
                    let name = self.name(file, ident.symbol);
                    self.scopes.declare(name, entry);
                }
                let value = self.field_value(file, field.value, Segment::Text("[]"));
                if framed {
                    self.pop_scope();
                }
                self.docs(docs, value);
                tmpl.more().patterns.push(PatternDecl { pattern, value, framed });
                return;
            }
        };
        let value = self.field_value(file, field.value, Segment::Label(label));
        self.docs(docs, value);
        tmpl.fields.push(FieldDecl { label, marker, value });
    }

    /// The expression that labels are matched with. It may not ask for what the pattern might constrain: for
    /// what is named next to it, up to the field that all of that is the value of.
    fn pattern(&mut self, file: &File, pattern: ast::ExprId) -> ExprId {
        let low = self.field_scopes.last().copied().unwrap_or(0);
        let outer = self.in_pattern.replace((low, self.scopes.depth()));
        let pattern = self.expr(file, pattern);
        self.in_pattern = outer;
        pattern
    }

    /// Complains about a name in a pattern that is one of those next to it.
    pub(super) fn check_pattern(&mut self, file: &File, symbol: ast::Symbol, span: Span) {
        let Some(scopes) = self.in_pattern else { return };
        let name = self.name(file, symbol);
        let text = file.ast.str(symbol);
        let of_file = scopes.0 == 0 && self.imports.contains_key(text);
        if of_file || self.scopes.binds(name, scopes) {
            let message = format!(
                "reference {text:?} in label expression refers to field against which it would be matched"
            );
            self.error(span, message);
        }
    }

    fn field_value(&mut self, file: &File, value: ast::ExprId, segment: Segment) -> ExprId {
        self.path.push(segment);
        self.field_scopes.push(self.scopes.depth());
        let outer = self.in_pattern.take();
        let value = self.expr(file, value);
        self.in_pattern = outer;
        self.field_scopes.pop();
        self.path.pop();
        value
    }

    /// A comprehension that adds nothing but definitions, hidden and optional fields to a literal leaves open whether
    /// that is a struct: these may stand beside any value, as in `{1, if x {#A: 2}}`.
    fn leave_kind_open(&mut self, comp: CompId) {
        let body = self.ir.comps.get(comp.idx()).map(|comp| self.ir.expr(comp.body_expr));
        let Some(Expr::Struct(id)) = body else { return };
        let Some(tmpl) = self.ir.structs.get_mut(id.idx()) else { return };
        let no_value = |f: &FieldDecl| {
            f.label.is_def()
                || f.label.is_hidden()
                || f.marker == Marker::Optional && !f.label.is_let()
        };
        if tmpl.more.is_none()
            && !tmpl.open
            && tmpl.fields.iter().any(no_value)
            && tmpl.fields.iter().all(|f| no_value(f) || f.label.is_let())
        {
            tmpl.surely_struct = false;
        }
    }

    pub(super) fn comprehension(&mut self, file: &File, id: ast::ComprehensionId) -> CompId {
        let comp = file.ast.comprehension(id);
        let mut clauses = Vec::with_capacity(comp.clauses.len());
        let mut frames = 0;
        for clause in file.ast.clauses(comp.clauses) {
            match *clause {
                ast::Clause::For { key, value, source } => {
                    let source = self.expr(file, source);
                    self.scopes.push();
                    let entry = Entry::Frame { used: false, span: value.span, alias: false };
                    let keyed = key.is_some_and(|ident| file.ast.str(ident.symbol) != "_");
                    let key = key.map(|ident| (ident, Entry::Key));
                    for (ident, entry) in key.into_iter().chain([(value, entry)]) {
                        if file.ast.str(ident.symbol) != "_" {
                            let name = self.name(file, ident.symbol);
                            self.scopes.declare(name, entry);
                        }
                    }
                    self.path.push(Segment::Text("for[]"));
                    frames += 1;
                    clauses.push(Clause::For { source, keyed });
                }
                ast::Clause::If(e) => {
                    let e = self.expr(file, e);
                    clauses.push(Clause::If(e));
                }
                ast::Clause::Let(ident, e) => {
                    let e = self.expr(file, e);
                    // Unlike a `let` of a struct it need not be used.
                    let entry = Entry::Frame { used: false, span: ident.span, alias: false };
                    self.push_alias(file, ident, entry);
                    self.path.push(Segment::Text("let[]"));
                    frames += 1;
                    clauses.push(Clause::Let(e));
                }
            }
        }
        let body_expr = self.expr(file, comp.body);
        for _ in 0..frames {
            self.pop_scope();
            self.path.pop();
        }
        let body = match self.ir.expr(body_expr) {
            Expr::Struct(id) => id,
            _ => StructId(u32::MAX),
        };
        let (mut labels, mut open) = (Vec::new(), true);
        if let Some(tmpl) = self.ir.structs.get(body.idx()) {
            open = !tmpl.dynamics().is_empty()
                || tmpl.embeds().iter().any(|&embed| self.ir.may_bring_fields(embed))
                || !tmpl.patterns().is_empty();
            labels.extend(tmpl.fields.iter().map(|f| f.label).filter(|l| !l.is_let()));
            for nested in tmpl.comps() {
                if let Some(nested) = self.ir.comps.get(nested.idx()) {
                    labels.extend(nested.labels.iter().copied());
                    open |= nested.open;
                }
            }
        }
        labels.sort_unstable();
        labels.dedup();
        let id = CompId(u32::try_from(self.ir.comps.len()).unwrap_or(u32::MAX));
        self.ir.conditional |= !labels.is_empty();
        self.ir.conditional_defs |= labels.iter().any(|label| label.is_def());
        self.ir.comps.push(CompTmpl { clauses, body_expr, labels, open });
        id
    }

    pub(super) fn list(&mut self, file: &File, list: List<ast::ExprId>, span: Span) -> ExprId {
        let elems = Vec::with_capacity(list.len());
        let mut tmpl = ListTmpl { elems, ellipsis: None, has_comp: false };
        for id in file.ast.exprs(list) {
            match file.ast.expr(id) {
                ast::Expr::Ellipsis(of) => {
                    let of = of.map(|of| self.expr(file, of));
                    tmpl.ellipsis = Some(of);
                }
                ast::Expr::Comprehension(comp) => {
                    let comp = self.comprehension(file, comp);
                    let e = self.add(Expr::Comp(comp), file.ast.span(id));
                    tmpl.elems.push(e);
                    tmpl.has_comp = true;
                }
                _ => {
                    let e = self.expr(file, id);
                    tmpl.elems.push(e);
                }
            }
        }
        let id = ListId(u32::try_from(self.ir.lists.len()).unwrap_or(u32::MAX));
        self.ir.lists.push(tmpl);
        self.add(Expr::List(id), span)
    }
}
