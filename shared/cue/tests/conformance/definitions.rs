//! `cue def`: the source with the comments that belong to something, files of a package joined.

use cue::{Evaluation, Form, Node, Value};
use cue_syntax::ast::{Comment, DeclId, DeclKind, Expr, ExprId, File};
use cue_syntax::{Indent, ParseLimits, Span, format_short, parse};

/// The text of all files. `node` is the value of them.
pub(crate) fn print(
    sources: &[(&str, &str)],
    package: Option<&str>,
    evaluation: &mut Evaluation,
    node: Node,
) -> String {
    let mut sources = sources.to_vec();
    sources.sort_unstable();
    let files: Vec<File> =
        sources.iter().map(|(name, text)| parse(name, text, &ParseLimits::default()).0).collect();
    let mut out = preamble(&files, package);
    let imports: Vec<&str> = files
        .iter()
        .flat_map(|file| file.imports.iter().map(|import| file.text(import.span)))
        .collect();
    match imports[..] {
        [] => {}
        [one] => out.push_str(&format!("import {one}\n\n")),
        _ => out.push_str(&format!("import (\n{}\n)\n\n", imports.join("\n"))),
    }
    let body = match &files[..] {
        [file] => declarations(file).iter().map(|(_, decl)| text(file, &[*decl])).collect(),
        _ => joined(&files, evaluation, node),
    };
    out.push_str(&body.join("\n"));
    let (file, errors) = parse("definitions", &out, &ParseLimits::default());
    if errors.is_empty() { format_short(&file, Indent::Tab) } else { out }
}

/// The comments of the files, and the package clause under those of the package.
fn preamble(files: &[File], package: Option<&str>) -> String {
    let (mut docs, mut above, mut behind, mut below) = (Vec::new(), Vec::new(), None, Vec::new());
    for file in files {
        let first = file.ast.decls(file.decls).next();
        let end = first.map_or(u32::MAX, |decl| file.ast.decl(decl).span.start);
        let of_first: Vec<Comment> = first.map(|decl| docs_of(file, decl)).unwrap_or_default();
        let clause = file.package.map(|package| package.span.start);
        let head = file.comments.iter().filter(|it| it.span.start < end && !of_first.contains(it));
        for (index, comment) in head.enumerate() {
            let shown = file.text(comment.span);
            match clause {
                Some(_) if comment.line => behind = Some(shown),
                Some(clause) if comment.span.start > clause => below.push(shown),
                Some(_) if comment.doc => docs.push(shown),
                None if index == 0 => docs.push(shown),
                _ => above.push(shown),
            }
        }
    }
    let name = files
        .iter()
        .find_map(|file| file.package.map(|package| file.ast.str(package.symbol).to_owned()));
    let docs = docs.join("\n//\n");
    let mut parts = Vec::new();
    match package.map(str::to_owned).or(name) {
        Some(name) => {
            parts.extend(above.into_iter().map(str::to_owned));
            let docs = if docs.is_empty() { docs } else { docs + "\n" };
            let behind = behind.map(|comment| format!(" {comment}")).unwrap_or_default();
            parts.push(format!("{docs}package {name}{behind}"));
            parts.extend(below.into_iter().map(str::to_owned));
        }
        None => {
            parts.extend(Some(docs).filter(|docs| !docs.is_empty()));
            parts.extend(above.into_iter().map(str::to_owned));
        }
    }
    parts.iter().map(|part| format!("{part}\n\n")).collect()
}

/// The declarations of a file with the labels of those that are fields.
fn declarations(file: &File) -> Vec<(Option<String>, DeclId)> {
    let decls = file.ast.decls(file.decls).map(|id| match file.ast.decl(id).kind {
        DeclKind::Field(field) => {
            let label = file.text(file.ast.field(field).label_span);
            (Some(label.to_owned()), id)
        }
        _ => (None, id),
    });
    decls.collect()
}

