//! Runs the decoders of tables on arbitrary bytes; see [`crate::fuzzing`].

use std::path::Path;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use super::{TableIdentity, TableIterOptions, TableReader, TableReaderOptions, TableVisitor};
use crate::block_cache::BlockCache;
use crate::error::Error;
use crate::format::checksum::ChecksumType;
use crate::format::compression::{
    CompressionType, Dictionary, compress_as_rocksdb, decompress_with,
};
use crate::format::internal_key::{
    InternalKeyComparator, ParsedInternalKey, TRAILER_LEN, ValueType, internal_key, seek_key,
    trailer,
};
use crate::format::{BytewiseComparator, FileNumber, SequenceNumber};
use crate::fuzzing::{MemoryFile, assert_names, decoded, decoded_at, sound};
use crate::iterator::InternalIterator;
use crate::range_del::FragmentedTombstones;
use crate::table::block::Block;
use crate::table::block::builder::BlockBuilder;
use crate::table::block::iter::BlockIter;
use crate::table::block::separated::separated;
use crate::table::filter::{Filter, FilterBuilder};
use crate::table::footer::{FOOTER_LEN, Footer};
use crate::table::index::{Index, IndexBuilder, IndexFormat};
use crate::table::liveness::LivenessBlock;
use crate::table::properties::{TableProperties, value_text};
use crate::table::read::open::range_tombstones_in;

type Entry = (Vec<u8>, Vec<u8>);

fn order() -> InternalKeyComparator {
    static ORDER: LazyLock<InternalKeyComparator> =
        LazyLock::new(|| InternalKeyComparator::new(Arc::new(BytewiseComparator)));
    ORDER.clone()
}

/// A data block: walked and searched as it is, then rebuilt from its entries.
pub fn block(data: &[u8]) {
    let Some(block) = decoded(Block::new(Bytes::copy_from_slice(data))) else {
        return;
    };
    let order = order();
    let mut iter = BlockIter::over_data(block.clone(), None);
    let mut entries = Vec::new();
    let mut walk = iter.seek_to_first();
    while walk.is_ok() && iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        walk = iter.next();
    }
    let consistent = decoded(walk).is_some() && block.verify_restarts().is_ok();
    // An entry takes three bytes at least, and a walk goes only forward.
    assert!(3 * entries.len() <= data.len(), "more entries than bytes");
    assert_eq!(iter.value_bytes(), Bytes::new());

    // A backward walk ends, with any restart points.
    let mut steps = 0;
    let mut walk = iter.seek_to_last();
    while walk.is_ok() && iter.valid() {
        steps += 1;
        assert!(steps <= data.len(), "walking back never ends");
        if consistent {
            let expected = entries.len().checked_sub(steps).map(|i| &entries[i].0[..]);
            assert_eq!(Some(iter.key()), expected, "walking back differs");
        }
        walk = iter.prev();
    }
    let back = decoded(walk).is_some();
    assert!(!consistent || (back && steps == entries.len()));
    let targets = entries.iter().map(|(key, _)| &key[..]);
    for target in targets
        .take(8)
        .chain([&seek_key(data, SequenceNumber(3))[..]])
    {
        if decoded(iter.seek(&order, target)).is_some() && iter.valid() {
            assert!(order.compare(iter.key(), target).is_ge());
        }
        decoded(iter.seek_for_prev(&order, target));
    }
    if consistent {
        let apart = sound(separated(&block).and_then(Block::new));
        let mut iter = BlockIter::over_data(apart, None);
        sound(iter.seek_to_first());
        for (key, value) in &entries {
            assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
            sound(iter.next());
        }
        assert!(!iter.valid());
    }
    // In an ingested file the sequence numbers are replaced.
    let mut ingested = BlockIter::over_data(block, Some(SequenceNumber(5)));
    if decoded(ingested.seek_to_first()).is_some() && ingested.valid() {
        assert_eq!(trailer(ingested.key()) >> 8, 5);
        decoded(ingested.seek(&order, &seek_key(b"k", SequenceNumber(9))));
    }

    entries.sort_by(|a, b| order.compare(&a.0, &b.0));
    entries.dedup_by(|a, b| a.0 == b.0);
    built(&entries, 1 + data.len() % 5);
}

