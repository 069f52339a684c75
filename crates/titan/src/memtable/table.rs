//! The memtable: its entries, tombstones and counters.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::env::{Account, Charge};
use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::format::internal_key::{
    InternalKeyComparator, ParsedInternalKey, TRAILER_LEN, ValueType, pack,
};
use crate::format::range_tombstone::RangeTombstone;
use crate::memtable::age::Age;
use crate::memtable::shadowed::Shadowed;
use crate::memtable::skiplist::{MAX_LEN, SkipList, Target};
use crate::memtable::tombstone_alarm::TombstoneAlarm;
use crate::memtable::tombstones::TombstoneSet;
use crate::range_del::FragmentedTombstones;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Chunks of the arena have at most this fraction of the write buffer, so that the unused part of
/// the last one stays small.
const CHUNK_FRACTION: u64 = 8;

/// Tombstones from which on a memtable, a table or level 0 has many.
pub(crate) const MANY_TOMBSTONES: u64 = 4096;

/// Range deletions a memtable takes before it is flushed. The memory and time of sorting nested
/// ones into fragments grow with the square of their number.
const MAX_RANGE_DELETIONS: u64 = 1000;

/// See the [module](super).
pub struct Memtable {
    pub(super) list: Arc<SkipList>,
    tombstones: TombstoneSet,
    counters: Counters,
    shadowed: Shadowed,
    age: Age,
    /// It should be flushed at any size.
    flush_requested: AtomicBool,
    tombstone_alarm: TombstoneAlarm,
    write_buffer_size: u64,
    /// Its memory, if that is bounded.
    charge: OnceLock<Charge>,
    /// See [`Memtable::refuse_after`]; `u64::MAX` while nothing is refused.
    accepted_to: AtomicU64,
}

/// Statistics; exact whenever no add is running. All orderings are relaxed: visibility does not
/// depend on them.
struct Counters {
    entries: AtomicU64,
    deletes: AtomicU64,
    /// Of these, the ones of keys without an older entry in this memtable. A key that has one may
    /// be in tables, too: such a deletion is not counted.
    deletes_outside: AtomicU64,
}

/// The size of a memtable when an estimate of its shadowed bytes began.
#[derive(Clone, Copy)]
pub(crate) struct EstimateStart {
    pub(crate) entries: u64,
    ranges: u64,
}

/// One version of a key, as found by [`Memtable::get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemtableEntry<'a> {
    pub(crate) sequence: SequenceNumber,
    pub(crate) value_type: ValueType,
    pub(crate) value: &'a [u8],
}

impl Memtable {
    /// An empty memtable that should be flushed at about `write_buffer_size` bytes.
    pub(crate) fn new(comparator: InternalKeyComparator, write_buffer_size: u64) -> Arc<Self> {
        Arc::new(Memtable {
            list: Arc::new(SkipList::new(
                comparator,
                write_buffer_size / CHUNK_FRACTION,
            )),
            tombstones: TombstoneSet::new(),
            counters: Counters {
                entries: AtomicU64::new(0),
                deletes: AtomicU64::new(0),
                deletes_outside: AtomicU64::new(0),
            },
            shadowed: Shadowed::new(),
            age: Age::default(),
            flush_requested: AtomicBool::new(false),
            tombstone_alarm: TombstoneAlarm::default(),
            write_buffer_size,
            charge: OnceLock::new(),
            accepted_to: AtomicU64::new(u64::MAX),
        })
    }

