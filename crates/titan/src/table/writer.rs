//! Writes a table.
//!
//! Data blocks are written as they fill up; filter, index, range tombstones, liveness and
//! properties follow in [`TableWriter::finish`]. Nothing names the file before that returns, so an
//! error leaves a file that is never opened; the caller drops the writer and removes the file.

mod finish;

use std::path::Path;
use std::sync::Arc;

use crate::collector::{CollectedReport, Collectors, TableContent};
use crate::error::{Error, Result};
use crate::format::blob_index::BlobRefs;
use crate::format::internal_key::{
    InternalKeyComparator, MAX_ENTRY, ParsedInternalKey, ValueType, internal_key, shadows_value,
    user_key,
};
use crate::format::pointers::each_pointer;
use crate::format::prefix::PrefixExtractor;
use crate::format::range_tombstone::RangeTombstone;
use crate::format::sequence_times::SequenceTimes;
use crate::format::unique_id::UniqueId;
use crate::format::{BlobFileNumber, ColumnFamilyId, CompressionType, FileNumber, SequenceNumber};
use crate::table::block::builder::BlockBuilder;
use crate::table::filter::FilterBuilder;
use crate::table::index::IndexBuilder;
use crate::table::liveness::LivenessBlock;
use crate::table::output::Output;
use crate::table::prefix_run::PrefixRun;
use crate::vfs::WritableFile;

/// A block that is this full (in percent) is closed if the next entry would exceed its size.
const NEARLY_FULL_PERCENT: usize = 90;
/// Options for writing a table.
pub struct TableWriterOptions {
    pub comparator: InternalKeyComparator,
    /// Uncompressed bytes of a data block, approximately.
    pub block_size: usize,
    /// Entries of a data block from one restart point to the next.
    pub restart_interval: usize,
    /// 0 writes no filter.
    pub bloom_bits_per_key: f64,
    /// The filter has prefixes, too.
    pub prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// For data, index and liveness blocks, where it saves at least an eighth.
    pub compression: CompressionType,
    pub family: TableFamily,
    /// The database's IDENTITY; with session and number, it makes the file unique.
    pub db_id: String,
    pub db_session_id: String,
    pub file_number: FileNumber,
    /// Seconds since 1970.
    pub creation_time: u64,
}

/// Whose table it is, for its properties.
pub struct TableFamily {
    pub id: ColumnFamilyId,
    pub name: String,
    /// The name of the merge operator, if the family has one.
    pub merge_operator: Option<String>,
}

/// Summary of a table that was written, with the facts that a version edit needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// Bytes of the file.
    pub(crate) file_size: u64,
    /// The smallest internal key, range tombstones' starts included.
    pub(crate) smallest: Vec<u8>,
    /// The largest internal key. If a range tombstone ends after the points, its end with the
    /// largest sequence number, as the end itself is not covered.
    pub(crate) largest: Vec<u8>,
    /// The smallest and the largest sequence number.
    pub(crate) sequences: (SequenceNumber, SequenceNumber),
    /// Point entries.
    pub(crate) num_entries: u64,
    /// Deletions and single deletions.
    pub(crate) num_deletions: u64,
    pub(crate) num_range_deletions: u64,
    /// See [`TableFacts::num_shadowed`](crate::version::edit::TableFacts::num_shadowed).
    pub(crate) num_shadowed: u64,
    /// Bytes of all internal keys, range tombstones' included.
    pub(crate) raw_key_size: u64,
    /// Bytes of all values, range tombstones' ends included.
    pub(crate) raw_value_size: u64,
    /// References of the table to blob files, by ascending file.
    pub blob_refs: Vec<BlobRefs>,
    pub(crate) unique_id: Option<UniqueId>,
}

impl TableSummary {
    /// The smallest file to which the table points.
    pub(crate) fn oldest_blob_file(&self) -> Option<BlobFileNumber> {
        self.blob_refs.first().map(|refs| refs.file)
    }
}

/// Writes one table, entries in ascending order.
pub struct TableWriter {
    options: TableWriterOptions,
    output: Output,
    data: BlockBuilder,
    index: IndexBuilder,
    filter: Option<FilterBuilder>,
    tombstones: Vec<RangeTombstone>,
    pointers: Pointers,
    keys: Ends,
    run: PrefixRun,
    counts: Counts,
    extras: Extras,
    collection: Collection,
}

/// Properties that some tables have.
#[derive(Default)]
struct Extras {
    /// The one about times; empty if they are not recorded.
    times: Vec<u8>,
    /// Whether the table has those of a file for ingestion.
    external: bool,
}

/// The pointers of the entries so far.
#[derive(Default)]
struct Pointers {
    liveness: LivenessBlock,
    /// Bytes of the blob records to which they lead.
    bytes: u64,
}

/// The ends of the entries so far.
#[derive(Default)]
struct Ends {
    /// The first internal key; empty before it.
    first: Vec<u8>,
    /// The internal key added last; empty before the first.
    last: Vec<u8>,
}

