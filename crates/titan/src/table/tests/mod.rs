//! Whole tables: written, read, damaged, and exchanged with RocksDB.

mod damage;
mod read_ahead;
mod rocksdb;
mod round_trip;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;

use super::{
    TableCheck, TableFamily, TableIdentity, TableIterOptions, TableReader, TableReaderOptions,
    TableSummary, TableVisitor, TableWriter, TableWriterOptions,
};
use crate::block_cache::BlockCache;
use crate::error::{Error, ErrorKind, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::comparator::by_name;
use crate::format::internal_key::{
    InternalKeyComparator, ParsedInternalKey, ValueType, internal_key, seek_key, user_key,
};
use crate::format::range_tombstone::RangeTombstone;
use crate::format::{
    BlobFileNumber, BytewiseComparator, ColumnFamilyId, CompressionType, FileNumber, SequenceNumber,
};
use crate::iterator::InternalIterator;
use crate::vfs::{Access, StdVfs, Vfs, requirement};

const ALL: [CompressionType; 4] = [
    CompressionType::None,
    CompressionType::Snappy,
    CompressionType::Lz4,
    CompressionType::Zstd,
];

fn order() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(BytewiseComparator))
}

fn writer_options() -> TableWriterOptions {
    TableWriterOptions {
        comparator: order(),
        block_size: 4096,
        restart_interval: 16,
        bloom_bits_per_key: 10.0,
        prefix_extractor: None,
        compression: CompressionType::Lz4,
        family: TableFamily {
            id: ColumnFamilyId(0),
            name: "default".to_owned(),
            merge_operator: None,
        },
        db_id: "8fa2f0e2-2c4b-4b4d-9a1f-1f8f0f9e7a11".to_owned(),
        db_session_id: "TW647Q8MF846I9KJZYFI".to_owned(),
        file_number: FileNumber(7),
        creation_time: 1_700_000_000,
    }
}

fn writer(path: &Path, options: TableWriterOptions) -> TableWriter {
    TableWriter::new(StdVfs.create(path).unwrap(), path, options)
}

fn reader_options(file_size: u64) -> TableReaderOptions {
    TableReaderOptions {
        identity: TableIdentity {
            number: FileNumber(7),
            size: file_size,
            largest_seq: None,
            unique_id: None,
        },
        comparator: order(),
        // Large enough for every table here. A cache that is nearly full evicts blocks that a test
        // counts on: its shards fill unevenly, and differently in each run.
        block_cache: Arc::new(BlockCache::new(64 << 20)),
    }
}

fn open(path: &Path) -> Result<Arc<TableReader>> {
    let file = StdVfs.open(path, Access::Random)?;
    let options = reader_options(file.size()?);
    TableReader::open(file, path, options)
}

/// Checks a whole table: the first contradiction, or the counts.
fn verify(table: &TableReader) -> Result<TableCheck> {
    struct First(Option<Error>);
    impl TableVisitor for First {
        fn entry(&mut self, key: ParsedInternalKey<'_>, ikey: &[u8], _: &[u8], _: u64) {
            assert_eq!(key.user_key, user_key(ikey));
        }
        fn damage(&mut self, error: Error) {
            self.0.get_or_insert(error);
        }
    }
    let mut first = First(None);
    let check = table.verify(&mut first);
    first.0.map_or(Ok(check), Err)
}

fn entries_of(
    table: &Arc<TableReader>,
    options: TableIterOptions,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut iter = table.iter(options);
    let mut found = Vec::new();
    iter.seek_to_first()?;
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next()?;
    }
    Ok(found)
}

/// Sorted as internal keys are: by user key, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OrderedKey(Vec<u8>);

impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        order().compare(&self.0, &other.0)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

type Model = BTreeMap<OrderedKey, Vec<u8>>;

fn random_user_key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let len = if rng.u8(..20) == 0 {
        rng.usize(..300)
    } else {
        rng.usize(..10)
    };
    (0..len).map(|_| rng.u8(b'a'..=b'f')).collect()
}

fn random_model(rng: &mut fastrand::Rng, entries: usize) -> Model {
    let mut model = Model::new();
    // Few user keys give many versions, so that some straddle blocks.
    let narrow = rng.bool();
    for _ in 0..entries {
        let key = if narrow {
            vec![rng.u8(b'a'..=b'h')]
        } else {
            random_user_key(rng)
        };
        let (value_type, value) = match rng.u8(..10) {
            0 => (ValueType::Deletion, vec![]),
            1 => (ValueType::SingleDeletion, vec![]),
            2 | 3 => {
                let mut value = Vec::new();
                let index = BlobIndex {
                    file: BlobFileNumber(rng.u64(10..14)),
                    offset: 400 + rng.u64(..1 << 40),
                    size: rng.u64(..1 << 20),
                    compression: CompressionType::None,
                };
                index.encode(&mut value);
                (ValueType::BlobIndex, value)
            }
            4 => (ValueType::Merge, b"operand".to_vec()),
            _ => (ValueType::Value, vec![rng.u8(..); rng.usize(..200)]),
        };
        let ikey = internal_key(&key, SequenceNumber(rng.u64(1..1 << 20)), value_type as u8);
        model.insert(OrderedKey(ikey), value);
    }
    model
}

fn write_model(path: &Path, model: &Model, options: TableWriterOptions) -> TableSummary {
    let mut w = writer(path, options);
    for (key, value) in model {
        w.add(&key.0, value).unwrap();
    }
    let estimate = w.file_size();
    let referenced = w.referenced_blob_bytes();
    let summary = w.finish().unwrap();
    assert!(
        summary.file_size + 4096 > estimate / 2,
        "{} {estimate}",
        summary.file_size
    );
    assert!(referenced <= summary.blob_refs.iter().map(|r| r.bytes).sum());
    summary
}

fn tombstone(start: &'static str, end: &'static str, sequence: u64) -> RangeTombstone {
    RangeTombstone {
        start: Bytes::from_static(start.as_bytes()),
        end: Bytes::from_static(end.as_bytes()),
        sequence: SequenceNumber(sequence),
    }
}

/// Runs RocksDB's own checker, where it is installed; returns its output.
fn sst_dump(path: &Path, command: &str) -> Option<String> {
    let arguments = [
        format!("--file={}", path.display()),
        format!("--command={command}"),
    ];
    let output = Command::new("sst_dump")
        .args(arguments)
        .arg("--output_hex")
        .output();
    let output = requirement::met(requirement::ROCKSDB_TOOLS, output)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let bad = ["orruption", "not a valid", "mismatch", "rror:"];
    assert!(
        output.status.success() && !bad.iter().any(|b| text.contains(b)),
        "sst_dump {command}: {text}"
    );
    Some(text)
}
