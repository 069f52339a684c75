//! How many bytes of values in blob files newer entries hide: those of older versions of their
//! keys, which are garbage that no compaction has found yet.
//!
//! Each older version is counted once, by what is next newer: an entry of its key, or a range
//! deletion. So the sum over all tables is what compactions will find.
//!
//! * [`Shadows`] is told what a flush writes, or what memtables hold. Of a sample of the entries it
//!   looks up what older tables have at their keys ([`points`]); what range deletions cover it sums
//!   up from what is known of those tables ([`ranges`]).
//! * [`outputs`] hands on what a compaction did not find to the tables it wrote.
//!
//! Estimates, all of it. They decide how soon memtables are flushed and tables compacted, and how
//! much of the space is taken to be alive; never what is garbage. So a table that cannot be read
//! has nothing to say here: those who need it will be told.

pub(super) mod outputs;
mod points;
mod ranges;

use std::sync::Arc;

use crate::error::Result;
use crate::format::internal_key::{ParsedInternalKey, ValueType};
use crate::format::{SequenceNumber, total};
use crate::memtable::Memtable;
use crate::open_files::OpenFiles;
use crate::range_del::FragmentedTombstones;
use crate::version::Version;
use crate::version::tombstones::version_tombstones;
use points::Lookup;

/// The tables that what is about to be written may hide something in.
#[derive(Clone, Copy)]
pub(crate) struct OlderTables<'a> {
    pub(crate) version: &'a Version,
    pub(crate) open_files: &'a OpenFiles,
}

/// How many keys are looked up at most.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Of entries with large values, which mostly replace what is about as large.
    large: u64,
    /// Of deletions and small values, which may hide anything.
    small: u64,
    /// Of each kind where a lookup may have to wait for the device; fewer than [`MIN_LOOKUPS`].
    cold: u64,
}

impl Effort {
    /// For what goes into the facts of a table.
    pub(crate) const FLUSH: Effort = Effort {
        large: 2048,
        small: 16 << 10,
        cold: 64,
    };
    /// For what decides whether to flush.
    pub(crate) const LOOK: Effort = Effort {
        large: 512,
        small: 2048,
        cold: 16,
    };

    /// What of it is spent on so many tables: each lookup asks many filters where there are many
    /// tables at level 0, and reads a block of its own where blocks are many.
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

/// About the bytes of a data block.
const BLOCK: u64 = 4096;
/// A tree of so many blocks is taken to be in memory.
const MAX_CACHED_BLOCKS: u64 = 2048;
/// The most filters that are asked.
const MAX_PROBES: u64 = 256 << 10;
const MIN_LOOKUPS: u64 = 128;

/// Of entries of one kind, one in so many is looked up and counts for all of those.
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

    /// What the next entry counts for, if it is one of the sample: one in each stride, at a place
    /// that differs from stride to stride, since kinds of keys may take turns at a fixed distance.
    fn next(&mut self) -> Option<u64> {
        let (stride, at) = (self.seen / self.stride, self.seen % self.stride);
        self.seen += 1;
        let scattered = stride.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        (at == scattered % self.stride).then_some(self.stride)
    }
}

/// Adds up what entries and range deletions hide in older tables.
pub(crate) struct Shadows<'a> {
    older: OlderTables<'a>,
    lookup: Lookup<'a>,
    min_blob_size: u64,
    large: Sample,
    small: Sample,
    /// What is written along: what they cover they hide, whatever else does.
    ranges: Arc<FragmentedTombstones>,
    bytes: u64,
}

impl<'a> Shadows<'a> {
    /// Of what these memtables hold, whose range deletions are `ranges`; `None` where older tables
    /// have nothing in blob files. Cost: as of [`ranges::hidden_by`].
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
            bytes: ranges::hidden_by(older, ranges.fragments(), &known, 0),
            lookup: Lookup::new(older, known),
            older,
            min_blob_size,
            large: Sample::of(large, effort.large),
            small: Sample::of(entries, effort.small),
            ranges: Arc::clone(ranges),
        })
    }

    /// Takes notice of an entry. Keys come in order. Cost: of a small part of them, a lookup.
    #[inline]
    pub(crate) fn see(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let key = ParsedInternalKey::parse(ikey)?;
        let sample = match key.value_type {
            ValueType::Value if (value.len() as u64) < self.min_blob_size => &mut self.small,
            ValueType::Value | ValueType::BlobIndex => &mut self.large,
            // A merge operand hides nothing.
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
            let hidden = self.lookup.blob_bytes_at(user_key).unwrap_or(0);
            self.bytes = self.bytes.saturating_add(hidden.saturating_mul(weight));
        }
    }

    /// Bytes hidden by everything that was seen.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
