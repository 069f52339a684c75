//! Events that listeners are notified of.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "serde")]
use serde::{Serialize, Serializer};

use crate::error::Error;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};

/// Why writes are delayed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// Full memtables wait for their flush.
    Memtables,
    /// Too many files at level 0.
    Level0Files,
    /// Too many bytes wait to be compacted.
    PendingCompactionBytes,
    /// Files take more space than `max_space_amp` allows, and garbage collection does not keep up.
    /// Writes are delayed by 100 ms a write group at most; those that only delete are not.
    SpaceAmplification,
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StallCause::Memtables => "memtables wait for flush",
            StallCause::Level0Files => "too many files at level 0",
            StallCause::PendingCompactionBytes => "too many bytes wait for compaction",
            StallCause::SpaceAmplification => "garbage collection is too slow",
        })
    }
}

/// Stall of the writes of a family, when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallEvent {
    /// Writes are no longer stalled.
    Normal,
    /// Writes are delayed.
    Delayed(StallCause),
    /// Writes are stopped.
    Stopped(StallCause),
}

/// The state of writes: "run freely", "slowed down: .." or "stopped: ..".
impl fmt::Display for StallEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StallEvent::Normal => f.write_str("run freely"),
            StallEvent::Delayed(cause) => write!(f, "slowed down: {cause}"),
            StallEvent::Stopped(cause) => write!(f, "stopped: {cause}"),
        }
    }
}

/// The text, or none if writes run freely.
#[cfg(feature = "serde")]
impl Serialize for StallEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            StallEvent::Normal => serializer.serialize_none(),
            held => serializer.collect_str(held),
        }
    }
}

/// A memtable that takes no more writes, and waits for its flush.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemtableSealedEvent {
    /// The family it is of.
    pub column_family: ColumnFamilyId,
    /// Its entries, every version counted; without range deletions.
    pub entries: u64,
    /// Bytes of memory that it takes.
    pub bytes: u64,
}

/// A flush that begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlushBeginEvent {
    /// The family to be flushed.
    pub column_family: ColumnFamilyId,
    /// Number of memtables that are written to one table.
    pub memtables: usize,
    /// Their entries, every version counted; without range deletions.
    pub entries: u64,
}

/// A compaction that begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionBeginEvent {
    /// The family to be compacted.
    pub column_family: ColumnFamilyId,
    /// Inputs: level and table.
    pub inputs: Vec<(usize, FileNumber)>,
    /// The level the outputs will be at.
    pub output_level: usize,
    /// Whether a caller waits for it.
    pub is_manual: bool,
}

/// A collection that begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GarbageCollectionBeginEvent {
    /// The family whose garbage is to be collected.
    pub column_family: ColumnFamilyId,
    /// The blob files to be collected.
    pub inputs: Vec<BlobFileNumber>,
    /// Whether a caller waits for it.
    pub is_manual: bool,
}

/// A finished flush.
#[derive(Clone, Debug)]
pub struct FlushEvent {
    /// The family flushed.
    pub column_family: ColumnFamilyId,
    /// The table written; none if everything in the memtables had been deleted again.
    pub table: Option<FileNumber>,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Blob files written.
    pub blob_files: Vec<BlobFileNumber>,
    /// Bytes of the blob files.
    pub blob_bytes: u64,
}

/// A finished compaction.
#[derive(Clone, Debug)]
pub struct CompactionEvent {
    /// The family compacted.
    pub column_family: ColumnFamilyId,
    /// Inputs: level and table.
    pub inputs: Vec<(usize, FileNumber)>,
    /// The level the outputs are at.
    pub output_level: usize,
    /// Tables written (or moved).
    pub outputs: Vec<FileNumber>,
    /// Bytes of the tables read.
    pub bytes_read: u64,
    /// Bytes of the tables written; 0 for a move.
    pub bytes_written: u64,
    /// Blob files written, from values that had been inline.
    pub blob_files: Vec<BlobFileNumber>,
}