/// A block of sorted entries returns them however a cursor moves.
fn built(entries: &[Entry], interval: usize) {
    let order = order();
    let mut builder = BlockBuilder::new(interval);
    for (key, value) in entries {
        builder.add(key, value);
    }
    let bytes = Bytes::copy_from_slice(builder.finish());
    let mut iter = BlockIter::over_data(sound(Block::new(bytes)), None);
    sound(iter.seek_to_first());
    for (key, value) in entries {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        sound(iter.next());
    }
    assert!(!iter.valid());
    sound(iter.seek_to_last());
    for (key, value) in entries.iter().rev() {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        sound(iter.prev());
    }
    assert!(!iter.valid());
    for (key, value) in entries.iter().step_by(1 + entries.len() / 8) {
        sound(iter.seek(&order, key));
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        sound(iter.seek_for_prev(&order, key));
        assert_eq!(iter.key(), key);
    }
}

/// An index block: two bytes say in which format, the rest is the block.
pub fn index(data: &[u8]) {
    let Some((&[flags, limit], bytes)) = data.split_first_chunk() else {
        return;
    };
    let Some(block) = decoded(Block::new(Bytes::copy_from_slice(bytes))) else {
        return;
    };
    let user_keys = flags & 1 != 0;
    let format = IndexFormat {
        delta_encoded: flags & 2 != 0,
        first_keys: flags & 4 != 0,
    };
    let limit = 1u64 << (limit % 64);
    let mut index = Index::new(user_keys);
    decoded(index.append(&block, format, limit));
    assert!(2 * index.len() <= bytes.len(), "more entries than bytes");
    let mut end = 0;
    let mut builder = IndexBuilder::default();
    if !user_keys {
        builder.note_straddling();
    }
    for i in 0..index.len() {
        let Some(handle) = index.handle(i) else {
            break;
        };
        assert!(handle.offset >= end, "blocks overlap");
        end = handle.offset + sound(handle.stored_len(limit)) as u64;
        let mut separator = index.key(i).to_vec();
        assert!(user_keys || separator.len() >= TRAILER_LEN);
        if user_keys {
            separator.extend([0; TRAILER_LEN]);
        }
        builder.add(&separator, handle);
    }
    assert_eq!(index.data_end(), end);
    let found = index.find(&order(), &seek_key(b"k", SequenceNumber(9)));
    assert!(found <= index.len());

    let mut again = Index::new(user_keys);
    let format = IndexFormat {
        delta_encoded: true,
        first_keys: false,
    };
    let block = sound(Block::new(Bytes::from(builder.finish())));
    sound(again.append(&block, format, limit));
    let all = |index: &Index| -> Vec<_> {
        let entry = |i| (index.key(i).to_vec(), index.handle(i));
        (0..index.len()).map(entry).collect()
    };
    assert_eq!(all(&again), all(&index));
}

/// A block of range deletions: decoded and cut into fragments, which are cut again.
pub fn range_tombstones(data: &[u8]) {
    let block = Block::new(Bytes::copy_from_slice(data));
    let Some(tombstones) = decoded(block.and_then(|block| range_tombstones_in(block, None))) else {
        return;
    };
    assert!(3 * tombstones.len() <= data.len(), "too many tombstones");
    let order = order();
    let list = FragmentedTombstones::build(tombstones.iter().cloned(), &order);
    for pair in list.fragments().windows(2) {
        assert!(order.compare_user(&pair[0].end, &pair[1].start).is_le());
    }
    for tombstone in tombstones.iter().take(8) {
        let newest = list.max_covering(&tombstone.start, SequenceNumber::MAX, &order);
        let empty = order.compare_user(&tombstone.start, &tombstone.end).is_ge();
        assert!(empty || newest >= tombstone.sequence);
    }
    let mut entries: Vec<Entry> = Vec::new();
    for tombstone in list.iter_tombstones() {
        let kind = ValueType::RangeDeletion as u8;
        let key = internal_key(&tombstone.start, tombstone.sequence, kind);
        entries.push((key, tombstone.end.to_vec()));
    }
    let mut builder = BlockBuilder::new(1);
    for (key, end) in &entries {
        builder.add(key, end);
    }
    let block = sound(Block::new(Bytes::copy_from_slice(builder.finish())));
    let again = sound(range_tombstones_in(block, None));
    assert_eq!(FragmentedTombstones::build(again, &order), list);
}

