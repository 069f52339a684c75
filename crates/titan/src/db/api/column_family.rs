//! The handle of users to a column family.

use std::sync::Arc;

use bytes::Bytes;

use crate::batch::{BatchTarget, WriteBatch};
use crate::compaction::CompactRangeOptions;
use crate::db::core::family::{Family, dropped};
use crate::db::core::shared::Core;
use crate::db::reports::metrics::FamilyMetrics;
use crate::error::Result;
use crate::format::{ColumnFamilyId, Comparator, SequenceNumber};
use crate::gc::CollectGarbageOptions;
use crate::gc::range::GarbageCollectionSummary;
use crate::lazy_value::LazyValue;
use crate::merge::MergeOperator;
use crate::options::ColumnFamilyOptions;
use crate::read::{DbIterator, IteratorSource, PointReader, ReadOptions, SuperVersion};
use crate::stats::{self, Detailed, HistogramKind};
use crate::wide_columns::WideColumns;
use crate::write::WriteOptions;

/// A column family: a key space of its own, with its own options, written atomically together
/// with the others of its database.
///
/// Handles are cheap to clone and keep the database open.
///
/// # Errors
/// Reads: `Closed`; `InvalidArgument` if the family was dropped, or the snapshot is of another
/// database or of an earlier opening of this one; `Corruption` with file and offset for damage that
/// they meet; `Io`; `Unsupported` for an entity of a later version, and for merge operands whose
/// operator was not given; `Corruption` if the merge operator fails, `Internal` if it or the prefix
/// extractor panics. A read that fails changes nothing, and may succeed when repeated.
///
/// Writes: those of [`Db::write`](crate::Db::write).
#[derive(Clone)]
pub struct ColumnFamily {
    pub(crate) core: Arc<Core>,
    pub(crate) family: Arc<Family>,
}

impl From<&ColumnFamily> for ColumnFamilyId {
    fn from(family: &ColumnFamily) -> Self {
        family.id()
    }
}

impl From<&ColumnFamily> for BatchTarget {
    fn from(family: &ColumnFamily) -> Self {
        BatchTarget {
            family: family.id(),
            opening: Some(family.core.shared.opening.id),
        }
    }
}

impl ColumnFamily {
    /// The family's number.
    pub fn id(&self) -> ColumnFamilyId {
        self.family.id
    }

    /// The family's name.
    pub fn name(&self) -> &str {
        &self.family.name
    }

    /// The options the family runs with now. Cost: a copy of them.
    ///
    /// They have no merge operator or prefix extractor that is recorded and was not given: for its
    /// name, see [`LoadedOptions::recorded`](crate::LoadedOptions::recorded).
    pub fn options(&self) -> ColumnFamilyOptions {
        ColumnFamilyOptions::clone(&self.family.options.load()).without_placeholders()
    }

