//! Every short history of a key, spread over two memtables in every way: lookups and iterators in
//! both directions find the same, which is the content of a map.

use std::path::PathBuf;
use std::sync::Arc;

use super::found::FoundValue;
use super::lookup::lookup;
use super::resolve::Stored;
use super::source::Source;
use super::visible::VisibleIterator;
use super::{PrefixSearch, SuperVersion};
use crate::block_cache::BlockCache;
use crate::dead_ranges::{DeadRanges, DeadRun};
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::internal_key::{InternalKeyComparator, ValueType};
use crate::format::{
    BlobFileNumber, BytewiseComparator, ColumnFamilyId, CompressionType, SequenceNumber,
};
use crate::histories::every_list;
use crate::iterator::merging::MergingIterator;
use crate::memtable::Memtable;
use crate::merge::Operands;
use crate::open_files::{OpenFiles, OpenFilesLimits};
use crate::range_del::{FragmentedTombstones, TombstoneCursor};
use crate::stats::Statistics;
use crate::table::TableIterOptions;
use crate::version::Version;
use crate::vfs::StdVfs;

/// The operations on `KEY`; a range deletion has no other key. `None` writes something else.
const OPS: [Option<ValueType>; 8] = [
    None,
    Some(ValueType::Value),
    Some(ValueType::BlobIndex),
    Some(ValueType::Deletion),
    Some(ValueType::SingleDeletion),
    Some(ValueType::Merge),
    Some(ValueType::WideColumnEntity),
    Some(ValueType::RangeDeletion),
];
const LEN: u32 = 4;
const KEY: &[u8] = b"k";
/// Have values that every snapshot sees.
const NEIGHBOURS: [&[u8]; 2] = [b"j", b"l"];

type History = [Option<ValueType>];

/// The sequence number of the operation at an index. The first ones are the neighbours'.
fn sequence(at: usize) -> SequenceNumber {
    SequenceNumber((at + NEIGHBOURS.len() + 1) as u64)
}

/// The value that the operation at an index writes. It names the operation.
fn value(at: usize) -> Vec<u8> {
    let index = BlobIndex {
        file: BlobFileNumber(1),
        offset: at as u64,
        size: 1,
        compression: CompressionType::None,
    };
    encoded(index)
}

fn encoded(index: BlobIndex) -> Vec<u8> {
    let mut bytes = Vec::new();
    index.encode(&mut bytes);
    bytes
}

/// Result for a reader: the bytes of the operation that gave the key its base, if one did, and
/// their form; and the operands after it, oldest first.
type Found = Option<(Option<(Vec<u8>, Stored)>, Vec<Vec<u8>>)>;

/// Result for a reader that sees the first `seen` operations; `Err` if it cannot be read.
fn model(history: &History, seen: usize) -> std::result::Result<Found, ()> {
    let mut operands = Vec::new();
    for (at, op) in history[..seen].iter().enumerate().rev() {
        let base = match op {
            None => continue,
            Some(ValueType::Merge) => {
                operands.insert(0, value(at));
                continue;
            }
            Some(ValueType::Value) => Some((value(at), Stored::Inline)),
            Some(ValueType::BlobIndex) => Some((value(at), Stored::Pointer)),
            Some(ValueType::WideColumnEntity) => Some((value(at), Stored::Entity)),
            Some(_) => None,
        };
        return Ok(found(base, operands));
    }
    Ok(found(None, operands))
}

fn found(base: Option<(Vec<u8>, Stored)>, operands: Vec<Vec<u8>>) -> Found {
    (base.is_some() || !operands.is_empty()).then_some((base, operands))
}

/// Result of a lookup.
fn parts(value: FoundValue) -> Found {
    let base = |value: FoundValue| match value {
        FoundValue::Inline(value) => Some((value.to_vec(), Stored::Inline)),
        FoundValue::Blob(index) => Some((encoded(index), Stored::Pointer)),
        FoundValue::Entity(entity) => Some((entity.to_vec(), Stored::Entity)),
        FoundValue::Merged(_) => None,
    };
    match value {
        FoundValue::Merged(merged) => found(
            merged.base.and_then(|value| base(*value)),
            copied(&merged.operands),
        ),
        plain => found(base(plain), Vec::new()),
    }
}

fn copied(operands: &Operands) -> Vec<Vec<u8>> {
    let slices = operands.as_slices().into_iter();
    slices.map(<[u8]>::to_vec).collect()
}

struct World {
    super_version: SuperVersion,
    open_files: Arc<OpenFiles>,
}

impl World {
    /// The first `flushed` operations are in an immutable memtable, the others in the active one.
    fn new(history: &History, flushed: usize, open_files: &Arc<OpenFiles>) -> Self {
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let [older, newer] = [0, 1].map(|_| Memtable::new(comparator.clone(), 64 << 10));
        for (number, key) in (1..).zip(NEIGHBOURS) {
            let written = older.add(SequenceNumber(number), ValueType::Value, key, key);
            written.unwrap();
        }
        for (at, op) in history.iter().enumerate() {
            let memtable = if at < flushed { &older } else { &newer };
            let Some(value_type) = *op else { continue };
            let value = match value_type {
                ValueType::RangeDeletion => NEIGHBOURS[1].to_vec(),
                _ => value(at),
            };
            memtable.add(sequence(at), value_type, KEY, &value).unwrap();
        }
        let version = Version::empty(ColumnFamilyId::DEFAULT, comparator, 2);
        World {
            super_version: SuperVersion {
                memtable: newer,
                immutables: vec![older],
                version: Arc::new(version),
                generation: 0,
            },
            open_files: Arc::clone(open_files),
        }
    }

