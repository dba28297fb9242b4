//! The files of a directory, read under the limits of charts.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use vela_helm::{ChartError, Limits};

use super::Error;

/// Folders within folders: links may lead in a circle.
const DEEPEST: usize = 64;

/// All files below a directory, by their paths from it.
pub(super) fn of(root: &Path, limits: &Limits) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut files = Vec::new();
    let mut open: Vec<(PathBuf, String, usize)> = vec![(root.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = open.pop() {
        let failed = |error| Error::Read { path: folder.clone(), error };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let path = entry.path();
            // Links are followed, as Helm does.
            let kind =
                fs::metadata(&path).map_err(|error| Error::Read { path: path.clone(), error })?;
            if kind.is_dir() {
                if depth == DEEPEST {
                    return Err(ChartError::Depth(DEEPEST).into());
                }
                open.push((path, format!("{name}/"), depth + 1));
            } else if kind.is_file() {
                if files.len() == limits.files {
                    return Err(ChartError::Files(limits.files).into());
                }
                files.push((name, read(&path, limits.file)?));
            }
        }
    }
    Ok(files)
}

/// A file; of one that is too long one byte more than may be, for the loader to refuse.
pub(super) fn read(path: &Path, most: usize) -> Result<Vec<u8>, Error> {
    let failed = |error| Error::Read { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