    /// Adds one operation; O(log n), O(1) for a key after all others. For a range deletion
    /// `user_key` is the start and `value` the end of the range; an empty range is accepted and
    /// ignored.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value of 4 GiB or more; `Corruption` if the memtable has an
    /// entry of this key, sequence number and type, which only damaged WAL files can cause.
    pub fn add(
        &self,
        sequence: SequenceNumber,
        value_type: ValueType,
        user_key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if user_key.len() > MAX_LEN - TRAILER_LEN || value.len() > MAX_LEN {
            return Err(Error::invalid_argument("key or value of 4 GiB or more"));
        }
        invariant!(
            !self.has_refused(),
            "operation {sequence} is added to a memtable that has refused some"
        );
        if value_type == ValueType::RangeDeletion {
            if self.comparator().compare_user(user_key, value).is_ge() {
                return Ok(());
            }
            self.tombstones.add(RangeTombstone {
                start: Bytes::copy_from_slice(user_key),
                end: Bytes::copy_from_slice(value),
                sequence,
            });
        } else {
            let key = Target {
                user_key,
                trailer: pack(sequence, value_type as u8),
            };
            let Some(entry) = self.list.insert(key, value) else {
                return Err(Error::corruption(format!(
                    "two operations on one key have sequence number {sequence}"
                )));
            };
            if value_type.is_point_deletion() {
                self.counters.count_delete(!self.list.has_older(entry));
            }
        }
        self.counters.entries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The newest entry of `user_key` not newer than `snapshot`, of any type. Range
    /// tombstones are not considered: compare with [`Memtable::range_tombstones`].
    pub(crate) fn get(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
    ) -> Option<MemtableEntry<'_>> {
        let target = Target {
            user_key,
            trailer: pack(snapshot, ValueType::FOR_SEEK),
        };
        let node = self.list.first_at_or_after(target)?;
        // `add` builds keys from valid parts, so parsing cannot fail.
        let found = ParsedInternalKey::parse(node.key()).ok()?;
        self.comparator()
            .compare_user(found.user_key, user_key)
            .is_eq()
            .then(|| MemtableEntry {
                sequence: found.sequence,
                value_type: found.value_type,
                value: node.value(),
            })
    }

    /// The range tombstones so far, as fragments. Costs two atomic operations if there are none;
    /// the first call after one was added sorts all of them, O(n log n).
    pub(crate) fn range_tombstones(&self) -> Arc<FragmentedTombstones> {
        self.tombstones.fragmented(self.comparator())
    }

    /// Whether any range tombstone was added; one atomic load.
    pub(crate) fn has_range_tombstones(&self) -> bool {
        !self.tombstones.is_empty()
    }

    /// Bytes of memory: all chunks of the arena, and the tombstones.
    pub(crate) fn approximate_memory_usage(&self) -> u64 {
        self.list.allocated() + self.tombstones.memory()
    }

    /// Whether it has many tombstones: [`MANY_TOMBSTONES`], or so many of entries outside of it
    /// that they free much of a version.
    pub(crate) fn has_many_tombstones(&self) -> bool {
        let outside = self.counters.deletes_outside.load(Ordering::Relaxed);
        self.num_deletes() >= MANY_TOMBSTONES || self.tombstone_alarm.is_much(outside)
    }

    /// To be told when it has many tombstones, and when that is told.
    pub(crate) fn tombstone_alarm(&self) -> &TombstoneAlarm {
        &self.tombstone_alarm
    }

    /// Operations added, range deletions included.
    pub(crate) fn num_entries(&self) -> u64 {
        self.counters.entries.load(Ordering::Relaxed)
    }

    /// Deletions and single deletions added; not range deletions.
    pub(crate) fn num_deletes(&self) -> u64 {
        self.counters.deletes.load(Ordering::Relaxed)
    }

    /// Whether nothing was added, neither entries nor range tombstones, and nothing was refused:
    /// whether the next write can go into it.
    pub(crate) fn is_empty(&self) -> bool {
        self.num_entries() == 0 && !self.has_refused()
    }

    /// Declares that entries later than `last` are not part of the database: their commit failed.
    /// Nothing more may be added. Entries cannot be removed, so readers and flushes skip them by
    /// [`Memtable::accepted_to`]. Must be called before any later number is published.
    pub(crate) fn refuse_after(&self, last: SequenceNumber) {
        invariant!(
            last <= self.accepted_to(),
            "operations up to {last} are accepted again, after those from {} on were refused",
            self.accepted_to()
        );
        self.accepted_to.store(last.0, Ordering::Release);
    }

    /// The last sequence number that an entry of this memtable may have; later ones were refused.
    /// A reader must call this after it has taken its own number.
    pub(crate) fn accepted_to(&self) -> SequenceNumber {
        SequenceNumber::MAX.min(SequenceNumber(self.accepted_to.load(Ordering::Acquire)))
    }

