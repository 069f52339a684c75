//! Tools for tests to access files without the engine: read, damage, copy in and out.
//!
//! Access to contents bypasses hook, faults and counters. Changes are durable at once, visible
//! to open handles, and recorded, so that a journal replays them.

use std::io;
use std::path::Path;

use titan::vfs::Vfs;
use titan::{Bytes, Error, Result};

use super::disk::Node;
use super::op::FsOp;
use super::vfs::SimVfs;

impl SimVfs {
    /// A file's whole content.
    pub fn read_all(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let state = self.state();
        let content = state
            .disk
            .find_file(path)
            .and_then(|file| state.disk.content(file));
        Ok(content
            .map_err(|e| Error::io(e, "read file", path))?
            .to_vec())
    }

    /// Replaces a file's content by `data`; creates a missing file.
    pub fn write_all(&self, path: impl AsRef<Path>, data: &[u8]) -> Result<()> {
        let path = path.as_ref();
        let mut state = self.state();
        let file = match state
            .disk
            .find(path)
            .map_err(|e| Error::io(e, "replace file", path))?
        {
            Some(Node::File(file)) => file,
            _ => state.disk.next_file(),
        };
        let data = Bytes::copy_from_slice(data);
        let replaced = state.run(FsOp::Replace {
            path: path.into(),
            file,
            data,
        });
        replaced.map_err(|e| Error::io(e, "replace file", path))
    }

    /// Flips the lowest bit of the byte at `offset`.
    pub fn flip_bit(&self, path: impl AsRef<Path>, offset: u64) -> Result<()> {
        let path = path.as_ref();
        let mut data = self.read_all(path)?;
        let byte = data
            .get_mut(offset as usize)
            .ok_or_else(|| Error::invalid_argument("no byte to damage").at(path, offset))?;
        *byte ^= 1;
        self.write_all(path, &data)
    }

    /// Truncates a file, or extends it with zeros.
    pub fn truncate(&self, path: impl AsRef<Path>, len: u64) -> Result<()> {
        let mut data = self.read_all(path.as_ref())?;
        data.resize(len as usize, 0);
        self.write_all(path, &data)
    }

    /// The names in a directory, sorted.
    pub fn list(&self, dir: impl AsRef<Path>) -> Result<Vec<String>> {
        let dir = dir.as_ref();
        let state = self.state();
        let dir = state
            .disk
            .find_dir(dir)
            .map_err(|e| Error::io(e, "read directory", dir))?;
        Ok(state.disk.names(dir))
    }

    /// Makes everything durable, as `sync(1)` does.
    pub fn sync_all(&self) -> Result<()> {
        self.state()
            .run(FsOp::SyncAll)
            .map_err(|e| Error::io(e, "sync", Path::new("/")))
    }

    /// Copies a directory of the operating system with its contents to `dir`, and makes
    /// everything durable.
    pub fn copy_in_from(&self, real: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<()> {
        self.copy_in(real.as_ref(), dir.as_ref())?;
        self.sync_all()
    }

    fn copy_in(&self, real: &Path, dir: &Path) -> Result<()> {
        let fail = |e: io::Error| Error::io(e, "copy from", real);
        self.create_dir_all(dir)?;
        for entry in std::fs::read_dir(real).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let target = dir.join(entry.file_name());
            if entry.file_type().map_err(fail)?.is_dir() {
                self.copy_in(&entry.path(), &target)?;
            } else {
                self.write_all(target, &std::fs::read(entry.path()).map_err(fail)?)?;
            }
        }
        Ok(())
    }

    /// Copies `dir` with its contents to a directory of the operating system, which is created
    /// if missing.
    pub fn copy_out_to(&self, dir: impl AsRef<Path>, real: impl AsRef<Path>) -> Result<()> {
        let (dir, real) = (dir.as_ref(), real.as_ref());
        let fail = |e: io::Error| Error::io(e, "copy to", real);
        std::fs::create_dir_all(real).map_err(fail)?;
        for name in self.list(dir)? {
            let (from, to) = (dir.join(&name), real.join(&name));
            let node = self.state().disk.find(&from).map_err(fail)?;
            match node {
                Some(Node::Dir(_)) => self.copy_out_to(from, to)?,
                Some(Node::File(_)) => std::fs::write(to, self.read_all(from)?).map_err(fail)?,
                None => {}
            }
        }
        Ok(())
    }
}
