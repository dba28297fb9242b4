//! A value as CUE text with its `+patchKey` and `+patchStrategy` comments, so that another engine can
//! patch with it.

use cue::{Evaluation, Kind, Node, Which};
use cue_syntax::quote_label;

/// Deeper values are printed without comments.
const DEPTH: usize = 64;

/// Prints a node. What is not concrete is left out: it cannot be patched with.
pub(crate) fn print(evaluation: &mut Evaluation, node: Node, depth: usize, out: &mut String) {
    let kind = evaluation.kind(node);
    if depth < DEPTH && kind == Kind::STRUCT {
        let fields = evaluation.fields(node, Which::default());
        if depth > 0 {
            out.push_str("{\n");
        }
        for field in fields {
            for line in evaluation.docs(field.node).iter().filter(|line| line.contains("+patch")) {
                out.push_str("// ");
                out.push_str(line.trim_start_matches('/').trim());
                out.push('\n');
            }
            out.push_str(&quote_label(&field.label));
            out.push_str(": ");
            print(evaluation, field.node, depth + 1, out);
            out.push('\n');
        }
        if depth > 0 {
            out.push('}');
        }
    } else if depth < DEPTH && kind == Kind::LIST {
        out.push('[');
        for (index, element) in evaluation.elements(node).into_iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            print(evaluation, element, depth + 1, out);
        }
        out.push(']');
    } else if let Ok(value) = evaluation.export(node) {
        crate::print::print(&value.to_json(), out);
    } else {
        out.push('_');
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn comments_of_strategies_are_kept() {
        let text = "p: {\n\t// +patchKey=name\n\tlist: [{name: \"a\", n: 1}]\n\t// other\n\t\"x-y\": {z: *1 | int}\n}\n";
        let program = cue::Program::compile("t", text, &cue::Packages::std()).unwrap();
        let mut evaluation = program.evaluate(&[], &cue::Limits::default());
        let root = evaluation.root();
        let node = evaluation.lookup(root, "p").unwrap();
        let mut out = String::new();
        super::print(&mut evaluation, node, 0, &mut out);
        assert_eq!(
            out,
            "// +patchKey=name\nlist: [{\nname: \"a\"\nn: 1\n}]\n\"x-y\": {\nz: 1\n}\n"
        );
    }
}