    /// Whether it may have operations of a commit that failed.
    pub(crate) fn has_refused(&self) -> bool {
        self.accepted_to.load(Ordering::Acquire) != u64::MAX
    }

    /// Whether it has grown to the write buffer's size, has more range deletions than a read should
    /// search, shadows so much in older tables that a flush is worthwhile, or a flush was
    /// requested. Never true of an empty one, however small the buffer.
    pub fn should_flush(&self) -> bool {
        !self.is_empty()
            && (self.approximate_memory_usage() >= self.write_buffer_size
                || self.tombstones.len() >= MAX_RANGE_DELETIONS
                || self.shadowed.is_enough()
                || self.flush_requested.load(Ordering::Relaxed))
    }

    /// When its first entry had been written, in seconds since 1970; `None` if nobody noted it.
    pub(crate) fn oldest_time(&self) -> Option<u64> {
        self.age.oldest_time()
    }

    /// Notes that its first entry had been written by `time`, in seconds since 1970, unless a time
    /// was noted before. Returns whether it was not.
    #[inline]
    pub(crate) fn note_oldest_time(&self, time: u64) -> bool {
        self.age.note(time)
    }

    /// It should be flushed at any size: its entries are old, or memory is to be freed.
    pub(crate) fn request_flush(&self) {
        self.flush_requested.store(true, Ordering::Relaxed);
    }

    /// Counts its memory. To be called by the leader of the commit queue when it has grown.
    pub(crate) fn charge(&self, account: &Arc<Account>) {
        let charge = self.charge.get_or_init(|| Charge::new(account));
        charge.set(self.approximate_memory_usage());
    }

    /// Nothing is added any more.
    pub(crate) fn seal(&self) {
        if let Some(charge) = self.charge.get() {
            charge.seal();
        }
    }

    /// Bytes that a flush would write, at most.
    pub(crate) fn bytes_to_flush(&self) -> u64 {
        match self.is_empty() {
            true => 0,
            false => self.approximate_memory_usage(),
        }
    }

    /// Bytes of separated values that it shadows in older tables, by the last
    /// [estimate](Memtable::begin_estimate).
    pub(crate) fn shadowed_bytes(&self) -> u64 {
        self.shadowed.bytes()
    }

    /// Whether so much was added that another [estimate](Memtable::begin_estimate) of its shadowed
    /// bytes is due.
    #[inline]
    pub(crate) fn wants_estimate(&self) -> bool {
        self.shadowed
            .is_due(self.num_entries(), self.tombstones.len())
    }

    /// The same, but true only once until the next estimate: for the caller that asks for it.
    #[inline]
    pub(crate) fn request_estimate(&self) -> bool {
        self.wants_estimate() && self.shadowed.ask()
    }

    /// Begins an estimate of its shadowed bytes, which the caller ends by
    /// [`Memtable::note_shadowed`].
    pub(crate) fn begin_estimate(&self) -> EstimateStart {
        let start = EstimateStart {
            entries: self.num_entries(),
            ranges: self.tombstones.len(),
        };
        self.shadowed.begin();
        start
    }

    /// Notes an estimate: the bytes found, from how many on it should be flushed, and the number of
    /// operations at which the next estimate is due.
    pub(crate) fn note_shadowed(&self, bytes: u64, enough: u64, start: EstimateStart, next: u64) {
        invariant!(
            start.entries <= self.num_entries() && start.ranges <= self.tombstones.len(),
            "an estimate began with {} operations of {}",
            start.entries,
            self.num_entries()
        );
        self.shadowed.note(bytes, enough, start.ranges, next);
    }

    pub(crate) fn comparator(&self) -> &InternalKeyComparator {
        self.list.comparator()
    }
}

impl Counters {
    #[inline]
    fn count_delete(&self, is_outside: bool) {
        self.deletes.fetch_add(1, Ordering::Relaxed);
        if is_outside {
            self.deletes_outside.fetch_add(1, Ordering::Relaxed);
        }
    }
}
