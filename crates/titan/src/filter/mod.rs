//! Compaction filters: code of the application that decides, while a job rewrites entries, which of
//! them stay.
//!
//! Owns the view and the possible decisions of a filter, and the [filter that ships with the
//! engine](TimeToLive). Promises nothing about when a filter runs: [`CompactionFilterFactory`]
//! describes that, and jobs decide it.

mod running;
mod ttl;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::lazy_value::{LazyValue, ValueSource};
use crate::panics::contain;

pub(crate) use running::{check_may_wait_for_jobs, run};
pub use ttl::TimeToLive;

/// Makes the filters of a family, one for each job. Given in
/// [`ColumnFamilyOptions::compaction_filter`](crate::ColumnFamilyOptions::compaction_filter).
///
/// **When it runs.** In every compaction that rewrites tables, and in flushes if
/// [`at_flush`](Self::at_flush) says so. A compaction that only moves tables to another level does
/// not read them, and neither do collections of blob files. After
/// [`compact_range`](crate::ColumnFamily::compact_range) every entry of the range has been seen.
/// Entries that an opening replays from WAL files are not filtered before their first compaction.
///
/// **What it sees.** The newest version of each key among those that the job reads, if that is a
/// value, not a deletion. Of a key with several columns it sees, and changes, the default column;
/// to remove that removes all of them. Merge operands count as the value that they become, if they
/// become one in this job. There may be newer versions of the key in places that the job does not
/// read; a filter that removes a value removes the base of newer operands there.
///
/// **Snapshots.** A filter does not wait for them: a snapshot no longer finds entries that a filter
/// removed, and finds the new values of those that it changed. A filter that must not disturb them
/// keeps entries that are not newer than [`FilterContext::oldest_snapshot`], as snapshots may see
/// these. An iterator that is open already shows the entries that were there when it was created.
///
/// **Failures.** If a filter fails or panics, nothing of its job takes effect. Listeners are
/// [notified](crate::EventListener::compaction_filter_failed). A flush, or a compaction that is due
/// anyway, is repeated without the filter, so that the database goes on; later compactions try the
/// filter again. A compaction that a caller asked for fails with
/// [`ErrorKind::CompactionFilter`](crate::ErrorKind::CompactionFilter).
///
/// **Calls.** A filter may read the database. Calls that wait for jobs fail with `InvalidArgument`
/// within a filter or its factory, on any database: `compact_range`, `collect_garbage`,
/// `pause_garbage_collection`, `wait_idle` and `close`. A filter should not write: a write may wait
/// until the job of the filter has ended, unless it has
/// [`no_slowdown`](crate::WriteOptions::no_slowdown).
pub trait CompactionFilterFactory: Send + Sync + 'static {
    /// Names the filter in errors and in OPTIONS. Always the same.
    fn name(&self) -> &str;

    /// The filter for a job, or none if there is nothing to filter in it.
    fn create(&self, context: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>>;

    /// Whether flushes are filtered too. A value that a flush drops is never written to a blob
    /// file.
    fn at_flush(&self) -> bool {
        false
    }

    /// After which time entries are to be filtered by themselves, wherever they are. Asked once,
    /// when the family is opened. Default: never.
    fn revisit(&self) -> Option<Revisit> {
        None
    }
}

impl fmt::Debug for dyn CompactionFilterFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompactionFilterFactory")
    }
}

/// Decides about the entries of one job, in the order of their keys.
pub trait CompactionFilter: Send {
    /// Decides on an entry.
    ///
    /// # Errors
    /// Those that the application reports: see [`CompactionFilterFactory`].
    fn filter(&mut self, entry: &FilterEntry<'_>) -> Result<Decision>;
}

/// Decides on an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It stays.
    Keep,
    /// The key is deleted, with everything older.
    Remove,
    /// The key gets this value, with the sequence number of the old one. The new value goes to a
    /// blob file if it is large enough.
    ChangeValue(Vec<u8>),
    /// This key, and all keys before the given one, are deleted as by [`Decision::Remove`], and the
    /// filter is not asked about them. Other than in RocksDB, older versions of these keys do not
    /// reappear. If the given key is not after this one, the entry stays.
    SkipUntil(Vec<u8>),
}

/// When entries are filtered by themselves: not in a family with `disable_auto_compactions`.
///
/// With this, tables also record the times of writes: see [`FilterEntry::written_by`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisit {
    /// Tables with entries that are older than this are compacted, and memtables flushed.
    pub age: Duration,
    /// But a table is not compacted again for this long after it was written, with any content,
    /// and a memtable not flushed for this long after its first entry. So a table whose entries
    /// grow old one after the other is rewritten now and then, not for each.
    pub interval: Duration,
}

