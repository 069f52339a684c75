//! The first key of a prefix, found like a single key: without a cursor that merges all sources.
//!
//! Each sorted run says which key it has first. The smallest of these decides, newest run first, and if
//! it is deleted, the runs that had it say what they have next. Filters with prefixes rule out runs
//! without any I/O.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::SuperVersion;
use super::found::FoundValue;
use super::lookup::lookup;
use super::resolve::{Resolver, Step};
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::{
    InternalKeyComparator, ParsedInternalKey, ValueType, internal_key, seek_key,
};
use crate::iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::open_files::OpenFiles;
use crate::stats::{self, Statistics};
use crate::table::TableReader;
use crate::version::TableFile;

/// Versions in a memtable, too new for the snapshot, that are stepped over before a seek.
const MAX_SKIPS: usize = 8;

/// What is sought.
pub(crate) struct PrefixSearch<'a> {
    /// The first key that may be found.
    pub(crate) from: &'a [u8],
    pub(crate) prefix: &'a [u8],
    /// The first key after those with the prefix, where the order of keys has one.
    pub(crate) end: Option<Vec<u8>>,
    /// What filters know of all keys with the prefix: the name of an extractor and what it makes of them.
    pub(crate) filtered: Option<(&'a str, &'a [u8])>,
    pub(crate) snapshot: SequenceNumber,
    pub(crate) fill_cache: bool,
    pub(crate) statistics: &'a Statistics,
}

/// A sorted run, newest first among the others: a memtable, or tables that do not overlap.
enum Run<'a> {
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

impl PrefixSearch<'_> {
    /// Finds the first key with a value. Cost: a probe of a filter for each run, and a seek in each of
    /// those that the filters do not rule out; and one more in a run for each deleted key that it has
    /// first.
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
        let mut runs: Vec<Run<'_>> = super_version.memtables().map(Run::Memtable).collect();
        let level0 = version.level(0).iter();
        let level0 = level0.filter(|file| version.overlaps(file, Some(self.from), end));
        runs.extend(level0.map(|file| Run::Tables(std::slice::from_ref(file))));
        for level in 1..version.num_levels() {
            let tables = version.overlapping(level, Some(self.from), end);
            if !tables.is_empty() {
                runs.push(Run::Tables(tables));
            }
        }
        // Then only a lookup knows which of them cover a key.
        let has_tombstones = runs.iter().any(|run| match run {
            Run::Memtable(memtable) => memtable.has_range_tombstones(),
            Run::Tables(tables) => tables.iter().any(|table| table.may_have_tombstones()),
        });
        let first = seek_key(self.from, self.snapshot);
        let mut heads = Vec::with_capacity(runs.len());
        for run in &runs {
            heads.push(self.head(run, &first, open_files, order)?);
        }
        loop {
            let present = heads.iter().flatten();
            let smallest = present.min_by(|a, b| order.compare_user(&a.key, &b.key));
            let Some(newest) = smallest else {
                return Ok(None);
            };
            // `min_by` returns the first of equal ones: that of the newest run.
            let key = newest.key.clone();
            let resolver = Resolver::new(self.snapshot);
            let decided = match has_tombstones {
                true => None,
                false => match resolver.see(newest.sequence, newest.value_type, || false) {
                    Step::Done(outcome) => Some(outcome.stored()?),
                    Step::Operand | Step::TooNew => None,
                },
            };
            let found = match decided {
                Some(Some(stored)) => Some(FoundValue::of_stored(stored, newest.value.clone())?),
                Some(None) => None,
                None => {
                    let (snapshot, fill_cache) = (self.snapshot, self.fill_cache);
                    lookup(super_version, open_files, &key, snapshot, fill_cache)?.value
                }
            };
            if let Some(found) = found {
                return Ok(Some((key, found)));
            }
            // MUTANT: the search for the first key of a prefix ends at a deleted key.
            if mutant!(
                "prefix-ends-at-a-deleted-key",
                "-p titan --test it prefixes::"
            ) {
                return Ok(None);
            }
            let next = internal_key(&key, SequenceNumber::ZERO, 0);
            for (run, head) in runs.iter().zip(&mut heads) {
                if head.as_ref().is_some_and(|head| head.key == key) {
                    *head = self.head(run, &next, open_files, order)?;
                }
            }
        }
    }

    /// The first entry of a run after `target`, an internal key, if it has the prefix.
    fn head(
        &self,
        run: &Run<'_>,
        target: &[u8],
        open_files: &Arc<OpenFiles>,
        order: &InternalKeyComparator,
    ) -> Result<Option<Head>> {
        match run {
            Run::Memtable(memtable) => self.head_of_memtable(memtable, target),
            Run::Tables(tables) => {
                for file in *tables {
                    let is_newer = file.meta.smallest_seq > self.snapshot;
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
        answer == Some(false)
    }
}