/// A finished collection.
#[derive(Clone, Debug)]
pub struct GarbageCollectionEvent {
    /// The family whose values were relocated.
    pub column_family: ColumnFamilyId,
    /// The blob files that were collected.
    pub inputs: Vec<BlobFileNumber>,
    /// Bytes of the records that were in them.
    pub input_bytes: u64,
    /// The blob file that has their live records.
    pub output: BlobFileNumber,
    /// Bytes read from blob files.
    pub bytes_read: u64,
    /// Bytes written, the relocation map included.
    pub bytes_written: u64,
}

/// Holes punched into blob files.
#[derive(Clone, Debug)]
pub struct HolePunchEvent {
    /// The family of the blob files.
    pub column_family: ColumnFamilyId,
    /// The blob files.
    pub files: Vec<BlobFileNumber>,
    /// Number of holes that were punched.
    pub holes: u64,
    /// Bytes that the files take less on the device than before.
    pub bytes: u64,
}

/// Files made elsewhere that have joined a family.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IngestionEvent {
    /// The family.
    pub column_family: ColumnFamilyId,
    /// The tables that the files are now, with their levels, in the order of the call.
    pub tables: Vec<(usize, FileNumber)>,
    /// Bytes of the tables.
    pub bytes: u64,
}

/// An operation that took long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlowOperationEvent {
    /// The name of the histogram of its kind: `rocksdb.db.get.micros`.
    pub operation: &'static str,
    /// The time that it took.
    pub took: Duration,
}

/// Damage that an opening found in the WAL. It goes on all the same: nothing that is damaged is
/// known to have been synced, or the [mode](crate::WalRecoveryMode) says so.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WalDamageEvent {
    /// The WAL file.
    pub wal: FileNumber,
    /// Where in the file the damage starts.
    pub offset: u64,
    /// The fault that is there.
    pub reason: String,
    /// Whole records with operations that follow the damage and were not replayed: a power failure
    /// may leave them, or the device has damaged data that was not synced.
    pub records_left: u64,
    /// Places of damage that were skipped, in the mode that skips them.
    pub skipped: u64,
    /// WAL files that are kept in `lost/` in the directory of the database; none if it was opened
    /// for reading only.
    pub kept: Vec<FileNumber>,
}

impl fmt::Display for WalDamageEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FileKind::Wal(self.wal).name();
        write!(f, "{name} at {}: {}", self.offset, self.reason)?;
        match self.skipped {
            0 => {}
            1 => f.write_str("; it was skipped")?,
            n => write!(f, "; {n} such places were skipped")?,
        }
        match self.records_left {
            0 => {}
            1 => f.write_str("; 1 record after it was not replayed")?,
            n => write!(f, "; {n} records after it were not replayed")?,
        }
        if !self.kept.is_empty() {
            let names = self.kept.iter().map(|wal| FileKind::Wal(*wal).name());
            let names: Vec<String> = names.collect();
            write!(f, "; kept in lost/: {}", names.join(", "))?;
        }
        Ok(())
    }
}

