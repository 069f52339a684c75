//! Tests of the whole module, and the tools they share.

mod damage;
mod failures;
mod fetching;
mod relocation;
mod round_trips;
mod separation;
mod with_rocksdb;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, CompressionType};
use crate::fuzzing::MemoryFile;
use crate::vfs::{Access, ReadableFile, StdVfs, Vfs};

const KINDS: [CompressionType; 4] = [
    CompressionType::None,
    CompressionType::Snappy,
    CompressionType::Lz4,
    CompressionType::Zstd,
];

const CF: ColumnFamilyId = ColumnFamilyId(7);

type Pair = (Vec<u8>, Vec<u8>);

fn open_bytes(bytes: Vec<u8>) -> Result<Arc<BlobFileReader>> {
    BlobFileReader::open(
        MemoryFile::open(bytes),
        Path::new("test.blob"),
        BlobFileNumber(9),
    )
}

fn open(dir: &Path, number: u64) -> Result<Arc<BlobFileReader>> {
    let number = BlobFileNumber(number);
    let path = FileKind::Blob(number).path(dir);
    BlobFileReader::open(StdVfs.open(&path, Access::Random)?, &path, number)
}

/// Writes a file of these pairs and returns the pointers to them.
fn write(
    dir: &Path,
    number: u64,
    kind: CompressionType,
    pairs: &[Pair],
) -> (BlobFileSummary, Vec<BlobIndex>) {
    let number = BlobFileNumber(number);
    let mut w = BlobFileWriter::create(&StdVfs, dir, number, CF, kind, true).unwrap();
    let indexes = pairs.iter().map(|(k, v)| w.add(k, v).unwrap()).collect();
    (w.finish().unwrap(), indexes)
}

/// A value that compresses, but not to nothing.
fn value(rng: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let word: [u8; 5] = std::array::from_fn(|_| rng.u8(..));
    (0..len)
        .map(|i| if i % 8 == 0 { rng.u8(..) } else { word[i % 5] })
        .collect()
}

fn all(reader: &BlobFileReader) -> Result<Vec<BlobRecord>> {
    Records::of(reader).collect()
}
