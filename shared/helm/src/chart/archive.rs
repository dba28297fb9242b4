//! Packed charts: gzip and tar, read in memory under limits. Nothing is ever unpacked to a disk.

use std::collections::HashSet;
use std::io::Read;

use flate2::read::GzDecoder;
use vela_gocompat::path;

use super::error::ChartError;
use super::files;
use super::{Chart, File};
use crate::limits::Limits;

/// What a chart and its subcharts have used of the limits.
#[derive(Default)]
pub(super) struct Spent {
    bytes: usize,
    files: usize,
}

impl Spent {
    pub(super) fn file(
        &mut self,
        name: &str,
        bytes: usize,
        limits: &Limits,
    ) -> Result<(), ChartError> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > limits.files {
            return Err(ChartError::Files(limits.files));
        }
        if name.len() > limits.path {
            return Err(ChartError::Path(limits.path));
        }
        if bytes > limits.file {
            return Err(ChartError::FileSize(name.to_owned(), limits.file));
        }
        if self.bytes > limits.total {
            return Err(ChartError::TotalSize(limits.total));
        }
        Ok(())
    }
}

/// Reads an archive that lies `depth` charts deep.
pub(super) fn load(
    bytes: &[u8],
    limits: &Limits,
    depth: usize,
    spent: &mut Spent,
) -> Result<Chart, ChartError> {
    if bytes.len() > limits.archive {
        return Err(ChartError::ArchiveSize(limits.archive));
    }
    // The reader ends one byte beyond the limit, whatever the archive says about itself.
    let most = (limits.total as u64).saturating_mul(2);
    let mut tar = tar::Archive::new(GzDecoder::new(bytes).take(most));
    let mut files = Vec::new();
    let mut names = HashSet::new();
    for entry in tar.entries().map_err(ChartError::Archive)? {
        let mut entry = entry.map_err(ChartError::Archive)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        let full = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = path(&full)?;
        if !kind.is_file() && !kind.is_contiguous() {
            return Err(ChartError::NotRegular(name));
        }
        let mut data = Vec::new();
        let most = limits.file as u64 + 1;
        entry.by_ref().take(most).read_to_end(&mut data).map_err(ChartError::Archive)?;
        spent.file(&name, data.len(), limits)?;
        if !names.insert(name.clone()) {
            return Err(ChartError::Duplicate(name));
        }
        files.push(File { name, data: without_mark(&data).into() });
    }
    if files.is_empty() {
        return Err(ChartError::Empty);
    }
    files::load(files, limits, depth, spent)
}

/// The path below the top folder, whatever that is called.
fn path(full: &str) -> Result<String, ChartError> {
    let delimiter = if full.contains('\\') { '\\' } else { '/' };
    let (top, rest) = full.split_once(delimiter).unwrap_or((full, ""));
    let rest = rest.replace(delimiter, "/");
    if rest.starts_with('/') {
        return Err(ChartError::AbsolutePath);
    }
    let clean = path::clean(&rest);
    if clean == "." {
        return match top {
            "Chart.yaml" => Err(ChartError::NoBase),
            _ => Err(ChartError::OutsideBase(full.to_owned())),
        };
    }
    if clean.starts_with("..") {
        return Err(ChartError::ParentPath);
    }
    let mut start = clean.chars();
    let letter = start.next().is_some_and(|char| char.is_ascii_alphabetic());
    if letter && start.as_str().starts_with(":/") {
        return Err(ChartError::IllegalName);
    }
    if top == "Chart.yaml" {
        return Err(ChartError::NoBase);
    }
    Ok(clean)
}

/// A file without its byte order mark.
pub(super) fn without_mark(data: &[u8]) -> &[u8] {
    data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::fast(),
        ));
        for (name, data) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            // Written directly: the setter of the library refuses what this is about.
            let field = &mut header.as_old_mut().name;
            field[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, *data).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    const CHART: (&str, &[u8]) = ("any/Chart.yaml", b"apiVersion: v2\nname: c\nversion: 1.0.0\n");

    #[test]
    fn an_archive_is_read_whatever_its_top_folder_is_called() {
        let bytes =
            packed(&[CHART, ("other/templates/a.yaml", b"a"), ("any/x.txt", b"\xef\xbb\xbfx")]);
        let chart = Chart::from_archive(&bytes, &Limits::default()).unwrap();
        assert_eq!(chart.name(), "c");
        assert_eq!(chart.templates[0].name, "templates/a.yaml");
        assert_eq!(&*chart.files[0].data, b"x");
    }

    #[test]
    fn hostile_archives_are_refused() {
        let zeros = vec![0; 3 << 20];
        let many: Vec<String> = (0..40).map(|at| format!("c/{at}")).collect();
        let many: Vec<(&str, &[u8])> =
            many.iter().map(|name| (name.as_str(), b"x".as_slice())).collect();
        let limits = Limits { file: 1 << 20, files: 30, archive: 1 << 20, ..Limits::default() };
        for (files, want) in [
            (vec![("c//etc/passwd", b"x".as_slice())], "absolute paths"),
            (vec![("c/../../x", b"x".as_slice())], "parent directory"),
            (vec![("c", b"x".as_slice())], "outside the base directory"),
            (vec![("c/C:/x", b"x".as_slice())], "illegally named"),
            (vec![("Chart.yaml", b"x".as_slice())], "not in base directory"),
            (vec![("c/big", zeros.as_slice())], "larger than the maximum file size 1048576"),
            (vec![("c/a", b"1".as_slice()), ("c/./a", b"2".as_slice())], "more than once"),
            (many, "more than 30 files"),
            (vec![], "no files in chart archive"),
            (vec![("c/templates/a", b"x".as_slice())], "Chart.yaml file is missing"),
        ] {
            let error = Chart::from_archive(&packed(&files), &limits).unwrap_err().to_string();
            assert!(error.contains(want), "{want}: {error}");
        }
        assert!(Chart::from_archive(b"no archive", &limits).is_err());
    }

    #[test]
    fn charts_within_charts_end_at_a_depth() {
        let mut inner = packed(&[CHART]);
        for _ in 0..12 {
            inner = packed(&[CHART, ("any/charts/c.tgz", &inner)]);
        }
        let error = Chart::from_archive(&inner, &Limits::default()).unwrap_err().to_string();
        assert!(error.contains("deeper than 10 levels"), "{error}");
    }
}
