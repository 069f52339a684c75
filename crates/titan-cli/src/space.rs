//! What a database takes on disk, by kind of file, and what of it is live.

use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use titan::{ColumnFamily, Db, Error, ReadOptions, Result};

/// Bytes of a database's files, as their lengths say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DiskUsage {
    pub(crate) sst_bytes: u64,
    pub(crate) blob_bytes: u64,
    pub(crate) wal_bytes: u64,
    pub(crate) manifest_bytes: u64,
    pub(crate) other_bytes: u64,
}

impl DiskUsage {
    /// Lists the directory. Files that vanish meanwhile count nothing, so it may run beside a
    /// database at work.
    pub(crate) fn of(directory: &Path) -> Result<DiskUsage> {
        let failed = |e| Error::io(e, "list", directory);
        let mut usage = DiskUsage::default();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let bytes = match entry.metadata() {
                Ok(metadata) if metadata.is_file() => metadata.len(),
                Ok(_) => continue,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(Error::io(e, "look at", &entry.path())),
            };
            *usage.kind_of(&entry.file_name().to_string_lossy()) += bytes;
        }
        Ok(usage)
    }

    fn kind_of(&mut self, name: &str) -> &mut u64 {
        match name.rsplit_once('.') {
            Some((_, "sst" | "ldb")) => &mut self.sst_bytes,
            Some((_, "blob")) => &mut self.blob_bytes,
            Some((_, "log")) => &mut self.wal_bytes,
            _ if name.starts_with("MANIFEST-") => &mut self.manifest_bytes,
            _ => &mut self.other_bytes,
        }
    }

    /// Bytes of SST and blob files: what space amplification counts.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.sst_bytes + self.blob_bytes
    }
}

/// Keys that are there, and their bytes with those of their values as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Live {
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

impl Live {
    /// Counts by walking all keys of all families; values in blob files are not read.
    pub(crate) fn count(db: &Db) -> Result<Live> {
        let mut live = Live::default();
        for family in db.column_families() {
            for_each_key(&family, |key, stored| {
                live.keys += 1;
                live.bytes += key.len() as u64 + stored;
            })?;
        }
        Ok(live)
    }
}

/// Calls `f` with every key of a family and the stored length of its value, without reading
/// values and without displacing what the block cache holds.
pub(crate) fn for_each_key(family: &ColumnFamily, mut f: impl FnMut(&[u8], u64)) -> Result<()> {
    let options = ReadOptions {
        fill_cache: false,
        prefetch_values: 0,
        ..ReadOptions::default()
    };
    let mut iterator = family.iter(&options)?;
    iterator.seek_to_first()?;
    while iterator.valid() {
        f(iterator.key(), iterator.lazy_value()?.stored_len());
        iterator.next()?;
    }
    Ok(())
}