/// Numbers about the entries so far.
struct Counts {
    smallest_seq: SequenceNumber,
    largest_seq: SequenceNumber,
    entries: u64,
    deletions: u64,
    merge_operands: u64,
    shadowed: u64,
    raw_key_size: u64,
    raw_value_size: u64,
}

/// The collectors of properties, and their result.
struct Collection {
    /// Until [`TableWriter::collect`].
    collectors: Option<Collectors>,
    /// The names of the collectors, as the property has them.
    names: String,
    report: CollectedReport,
}

impl TableWriter {
    /// Starts a table in `file`, which must be empty; `path` is for errors.
    pub fn new(file: Box<dyn WritableFile>, path: &Path, options: TableWriterOptions) -> Self {
        let output = Output::new(file, path, options.block_size);
        TableWriter {
            output,
            data: BlockBuilder::new(options.restart_interval),
            index: IndexBuilder::default(),
            filter: FilterBuilder::new(options.bloom_bits_per_key),
            tombstones: Vec::new(),
            pointers: Pointers::default(),
            keys: Ends::default(),
            run: PrefixRun::default(),
            counts: Counts {
                smallest_seq: SequenceNumber::MAX,
                largest_seq: SequenceNumber::ZERO,
                entries: 0,
                deletions: 0,
                merge_operands: 0,
                shadowed: 0,
                raw_key_size: 0,
                raw_value_size: 0,
            },
            extras: Extras::default(),
            collection: Collection {
                collectors: None,
                names: "[]".to_owned(),
                report: CollectedReport::default(),
            },
            options,
        }
    }

    /// Makes it a table for ingestion: all entries have the sequence number 0, and are read with
    /// the one that the MANIFEST gives to the table.
    pub(crate) fn make_external(&mut self) {
        self.extras.external = true;
    }

    /// Shows all entries to these collectors. To be called before the first.
    pub(crate) fn show_to(&mut self, collectors: Collectors) {
        self.collection.names = collectors.names();
        self.collection.collectors = Some(collectors);
    }

    /// Takes the reports of the collectors, which the table will have. To be called after the last
    /// entry.
    pub(crate) fn collect(&mut self) -> TableContent {
        let collectors = self.collection.collectors.take();
        let content = collectors.map(Collectors::finish).unwrap_or_default();
        self.collection.report.clone_from(&content.report);
        content
    }