/// Notified of background jobs. Calls come from the thread that ran the job, or whose write failed
/// or switched a memtable; they should return soon and must not call the database: some come from
/// the leader of the commit queue. The default methods do nothing.
///
/// A call that panics changes nothing: the database goes on as if it had returned. The other
/// listeners are [notified](EventListener::listener_panicked), [`Statistics::listener_panics`]
/// counts it, and the listener is called again at the next event.
///
/// [`Statistics::listener_panics`]: crate::Statistics::listener_panics
pub trait EventListener: Send + Sync + 'static {
    /// Names the listener in errors. Default: the name of its type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// A memtable was sealed. Called by the leader of the commit queue.
    fn memtable_sealed(&self, event: &MemtableSealedEvent) {
        let _ = event;
    }

    /// A flush begins. If it fails, [`flush_finished`](EventListener::flush_finished) is not
    /// called.
    fn flush_begun(&self, event: &FlushBeginEvent) {
        let _ = event;
    }

    /// A flush was installed.
    fn flush_finished(&self, event: &FlushEvent) {
        let _ = event;
    }

    /// A compaction begins. If it fails, or is abandoned because the database closes,
    /// [`compaction_finished`](EventListener::compaction_finished) is not called.
    fn compaction_begun(&self, event: &CompactionBeginEvent) {
        let _ = event;
    }

    /// A compaction was installed.
    fn compaction_finished(&self, event: &CompactionEvent) {
        let _ = event;
    }

    /// A collection begins. [`garbage_collected`](EventListener::garbage_collected) or
    /// [`holes_punched`](EventListener::holes_punched) follows, unless nothing in the files turns
    /// out to be live, or it fails or is abandoned.
    fn garbage_collection_begun(&self, event: &GarbageCollectionBeginEvent) {
        let _ = event;
    }

    /// A collection was installed.
    fn garbage_collected(&self, event: &GarbageCollectionEvent) {
        let _ = event;
    }

    /// Garbage was given back as holes.
    fn holes_punched(&self, event: &HolePunchEvent) {
        let _ = event;
    }

    /// Files were ingested into a family; readers see them in a moment. Called by the leader of the
    /// commit queue.
    fn files_ingested(&self, event: &IngestionEvent) {
        let _ = event;
    }

    /// Garbage of a family cannot be given back as holes: the file system has none, or refused
    /// one. Until the database is opened again garbage is copied, as without the option.
    fn hole_punching_failed(&self, column_family: ColumnFamilyId, error: &Error) {
        let _ = (column_family, error);
    }

    /// A blob file is damaged and cannot be collected. It stays as it is, until the database is
    /// opened again at least; its undamaged records stay readable.
    fn garbage_collection_failed(&self, error: &Error) {
        let _ = error;
    }

    /// A family is opened whose write buffers are so large that the files of the database may
    /// exceed [`max_space_amp`](crate::ColumnFamilyOptions::max_space_amp) times the live data by
    /// this many bytes, instead of 256 MiB.
    fn space_bound_loosened(&self, column_family: ColumnFamilyId, bytes: u64) {
        let _ = (column_family, bytes);
    }

    /// Writes to a family are stalled differently than before. Changes are reported one after the
    /// other, in their order, from any thread; the metrics have the current state.
    fn stall_changed(&self, column_family: ColumnFamilyId, event: StallEvent) {
        let _ = (column_family, event);
    }

    /// An operation took at least as long as
    /// [`slow_operation_micros`](crate::DbOptions::slow_operation_micros) says. Called on the
    /// thread that did it, maybe while other writers wait for that thread.
    fn slow_operation(&self, event: &SlowOperationEvent) {
        let _ = event;
    }

    /// Writes are refused from now on because of this error; or closing the database, by dropping
    /// its last handle, failed with it.
    fn writes_stopped(&self, error: &Error) {
        let _ = error;
    }

    /// The device has no room for a flush, a compaction or a collection. Nothing of it took effect;
    /// it is done once there is room.
    fn job_lacks_room(&self, error: &Error) {
        let _ = error;
    }

    /// A job could not open a file, since the process or the machine has too many files open.
    /// Nothing of it took effect, and it is retried after a while; no other job begins until then.
    fn job_postponed(&self, error: &Error) {
        let _ = error;
    }

    /// A compaction filter failed or panicked. Nothing of its job took effect; see
    /// [`CompactionFilterFactory`](crate::CompactionFilterFactory) for the consequences.
    fn compaction_filter_failed(&self, error: &Error) {
        let _ = error;
    }

    /// A [collector](crate::TablePropertiesCollectorFactory) failed or panicked. The table was
    /// written without its report.
    fn table_properties_collector_failed(&self, error: &Error) {
        let _ = error;
    }

    /// Another listener panicked: the error names it and the callback. Not called for a panic in
    /// this very callback.
    fn listener_panicked(&self, error: &Error) {
        let _ = error;
    }

    /// An opening found damage in the WAL and went on. Called on the thread that opens the
    /// database, before it is open.
    fn wal_damaged(&self, event: &WalDamageEvent) {
        let _ = event;
    }

    /// A file could not be deleted; the next opening of the database tries again.
    fn deletion_failed(&self, error: &Error) {
        let _ = error;
    }

    /// The [commit hook](crate::CommitHook) has panicked. It is never called again, and the data
    /// that it maintains is out of date from now on. Called on the thread of a writer: it should be
    /// brief.
    fn commit_hook_poisoned(&self) {}
}

impl fmt::Debug for dyn EventListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}