/// The fields of all files in the order of their values; what several files declare is said once.
fn joined(files: &[File], evaluation: &mut Evaluation, node: Node) -> Vec<String> {
    let mut out = Vec::new();
    let all: Vec<(&File, Option<String>, DeclId)> = files
        .iter()
        .flat_map(|file| declarations(file).into_iter().map(move |(name, id)| (file, name, id)))
        .collect();
    for (file, _, id) in all.iter().filter(|(_, name, _)| name.is_none()) {
        out.push(text(file, &[*id]));
    }
    for arc in evaluation.describe(node).arcs {
        let of_label: Vec<&(&File, Option<String>, DeclId)> =
            all.iter().filter(|(_, name, _)| name.as_deref() == Some(arc.label.as_str())).collect();
        let docs: Vec<String> = of_label
            .iter()
            .flat_map(|(file, _, id)| {
                docs_of(file, *id).into_iter().map(|it| file.text(it.span).to_owned())
            })
            .collect();
        let value = evaluation.describe(arc.node).form;
        let shown = match (&of_label[..], value) {
            ([], _) => continue,
            ([(file, _, id)], _) => text(file, &[*id]),
            (
                _,
                Some(Form::Data(value @ (Value::Number(_) | Value::String(_) | Value::Bool(_)))),
            ) => {
                let above = if docs.is_empty() { "" } else { "\n" };
                let docs = docs.join("\n\n");
                format!("{above}{docs}{above}{}: {}", arc.label, value.to_json_text())
            }
            _ => of_label.iter().map(|(file, _, id)| text(file, &[*id])).collect(),
        };
        out.push(shown);
    }
    out
}

/// The comments directly above a field.
fn docs_of(file: &File, decl: DeclId) -> Vec<Comment> {
    let start = file.ast.decl(decl).span.start;
    let docs = file.comments_of(decl);
    docs.filter(|comment| comment.doc && comment.span.start < start).copied().collect()
}

/// Declarations as they are written, but for empty lines and comments that belong to nothing.
fn text(file: &File, decls: &[DeclId]) -> String {
    let kept = kept_comments(file);
    let mut out = String::new();
    for &decl in decls {
        let span = file.ast.decl(decl).span;
        for comment in docs_of(file, decl) {
            out.push_str(&format!("\n{}\n", file.text(comment.span)));
        }
        let mut changes: Vec<(Span, String)> = Vec::new();
        let inside = |other: Span| span.start <= other.start && other.end <= span.end;
        for comment in file.comments.iter().filter(|comment| inside(comment.span)) {
            let is_kept = kept.contains(&comment.span.start);
            let shown = if is_kept { file.text(comment.span) } else { "" };
            changes.push((comment.span, shown.to_owned()));
        }
        let lists = (0..file.ast.expr_count()).filter_map(|at| {
            let id = ExprId(u32::try_from(at).ok()?);
            Some((file.ast.span(id), flat_list(file, id)?))
        });
        let lists: Vec<(Span, String)> = lists.filter(|(span, _)| inside(*span)).collect();
        changes.retain(|(span, _)| {
            !lists.iter().any(|(list, _)| list.start <= span.start && span.end <= list.end)
        });
        changes.extend(lists);
        changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
        let mut written = file.text(span).to_owned();
        for (change, with) in changes {
            let (start, end) = (change.start - span.start, change.end - span.start);
            written.replace_range(start as usize..end as usize, &with);
        }
        let mut above = "{".to_owned();
        for line in written.lines().filter(|line| !line.trim().is_empty()) {
            let begins = line.trim().starts_with("//");
            if begins && !above.ends_with('{') && !above.trim().starts_with("//") {
                out.push('\n');
            }
            out.push_str(line);
            out.push('\n');
            line.clone_into(&mut above);
        }
    }
    out.trim_end().to_owned()
}

/// A list of scalars is written on one line.
fn flat_list(file: &File, list: ExprId) -> Option<String> {
    let Expr::List(elements) = file.ast.expr(list) else { return None };
    let written = file.ast.exprs(elements).map(|element| match file.ast.expr(element) {
        Expr::Number(_) | Expr::Bool(_) | Expr::Null | Expr::Ident(_) => {
            Some(file.text(file.ast.span(element)))
        }
        Expr::String(_) => Some(file.text(file.ast.span(element))).filter(|it| !it.contains('\n')),
        _ => None,
    });
    Some(format!("[{}]", written.collect::<Option<Vec<_>>>()?.join(", ")))
}

/// The starts of the comments directly above fields, and of those at the end of structs.
fn kept_comments(file: &File) -> Vec<u32> {
    let mut kept = Vec::new();
    let mut stack: Vec<DeclId> = file.ast.decls(file.decls).collect();
    for expr in file.ast.all_exprs() {
        if let Expr::Struct { decls, .. } = expr {
            stack.extend(file.ast.decls(decls));
        }
    }
    for decl in stack {
        if matches!(file.ast.decl(decl).kind, DeclKind::Field(_)) {
            kept.extend(docs_of(file, decl).iter().map(|comment| comment.span.start));
        }
    }
    let ends = file.comments.iter().filter(|comment| {
        let behind = file.source.get(comment.span.end as usize..).unwrap_or_default();
        behind.trim_start().starts_with('}') && !comment.line
    });
    kept.extend(ends.map(|comment| comment.span.start));
    kept
}