    /// Adds a point entry.
    ///
    /// # Errors
    /// `Corruption` if the key is not after the one before it, if it is not an internal key of a
    /// point, or if a pointer does not decode: a table written must be readable. `InvalidArgument`
    /// if the entry is too large for a block.
    pub fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let parsed = ParsedInternalKey::parse(ikey)?;
        if ikey.len().saturating_add(value.len()) > MAX_ENTRY {
            return Err(Error::invalid_argument("entry too large for a table"));
        }
        let first = self.keys.last.is_empty();
        if !first
            && self
                .options
                .comparator
                .compare(&self.keys.last, ikey)
                .is_ge()
        {
            return Err(Error::corruption("table entries are out of order")
                .at(&self.output.path, self.output.position()));
        }
        match parsed.value_type {
            ValueType::Deletion | ValueType::SingleDeletion => self.counts.deletions += 1,
            ValueType::Merge => self.counts.merge_operands += 1,
            ValueType::BlobIndex | ValueType::WideColumnEntity => {
                let key_len = parsed.user_key.len();
                each_pointer(parsed.value_type, value, |index| {
                    self.pointers.liveness.add(key_len, &index)?;
                    self.pointers.bytes += index.record_len(key_len);
                    Ok(())
                })?;
            }
            ValueType::RangeDeletion => {
                return Err(Error::corruption("range tombstone among point entries"));
            }
            ValueType::Value => {}
        }
        let is_new_key = first || user_key(&self.keys.last) != parsed.user_key;
        if !is_new_key && shadows_value(&self.keys.last, &parsed) {
            self.counts.shadowed += 1;
        }
        let begins = is_new_key && self.options.prefix_extractor.is_some();
        let prefix = if begins {
            self.new_prefix(parsed.user_key)
        } else {
            None
        };
        let (size, full) = (self.data.size(), self.options.block_size);
        let ends_block = prefix.is_some() && self.run.ends_block(size, full);
        if ends_block || self.block_is_full_for(ikey, value) {
            self.finish_block(Some(ikey))?;
        }
        if first {
            self.keys.first.extend_from_slice(ikey);
        }
        if let Some(prefix) = prefix {
            self.run.begin(prefix);
        }
        if let Some(filter) = &mut self.filter
            && is_new_key
        {
            filter.add(parsed.user_key);
            if prefix.is_some() {
                filter.add_prefix(self.run.prefix());
            }
        }
        if let Some(collectors) = &mut self.collection.collectors {
            collectors.add(&parsed, value)?;
        }
        self.data.add(ikey, value);
        self.keys.last.clear();
        self.keys.last.extend_from_slice(ikey);
        self.count(parsed.sequence, ikey.len(), value.len());
        self.counts.entries += 1;
        Ok(())
    }

    /// The prefix of a key, if it is another than that of the key before it.
    #[inline(never)]
    fn new_prefix<'k>(&mut self, user_key: &'k [u8]) -> Option<&'k [u8]> {
        let extractor = self.options.prefix_extractor.as_ref()?;
        let extracted = extractor.prefix(user_key);
        let ignored = mutant!(panicking_extractor_ignored);
        let Ok(prefix) = extracted.or_else(|e| if ignored { Ok(None) } else { Err(e) }) else {
            // A filter without this prefix must not be asked about it: the table names no
            // extractor.
            self.options.prefix_extractor = None;
            return None;
        };
        prefix.filter(|prefix| self.run.ends_before(prefix))
    }

    /// Adds a range tombstone; any time, in any order.
    ///
    /// # Errors
    /// `InvalidArgument` if it covers nothing.
    pub(crate) fn add_range_tombstone(&mut self, t: &RangeTombstone) -> Result<()> {
        if self
            .options
            .comparator
            .compare_user(&t.start, &t.end)
            .is_ge()
        {
            return Err(Error::invalid_argument(
                "range tombstone that ends before it starts",
            ));
        }
        if let Some(collectors) = &mut self.collection.collectors {
            collectors.add_range_tombstone(t);
        }
        self.tombstones.push(t.clone());
        Ok(())
    }

    /// Records when the entries so far had been written.
    pub(crate) fn record_times(&mut self, times: &SequenceTimes) {
        let times = times.between(self.counts.smallest_seq, self.counts.largest_seq);
        if !times.is_empty() && self.counts.entries > 0 {
            self.extras.times = times.encode();
        }
    }

    /// Bytes so far, the block in progress and an estimate of the index included.
    pub(crate) fn file_size(&self) -> u64 {
        self.output.position() + self.data.size() as u64 + self.index.size() as u64
    }

    /// Bytes of the blob records (header, key, stored value) that the entries so far point to.
    pub(crate) fn referenced_blob_bytes(&self) -> u64 {
        self.pointers.bytes
    }

    /// Whether there is nothing to write, neither points nor range tombstones.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.entries == 0 && self.tombstones.is_empty()
    }

    fn count(&mut self, sequence: SequenceNumber, key_len: usize, value_len: usize) {
        self.counts.smallest_seq = self.counts.smallest_seq.min(sequence);
        self.counts.largest_seq = self.counts.largest_seq.max(sequence);
        self.counts.raw_key_size += key_len as u64;
        self.counts.raw_value_size += value_len as u64;
    }

    fn block_is_full_for(&self, ikey: &[u8], value: &[u8]) -> bool {
        let (size, limit) = (self.data.size(), self.options.block_size);
        !self.data.is_empty()
            && (size >= limit
                || (size + BlockBuilder::cost_of(ikey, value) > limit
                    && size * 100 > limit * NEARLY_FULL_PERCENT))
    }

    /// Writes the data block in progress; `next` is the key that follows.
    fn finish_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let handle = self
            .output
            .block(self.data.finish(), self.options.compression)?;
        let mut separator = self.keys.last.clone();
        if let Some(next) = next {
            if user_key(&self.keys.last) == user_key(next) {
                self.index.note_straddling();
            }
            self.options
                .comparator
                .shorten_separator(&mut separator, next);
        } else {
            self.options.comparator.shorten_successor(&mut separator);
        }
        invariant!(
            self.is_between_blocks(&separator, next),
            "the separator of a data block is not between its last key and the next one"
        );
        self.index.add(&separator, handle);
        self.data.reset();
        self.run.end_block();
        Ok(())
    }

    /// Whether a separator follows the last key, or is it, and is before the next.
    fn is_between_blocks(&self, separator: &[u8], next: Option<&[u8]>) -> bool {
        let order = &self.options.comparator;
        order.compare(&self.keys.last, separator).is_le()
            && next.is_none_or(|next| order.compare(separator, next).is_lt())
    }
}

/// The smallest and largest internal key of a table: those of its points (empty if there are none)
/// and of its range tombstones. If a tombstone ends after everything else, its end is the largest
/// key, with the largest sequence number, as the end itself is not covered.
pub fn bounds(
    points: (Vec<u8>, Vec<u8>),
    tombstones: &[RangeTombstone],
    order: &InternalKeyComparator,
) -> (Vec<u8>, Vec<u8>) {
    let (mut smallest, mut largest) = points;
    for t in tombstones {
        let start = internal_key(&t.start, t.sequence, ValueType::RangeDeletion as u8);
        let end = internal_key(&t.end, SequenceNumber::MAX, ValueType::RangeDeletion as u8);
        if smallest.is_empty() || order.compare(&start, &smallest).is_lt() {
            smallest = start;
        }
        if largest.is_empty() || order.compare(&end, &largest).is_gt() {
            largest = end;
        }
    }
    (smallest, largest)
}