/// A footer: the last bytes of a file whose other bytes are missing.
pub fn footer(data: &[u8]) {
    let Some((rest, bytes)) = data.split_last_chunk::<FOOTER_LEN>() else {
        return;
    };
    let offset = rest
        .first_chunk()
        .map_or(1 << 20, |b| u64::from_le_bytes(*b));
    let Some(footer) = decoded(Footer::decode(bytes, offset)) else {
        return;
    };
    decoded(footer.metaindex.stored_len(offset));
    let Some(index) = footer.index else {
        assert!((6..=7).contains(&footer.format_version));
        return;
    };
    decoded(index.stored_len(offset));
    let mut encoded = Vec::new();
    Footer::encode_v5(&mut encoded, footer.checksum, footer.metaindex, index);
    assert_eq!(encoded.len(), FOOTER_LEN);
    let again = encoded.first_chunk().map(|b| sound(Footer::decode(b, 0)));
    let expected = Footer {
        format_version: 5,
        ..footer
    };
    assert_eq!(again, Some(expected));
}

/// A properties block.
pub fn properties(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let Some((properties, global_at)) = decoded(TableProperties::decode(bytes)) else {
        return;
    };
    assert!(global_at.is_none_or(|at| at + 8 <= data.len()));
    let mut builder = BlockBuilder::new(usize::MAX);
    for (name, value) in &properties.all {
        value_text(name, value);
        builder.add(name, value);
    }
    let bytes = Bytes::copy_from_slice(builder.finish());
    let (again, _) = sound(TableProperties::decode(bytes));
    assert_eq!(format!("{again:?}"), format!("{properties:?}"));
}

/// A filter block; and a filter of keys from the input, which must contain them.
pub fn filter(data: &[u8]) {
    let keys = || data.chunks(1 + data.len() / 16);
    if let Some(filter) = Filter::new(Bytes::copy_from_slice(data)) {
        keys().for_each(|key| _ = filter.may_contain(key));
    }
    let bits = data.first().map_or(10.0, |&b| f64::from(b) / 4.0);
    let Some(mut builder) = FilterBuilder::new(bits) else {
        return;
    };
    keys().for_each(|key| builder.add(key));
    let Some(block) = builder.finish() else {
        assert!(data.is_empty());
        return;
    };
    let filter = Filter::new(Bytes::from(block));
    assert!(filter.is_some_and(|filter| keys().all(|key| filter.may_contain(key))));
}

/// A liveness block.
pub fn liveness(data: &[u8]) {
    let Some(block) = decoded(LivenessBlock::decode(data)) else {
        return;
    };
    let references: usize = block.files().map(|(_, references)| references.len()).sum();
    assert!(3 * references < data.len(), "more references than bytes");
    assert_eq!(block.is_empty(), references == 0);
    for (_, references) in block.files() {
        assert!(references.is_sorted());
    }
    let count: u64 = block.totals().iter().map(|total| total.count).sum();
    assert_eq!(count, references as u64);
    let encoded = block.encode();
    assert!(encoded.len() <= data.len(), "longer than it was");
    assert_eq!(sound(LivenessBlock::decode(&encoded)), block);
}

