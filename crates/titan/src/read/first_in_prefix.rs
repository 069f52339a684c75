//! The first key of a prefix, found like a single key: without a cursor that merges all sources.
//!
//! Each sorted run names its first key. The smallest of these decides, newest run first, and if it
//! is deleted, the runs that had it name their next ones. Filters with prefixes rule out runs
//! without any I/O.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::SuperVersion;
use super::found::FoundValue;
use super::lookup::lookup;
use super::resolve::{Resolver, Step};
use crate::dead_ranges::{DeadRanges, DeadRun, Edge, Way};
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::{InternalKeyComparator, ParsedInternalKey, ValueType, seek_key};
use crate::iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::open_files::OpenFiles;
use crate::stats::{self, Statistics};
use crate::table::TableReader;
use crate::version::TableFile;

/// Versions in a memtable, too new for the snapshot, that are stepped over before a seek.
const MAX_SKIPS: usize = 8;

/// Room for this many runs is made at once.
const RUNS: usize = 8;

/// Search for the first key with a prefix.
pub(crate) struct PrefixSearch<'a> {
    /// The first key that may be found.
    pub(crate) from: &'a [u8],
    pub(crate) prefix: &'a [u8],
    /// The first key after those with the prefix, where the order of keys has one.
    pub(crate) end: Option<Vec<u8>>,
    /// Entry of filters for all keys with the prefix: the name of an extractor and the prefix that
    /// it makes of them.
    pub(crate) filtered: Option<(&'a str, &'a [u8])>,
    /// Whether they have ruled out a table.
    pub(crate) has_ruled_out: Cell<bool>,
    pub(crate) snapshot: SequenceNumber,
    pub(crate) fill_cache: bool,
    pub(crate) statistics: &'a Statistics,
    /// The order of keys is bytewise.
    pub(crate) dead: &'a DeadRanges,
}

/// A sorted run.
struct Run<'a> {
    source: RunSource<'a>,
    head: Option<Head>,
}

/// Where a run is: in a memtable, or in tables that do not overlap.
#[derive(Clone, Copy)]
enum RunSource<'a> {
    Memtable(&'a Arc<Memtable>),
    Tables(&'a [Arc<TableFile>]),
}

/// The first entry of a run that the snapshot sees.
struct Head {
    key: Bytes,
    sequence: SequenceNumber,
    value_type: ValueType,
    value: Bytes,
}

/// The first key after this one, in the bytewise order.
fn key_after(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}

/// The key of a head.
fn key_of(head: &Option<Head>) -> &[u8] {
    head.as_ref().map_or(&[], |head| &head.key)
}

impl RunSource<'_> {
    fn may_have_tombstones(self) -> bool {
        match self {
            RunSource::Memtable(memtable) => memtable.has_range_tombstones(),
            RunSource::Tables(tables) => tables.iter().any(|table| table.may_have_tombstones()),
        }
    }
}

