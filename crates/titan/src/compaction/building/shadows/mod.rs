//! Estimates shadowed bytes: bytes of values in blob files that belong to older versions of keys.
//! Newer entries overwrite or delete them, and no compaction has dropped them yet.
//!
//! Each older version is counted once, for the next newer entry: one of its key, or a range
//! deletion. So compactions will drop the sum over all tables.
//!
//! * [`Shadows`] receives the entries that a flush writes or that memtables have. For a sample of
//!   these it looks up the entries of older tables at their keys ([`points`]). It sums up the bytes
//!   that range deletions cover from known properties of those tables ([`ranges`]).
//! * [`outputs`] assigns the shadowed bytes that a compaction did not drop to the tables that it
//!   wrote.
//!
//! All of these are estimates. They decide how soon memtables are flushed and tables compacted, and
//! how much of the space is assumed to be live; they never decide what is garbage. So a table that
//! cannot be read counts as nothing here: its readers will get the error.

mod older_tables;
pub(super) mod outputs;
mod points;
mod ranges;

use std::sync::Arc;

use crate::error::Result;
use crate::format::internal_key::{ParsedInternalKey, ValueType};
use crate::format::{SequenceNumber, total};
use crate::memtable::Memtable;
use crate::range_del::FragmentedTombstones;
use crate::version::state::tombstones::version_tombstones;
pub(crate) use older_tables::OlderTables;
use points::Lookup;

/// The most keys that are looked up.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Of entries with large values, which mostly replace values of similar size.
    large: u64,
    /// Of deletions and small values, which may shadow anything.
    small: u64,
    /// Of each kind, if a lookup may have to wait for the device; fewer than [`MIN_LOOKUPS`].
    cold: u64,
}

impl Effort {
    /// For the facts of a table.
    pub(crate) const FLUSH: Effort = Effort {
        large: 2048,
        small: 16 << 10,
        cold: 64,
    };
    /// For the decision whether to flush.
    pub(crate) const ESTIMATE: Effort = Effort {
        large: 512,
        small: 2048,
        cold: 16,
    };

    /// The part of it that is spent on these tables: each lookup probes many filters if level 0 has
    /// many tables, and reads a block of its own if there are many blocks.
    fn on(self, older: OlderTables<'_>) -> Effort {
        let version = older.version;
        let asked = (version.level(0).len() + version.num_levels()) as u64;
        let blocks = version.table_bytes() / BLOCK;
        let most = match blocks <= MAX_CACHED_BLOCKS {
            true => (MAX_PROBES / asked.max(1)).max(MIN_LOOKUPS),
            false => self.cold,
        };
        Effort {
            large: self.large.min(most),
            small: self.small.min(most),
            ..self
        }
    }
}

/// The approximate bytes of a data block.
const BLOCK: u64 = 4096;
/// A tree with at most this many blocks is assumed to be in memory.
const MAX_CACHED_BLOCKS: u64 = 2048;
/// The most filters that are probed.
const MAX_PROBES: u64 = 256 << 10;
const MIN_LOOKUPS: u64 = 128;

/// A sample of the entries of one kind: one in `stride` is looked up and counts for all of them.
struct Sample {
    stride: u64,
    seen: u64,
}

impl Sample {
    fn of(entries: u64, lookups: u64) -> Self {
        Sample {
            stride: entries.div_ceil(lookups.max(1)).max(1),
            seen: 0,
        }
    }

    /// The weight of the next entry, if it belongs to the sample: one in each stride, at a position
    /// that differs from stride to stride, since kinds of keys may alternate at a fixed distance.
    fn next(&mut self) -> Option<u64> {
        let (stride, at) = (self.seen / self.stride, self.seen % self.stride);
        self.seen += 1;
        let scattered = stride.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        (at == scattered % self.stride).then_some(self.stride)
    }
}

/// Adds up the bytes that entries and range deletions shadow in older tables.
pub(crate) struct Shadows<'a> {
    older: OlderTables<'a>,
    lookup: Lookup<'a>,
    min_blob_size: u64,
    large: Sample,
    small: Sample,
    /// The range deletions that are written too. The bytes that they cover count for them, even if
    /// an entry shadows these as well.
    ranges: Arc<FragmentedTombstones>,
    bytes: u64,
}

impl<'a> Shadows<'a> {
    /// For the content of these memtables, whose range deletions are `ranges`. `None` if older
    /// tables have nothing in blob files. Cost: that of [`ranges::shadowed_by`].
    pub(crate) fn of(
        memtables: &[Arc<Memtable>],
        ranges: &Arc<FragmentedTombstones>,
        older: OlderTables<'a>,
        min_blob_size: u64,
        effort: Effort,
    ) -> Option<Self> {
        if older.version.blob_files.live_bytes() == 0 {
            return None;
        }
        let entries = total(memtables.iter().map(|m| m.num_entries()));
        let bytes = total(memtables.iter().map(|m| m.approximate_memory_usage()));
        let large = entries.min(bytes / min_blob_size.max(1));
        let effort = effort.on(older);
        let known = version_tombstones(older.open_files, older.version);
        let known = known.unwrap_or_else(|_| FragmentedTombstones::empty());
        Some(Shadows {
            bytes: ranges::shadowed_by(older, ranges.fragments(), &known, 0),
            lookup: Lookup::new(older, known),
            older,
            min_blob_size,
            large: Sample::of(large, effort.large),
            small: Sample::of(entries, effort.small),
            ranges: Arc::clone(ranges),
        })
    }

    /// Counts an entry. Keys must come in order. Cost: a lookup for a small part of the entries.
    #[inline]
    pub(crate) fn see(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let key = ParsedInternalKey::parse(ikey)?;
        let sample = match key.value_type {
            ValueType::Value | ValueType::WideColumnEntity
                if (value.len() as u64) < self.min_blob_size =>
            {
                &mut self.small
            }
            ValueType::Value | ValueType::BlobIndex | ValueType::WideColumnEntity => {
                &mut self.large
            }
            // A merge operand shadows nothing.
            ValueType::Merge => return Ok(()),
            _ => &mut self.small,
        };
        if let Some(weight) = sample.next() {
            self.look_up(key.user_key, weight);
        }
        Ok(())
    }

    fn look_up(&mut self, user_key: &[u8], weight: u64) {
        let comparator = &self.older.version.comparator;
        let ranges = &self.ranges;
        let covering = ranges.max_covering(user_key, SequenceNumber::MAX, comparator);
        if covering == SequenceNumber::ZERO {
            let shadowed = self.lookup.blob_bytes_at(user_key).unwrap_or(0);
            self.bytes = self.bytes.saturating_add(shadowed.saturating_mul(weight));
        }
    }

    /// Bytes that everything seen so far shadows.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
