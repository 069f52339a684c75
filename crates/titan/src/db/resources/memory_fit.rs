//! Whether the databases of the `Env` fit in memory, which decides on the data that goes through
//! the kernel's page cache.
//!
//! If all files fit, they are read from the cache, so new data belongs there. If they do not, the
//! output of compactions and collections would displace data that is read by data that is not. Data
//! and memory both change, so each job decides anew.

use std::sync::Arc;

use crate::compaction::building::job_env::JobEnv;
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::format::total;
use crate::options::DataInMemory;
use crate::stats;
use crate::version::Version;

/// The part of the available memory, as a divisor, that files may take for the database to fit. The
/// rest is for the needs of the program around it and for other files.
const PART: u64 = 2;

/// Comparison of the database's files with memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryFit {
    /// Bytes of SST and blob files.
    pub(crate) data: u64,
    /// Bytes that those of all databases of the `Env` may take; `None` if the available memory is
    /// not known.
    pub(crate) room: Option<u64>,
    /// Whether the database counts as fitting.
    pub(crate) fits: bool,
}

impl Shared {
    /// Decides whether the database fits in memory, beside the others of its `Env`. Cost: reads
    /// some small files of the kernel; takes no lock that writes wait for; O(databases).
    pub(crate) fn memory_fit(&self) -> MemoryFit {
        let data = total(self.current_versions().iter().map(data_bytes));
        let of_all = self.opening.env.note_data(data);
        let room = self.files.device.resources().memory.map(|m| m.left / PART);
        let fits = match self.opening.options.load().data_in_memory {
            DataInMemory::Always => true,
            DataInMemory::Never => false,
            DataInMemory::Auto => room.is_some_and(|room| of_all <= room),
        };
        MemoryFit { data, room, fits }
    }

    /// The current versions, one per family.
    pub(crate) fn current_versions(&self) -> Vec<Arc<Version>> {
        let families = self.families.load();
        let version = |family: &Arc<Family>| Arc::clone(&family.super_version.load().version);
        families.values().map(version).collect()
    }

    /// For a job that rewrites data: a compaction or a collection. Flushes write through the cache
    /// in any case, unless the options say otherwise: their data was written last, and the pages of
    /// its WAL are released at that moment.
    pub(crate) fn rewriting_env(&self) -> JobEnv {
        let direct_io = self.files.env.direct_io || !self.memory_fit().fits;
        if direct_io {
            stats::add(&self.opening.statistics.direct_io_jobs, 1);
        }
        JobEnv {
            direct_io,
            ..self.files.env.clone()
        }
    }
}

/// Bytes of the files of a version. Holes in blob files count too: a file with few live records is
/// soon copied.
fn data_bytes(version: &Arc<Version>) -> u64 {
    let blobs = version.blob_files.physical_bytes();
    version.table_bytes().saturating_add(blobs)
}

#[cfg(test)]
mod tests {
    use crate::{Db, Env, EnvOptions, Options};

    #[test]
    fn a_database_whose_metrics_are_asked_for_after_its_end_takes_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.db.env = Some(Env::new(EnvOptions::default()).unwrap());
        let open = |name| Db::open(dir.path().join(name), &options).unwrap();
        let (closed, other) = (open("closed"), open("other"));
        closed.put("k", "v").unwrap();
        closed.flush().unwrap();
        let of_all = || other.core.shared.opening.env.note_data(0);
        let size = closed.metrics().data_bytes;
        assert!(size > 0 && of_all() == size);
        closed.close().unwrap();
        assert_eq!(closed.metrics().data_bytes, size);
        assert_eq!(of_all(), 0);
    }
}