    fn get(&self, snapshot: SequenceNumber) -> Result<(Found, SequenceNumber)> {
        let found = lookup(&self.super_version, &self.open_files, KEY, snapshot, true)?;
        Ok((found.value.and_then(parts), found.sequence))
    }

    fn iter(&self, snapshot: SequenceNumber) -> VisibleIterator {
        let comparator = self.super_version.version.comparator.clone();
        let options = TableIterOptions {
            fill_cache: true,
            readahead: 0,
        };
        let (mut children, mut tombstones) = (Vec::new(), Vec::new());
        for source in self.super_version.sources(&self.open_files) {
            source.add_iterators(options, None, &mut children).unwrap();
            source.add_tombstones(&mut tombstones).unwrap();
        }
        let merged = MergingIterator::new(children, comparator.clone());
        let tombstones = Arc::new(FragmentedTombstones::build(tombstones, &comparator));
        let cursor = TombstoneCursor::new(tombstones, comparator.clone(), snapshot);
        let dead = Arc::new(DeadRanges::new(comparator.clone()));
        let run = DeadRun::new(dead, self.super_version.at(snapshot));
        VisibleIterator::new(merged, comparator, snapshot, cursor, None, None, run)
    }

    /// From one neighbour to the other, in one direction or the other.
    fn walk(&self, snapshot: SequenceNumber, forward: bool) -> Result<Found> {
        let mut iter = self.iter(snapshot);
        let (from, to) = match forward {
            true => (NEIGHBOURS[0], NEIGHBOURS[1]),
            false => (NEIGHBOURS[1], NEIGHBOURS[0]),
        };
        let step = if forward {
            VisibleIterator::next
        } else {
            VisibleIterator::prev
        };
        iter.seek(from)?;
        assert_eq!(iter.key(), from);
        step(&mut iter)?;
        let shown = |iter: &VisibleIterator| {
            let base = iter.stored().map(|stored| (iter.value().to_vec(), stored));
            found(base, copied(iter.operands()))
        };
        let mut at_key = None;
        if iter.key() == KEY {
            at_key = shown(&iter);
            // Back and forth again.
            let back = match forward {
                true => VisibleIterator::prev,
                false => VisibleIterator::next,
            };
            back(&mut iter)?;
            assert_eq!(iter.key(), from);
            step(&mut iter)?;
            assert_eq!((iter.key(), shown(&iter)), (KEY, at_key.clone()));
            step(&mut iter)?;
        }
        let neighbour = found(Some((to.to_vec(), Stored::Inline)), Vec::new());
        assert_eq!((iter.key(), shown(&iter)), (to, neighbour));
        step(&mut iter)?;
        assert!(!iter.valid());
        Ok(at_key)
    }
}

#[test]
fn lookups_and_iterators_agree_on_every_short_history() {
    let limits = OpenFilesLimits {
        files: 1,
        memory: 1 << 20,
        held: None,
    };
    // There are no tables, so no file is opened.
    let dir = PathBuf::from("/no-such-directory");
    let cache = Arc::new(BlockCache::new(0));
    let open_files = Arc::new(OpenFiles::new(Arc::new(StdVfs), dir, limits, cache));
    for history in every_list(&OPS, LEN) {
        for flushed in 0..=history.len() {
            let world = World::new(&history, flushed, &open_files);
            for seen in 0..=history.len() {
                let case = || format!("{history:?}, {flushed} flushed, {seen} seen");
                let snapshot = SequenceNumber(sequence(seen).0 - 1);
                let expected = model(&history, seen);
                for forward in [true, false] {
                    let walked = world.walk(snapshot, forward).map_err(|_| ());
                    assert_eq!(walked, expected, "{}, forward: {forward}", case());
                }
                match (world.get(snapshot), expected) {
                    (Ok((found, at)), Ok(expected)) => {
                        assert_eq!(found, expected, "{}", case());
                        let newest = history[..seen].iter().rposition(|op| op.is_some());
                        let newest = newest.map_or(SequenceNumber::ZERO, sequence);
                        assert_eq!(at, newest, "{}", case());
                    }
                    (found, expected) => assert!(found.is_err() && expected.is_err(), "{}", case()),
                }
            }
        }
    }
}

/// RocksDB leaves the sequence number 0 to a deletion of a file that it ingests.
#[test]
fn the_search_in_a_prefix_goes_on_after_a_deletion_with_the_smallest_internal_key() {
    let limits = OpenFilesLimits {
        files: 1,
        memory: 1 << 20,
        held: None,
    };
    let cache = Arc::new(BlockCache::new(0));
    let dir = PathBuf::from("/no-such-directory");
    let open_files = Arc::new(OpenFiles::new(Arc::new(StdVfs), dir, limits, cache));
    let world = World::new(&[], 0, &open_files);
    let memtable = &world.super_version.memtable;
    let (deletion, value) = (ValueType::Deletion, ValueType::Value);
    memtable
        .add(SequenceNumber::ZERO, deletion, b"k1", b"")
        .unwrap();
    memtable.add(SequenceNumber(3), value, b"k2", b"v").unwrap();
    let search = PrefixSearch {
        from: b"k",
        prefix: b"k",
        end: Some(b"l".to_vec()),
        filtered: None,
        has_ruled_out: std::cell::Cell::default(),
        snapshot: SequenceNumber(3),
        fill_cache: true,
        statistics: &Statistics::default(),
        dead: &DeadRanges::new(world.super_version.version.comparator.clone()),
    };
    let found = search
        .find(&world.super_version, &world.open_files)
        .unwrap();
    assert_eq!(found.map(|(key, _)| key).as_deref(), Some(&b"k2"[..]));
}
