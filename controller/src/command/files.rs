//! Objects in files: YAML and JSON documents, definitions in CUE; a folder stands for all such files in it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A larger file is not what is meant.
const MAX_BYTES: u64 = 16 << 20;
/// Files of one folder.
const MAX_FILES: usize = 10_000;

/// What cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{path}: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{0}: larger than 16 MiB")]
    TooLarge(PathBuf),
    #[error("{0}: more than 10000 files")]
    TooMany(PathBuf),
    #[error("{path}: {error}")]
    Yaml { path: PathBuf, error: String },
    #[error("{0}")]
    Cue(#[from] vela_render::file::FileError),
}

/// All objects of files and folders, in the order of their names; `-` is the standard input.
///
/// # Errors
/// The first file that cannot be read.
pub(crate) fn objects(paths: &[PathBuf]) -> Result<Vec<Value>, FileError> {
    let mut all = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            documents(path, &text(path, std::io::stdin().lock())?, &mut all)?;
        } else if path.is_dir() {
            let mut files = Vec::new();
            folder(path, &mut files)?;
            files.sort();
            for file in files {
                read(&file, &mut all)?;
            }
        } else {
            read(path, &mut all)?;
        }
    }
    Ok(all)
}

fn folder(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), FileError> {
    let failed = |error| FileError::Read { path: path.to_owned(), error };
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Links are not followed: they may lead back.
        let kind = entry.file_type().map_err(failed)?;
        let below = entry.path();
        if kind.is_dir() {
            folder(&below, files)?;
        } else if extension(&below).is_some() {
            files.push(below);
        }
        if files.len() > MAX_FILES {
            return Err(FileError::TooMany(path.to_owned()));
        }
    }
    Ok(())
}

fn extension(path: &Path) -> Option<&str> {
    let extension = path.extension()?.to_str()?;
    ["yaml", "yml", "json", "cue"].contains(&extension).then_some(extension)
}

fn read(path: &Path, all: &mut Vec<Value>) -> Result<(), FileError> {
    let file = std::fs::File::open(path);
    let file = file.map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    let text = text(path, file)?;
    if extension(path) == Some("cue") {
        all.push(vela_render::file::load(&path.display().to_string(), &text)?);
        return Ok(());
    }
    documents(path, &text, all)
}

fn text(path: &Path, from: impl std::io::Read) -> Result<String, FileError> {
    let mut text = String::new();
    let read = from.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    if text.len() as u64 > MAX_BYTES {
        return Err(FileError::TooLarge(path.to_owned()));
    }
    Ok(text)
}

fn documents(path: &Path, text: &str, all: &mut Vec<Value>) -> Result<(), FileError> {
    let wrong = |error: &dyn std::fmt::Display| FileError::Yaml {
        path: path.to_owned(),
        error: error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| wrong(&error))?;
    for document in documents {
        match document {
            Value::Null => {}
            Value::Object(ref map) if map.get("kind").is_some_and(|kind| kind == "List") => {
                let items = map.get("items").and_then(Value::as_array);
                all.extend(items.into_iter().flatten().cloned());
            }
            Value::Object(_) => all.push(document),
            _ => return Err(wrong(&"a document is no object")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_in_order_and_bad_files_named() {
        let folder = std::env::temp_dir().join(format!("vela-files-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("b")).unwrap();
        std::fs::write(
            folder.join("a.yaml"),
            "kind: A\n---\n---\nkind: List\nitems: [{kind: B}]\n",
        )
        .unwrap();
        std::fs::write(folder.join("b/c.json"), r#"{"kind": "C"}"#).unwrap();
        std::fs::write(folder.join("b/notes.txt"), "x").unwrap();
        let kinds = |objects: Vec<Value>| {
            objects.iter().map(|o| o["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(objects(std::slice::from_ref(&folder)).unwrap()), ["A", "B", "C"]);
        std::fs::write(folder.join("d.yaml"), "[1]").unwrap();
        let error = objects(std::slice::from_ref(&folder)).unwrap_err().to_string();
        assert!(error.contains("d.yaml: a document is no object"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
