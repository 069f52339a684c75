//! Environment of a job that writes files: the directory, and the family to which they belong.

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::SteadyClock;
use crate::format::ColumnFamilyId;
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::options::ColumnFamilyOptions;
use crate::version::Counters;
use crate::vfs::Vfs;

/// The place and means of writing files, which all jobs of a database share.
#[derive(Clone)]
pub struct JobEnv {
    pub vfs: Arc<dyn Vfs>,
    pub clock: SteadyClock,
    pub dir: PathBuf,
    pub counters: Arc<Counters>,
    /// Whether SST and blob files are written with direct I/O, where that is possible.
    pub direct_io: bool,
    pub db_id: String,
    pub session_id: String,
}

impl JobEnv {
    /// Seconds since 1970, for the times that RocksDB stores in tables and about them.
    pub fn unix_seconds(&self) -> u64 {
        self.clock.latest().as_secs()
    }

    /// Removes files that a failed job left and no MANIFEST can name. Files that cannot be removed
    /// now are removed when the database is opened.
    pub fn discard(&self, files: &[FileKind]) {
        for file in files {
            let _ = self.vfs.remove(&file.path(&self.dir));
        }
    }
}

/// Family to which the output belongs.
#[derive(Clone)]
pub struct OutputFamily {
    pub id: ColumnFamilyId,
    pub name: String,
    pub comparator: InternalKeyComparator,
    pub options: Arc<ColumnFamilyOptions>,
}
