//! The bytes in a database's directory, by kind of file.

use std::path::Path;

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::vfs::Vfs;

/// Bytes of a database's files, as their lengths say, less the holes in blob files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct DiskUsage {
    /// Tables.
    pub sst_bytes: u64,
    /// Blob files.
    pub blob_bytes: u64,
    /// Relocation maps of blob files.
    pub map_bytes: u64,
    /// WAL files: writes that may not be in tables yet.
    pub wal_bytes: u64,
    /// MANIFESTs: the files that the database consists of.
    pub manifest_bytes: u64,
    /// Everything else, including files that are not the engine's.
    pub other_bytes: u64,
}

impl DiskUsage {
    /// Lists the directory, which may be that of a database in use: files that vanish meanwhile
    /// count nothing. Cost: reads the metadata of each file.
    ///
    /// # Errors
    /// `Io` if the directory or the metadata of a file in it cannot be read.
    pub fn of(vfs: &dyn Vfs, directory: &Path) -> Result<DiskUsage> {
        Ok(Self::sum(&list(vfs, directory)?))
    }

    pub(crate) fn sum(files: &[ListedFile]) -> DiskUsage {
        let mut usage = DiskUsage::default();
        for file in files {
            *usage.of_kind(file.kind) += file.bytes;
        }
        usage
    }

    fn of_kind(&mut self, kind: Option<FileKind>) -> &mut u64 {
        match kind {
            Some(FileKind::Table(_)) => &mut self.sst_bytes,
            Some(FileKind::Blob(_)) => &mut self.blob_bytes,
            Some(FileKind::BlobMap(_)) => &mut self.map_bytes,
            Some(FileKind::Wal(_)) => &mut self.wal_bytes,
            Some(FileKind::Manifest(_)) => &mut self.manifest_bytes,
            _ => &mut self.other_bytes,
        }
    }

    /// Bytes of SST, blob and map files, which space amplification counts.
    pub fn data_bytes(&self) -> u64 {
        self.sst_bytes + self.blob_bytes + self.map_bytes
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.data_bytes() + self.wal_bytes + self.manifest_bytes + self.other_bytes
    }
}

/// A file in the directory.
pub(crate) struct ListedFile {
    /// `None` for files that are not the engine's.
    pub(crate) kind: Option<FileKind>,
    pub(crate) bytes: u64,
}

/// The files of a directory, without those that vanish meanwhile.
pub(crate) fn list(vfs: &dyn Vfs, directory: &Path) -> Result<Vec<ListedFile>> {
    let mut files = Vec::new();
    for name in vfs.read_dir(directory)? {
        let kind = FileKind::parse(&name);
        match bytes_on_disk(vfs, &directory.join(&name), kind) {
            Ok(bytes) => files.push(ListedFile { kind, bytes }),
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(files)
}

fn bytes_on_disk(vfs: &dyn Vfs, path: &Path, kind: Option<FileKind>) -> Result<u64> {
    let bytes = vfs.size(path)?;
    match kind {
        Some(FileKind::Blob(_)) => Ok(bytes.min(vfs.allocated_bytes(path)?)),
        _ => Ok(bytes),
    }
}
