//! Our own definitions, from the files the chart's manifests are generated from.

use std::path::Path;

use vela_render::Definition;

/// All definitions of the kinds in `folders` (`component`, `policy`, `trait`, `workflow-step`).
pub(crate) fn definitions(folders: &[&str]) -> Vec<Definition> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/vela-core/definitions");
    let mut paths = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(root.join(folder)).expect("the definitions are there");
        paths.extend(entries.map(|entry| entry.expect("a folder can be read").path()));
    }
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("a definition is text");
        let object = vela_render::file::load(&path.display().to_string(), &text)
            .expect("a definition is good");
        Definition::from_object(&object).expect("a definition")
    };
    paths.iter().map(read).collect()
}