/// Why a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterReason {
    /// A memtable is flushed.
    Flush,
    /// A compaction is due.
    Automatic,
    /// A caller asked for the compaction.
    Manual,
    /// A table has entries that are older than [`Revisit::age`].
    Age,
}

/// Answers whether a range has keys below a job.
pub(crate) trait KeysBelow {
    /// Whether nothing at lower levels has a key of `start..end`.
    fn nothing_in(&self, start: &[u8], end: &[u8]) -> bool;
}

/// The job that a filter is made for.
#[non_exhaustive]
pub struct FilterContext<'a> {
    /// The level that the job writes to.
    pub level: usize,
    /// Why it runs.
    pub reason: FilterReason,
    /// The family.
    pub column_family: ColumnFamilyId,
    /// Its name.
    pub column_family_name: &'a str,
    /// The newest sequence number that the oldest snapshot sees; none if there is no snapshot.
    pub oldest_snapshot: Option<SequenceNumber>,
    /// Whether nothing lies below the keys of the job: entries that the filter removes leave no
    /// trace then, but for entries that are newer than the oldest snapshot.
    pub is_bottommost: bool,
    /// The time since the beginning of 1970, UTC, or some time before it. Not affected by steps of
    /// the system's clock: to be compared with [`FilterEntry::written_by`].
    pub now: Duration,
    pub(crate) below: &'a dyn KeysBelow,
}

impl FilterContext<'_> {
    /// Whether nothing lies below the job in the range from `start` to before `end`. A flush does
    /// not know it.
    pub fn nothing_below(&self, start: &[u8], end: &[u8]) -> bool {
        self.below.nothing_in(start, end)
    }
}

impl fmt::Debug for FilterContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterContext")
            .field("level", &self.level)
            .field("reason", &self.reason)
            .field("column_family", &self.column_family)
            .field("column_family_name", &self.column_family_name)
            .field("oldest_snapshot", &self.oldest_snapshot)
            .field("is_bottommost", &self.is_bottommost)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// A value as a table has it.
#[derive(Clone, Copy)]
pub(crate) enum StoredValue<'a> {
    Inline(&'a [u8]),
    Blob(BlobIndex),
}

/// An entry that a filter decides about. Nothing here but the fetch of a [`LazyValue`] reads a
/// file.
pub struct FilterEntry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) sequence: SequenceNumber,
    pub(crate) stored: StoredValue<'a>,
    pub(crate) written_by: Option<Duration>,
    pub(crate) source: &'a Arc<dyn ValueSource>,
}

impl FilterEntry<'_> {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.key
    }

    /// The position of the write in the order of all writes.
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }

    /// Whether the value is in a blob file, so that fetching it reads.
    pub fn is_separated(&self) -> bool {
        matches!(self.stored, StoredValue::Blob(_))
    }

    /// Bytes of the value as stored: after compression, where its blob file is compressed. Free.
    pub fn stored_len(&self) -> u64 {
        match self.stored {
            StoredValue::Inline(value) => value.len() as u64,
            StoredValue::Blob(index) => index.size,
        }
    }

    /// A time by which the entry had been written, since the beginning of 1970, UTC: never before
    /// it was written, and usually soon after. Not known if the factory asks for no
    /// [revisits](CompactionFilterFactory::revisit).
    pub fn written_by(&self) -> Option<Duration> {
        self.written_by
    }

    /// The value. A separated one is read when it is fetched, and only then.
    pub fn value(&self) -> LazyValue {
        match self.stored {
            StoredValue::Inline(value) => LazyValue::inline(Bytes::copy_from_slice(value)),
            StoredValue::Blob(index) => {
                let key = Bytes::copy_from_slice(self.key);
                LazyValue::blob(key, index, Arc::clone(self.source))
            }
        }
    }
}

impl fmt::Debug for FilterEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterEntry")
            .field("key", &self.key.escape_ascii().to_string())
            .field("sequence", &self.sequence)
            .field("is_separated", &self.is_separated())
            .field("stored_len", &self.stored_len())
            .field("written_by", &self.written_by)
            .finish_non_exhaustive()
    }
}

/// When tables are to be filtered; never, if the factory panics.
pub(crate) fn revisit_of(factory: &dyn CompactionFilterFactory) -> Option<Revisit> {
    contain(|| factory.revisit()).unwrap_or_default()
}
