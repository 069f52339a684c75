//! Memtables that an opening leaves in memory, with their WAL files.
//!
//! Usually an opening writes the replayed entries to tables. On a nearly full device there may be
//! no room for them, and then nothing could be deleted to make room. So the memtables stay, as with
//! RocksDB's `avoid_flush_during_recovery`, and so do the WAL files that have their operations: the
//! next WAL file continues the last of them, and the next opening replays all of them again. The
//! memtables take the memory that they took in the process that wrote the files. A flush writes
//! them once there is room.

use std::sync::Arc;

use crate::compaction::building::job_env::JobEnv;
use crate::db::core::state::LiveWal;
use crate::error::{ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber};
use crate::memtable::Memtable;
use crate::number_map::NumberMap;
use crate::write::predecessor::Predecessor;
use crate::write::sync_record::WalPosition;

/// See the module.
pub(super) struct KeptMemtables {
    /// One for each family that has something to replay.
    pub(super) memtables: NumberMap<ColumnFamilyId, Arc<Memtable>>,
    /// The oldest WAL file that has operations of them, or an older one.
    pub(super) oldest_wal: FileNumber,
    /// All of these files, oldest first.
    pub(super) wals: Vec<LiveWal>,
    /// The record of the next WAL file about the last of them.
    pub(super) predecessor: Predecessor,
    /// Where the records of that end.
    pub(super) end: WalPosition,
}

impl KeptMemtables {
    /// Makes the files durable. `None` if there is nothing to keep, or files that others wrote
    /// cannot be synced.
    pub(super) fn with_durable_wals(
        env: &JobEnv,
        memtables: NumberMap<ColumnFamilyId, Arc<Memtable>>,
        wals: &[FileNumber],
        (predecessor, end): (Predecessor, WalPosition),
    ) -> Result<Option<Self>> {
        let Some(oldest_wal) = wals.first().copied().filter(|_| !memtables.is_empty()) else {
            return Ok(None);
        };
        let mut kept = Vec::new();
        for &number in wals {
            let path = FileKind::Wal(number).path(&env.dir);
            // ORDER: before any write is acknowledged as synced. The process that wrote the file
            // may have been killed, or have failed to sync it, and a synced write must find every
            // earlier one durable (WAL-1).
            let left_out = mutant!(kept_wal_not_synced);
            match left_out {
                true => {}
                false => match env.vfs.sync_file(&path) {
                    Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(None),
                    synced => synced?,
                },
            }
            let size = env.vfs.size(&path)?;
            kept.push(LiveWal { number, size });
        }
        invariant!(
            kept.is_sorted_by_key(|wal| wal.number) && oldest_wal <= predecessor.number,
            "WAL files that are kept are out of order"
        );
        // ORDER: their names, too, before the next WAL file exists.
        env.vfs.sync_dir(&env.dir)?;
        Ok(Some(KeptMemtables {
            memtables,
            oldest_wal,
            wals: kept,
            predecessor,
            end,
        }))
    }
}