/// Compressed bytes: one byte is the compression type, the rest is the stored form. The
/// decompressed bytes, or the input itself if there are none, survive compression; also with a
/// dictionary, which is the front of the stored form.
pub fn compression(data: &[u8]) {
    let Some((&kind, stored)) = data.split_first() else {
        return;
    };
    let Some(kind) = decoded(CompressionType::from_u8(kind)) else {
        return;
    };
    let limit = 1 << 16;
    let front = stored.get(..64);
    // Bytes that only begin like a dictionary in Zstandard's own format are damage.
    let front = front.filter(|front| !front.starts_with(b"\x37\xa4\x30\xec"));
    let shared = front.map(|front| Dictionary::new(Bytes::copy_from_slice(front)));
    for (bytes, dictionary) in [(None, None), (front, shared.as_ref())] {
        let read = |stored: &[u8], limit| decompress_with(kind, dictionary, stored, limit);
        let raw = decoded(read(stored, limit)).unwrap_or_else(|| stored.to_vec());
        assert!(raw.len() <= limit.max(stored.len()));
        let packed = sound(compress_as_rocksdb(kind, bytes, &raw));
        assert_eq!(sound(read(&packed, raw.len())), raw);
        if !raw.is_empty() && kind != CompressionType::None {
            assert!(read(&packed, raw.len() - 1).is_err());
        }
    }
}

/// A whole table, read as if its footer said that there are no checksums.
pub fn table(data: &[u8]) {
    let mut bytes = data.to_vec();
    if let Some(at) = bytes.len().checked_sub(FOOTER_LEN) {
        bytes[at] = ChecksumType::None as u8;
    }
    let path = Path::new("/db/000009.sst");
    let file = MemoryFile::open(bytes);
    let options = TableReaderOptions {
        identity: TableIdentity {
            number: FileNumber(9),
            size: data.len() as u64,
            largest_seq: None,
            unique_id: None,
        },
        comparator: order(),
        block_cache: no_cache(),
    };
    let table = match TableReader::open(file, path, options) {
        Ok(table) => table,
        Err(e) => {
            // Only a table of another comparator is not the fault of the bytes.
            if e.kind() != crate::ErrorKind::InvalidOption {
                assert_names(&e, path);
            }
            return;
        }
    };
    let mut damage = Damage(path);
    let check = table.verify(&mut damage);
    decoded_at(table.liveness(), path);
    let mut iter = table.iter(TableIterOptions {
        fill_cache: false,
        readahead: 0,
    });
    let mut keys = Vec::new();
    let mut walk = iter.seek_to_first();
    while walk.is_ok() && iter.valid() {
        keys.push(iter.key().to_vec());
        walk = iter.next();
    }
    let whole = decoded_at(walk, path).is_some();
    assert!(!(whole && check.complete) || keys.len() as u64 == check.entries);
    let mut steps = 0;
    let mut walk = iter.seek_to_last();
    while walk.is_ok() && iter.valid() && steps <= keys.len() {
        steps += 1;
        walk = iter.prev();
    }
    decoded_at(walk, path);
    for key in keys.iter().take(8) {
        decoded_at(table.get(key, false), path);
        decoded_at(iter.seek(key), path);
        decoded_at(iter.seek_for_prev(key), path);
    }
}

/// A cache that keeps nothing, because the files of all inputs have the same number.
fn no_cache() -> Arc<BlockCache> {
    static CACHE: LazyLock<Arc<BlockCache>> = LazyLock::new(|| Arc::new(BlockCache::new(0)));
    Arc::clone(&CACHE)
}

/// Checks the calls that the visitor of a check receives.
struct Damage<'a>(&'a Path);

impl TableVisitor for Damage<'_> {
    fn entry(&mut self, key: ParsedInternalKey<'_>, ikey: &[u8], _: &[u8], _: u64) {
        assert_eq!(key.user_key.len() + TRAILER_LEN, ikey.len());
    }

    fn damage(&mut self, error: Error) {
        assert_names(&error, self.0);
    }
}
