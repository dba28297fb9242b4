//! What the kubelet does with a Secret that a Pod mounts: the files lie in a folder that a link
//! `..data` names, and a change is a new folder and an exchanged link.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// A mounted Secret.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    version: usize,
    last: BTreeMap<String, Vec<u8>>,
}

impl Mount {
    /// An empty one (the volume is optional).
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let mut mount = Self { dir: dir.to_path_buf(), version: 0, last: BTreeMap::new() };
        mount.exchange(&BTreeMap::new())?;
        Ok(mount)
    }

    /// Brings the contents of the Secret, if they are others than before.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn bring(&mut self, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
        if *files == self.last { Ok(()) } else { self.exchange(files) }
    }

    fn exchange(&mut self, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
        self.version += 1;
        let name = format!("..{}", self.version);
        let folder = self.dir.join(&name);
        fs::create_dir_all(&folder)?;
        for (file, bytes) in files {
            fs::write(folder.join(file), bytes)?;
        }
        let next = self.dir.join("..data_tmp");
        symlink(&name, &next)?;
        fs::rename(&next, self.dir.join("..data"))?;
        for file in files.keys().filter(|file| !self.last.contains_key(*file)) {
            symlink(Path::new("..data").join(file), self.dir.join(file))?;
        }
        for file in self.last.keys().filter(|file| !files.contains_key(*file)) {
            fs::remove_file(self.dir.join(file))?;
        }
        let _ = fs::remove_dir_all(self.dir.join(format!("..{}", self.version - 1)));
        self.last.clone_from(files);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_appear_change_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Mount::new(dir.path()).unwrap();
        let read = |file: &str| fs::read_to_string(dir.path().join(file)).ok();
        assert_eq!(read("a"), None);
        let files = |text: &str| BTreeMap::from([("a".to_owned(), text.as_bytes().to_vec())]);
        mount.bring(&files("1")).unwrap();
        assert_eq!(read("a").as_deref(), Some("1"));
        mount.bring(&files("2")).unwrap();
        assert_eq!(read("a").as_deref(), Some("2"));
        mount.bring(&BTreeMap::new()).unwrap();
        assert_eq!(read("a"), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "..data and what it names");
    }
}
