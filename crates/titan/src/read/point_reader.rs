//! Reads of single keys, one or many, all as of one moment.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;

use super::found::FoundValue;
use super::found::Merged;
use super::lookup::lookup;
use super::options::end_of_prefix;
use super::search::{Lookup, Place};
use super::{PrefixSearch, SuperVersion};
use crate::blob::ValueFetcher;
use crate::dead_ranges::DeadRanges;
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::blob_index::BlobIndex;
use crate::format::prefix::PrefixExtractor;
use crate::lazy_value::LazyValue;
use crate::merge::MergeOperator;
use crate::open_files::OpenFiles;
use crate::stats::{self, Detailed, Statistics, Stripe, perf_context};
use crate::version::StoredValues;
use crate::wide_columns::WideColumns;

/// See the module.
pub(crate) struct PointReader<'a> {
    pub(crate) super_version: &'a SuperVersion,
    pub(crate) open_files: &'a Arc<OpenFiles>,
    pub(crate) fetcher: &'a ValueFetcher,
    pub(crate) merge_operator: Option<&'a Arc<dyn MergeOperator>>,
    pub(crate) statistics: &'a Statistics,
    /// Further counters, if they are switched on.
    pub(crate) detailed: Option<Detailed<'a>>,
    pub(crate) dead: &'a DeadRanges,
    /// The newest sequence number that the reads see. Must have been taken after `super_version`.
    pub(crate) sequence: SequenceNumber,
    /// Whether the blocks that the reads load are cached.
    pub(crate) fill_cache: bool,
}

impl PointReader<'_> {
    /// Finds a key. Touches no blob file.
    #[inline(always)] // Its callers are few, and each is a call of users.
    pub(crate) fn lookup(&self, key: &[u8]) -> Result<Lookup> {
        let PointReader {
            super_version,
            open_files,
            sequence,
            fill_cache,
            ..
        } = *self;
        let before = self.detailed.map(|_| Filters::asked());
        let found = lookup(super_version, open_files, key, sequence, fill_cache)?;
        debug_assert!(found.sequence <= sequence, "newer than the snapshot");
        stats::add(&self.statistics.gets, 1);
        stats::add(&self.statistics.get_hits, u64::from(found.value.is_some()));
        if let (Some(detailed), Some(before)) = (self.detailed, before) {
            found.count(detailed.stripe(), &before);
        }
        Ok(found)
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self.lookup(key)?.value {
            None => Ok(None),
            Some(FoundValue::Inline(value)) => Ok(Some(value)),
            Some(FoundValue::Blob(index)) => {
                let locations = &*self.super_version.version;
                self.fetcher.fetch(locations, key, &index).map(Some)
            }
            Some(found @ (FoundValue::Merged(_) | FoundValue::Entity(_))) => {
                self.lazy(key, found)?.fetch().map(Some)
            }
        }
    }

    /// The value of a key, to be read later if it is in a blob file.
    pub(crate) fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
        let found = self.lookup(key)?.value;
        found.map(|found| self.lazy(key, found)).transpose()
    }

    /// The columns of a key, to be read later where they are in blob files.
    pub(crate) fn columns(&self, key: &[u8]) -> Result<Option<WideColumns>> {
        let found = self.lookup(key)?.value;
        let columns = found.map(|found| match found {
            FoundValue::Entity(entity) => self.columns_of(key, &entity),
            FoundValue::Merged(merged) => match merged.base.as_deref() {
                Some(FoundValue::Entity(entity)) => {
                    let columns = self.columns_of(key, entity)?;
                    let value = self.lazy(key, FoundValue::Merged(merged))?;
                    Ok(columns.with_default(value))
                }
                _ => {
                    let value = self.lazy(key, FoundValue::Merged(merged));
                    value.map(WideColumns::of_value)
                }
            },
            plain => self.lazy(key, plain).map(WideColumns::of_value),
        });
        columns.transpose()
    }

    fn columns_of(&self, key: &[u8], entity: &Bytes) -> Result<WideColumns> {
        WideColumns::of_entity(key, entity, || {
            StoredValues::of(&self.super_version.version, self.fetcher)
        })
    }

    /// Value of a key that was found, to be read later.
    fn lazy(&self, key: &[u8], found: FoundValue) -> Result<LazyValue> {
        Ok(match found {
            FoundValue::Inline(value) => LazyValue::inline(value),
            FoundValue::Blob(index) => LazyValue::blob(
                Bytes::copy_from_slice(key),
                index,
                StoredValues::of(&self.super_version.version, self.fetcher),
            ),
            FoundValue::Entity(entity) => {
                return self.lazy(key, FoundValue::of_default_column(&entity)?);
            }
            FoundValue::Merged(merged) => {
                let Merged { base, operands } = *merged;
                let base = base.map(|base| self.lazy(key, *base)).transpose()?;
                let operator = self.merge_operator.cloned();
                LazyValue::merged(Bytes::copy_from_slice(key), base, operands, operator)
            }
        })
    }

    /// The first key not before `from` that begins with `prefix`, and its value.
    ///
    /// # Errors
    /// `InvalidArgument` if the order of keys is not bytewise.
    pub(crate) fn first_in_prefix(
        &self,
        from: &[u8],
        prefix: &[u8],
        extractor: Option<&dyn PrefixExtractor>,
    ) -> Result<Option<(Bytes, LazyValue)>> {
        let comparator = &self.super_version.version.comparator;
        let end = end_of_prefix(&**comparator.user(), prefix)?;
        if end.as_ref().is_some_and(|end| from >= end.as_slice()) {
            return Ok(None);
        }
        let whole = extractor.filter(|extractor| extractor.is_surely_whole(prefix));
        let search = PrefixSearch {
            from: from.max(prefix),
            prefix,
            end,
            // Without an answer of the extractor no filter is asked.
            filtered: whole.and_then(|e| Some((e.name(), e.prefix(prefix).ok()??))),
            has_ruled_out: Cell::default(),
            snapshot: self.sequence,
            fill_cache: self.fill_cache,
            statistics: self.statistics,
            dead: self.dead,
        };
        let found = search.find(self.super_version, self.open_files)?;
        let value = found.map(|(key, found)| {
            let value = self.lazy(&key, found)?;
            Ok((key, value))
        });
        value.transpose()
    }

    /// The values of many keys, in the order of the keys, each with its own result. All keys are
    /// looked up before the first value is read from a blob file, so that values that lie close
    /// together are read together.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        let mut results = Vec::with_capacity(keys.len());
        let mut pointers: Vec<(&[u8], BlobIndex)> = Vec::new();
        // The indexes in `results` of the values that `pointers` lead to.
        let mut waiting = Vec::new();
        for key in keys {
            let key = key.as_ref();
            let mut found = self.lookup(key).map(|found| found.value);
            if let Ok(Some(FoundValue::Entity(entity))) = &found {
                found = FoundValue::of_default_column(entity).map(Some);
            }
            results.push(match found {
                Ok(Some(FoundValue::Blob(index))) => {
                    waiting.push(results.len());
                    pointers.push((key, index));
                    Ok(None)
                }
                Ok(Some(FoundValue::Inline(value))) => Ok(Some(value)),
                Ok(Some(found @ (FoundValue::Merged(_) | FoundValue::Entity(_)))) => {
                    self.lazy(key, found).and_then(|v| v.fetch()).map(Some)
                }
                Ok(None) => Ok(None),
                Err(e) => Err(e),
            });
        }
        let locations = &*self.super_version.version;
        let fetched = self.fetcher.fetch_many(locations, &pointers);
        for (position, value) in waiting.into_iter().zip(fetched) {
            if let Some(result) = results.get_mut(position) {
                *result = value.map(Some);
            }
        }
        results
    }
}