    /// The newest value of `key`. Cost: that of [`ColumnFamily::get_with`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.get_with(key, &ReadOptions::default())
    }

    /// The value of `key`, read with `options`. Cost: that of [`ColumnFamily::get_lazy`], and one
    /// read if the value is in a blob file.
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Bytes>> {
        self.get_key(key.as_ref(), options)
    }

    // The bodies of generic calls are here, so that they are compiled once.
    fn get_key(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Bytes>> {
        let detailed = self.detailed();
        let _watch = detailed.and_then(|detailed| detailed.sample(HistogramKind::Get));
        let (super_version, sequence) = self.pin(options)?;
        self.reader(&super_version, sequence, options, detailed)
            .get(key)
    }

    /// Finds `key` without reading its value from a blob file. Cost: at most one block of each
    /// table whose range and filter admit the key, usually one in all, usually cached.
    pub fn get_lazy(&self, key: impl AsRef<[u8]>) -> Result<Option<LazyValue>> {
        self.get_lazy_with(key, &ReadOptions::default())
    }

    /// The same, read with `options`.
    pub fn get_lazy_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<LazyValue>> {
        self.get_key_lazy(key.as_ref(), options)
    }

    fn get_key_lazy(&self, key: &[u8], options: &ReadOptions) -> Result<Option<LazyValue>> {
        let detailed = self.detailed();
        let _watch = detailed.and_then(|detailed| detailed.sample(HistogramKind::Get));
        let (super_version, sequence) = self.pin(options)?;
        self.reader(&super_version, sequence, options, detailed)
            .get_lazy(key)
    }

    /// The columns of `key`. Cost: that of [`ColumnFamily::get_entity_with`].
    pub fn get_entity(&self, key: impl AsRef<[u8]>) -> Result<Option<WideColumns>> {
        self.get_entity_with(key, &ReadOptions::default())
    }

    /// The columns of `key`, read with `options`; of a key without columns, the default column.
    /// Cost: that of [`ColumnFamily::get_lazy`]. Columns in blob files are read when they are asked
    /// for.
    pub fn get_entity_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<WideColumns>> {
        let detailed = self.detailed();
        let _watch = detailed.and_then(|detailed| detailed.sample(HistogramKind::Get));
        let (super_version, sequence) = self.pin(options)?;
        let reader = self.reader(&super_version, sequence, options, detailed);
        reader.columns(key.as_ref())
    }

    /// The first key not before `from` that begins with `prefix`, and its value. Cost: that of
    /// [`ColumnFamily::first_in_prefix_with`].
    pub fn first_in_prefix(
        &self,
        from: impl AsRef<[u8]>,
        prefix: impl AsRef<[u8]>,
    ) -> Result<Option<(Bytes, LazyValue)>> {
        self.first_in_prefix_with(from, prefix, &ReadOptions::default())
    }

    /// The first key not before `from` that begins with `prefix`, and its value, read with
    /// `options`, whose bounds and prefix do not count. It is a point read: with a [prefix
    /// extractor](crate::prefix::PrefixExtractor) whose prefixes `prefix` determines, filters rule
    /// out most tables, and its cost is that of [`ColumnFamily::get_lazy`]. Without, each memtable,
    /// table of level 0 and level that overlaps the range is searched. Each deleted key before the
    /// one that is found costs a little more, the first time that it is met; each time, if filters
    /// rule out a table or the family has a compaction filter.
    ///
    /// # Errors
    /// `InvalidArgument` if the family's order of keys is not bytewise.
    pub fn first_in_prefix_with(
        &self,
        from: impl AsRef<[u8]>,
        prefix: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<(Bytes, LazyValue)>> {
        let detailed = self.detailed();
        let _watch = detailed.and_then(|detailed| detailed.sample(HistogramKind::Get));
        let (super_version, sequence) = self.pin_all(options)?;
        let reader = self.reader(&super_version, sequence, options, detailed);
        let extractor = self.family.prefix_extractor.as_deref();
        reader.first_in_prefix(from.as_ref(), prefix.as_ref(), extractor)
    }

    /// Whether `key` has a value. Never touches a blob file. Cost: that of
    /// [`ColumnFamily::get_lazy`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_key_with(key, &ReadOptions::default())
    }

    /// Whether `key` has a value, read with `options`. Never touches a blob file. Cost: that of
    /// [`ColumnFamily::get_lazy`].
    pub fn contains_key_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool> {
        self.contains(key.as_ref(), options)
    }

    fn contains(&self, key: &[u8], options: &ReadOptions) -> Result<bool> {
        let detailed = self.detailed();
        let _watch = detailed.and_then(|detailed| detailed.sample(HistogramKind::Get));
        let (super_version, sequence) = self.pin(options)?;
        let found = self
            .reader(&super_version, sequence, options, detailed)
            .lookup(key)?;
        Ok(found.value.is_some())
    }

    /// The values of many keys, in the order of the keys, all as of one moment. Values in blob
    /// files are read together, in the order of their positions. Each key has its own result. Cost:
    /// a lookup per key, and a read for each run of values that lie close together; all values are
    /// in memory at once.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        self.multi_get_with(keys, &ReadOptions::default())
    }

    /// The same, read with `options`.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Bytes>>> {
        self.read_each(keys, options, |reader| reader.multi_get(keys))
    }

    /// Finds many keys, in the order of the keys, all as of one moment. Reads no value from a blob
    /// file. Each key has its own result. Cost: that of [`ColumnFamily::get_lazy`] for each key.
    pub fn multi_get_lazy<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<LazyValue>>> {
        self.multi_get_lazy_with(keys, &ReadOptions::default())
    }

    /// The same, read with `options`.
    pub fn multi_get_lazy_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<LazyValue>>> {
        self.read_each(keys, options, |reader| {
            let found = keys.iter().map(|key| reader.get_lazy(key.as_ref()));
            found.collect()
        })
    }

    /// A result for each key from one reader; its error for each if there is none.
    fn read_each<K, T>(
        &self,
        keys: &[K],
        options: &ReadOptions,
        read: impl FnOnce(&PointReader<'_>) -> Vec<Result<T>>,
    ) -> Vec<Result<T>> {
        let detailed = self.detailed();
        let _watch = detailed.and_then(|detailed| detailed.sample(HistogramKind::MultiGet));
        if let Some(detailed) = detailed {
            let stripe = detailed.stripe();
            stats::add(&stripe.multi_gets, 1);
            stats::add(&stripe.multi_get_keys, keys.len() as u64);
        }
        match self.pin(options) {
            Ok((super_version, sequence)) => {
                read(&self.reader(&super_version, sequence, options, detailed))
            }
            Err(e) => keys.iter().map(|_| Err(e.clone())).collect(),
        }
    }

    /// An iterator over the family. Cost: O(tables of level 0 and levels) for its lists of tables;
    /// opens tables that have range deletions or may have, the first time; reads no entries. Its
    /// movements step over deleted keys that no compaction has dropped yet; where many are in a
    /// row, only once, and later iterators seek ([`ReadOptions::lower_bound`] is for queues),
    /// unless the family has a compaction filter.
    pub fn iter(&self, options: &ReadOptions) -> Result<DbIterator> {
        let source = self.iterator_source(options)?;
        let listed = self.list_iterator(&source);
        DbIterator::new(source, Some(listed), options)
    }

    /// Everything that iterators see of one moment.
    pub(super) fn iterator_source(&self, options: &ReadOptions) -> Result<IteratorSource> {
        let (super_version, sequence) = self.pin_all(options)?;
        let shared = &self.core.shared;
        stats::add(&shared.opening.statistics.iterators, 1);
        Ok(IteratorSource {
            sequence,
            super_version,
            open_files: Arc::clone(&shared.files.open),
            fetcher: shared.files.fetcher.clone(),
            merge_operator: self.family.merge_operator.clone(),
            prefix_extractor: self.family.prefix_extractor.clone(),
            scans: Arc::clone(&self.family.scans),
            dead: Arc::clone(&self.family.dead),
        })
    }

    /// Sets `key` to `value`, not synced. Cost: an append to the WAL, shared with writers that come
    /// at the same time, and an insertion into the memtable; it may wait while writes are stalled.
    /// The batch and the memtable each have a copy of the value.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// Sets `key` to `value`, written with `options`:
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// use titan::WriteOptions;
    ///
    /// db.put_with("order 17", "3 apples", &WriteOptions::synced())?; // survives a power failure
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cost: that of [`ColumnFamily::put`], and of a sync if it is synced, which writers that come
    /// at the same time share.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.put_key(key.as_ref(), value.as_ref(), options)
    }

    fn put_key(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        self.write_one(options, |batch| batch.put(self, key, value))
    }

    /// Sets `key` to an entity of these columns, in any order, not synced: see [`WideColumns`].
    /// Readers that do not know of columns see the column with the empty name. Columns stay in
    /// tables, however large they are. Cost: that of [`ColumnFamily::put`].
    ///
    /// # Errors
    /// `InvalidArgument` if two columns have the same name.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.write_one(&WriteOptions::default(), |batch| {
            batch.put_entity(self, key, columns)
        })
    }

    /// Changes the value of `key` by an operand for the family's
    /// [merge operator](crate::merge::MergeOperator), not synced. Cost: that of
    /// [`ColumnFamily::put`]; nothing is looked up, now. A read of the key combines all operands
    /// that no compaction has combined yet.
    ///
    /// # Errors
    /// `InvalidArgument` in a family without a merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.write_timed(HistogramKind::Merge, &WriteOptions::default(), |batch| {
            batch.merge(self, key, operand)
        })
    }

    /// The merge operator.
    ///
    /// # Errors
    /// `InvalidArgument` if the family has none.
    pub(crate) fn merge_operator(&self) -> Result<Arc<dyn MergeOperator>> {
        self.family.merge_operator().cloned()
    }

    /// Removes `key`, not synced. Cost: that of [`ColumnFamily::put`]; nothing is looked up.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// Removes `key`, written with `options`. Cost: that of [`ColumnFamily::put_with`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.write_timed(HistogramKind::Delete, options, |batch| {
            batch.delete(self, key)
        })
    }

    /// Removes `key`, which was put exactly once since it was last single-deleted, and was never
    /// deleted otherwise. Cheaper than [`ColumnFamily::delete`], since both entries are dropped
    /// when they meet. Used differently, older values may come back. Not synced.
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_timed(HistogramKind::Delete, &WriteOptions::default(), |batch| {
            batch.single_delete(self, key)
        })
    }

    /// Removes all keys in `begin..end`, not synced; `InvalidArgument` if `end` comes before
    /// `begin`. Cost: that of [`ColumnFamily::put`], since it is one entry, however many keys the
    /// range has. Reads of the family check it until a compaction drops it.
    ///
    /// As [`ColumnFamily::approximate_size`], and unlike [`ColumnFamily::compact_range`], it leaves
    /// `end` out and has no open ends: see [`prefix::end`](crate::prefix::end).
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.write_timed(HistogramKind::Delete, &WriteOptions::default(), |batch| {
            batch.delete_range(self, begin, end)
        })
    }

    fn write_timed(
        &self,
        kind: HistogramKind,
        options: &WriteOptions,
        add: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<()> {
        let _watch = self.core.shared.opening.statistics.sample(kind);
        self.write_one(options, add)
    }

    fn write_one(
        &self,
        options: &WriteOptions,
        add: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        add(&mut batch)?;
        self.core.shared.write(&mut batch, options)
    }

    /// Writes the contents of the family's memtables to tables and blob files. Returns when it is
    /// done. Cost: writes and syncs the contents of the memtables; writers go on meanwhile.
    ///
    /// # Errors
    /// `Closed`; `InvalidArgument` if the family was dropped; `WritesStopped` after a background
    /// failure, that of the flush itself included; `Io`, `NoSpace` if no further WAL file could be
    /// started, which stops writes; `NoSpace` if there is no room for the tables, which does not:
    /// the error says how much is needed, and the memtables are flushed once there is.
    pub fn flush(&self) -> Result<()> {
        if self.family.is_dropped() {
            return Err(dropped(&self.family.name));
        }
        self.core.shared.flush(&[self.family.id])
    }

    /// Compacts the keys in `begin..=end` down to the last level that has any of them; absent
    /// bounds are infinite. Flushes first. Tables of the last level are rewritten if something
    /// above overlaps them, if the family has a compaction filter, if values come back inline, or
    /// with `force_bottommost`. Returns when it is done. Cost: reads and writes every table in the
    /// range about once per level, on the caller's thread; values in blob files stay where they
    /// are, unless a merge, a filter or changed separation rewrites them.
    ///
    /// `end` itself is compacted, where [`ColumnFamily::delete_range`] and
    /// [`ColumnFamily::approximate_size`] leave it out; and only here a range has open ends. The
    /// bounds are slices, not `AsRef`: the type of a plain `None` could not be inferred.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::flush`], and the failure of the compaction, which stops writes
    /// unless it is `NoSpace`; `CompactionFilter` if the compaction filter fails or panics, which
    /// stops nothing; `InvalidArgument` within a compaction filter, or if `end` comes before
    /// `begin`.
    pub fn compact_range(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.core
            .shared
            .compact_range(&self.family, begin, end, options)
    }

    /// Collects the garbage of the blob files that have values of the keys in `begin..=end`, or had
    /// when it began; absent bounds, which are slices as for [`ColumnFamily::compact_range`], are
    /// infinite. Afterwards none of them has more garbage than the
    /// threshold of `options`, except for garbage that iterators still see, is in damaged files, or
    /// arose meanwhile. It works also where `enable_blob_garbage_collection` is off, and while
    /// collecting is paused. Returns a summary when it is done.
    ///
    /// The live records of the files are copied, of keys within the range and beyond it, to new
    /// files of about `blob_file_size`: RocksDB refuses a directory with relocated values, until
    /// `titan downgrade`.
    ///
    /// A damaged file is left as it is, and named in the summary; one that was found damaged before
    /// is tried again. A call that ends early keeps its collections so far.
    ///
    /// Cost: that of [`ColumnFamily::compact_range`], unless `options` say otherwise; then reads
    /// and writes the live records of the files, once, unthrottled, on the caller's thread. Waits
    /// for a collection that runs already.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::compact_range`]; `InvalidOption`; `InvalidArgument` if `end` comes
    /// before `begin`, or the family was dropped; `Closed`, also if the database is closed
    /// meanwhile; the failure of a collection, which stops writes unless it is `NoSpace`.
    pub fn collect_garbage(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CollectGarbageOptions,
    ) -> Result<GarbageCollectionSummary> {
        self.core
            .shared
            .collect_garbage(&self.family, begin, end, options)
    }

    /// Sizes and counts of the family. Cost: O(tables), no I/O.
    pub fn metrics(&self) -> FamilyMetrics {
        self.core.shared.family_metrics(&self.family)
    }

    /// A property by RocksDB's name, as text; `None` for names not known. Cost: that of
    /// [`ColumnFamily::metrics`], O(tables). Known are, with `rocksdb.` before each:
    ///
    /// - of memtables: `num-immutable-mem-table`, `mem-table-flush-pending`,
    ///   `cur-size-active-mem-table`, `cur-size-all-mem-tables`, `size-all-mem-tables`,
    ///   `num-entries-active-mem-table`, `num-entries-imm-mem-tables`,
    ///   `num-deletes-active-mem-table`, `num-deletes-imm-mem-tables`;
    /// - of tables: `num-files-at-level<N>`, `levelstats`, `total-sst-files-size`,
    ///   `live-sst-files-size`, `estimate-num-keys`, `estimate-live-data-size`,
    ///   `estimate-table-readers-mem`, `base-level`;
    /// - of blob files: `num-blob-files`, `total-blob-file-size`, `live-blob-file-size`,
    ///   `live-blob-file-garbage-size`, `blob-stats`;
    /// - of jobs and writes: `num-running-flushes`, `num-running-compactions`,
    ///   `compaction-pending`, `estimate-pending-compaction-bytes`, `is-write-stopped`,
    ///   `actual-delayed-write-rate`, `background-errors`;
    /// - of the database: `block-cache-capacity`, `block-cache-usage`, `num-snapshots`,
    ///   `oldest-snapshot-sequence`, `options-statistics`.
    pub fn property(&self, name: &str) -> Option<String> {
        self.core.shared.property(&self.family, name)
    }

    /// The order of its keys.
    pub(crate) fn comparator(&self) -> &Arc<dyn Comparator> {
        self.family.comparator.user()
    }

    /// The same as [`ColumnFamily::pin`], and the super version has all writes up to the number: a
    /// reader that passes and adds [dead ranges](crate::dead_ranges) may not see a part of it.
    fn pin_all(&self, options: &ReadOptions) -> Result<(Arc<SuperVersion>, SequenceNumber)> {
        loop {
            let (super_version, sequence) = self.pin(options)?;
            // ORDER: after the number was loaded. A group is published after the memtable that has
            // it was made current. So if the super version is current still, no newer memtable has
            // a group up to the number.
            let is_current = || self.family.super_version.is(&super_version);
            let in_part = mutant!(reader_across_a_switch);
            // A snapshot is older than the super version. That is replaced seldom, and a family
            // that was dropped meanwhile is an error.
            if options.snapshot.is_some() || in_part || is_current() {
                return Ok((super_version, sequence));
            }
        }
    }

    /// The source of a read, and the newest sequence number that it sees. The super version may
    /// lack some of the writes up to that number.
    fn pin(&self, options: &ReadOptions) -> Result<(Arc<SuperVersion>, SequenceNumber)> {
        // ORDER: the super version, then the sequence number. The other way round, a flush or a
        // compaction that ends between the two could drop entries that are visible at the number.
        let too_early = mutant!(sequence_before_super_version).then(|| self.published());
        let super_version = self.super_version()?;
        let sequence = match &options.snapshot {
            Some(snapshot) => snapshot.sequence_in(&self.core.shared.pins.snapshots)?,
            None => {
                let published = too_early.unwrap_or_else(|| self.published());
                super_version.readable_to(published)
            }
        };
        gate!("read: pinned");
        Ok((super_version, sequence))
    }

    fn super_version(&self) -> Result<Arc<SuperVersion>> {
        self.core.shared.check_open()?;
        let too_early = mutant!(drop_asked_for_too_early).then(|| self.family.is_dropped());
        gate!("read: super version to be loaded");
        let super_version = self.family.super_version.load();
        // ORDER: after the load. A drop marks the family before it replaces the super version by an
        // empty one, so the super version of a family that is unmarked here has the family's
        // entries.
        match too_early.unwrap_or_else(|| self.family.is_dropped()) {
            true => Err(dropped(&self.family.name)),
            false => Ok(super_version),
        }
    }

    /// The newest published sequence number.
    fn published(&self) -> SequenceNumber {
        gate!("read: sequence number to be chosen");
        self.core.shared.counters.last_sequence()
    }

    /// The counters and histograms of a call, if they are switched on.
    #[inline]
    fn detailed(&self) -> Option<Detailed<'_>> {
        self.core.shared.opening.statistics.detailed()
    }

    fn reader<'a>(
        &'a self,
        super_version: &'a SuperVersion,
        sequence: SequenceNumber,
        options: &ReadOptions,
        detailed: Option<Detailed<'a>>,
    ) -> PointReader<'a> {
        let shared = &self.core.shared;
        PointReader {
            super_version,
            open_files: &shared.files.open,
            fetcher: &shared.files.fetcher,
            merge_operator: self.family.merge_operator.as_ref(),
            statistics: &shared.opening.statistics,
            detailed,
            dead: &self.family.dead,
            sequence,
            fill_cache: options.fill_cache,
        }
    }
}

impl std::fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnFamily({}, {})", self.family.id, self.family.name)
    }
}
