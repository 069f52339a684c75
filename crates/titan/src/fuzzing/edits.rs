//! Version edits: the contents of a MANIFEST's records.

use super::{decoded, sound};
use crate::version::edit::VersionEdit;

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
}

fn encoded(edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::new();
    edit.encode(&mut out);
    out
}
