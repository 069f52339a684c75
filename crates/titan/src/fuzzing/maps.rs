//! Relocation maps.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::blobs::put_checksum;
use super::{MemoryFile, assert_names, decoded_at, sound};
use crate::blob::{MovedRecord, RelocationBuilder, RelocationMap};
use crate::block_cache::BlockCache;
use crate::error::Result;
use crate::format::coding::Decoder;
use crate::format::{BlobFileNumber, FileNumber};
use crate::vfs::{Access, Overlay, ReadableFile, StdVfs, Vfs};

const NUMBER: FileNumber = FileNumber(9);
const PATH: &str = "/db/000009.blobmap";
const FOOTER: usize = 24;
const CHECKSUM: usize = 4;
/// Records of a logical file that are also looked up.
const LOOKED_UP: usize = 3;

/// A map: the input as it is, and with its checksums corrected; and one made of its pieces.
pub fn relocation_map(data: &[u8]) {
    map(data);
    let mut repaired = data.to_vec();
    // A part that cannot be reached stays as it is.
    let _ = repair(&mut repaired);
    map(&repaired);
    round_trip(data);
}

fn open(file: Arc<dyn ReadableFile>) -> Result<Arc<RelocationMap>> {
    RelocationMap::open(file, Path::new(PATH), NUMBER, Arc::new(BlockCache::new(0)))
}

fn map(bytes: &[u8]) {
    let path = Path::new(PATH);
    let Some(map) = decoded_at(open(MemoryFile::open(bytes.to_vec())), path) else {
        return;
    };
    let logical: Vec<BlobFileNumber> = map.logical_files().collect();
    assert!(
        logical.is_sorted_by(|a, b| a < b),
        "logical files in disorder"
    );
    for file in logical {
        let mut all = Vec::new();
        for record in map.records(file) {
            match record {
                Ok(record) => all.push(record),
                Err(e) => assert_names(&e, path),
            }
        }
        // A record takes two bytes, so there are no more than the file has bytes.
        assert!(all.len() <= bytes.len(), "more records than bytes");
        for record in all.iter().take(LOOKED_UP) {
            // Overlapping chunks can hide each other's records, but lead to no other offset.
            if let Some(to) = decoded_at_map(map.lookup(file, record.offset)) {
                let same = |r: &&MovedRecord| r.offset == record.offset && r.to == to;
                assert!(all.iter().any(|r| same(&r)), "a place that is no record's");
            }
        }
    }
}

/// The offset; an error names the map.
fn decoded_at_map(found: Result<u64>) -> Option<u64> {
    found
        .inspect_err(|e| assert_eq!(e.path(), Some(Path::new(PATH)), "another file: {e}"))
        .ok()
}

/// Corrects the checksums of the index and of all chunks that it points to.
fn repair(file: &mut [u8]) -> Result<()> {
    let Some(footer_at) = file.len().checked_sub(FOOTER) else {
        return Ok(());
    };
    let (content, footer) = file.split_at_mut(footer_at);
    let mut d = Decoder::new(footer);
    let index_at = (d.u64()? as usize).min(content.len());
    seal(content.get_mut(index_at..));
    let (chunks, index) = content.split_at_mut(index_at);
    let mut d = Decoder::new(index);
    d.varint()?;
    for _ in 0..d.varint()? {
        d.varint()?;
        for _ in 0..d.varint()? {
            d.varint()?;
            let (at, len) = (d.varint()? as usize, d.varint()? as usize);
            seal(chunks.get_mut(at..at.saturating_add(len)));
        }
    }
    Ok(())
}

/// Writes the checksum of the other bytes at their end.
fn seal(bytes: Option<&mut [u8]>) {
    if let Some(bytes) = bytes
        && let Some(at) = bytes.len().checked_sub(CHECKSUM)
    {
        put_checksum(bytes, at);
    }
}

/// Records that are written here are found again.
fn round_trip(data: &[u8]) {
    let mut records: BTreeMap<(BlobFileNumber, u64), u64> = BTreeMap::new();
    for piece in data.chunks_exact(9) {
        let mut d = Decoder::new(piece);
        let (logical, offset, to) = (sound(d.u8()), sound(d.u32()), sound(d.u32()));
        let logical = BlobFileNumber(u64::from(logical % 4));
        records.insert((logical, u64::from(offset)), u64::from(to));
    }
    let mut builder = RelocationBuilder::default();
    for (&(logical, offset), &to) in &records {
        builder.add(logical, MovedRecord { offset, to });
    }
    let (vfs, dir) = (Overlay::new(Arc::new(StdVfs)), Path::new("/db"));
    let physical = BlobFileNumber(3);
    let size = sound(builder.write(&vfs, dir, NUMBER, physical));
    assert_eq!(size, sound(vfs.size(Path::new(PATH))));
    let map = sound(open(sound(vfs.open(Path::new(PATH), Access::Random))));
    assert_eq!(map.physical(), physical);
    let mut found = BTreeMap::new();
    for logical in map.logical_files() {
        for record in map.records(logical) {
            let record = sound(record);
            found.insert((logical, record.offset), record.to);
        }
    }
    assert_eq!(found, records);
    for (&(logical, offset), &to) in records.iter().take(LOOKED_UP) {
        assert_eq!(sound(map.lookup(logical, offset)), to);
        if !records.contains_key(&(logical, offset + 1)) {
            let missing = map.lookup(logical, offset + 1);
            assert!(missing.is_err(), "a record that was never moved");
        }
    }
}
