//! Version edits: the contents of a MANIFEST's records.

use std::sync::Arc;

use super::{decoded, sound};
use crate::format::internal_key::{InternalKeyComparator, ValueType, internal_key};
use crate::format::{
    BlobFileNumber, BytewiseComparator, ColumnFamilyId, FileNumber, SequenceNumber,
};
use crate::version::edit::{BlobFileAddition, NewFile, VersionEdit};
use crate::version::{Version, VersionBuilder};

/// The payload of a record of a MANIFEST.
pub fn version_edit(data: &[u8]) {
    let Some(edit) = decoded(VersionEdit::decode(data)) else {
        return;
    };
    let things = edit.compact_cursors.len()
        + edit.deleted_files.len()
        + edit.new_files.len()
        + edit.blob_additions.len()
        + edit.blob_garbage.len()
        + edit.wal_additions.len()
        + edit.table_facts.len()
        + edit.unknown.len();
    assert!(things <= data.len(), "more in the edit than bytes");
    let encoded = encoded(&edit);
    let again = sound(VersionEdit::decode(&encoded));
    assert_eq!(again, edit);
    assert_eq!(self::encoded(&again), encoded);
    let state = state();
    for edits in [&[&edit][..], &[&state, &edit], &[&state, &edit, &edit]] {
        apply(edits);
    }
}

/// Applies edits as recovery does, each either as a whole or as the last one. The invariants of
/// versions and levels are checked on the way.
fn apply(edits: &[&VersionEdit]) {
    let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
    let base = Version::empty(ColumnFamilyId::DEFAULT, comparator, 7);
    let mut builder = VersionBuilder::new(Arc::new(base), Arc::default());
    for edit in edits {
        if decoded(builder.apply(edit)).is_none() {
            return;
        }
    }
    let Some(built) = decoded(builder.build()) else {
        return;
    };
    let version = built.install();
    let mut numbers: Vec<_> = version.tables().map(|(_, table)| table.number()).collect();
    numbers.sort_unstable();
    assert!(
        numbers.is_sorted_by(|a, b| a < b),
        "a table twice: {numbers:?}"
    );
}

/// Three tables on as many levels, which point to two blob files. All have small numbers, as edits
/// of fuzzers do.
fn state() -> VersionEdit {
    let table = |number: u64, oldest: Option<u64>| {
        let bound = |key: &[u8]| internal_key(key, SequenceNumber(number), ValueType::Value as u8);
        NewFile {
            number: FileNumber(number),
            size: 100,
            smallest: bound(b"b"),
            largest: bound(b"y"),
            smallest_seq: SequenceNumber(number),
            largest_seq: SequenceNumber(number),
            oldest_blob_file: oldest.map(BlobFileNumber),
            ..NewFile::default()
        }
    };
    let blob_file = |number| BlobFileAddition {
        number: BlobFileNumber(number),
        count: 3,
        total_bytes: 300,
        checksum_method: Vec::new(),
        checksum_value: Vec::new(),
        unknown: Vec::new(),
    };
    VersionEdit {
        new_files: vec![
            (0, table(3, Some(5))),
            (1, table(2, Some(4))),
            (2, table(1, None)),
        ],
        blob_additions: vec![blob_file(4), blob_file(5)],
        ..VersionEdit::default()
    }
}

fn encoded(edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::new();
    edit.encode(&mut out);
    out
}