impl PrefixSearch<'_> {
    /// Finds the first key with a value. Cost: a probe of a filter for each run, and a seek in each
    /// of those that the filters do not rule out; and one more in a run for each deleted key that
    /// it has first.
    pub(crate) fn find(
        &self,
        super_version: &SuperVersion,
        open_files: &Arc<OpenFiles>,
    ) -> Result<Option<(Bytes, FoundValue)>> {
        let version = &*super_version.version;
        let order = &version.comparator;
        let end = match &self.end {
            Some(end) => Bound::Excluded(end.as_slice()),
            None => Bound::Unbounded,
        };
        let memtables = super_version.memtables().map(RunSource::Memtable);
        let level0 = version.level(0).iter();
        let level0 = level0.filter(|file| version.overlaps(file, Some(self.from), end));
        let level0 = level0.map(|file| RunSource::Tables(std::slice::from_ref(file)));
        let filled = (1..version.num_levels()).filter(|level| !version.level(*level).is_empty());
        let levels = filled.map(|level| {
            let tables = version.overlapping(level, Some(self.from), end);
            RunSource::Tables(tables)
        });
        let first = seek_key(self.from, self.snapshot);
        // Only a lookup knows which keys range tombstones cover.
        let mut has_tombstones = false;
        // Newest first.
        let mut runs: Vec<Run<'_>> = Vec::with_capacity(RUNS);
        for source in memtables.chain(level0).chain(levels) {
            has_tombstones |= source.may_have_tombstones();
            let head = self.head(source, &first, open_files, order)?;
            // A run whose first key is beyond the prefix has nothing later either.
            if head.is_some() {
                runs.push(Run { source, head });
            }
        }
        let mut run = DeadRun::new(self.dead, super_version.at(self.snapshot));
        let found = loop {
            let heads = runs.iter_mut().map(|run| &mut run.head);
            let smallest = heads.min_by(|a, b| order.compare_user(key_of(a), key_of(b)));
            // `min_by` returns the first of equal ones: that of the newest run.
            let Some(newest) = smallest.and_then(Option::take) else {
                break None;
            };
            let key = newest.key;
            let resolver = Resolver::new(self.snapshot);
            let decided = match has_tombstones {
                true => None,
                false => match resolver.see(newest.sequence, newest.value_type, || false) {
                    Step::Done(outcome) => Some(outcome.stored()?),
                    Step::Operand | Step::TooNew => None,
                },
            };
            let found = match decided {
                Some(Some(stored)) => Some(FoundValue::of_stored(stored, newest.value)?),
                Some(None) => None,
                None => {
                    let (snapshot, fill_cache) = (self.snapshot, self.fill_cache);
                    lookup(super_version, open_files, &key, snapshot, fill_cache)?.value
                }
            };
            if let Some(found) = found {
                break Some((key, found));
            }
            if mutant!(prefix_ends_at_a_deleted_key) {
                break None;
            }
            self.dead.count_skipped(1);
            let mut dead_end = None;
            if run.is_time_to_look() {
                dead_end = run.look(&key, Way::Forward);
            }
            let next = match dead_end {
                Some(Edge {
                    key,
                    included: false,
                }) => key,
                Some(end) => key_after(&end.key),
                // A deletion may have the last internal key of this one: RocksDB leaves the number
                // 0 to entries that it ingests.
                None => key_after(&key),
            };
            let target = seek_key(&next, SequenceNumber::MAX);
            for run in &mut runs {
                // The run whose head was taken stands at the key, too.
                let is_before = |head: &Head| order.compare_user(&head.key, &next).is_lt();
                if run.head.as_ref().is_none_or(is_before) {
                    run.head = self.head(run.source, &target, open_files, order)?;
                }
            }
            runs.retain(|run| run.head.is_some());
        };
        if self.has_ruled_out.get() {
            run.sees_a_part();
        }
        run.end(Way::Forward);
        Ok(found)
    }

    /// The first entry of a run not before `target`, an internal key, if it has the prefix.
    fn head(
        &self,
        source: RunSource<'_>,
        target: &[u8],
        open_files: &Arc<OpenFiles>,
        order: &InternalKeyComparator,
    ) -> Result<Option<Head>> {
        match source {
            RunSource::Memtable(memtable) => self.head_of_memtable(memtable, target),
            RunSource::Tables(tables) => {
                for file in tables {
                    let is_newer =
                        file.meta.knows_sequences() && file.meta.smallest_seq > self.snapshot;
                    if is_newer || order.compare(&file.meta.largest, target).is_lt() {
                        continue;
                    }
                    let table = open_files.table(file.meta.identity(), order)?;
                    if self.is_ruled_out(&table) {
                        continue;
                    }
                    let (snapshot, fill_cache) = (self.snapshot, self.fill_cache);
                    let found = table.first_from(target, self.prefix, snapshot, fill_cache)?;
                    if let Some((key, entry)) = found {
                        return Ok(Some(Head {
                            key,
                            sequence: entry.sequence,
                            value_type: entry.value_type,
                            value: entry.value,
                        }));
                    }
                }
                Ok(None)
            }
        }
    }

    fn head_of_memtable(&self, memtable: &Arc<Memtable>, target: &[u8]) -> Result<Option<Head>> {
        let mut iter = memtable.iter();
        iter.seek(target)?;
        let mut skipped = 0;
        while iter.valid() {
            let entry = ParsedInternalKey::parse(iter.key())?;
            if !entry.user_key.starts_with(self.prefix) {
                break;
            }
            if entry.sequence <= self.snapshot {
                return Ok(Some(Head {
                    key: Bytes::copy_from_slice(entry.user_key),
                    sequence: entry.sequence,
                    value_type: entry.value_type,
                    value: Bytes::copy_from_slice(iter.value()),
                }));
            }
            skipped += 1;
            match skipped > MAX_SKIPS {
                true => {
                    let visible = seek_key(entry.user_key, self.snapshot);
                    iter.seek(&visible)?;
                    skipped = 0;
                }
                false => iter.next()?,
            }
        }
        Ok(None)
    }

    /// Whether a filter says that a table has no key of the prefix.
    fn is_ruled_out(&self, table: &TableReader) -> bool {
        let ask = |(extractor, prefix)| table.may_contain_prefix(extractor, prefix);
        let answer = self.filtered.and_then(ask);
        if let Some(may) = answer {
            stats::add(&self.statistics.prefix_filter_probes, 1);
            stats::add(&self.statistics.prefix_filter_negatives, u64::from(!may));
        }
        let is_ruled_out = answer == Some(false);
        if is_ruled_out {
            self.has_ruled_out.set(true);
        }
        is_ruled_out
    }
}
