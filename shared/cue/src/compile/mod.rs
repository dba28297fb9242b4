//! Syntax tree to [`Ir`]: names are resolved, declarations grouped, alternatives flattened.
//!
//! Resolution is static: an identifier becomes a number of frames to go up and a label. Names that
//! do not resolve are errors, also in code that is never evaluated; so are unused lets, aliases and
//! imports.

mod decl;
mod expr;
mod scope;

use crate::error::{Class, Error, Errors, Position};
use crate::ir::{Docs, Expr, ExprId, FileId, Ir, PackageId, Pos, Source};
use crate::label::{Label, LabelKind};
use crate::text::{is_ident, plain_name};
use cue_syntax::{File, ParseLimits, ParseMemory, Span, ast};
use ecow::EcoString;
use rustc_hash::{FxHashMap, FxHashSet};
use scope::{Name, Scopes};
use std::cell::Cell;
use std::sync::{Arc, OnceLock};

thread_local! {
    /// The memory of what was compiled last on this thread.
    static SPARE: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

/// What compiling a package needs for a while.
#[derive(Debug, Default)]
struct Memory {
    trees: ParseMemory,
    scopes: Scopes,
    symbols: Vec<Label>,
}

/// Texts of host packages by import path.
pub(crate) type HostPackages = [(EcoString, EcoString)];

/// Compiles the files of one package.
pub(crate) fn compile(files: &[(&str, &str)], host: &HostPackages) -> Result<Ir, Errors> {
    let mut c = Compiler { host, ..Compiler::new() };
    c.ir.packages.push(Vec::new());
    c.package(PackageId(0), files);
    match Errors::from_list(std::mem::take(&mut c.errors)) {
        Some(errors) => Err(errors),
        None => {
            // They come in this order but for values that several fields share.
            c.ir.docs.sort_by_key(|(value, ..)| *value);
            c.ir.memory = c.ir.size();
            Ok(c.ir)
        }
    }
}

/// What an import name stands for.
#[derive(Clone, Debug)]
enum Import {
    Std(EcoString),
    Host(PackageId),
    /// Already complained about.
    Missing,
}

/// A step of the path in the messages of static errors.
#[derive(Clone, Copy, Debug)]
enum Segment {
    Label(Label),
    /// `for[]`, `let[]`, `[]` (a pattern) and `?` (a computed label).
    Text(&'static str),
}

/// One let mentions another (or itself).
#[derive(Clone, Debug)]
struct LetUse {
    from: Label,
    to: Label,
    span: Span,
    path: Vec<Segment>,
}

#[derive(Debug)]
struct ImportEntry {
    what: Import,
    used: bool,
    span: Span,
}

struct Compiler<'a> {
    ir: Ir,
    host: &'a HostPackages,
    errors: Vec<Error>,
    /// Packages already compiled or being compiled, by path.
    loaded: FxHashMap<String, PackageId>,
    consts: FxHashMap<(EcoString, &'static str), ExprId>,
    // Per file:
    file: FileId,
    package: PackageId,
    scopes: Scopes,
    /// The labels of the file's symbols, once they were asked for.
    symbols: Vec<Label>,
    imports: FxHashMap<String, ImportEntry>,
    lets: u32,
    /// The field being compiled.
    path: Vec<Segment>,
    /// Lets being compiled, innermost last.
    open_lets: Vec<Label>,
    /// Which let needs which other to be known, and where it says so.
    let_uses: Vec<LetUse>,
    /// Expressions that stand for a predeclared range (`uint8`).
    ranges: FxHashSet<ExprId>,
    /// Comments above the outer labels of a chain `a: b: c: v`.
    chain_docs: Docs,
    /// How many scopes there are around each of the fields whose value is being compiled.
    field_scopes: Vec<u32>,
    /// The scopes, after the first up to the second, whose names the pattern being compiled may not have.
    in_pattern: Option<(u32, u32)>,
}

impl Compiler<'_> {
    fn new() -> Self {
        Compiler {
            ir: Ir::default(),
            host: &[],
            errors: Vec::new(),
            loaded: FxHashMap::default(),
            consts: FxHashMap::default(),
            file: FileId(0),
            package: PackageId(0),
            scopes: Scopes::default(),
            symbols: Vec::new(),
            imports: FxHashMap::default(),
            lets: 0,
            path: Vec::new(),
            open_lets: Vec::new(),
            let_uses: Vec::new(),
            ranges: FxHashSet::default(),
            chain_docs: Docs::new(),
            field_scopes: Vec::new(),
            in_pattern: None,
        }
    }

    /// Parses and compiles the files of a package; their top-level fields are one scope.
    fn package(&mut self, id: PackageId, files: &[(&str, &str)]) {
        let mut memory = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        let mut parsed = Vec::with_capacity(files.len());
        for (name, text) in files {
            let (file, errors) = memory.trees.parse(name, text, &ParseLimits::default());
            for e in errors {
                let class = if e.limit { Class::Limit } else { Class::Parse };
                let at = file.position(e.span.start);
                let mut error = Error::new(class, e.message);
                error.positions.push(Position {
                    file: (*name).into(),
                    line: at.line,
                    column: at.column,
                });
                self.errors.push(error);
            }
            parsed.push(file);
        }
        if self.errors.is_empty() {
            std::mem::swap(&mut self.scopes, &mut memory.scopes);
            std::mem::swap(&mut self.symbols, &mut memory.symbols);
            self.parsed_package(id, files, &parsed);
            std::mem::swap(&mut self.scopes, &mut memory.scopes);
            std::mem::swap(&mut self.symbols, &mut memory.symbols);
            if !memory.scopes.clear() {
                memory.scopes = Scopes::default();
                memory.symbols = Vec::new();
            }
        }
        for file in parsed {
            memory.trees.recycle(file);
        }
        // The thread may be ending.
        let _ = SPARE.try_with(|spare| spare.set(Some(memory)));
    }

    fn parsed_package(&mut self, id: PackageId, files: &[(&str, &str)], parsed: &[File]) {
        let saved = (self.file, self.package, std::mem::take(&mut self.imports));
        self.package = id;
        let name = if id.0 > 0 {
            files.first().map_or_else(EcoString::new, |(path, _)| (*path).into())
        } else {
            let clause = parsed.iter().find_map(|f| Some(f.ast.str(f.package.as_ref()?.symbol)));
            clause.map_or_else(EcoString::new, |name| ecow::eco_format!(":{name}"))
        };
        let at = id.0 as usize;
        if self.ir.package_names.len() <= at {
            self.ir.package_names.resize(at + 1, EcoString::new());
        }
        if let Some(slot) = self.ir.package_names.get_mut(at) {
            *slot = name;
        }
        for file in parsed {
            self.reserve(&file.ast);
        }
        let mut names = Vec::with_capacity(parsed.iter().map(|file| file.decls.len()).sum());
        for (number, file) in parsed.iter().enumerate() {
            self.symbols.clear();
            // A field with an alias binds no name in other files.
            self.field_names(file, file.decls, |_, name, entry, aliased| {
                names.push((name, entry, aliased.then_some(number)));
            });
        }
        for (number, file) in parsed.iter().enumerate() {
            if parsed.len() > 1 {
                self.symbols.clear();
            }
            self.file = FileId(u32::try_from(self.ir.sources.len()).unwrap_or(u32::MAX));
            self.ir.sources.push(Source {
                name: file.name.as_ref().into(),
                text: Arc::clone(&file.source),
                lines: OnceLock::new(),
            });
            self.imports.clear();
            self.load_imports(file);
            self.scopes.clear();
            self.scopes.several_files = parsed.len() > 1;
            let root = self.root_struct(file, number, &names);
            self.cyclic_lets();
            if let Some(files) = self.ir.packages.get_mut(id.0 as usize) {
                files.push(root);
            }
            let mut unused: Vec<_> = self
                .imports
                .iter()
                .filter(|(_, i)| !i.used)
                .map(|(name, i)| (name.clone(), i.span))
                .collect();
            unused.sort_by_key(|(_, span)| *span);
            for (name, span) in unused {
                self.error(span, format!("imported and not used: {name:?}"));
            }
        }
        (self.file, self.package, self.imports) = saved;
    }

    /// Makes room for what a tree becomes. A program lives long: it should hold no more than that.
    fn reserve(&mut self, ast: &ast::Ast) {
        let (mut structs, mut texts, mut lists, mut calls, mut parts) = (0, 0, 0, 0, 0);
        for expr in ast.all_exprs() {
            match expr {
                ast::Expr::Struct { .. } => structs += 1,
                ast::Expr::String(_) => texts += 1,
                ast::Expr::List(_) => lists += 1,
                ast::Expr::Call(..) => calls += 1,
                ast::Expr::Interpolation { .. } => parts += 1,
                _ => {}
            }
        }
        self.ir.exprs.reserve_exact(ast.expr_count());
        self.ir.pos.reserve_exact(ast.expr_count());
        self.ir.structs.reserve_exact(structs);
        self.ir.texts.reserve_exact(texts);
        self.ir.lists.reserve_exact(lists);
        self.ir.calls.reserve_exact(calls);
        self.ir.parts.reserve_exact(parts);
        self.ir.comps.reserve_exact(ast.comprehension_count());
        self.ir.names.reserve(ast.symbol_count());
    }

    fn load_imports(&mut self, file: &File) {
        for import in &file.imports {
            let path = file.ast.str(import.path);
            let bare = path.split_once(':').map_or(path, |(p, _)| p);
            let name = import.local_name(&file.ast).to_owned();
            // `path:name` names one of several packages in a folder.
            let found = self.find_package(path);
            let Some(what) = found.or_else(|| self.find_package(bare)) else {
                // A path without a dot is one of the reference's own packages; it says both.
                if !bare.split('/').next().unwrap_or_default().contains('.') {
                    self.error(import.span, format!("builtin package {path:?} undefined"));
                }
                self.error(import.span, format!("package {path:?} not found"));
                let entry = ImportEntry { what: Import::Missing, used: true, span: import.span };
                self.imports.insert(name, entry);
                continue;
            };
            let entry = ImportEntry { what, used: false, span: import.span };
            if self.imports.insert(name.clone(), entry).is_some() {
                self.error(import.span, format!("{name} redeclared as imported package name"));
            }
        }
    }

    fn find_package(&mut self, path: &str) -> Option<Import> {
        if let Some(&id) = self.loaded.get(path) {
            return Some(Import::Host(id));
        }
        let texts: Vec<_> =
            self.host.iter().filter(|(p, _)| p == path).map(|(_, text)| text.clone()).collect();
        if texts.is_empty() {
            return crate::std::package(path).map(|_| Import::Std(path.into()));
        }
        let id = PackageId(u32::try_from(self.ir.packages.len()).unwrap_or(u32::MAX));
        self.ir.packages.push(Vec::new());
        self.loaded.insert(path.to_owned(), id);
        let files: Vec<_> = texts.iter().map(|t| (path, t.as_str())).collect();
        self.package(id, &files);
        Some(Import::Host(id))
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        let mut error = Error::new(Class::Compile, message);
        if let Some(source) = self.ir.sources.get(self.file.idx()) {
            let at = source.position(span.start);
            error.positions.push(Position {
                file: source.name.clone(),
                line: at.line,
                column: at.column,
            });
        }
        error.path = self.path.iter().map(|segment| self.segment_text(*segment)).collect();
        self.errors.push(error);
    }

    fn segment_text(&self, segment: Segment) -> EcoString {
        match segment {
            Segment::Text(text) => text.into(),
            Segment::Label(label) => {
                let name = plain_name(self.ir.names.name(label.index()));
                if label.kind() != LabelKind::String || is_ident(name) {
                    name.into()
                } else {
                    cue_syntax::quote(name).into()
                }
            }
        }
    }

    /// A let that needs itself, directly or through others, has no value.
    fn cyclic_lets(&mut self) {
        let uses = std::mem::take(&mut self.let_uses);
        let mut by_let: FxHashMap<Label, Vec<&LetUse>> = FxHashMap::default();
        for u in &uses {
            by_let.entry(u.from).or_default().push(u);
        }
        // Depth first, without recursion; a use of a let that is still open closes a cycle.
        let mut open: FxHashMap<Label, bool> = FxHashMap::default();
        for start in &uses {
            if open.contains_key(&start.from) {
                continue;
            }
            open.insert(start.from, true);
            let mut stack = vec![(start.from, 0)];
            while let Some((at, next)) = stack.last_mut() {
                let Some(u) = by_let.get(at).and_then(|uses| uses.get(*next)) else {
                    open.insert(*at, false);
                    stack.pop();
                    continue;
                };
                *next += 1;
                match open.get(&u.to) {
                    Some(true) => {
                        self.path.clone_from(&u.path);
                        self.error(u.span, "cyclic references in let clause or alias");
                        self.path.clear();
                    }
                    Some(false) => {}
                    None => {
                        open.insert(u.to, true);
                        stack.push((u.to, 0));
                    }
                }
            }
        }
    }

    fn add(&mut self, expr: Expr, span: Span) -> ExprId {
        let id = ExprId(u32::try_from(self.ir.exprs.len()).unwrap_or(u32::MAX));
        self.ir.exprs.push(expr);
        self.ir.pos.push((Pos { file: self.file, start: span.start }, span.end));
        id
    }

    /// The label of a name that may carry the prefixes of definitions and hidden fields.
    fn label(&mut self, name: &str) -> Label {
        let kind = LabelKind::of(name);
        if matches!(kind, LabelKind::Hidden | LabelKind::HiddenDef) && self.package.0 > 0 {
            let scoped = format!("{name}\0{}", self.package.0);
            return Label::new(self.ir.names.intern(&scoped), kind);
        }
        Label::new(self.ir.names.intern(name), kind)
    }

    /// The interned name of a symbol of the file being compiled.
    fn name(&mut self, file: &File, symbol: ast::Symbol) -> Name {
        self.known_label(file, symbol).index()
    }

    /// As [`label`](Self::label), for a symbol of the file being compiled.
    fn symbol_label(&mut self, file: &File, symbol: ast::Symbol) -> Label {
        let label = self.known_label(file, symbol);
        if self.package.0 > 0 && label.is_hidden() {
            return self.label(file.ast.str(symbol));
        }
        label
    }

    /// The label of a symbol in the program's own package.
    fn known_label(&mut self, file: &File, symbol: ast::Symbol) -> Label {
        match self.symbols.get(symbol.index()) {
            Some(&label) if label != Label::NONE => label,
            _ => self.new_label(file, symbol),
        }
    }

    fn new_label(&mut self, file: &File, symbol: ast::Symbol) -> Label {
        if self.symbols.is_empty() {
            self.symbols.resize(file.ast.symbol_count(), Label::NONE);
        }
        let text = file.ast.str(symbol);
        let label = Label::new(self.ir.names.intern(text), LabelKind::of(text));
        if let Some(known) = self.symbols.get_mut(symbol.index()) {
            *known = label;
        }
        label
    }

    fn string_label(&mut self, file: &File, symbol: ast::Symbol) -> Label {
        Label::new(self.name(file, symbol), LabelKind::String)
    }

    /// A let has a label of its own, so that equal names in nested structs stay apart.
    fn let_label(&mut self, name: &str) -> Label {
        self.lets += 1;
        let unique = format!("{name}\0{}", self.lets);
        Label::new(self.ir.names.intern(&unique), LabelKind::Let)
    }

    /// The comment lines directly above a field. In `a: b: c: v` they are those of `c`.
    fn docs_of(&mut self, file: &File, decl: ast::DeclId, value: ast::ExprId) -> Docs {
        let mut docs = std::mem::take(&mut self.chain_docs);
        if file.has_comments(decl) {
            let above = file.comments_of(decl).filter(|comment| comment.doc);
            docs.extend(above.map(|comment| comment.span));
        }
        if docs.is_empty() {
            return docs;
        }
        if let ast::Expr::Struct { braces: false, decls } = file.ast.expr(value)
            && file.ast.decls(decls).any(|inner| match file.ast.decl(inner).kind {
                ast::DeclKind::Field(field) => {
                    !matches!(file.ast.field(field).label, ast::Label::Pattern { .. })
                }
                _ => false,
            })
        {
            self.chain_docs = docs;
            return Docs::new();
        }
        docs
    }

    fn docs(&mut self, docs: Docs, value: ExprId) {
        if docs.is_empty() {
            return;
        }
        self.ir.docs.extend(docs.into_iter().map(|span| (value, self.file, span)));
    }
}
