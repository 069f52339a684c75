//! The entry points of fuzzers: one function for each decoder, which accepts any bytes.
//!
//! Only compiled for fuzzing and for this crate's tests, which feed the same functions the
//! committed corpus and mutations of it ([`tests`]). A function asserts more than that nothing
//! panics:
//!
//! * a decoded object, encoded again and decoded again, is the same;
//! * sequences that should be sorted are, and have no more elements than the input has bytes for;
//! * an error is of a kind that stored bytes may cause, and has file and offset where the decoder
//!   knows them;
//! * objects that the crate itself encodes, from pieces of the input, are decoded to the same.
//!
//! Where a checksum guards the decoder, the input is also tried with its checksums corrected, so
//! that the fuzzer gets past them. `titan_tools::fuzzing::seeds` cuts files of a
//! database into initial inputs.

mod blobs;
mod edits;
mod logs;
mod maps;
mod options;
#[cfg(test)]
#[cfg(workspace)]
mod tests;

use std::path::Path;

pub use blobs::{blob_index, blob_record, entity};
pub use edits::version_edit;
pub use logs::{wal_record, write_batch};
pub use maps::relocation_map;
pub use options::options_file;

pub use crate::table::fuzzing::{
    block, compression, filter, footer, index, liveness, properties, range_tombstones, table,
};

use crate::error::{Error, ErrorKind, Result};
pub(crate) use crate::vfs::MemoryFile;

/// A decoder under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the fuzz target, and of the directory of its corpus.
    pub name: &'static str,
    /// Decodes, and panics if a property does not hold.
    pub run: fn(&[u8]),
}

/// All decoders.
pub const TARGETS: &[Target] = &[
    target("blob_index", blob_index),
    target("blob_record", blob_record),
    target("block", block),
    target("compression", compression),
    target("entity", entity),
    target("filter", filter),
    target("footer", footer),
    target("index", index),
    target("liveness", liveness),
    target("options_file", options_file),
    target("properties", properties),
    target("range_tombstones", range_tombstones),
    target("relocation_map", relocation_map),
    target("table", table),
    target("version_edit", version_edit),
    target("wal_record", wal_record),
    target("write_batch", write_batch),
];

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// The value of a result that must not be an error.
#[expect(clippy::panic, reason = "it is how a property fails")]
pub(crate) fn sound<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|e| panic!("what was encoded here is refused: {e}"))
}

/// The value; an error must be one that stored bytes may cause.
pub(crate) fn decoded<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(assert_of_stored_bytes).ok()
}

/// As [`decoded`], for a decoder that knows its file and its offset.
pub(crate) fn decoded_at<T>(result: Result<T>, path: &Path) -> Option<T> {
    result.inspect_err(|e| assert_names(e, path)).ok()
}

pub(crate) fn assert_of_stored_bytes(e: &Error) {
    let of_bytes = matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Unsupported);
    assert!(of_bytes, "stored bytes make this error: {e:?}");
    assert!(!e.message().is_empty(), "an error without a text");
}

pub(crate) fn assert_names(e: &Error, path: &Path) {
    assert_of_stored_bytes(e);
    assert_eq!(e.path(), Some(path), "an error without its file: {e}");
    if e.is_corruption() {
        assert!(e.offset().is_some(), "damage without its offset: {e}");
    }
}