/// The filters that this thread has asked so far.
struct Filters {
    negative: u64,
    positive: u64,
    true_positive: u64,
}

impl Filters {
    fn asked() -> Self {
        perf_context::read(|running| Filters {
            negative: running.bloom_sst_miss_count.get(),
            positive: running.bloom_sst_hit_count.get(),
            true_positive: running.bloom_filter_full_true_positive.get(),
        })
    }

    /// Counts the filters that were asked since.
    fn count(&self, to: &Stripe) {
        let now = Filters::asked();
        for (counter, now, before) in [
            (&to.bloom_filter_useful, now.negative, self.negative),
            (&to.bloom_filter_full_positive, now.positive, self.positive),
            (
                &to.bloom_filter_full_true_positive,
                now.true_positive,
                self.true_positive,
            ),
        ] {
            if now != before {
                stats::add(counter, now.wrapping_sub(before));
            }
        }
    }
}

impl Lookup {
    /// Counts the place of its end, the filters that it asked since `before`, and the value found.
    #[inline(never)]
    fn count(&self, to: &Stripe, before: &Filters) {
        let hits = match self.place {
            Some(Place::Memory) => Some(&to.memtable_hits),
            // A tombstone in a table is no hit, as in RocksDB.
            _ if self.value.is_none() => None,
            Some(Place::Level(0)) => Some(&to.l0_hits),
            Some(Place::Level(1)) => Some(&to.l1_hits),
            Some(Place::Level(_)) => Some(&to.l2_and_up_hits),
            None => None,
        };
        hits.into_iter().for_each(|hits| stats::add(hits, 1));
        if self.place != Some(Place::Memory) {
            stats::add(&to.memtable_misses, 1);
            before.count(to);
        }
        let bytes = match &self.value {
            Some(FoundValue::Inline(value) | FoundValue::Entity(value)) => value.len() as u64,
            Some(FoundValue::Blob(index)) => index.size,
            Some(FoundValue::Merged(_)) | None => return,
        };
        stats::add(&to.bytes_read, bytes);
    }
}
