//! Whether the database fits in memory, which decides what goes through the kernel's cache.
//!
//! Where all files fit, the cache is where they are read from: what is written belongs into it.
//! Where they do not, what compactions and collections write would push out what is read for what
//! is not. Data and memory both change, so it is judged anew for each job.

use std::sync::Arc;

use super::core::Shared;
use super::family::Family;
use crate::compaction::factory::FileFactory;
use crate::format::total;
use crate::options::DataInMemory;
use crate::stats;
use crate::version::Version;

/// The part of the memory left, as a divisor, that files may take for the database to fit. The rest
/// is for what the program around it and other files need.
const PART: u64 = 2;

/// How the database's files and memory compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryFit {
    /// Bytes of SST and blob files.
    pub(super) data: u64,
    /// Bytes that they may take; `None` if it is not known what memory is left.
    pub(super) room: Option<u64>,
    /// Whether the database is taken to fit.
    pub(super) fits: bool,
}

impl Shared {
    /// Judges whether the database fits in memory. Costs the reading of some small files of
    /// the kernel's; takes no lock that writes wait for.
    pub(super) fn memory_fit(&self) -> MemoryFit {
        let data = total(self.current_versions().iter().map(data_bytes));
        let room = self.device.resources().memory.map(|m| m.left / PART);
        let fits = match self.options.data_in_memory {
            DataInMemory::Always => true,
            DataInMemory::Never => false,
            DataInMemory::Auto => room.is_some_and(|room| data <= room),
        };
        MemoryFit { data, room, fits }
    }

    /// The versions in force now, one of each family.
    pub(super) fn current_versions(&self) -> Vec<Arc<Version>> {
        let families = self.families.load();
        let version = |family: &Arc<Family>| Arc::clone(&family.super_version.load().version);
        families.values().map(version).collect()
    }

    /// For a job that rewrites what is there: a compaction, a collection. What flushes write goes
    /// through the cache in any case, unless the options say otherwise: it is what was written
    /// last, and the pages of its WAL are given back at that moment.
    pub(super) fn rewriting_factory(&self) -> FileFactory {
        let direct_io = self.factory.direct_io || !self.memory_fit().fits;
        if direct_io {
            stats::add(&self.statistics.direct_io_jobs, 1);
        }
        FileFactory {
            direct_io,
            ..self.factory.clone()
        }
    }
}

/// Bytes of the files of a version. Of blob files holes count too: where few are left of what was
/// there, files are soon copied.
fn data_bytes(version: &Arc<Version>) -> u64 {
    let blobs = version.blob_files.physical_bytes();
    version.table_bytes().saturating_add(blobs)
}
