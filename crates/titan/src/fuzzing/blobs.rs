//! Blob files and the pointers into them.

use std::path::Path;

use super::{MemoryFile, assert_names, decoded, decoded_at, sound};
use crate::blob::{BlobFileReader, Records};
use crate::format::BlobFileNumber;
use crate::format::blob_index::BlobIndex;
use crate::format::checksum::{crc32c, mask};
use crate::format::entity::{
    Column, ColumnValue, columns, default_value, encode, require_inline, with_default_value,
};
use crate::format::internal_key::ValueType;
use crate::format::pointers::each_pointer;

const HEADER: usize = 30;
const RECORD_HEADER: usize = 32;
const FOOTER: usize = 32;
/// Records that are also read by pointers.
const LOOKED_UP: u64 = 3;

/// A pointer into a blob file.
pub fn blob_index(data: &[u8]) {
    let Some(index) = decoded(BlobIndex::decode(data)) else {
        return;
    };
    let mut encoded = Vec::new();
    index.encode(&mut encoded);
    assert!(encoded.len() <= data.len(), "longer than it was");
    assert_eq!(sound(BlobIndex::decode(&encoded)), index);
    assert!(index.record_len(9) > index.size || index.record_len(9) == u64::MAX);
}

/// An entity, of either version.
pub fn entity(data: &[u8]) {
    let Some(found) = decoded(columns(data)) else {
        return;
    };
    assert!(found.len() <= data.len(), "more columns than bytes");
    assert!(found.is_sorted_by(|a, b| a.name < b.name));
    assert_eq!(sound(columns(&encode(&found))), found);
    let mut pointers = 0;
    sound(each_pointer(ValueType::WideColumnEntity, data, |_| {
        pointers += 1;
        Ok(())
    }));
    let is_pointer = |column: &&Column<'_>| matches!(column.value, ColumnValue::Pointer(_));
    assert_eq!(found.iter().filter(is_pointer).count(), pointers);
    assert_eq!(require_inline(data).is_ok(), pointers == 0);
    let changed = sound(with_default_value(data, b"changed"));
    assert_eq!(
        sound(default_value(&changed)),
        ColumnValue::Inline(b"changed")
    );
}

/// A blob file: as it is, and with its checksums corrected.
pub fn blob_record(data: &[u8]) {
    blob_file(data);
    let mut repaired = data.to_vec();
    repair(&mut repaired);
    blob_file(&repaired);
}

/// Corrects the checksums of the footer and of all records that the lengths of the records before
/// them lead to.
fn repair(file: &mut [u8]) {
    let Some((_, rest)) = file.split_at_mut_checked(HEADER) else {
        return;
    };
    let Some(records) = rest.len().checked_sub(FOOTER) else {
        return;
    };
    let (mut rest, footer) = rest.split_at_mut(records);
    put_checksum(footer, 28);
    while let Some((header, after)) = rest.split_at_mut_checked(RECORD_HEADER) {
        let len = |at: usize| {
            let bytes = header.get(at..).and_then(|b| b.first_chunk::<8>());
            bytes.map_or(0, |b| u64::from_le_bytes(*b))
        };
        let len = len(0).checked_add(len(8)).map(|len| len as usize);
        put_checksum(header, 24);
        let Some((body, after)) = len.and_then(|len| after.split_at_mut_checked(len)) else {
            break;
        };
        header[28..].copy_from_slice(&mask(crc32c(body)).to_le_bytes());
        rest = after;
    }
}

/// Writes the checksum of the bytes before `at` at that position.
pub(super) fn put_checksum(bytes: &mut [u8], at: usize) {
    let (covered, rest) = bytes.split_at_mut(at);
    rest[..4].copy_from_slice(&mask(crc32c(covered)).to_le_bytes());
}

fn blob_file(bytes: &[u8]) {
    let path = Path::new("/db/000009.blob");
    let file = MemoryFile::open(bytes.to_vec());
    let opened = BlobFileReader::open(file, path, BlobFileNumber(9));
    let Some(reader) = decoded_at(opened, path) else {
        return;
    };
    let sealed = decoded_at(reader.verify_footer(), path);
    let (mut found, mut size, mut damage) = (0u64, 0, 0);
    for record in Records::of(&reader) {
        let record = match record {
            Ok(record) => record,
            Err(e) => {
                assert_names(&e, path);
                damage += 1;
                continue;
            }
        };
        found += 1;
        size += RECORD_HEADER + record.key.len() + record.stored.len();
        if found > LOOKED_UP {
            continue;
        }
        let index = record.index(&reader);
        let value = decoded_at(record.value(&reader), path);
        // A pointer leads to the same record (BLOB-1).
        let pointed = reader.get(&record.key, &index);
        assert_eq!(decoded_at(pointed, path), value);
        let mut other = record.key.to_vec();
        other.push(b'!');
        assert!(reader.get(&other, &index).is_err(), "another key's record");
        if let Some(last) = other.len().checked_sub(2) {
            other.pop();
            other[last] ^= 1;
            assert!(reader.get(&other, &index).is_err(), "another key's record");
        }
        let longer = BlobIndex {
            size: index.size + 1,
            ..index
        };
        assert!(reader.get(&record.key, &longer).is_err(), "another size");
    }
    assert!(size <= bytes.len(), "more in records than in the file");
    if damage == 0 {
        assert_eq!(sealed, Some(found), "a sound file with another count");
    }
}
