//! The log format that WAL files and MANIFESTs share.
//!
//! A log is a sequence of 32 KiB blocks. A *logical* record, the unit this module reads and writes,
//! is stored as one physical record or, where it reaches the end of a block, as several. A physical
//! record never crosses a block; if fewer bytes than a header are left in a block, they are zero.
//!
//! ```text
//! legacy      crc u32 | length u16 | type u8 | payload                 types 1-4, 9, 10, 130
//! recyclable  crc u32 | length u16 | type u8 | log number u32 | payload     5-8, 11, 131
//!
//! crc     masked CRC-32C of everything from the type to the end of the payload
//! type    1 full, 2 first, 3 middle, 4 last; 5-8 the same in a recycled file, whose log number
//!         (low 32 bits) distinguishes new records from those of the file's earlier use
//!         9 the records that follow are compressed, each logical one as a Zstandard frame;
//!         10/11 sizes of user-defined timestamps;
//!         130/131 what the preceding WAL ended with; other types from 128 may be skipped
//!         0 with an otherwise zero header: preallocated space
//! ```
//!
//! [`LogWriter`] writes the legacy form only. [`LogReader`] reads both.
//!
//! Guarantees:
//!
//! 1. A record comes back whole and unchanged or not at all, and only after all records before it:
//!    the reader yields a prefix of the records written, even of a damaged file.
//! 2. After an error a writer writes nothing more: nothing after a torn record is readable, and
//!    after a failed sync nothing is known about the bytes before it.

mod blocks;
mod compressed;
#[cfg(test)]
mod huge_tests;
mod reader;
mod search;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{LogEnd, LogReader, Record, TailMode};
pub use search::Search;
pub use writer::LogWriter;

use crate::format::checksum::{crc32c_extend, mask};

/// Bytes of a block.
const BLOCK_SIZE: usize = 32 << 10;
/// Bytes before a payload.
const HEADER_SIZE: usize = 7;
/// Bytes before a payload in a recycled file.
const RECYCLABLE_HEADER_SIZE: usize = HEADER_SIZE + 4;

const TYPE_FULL: u8 = 1;
const TYPE_FIRST: u8 = 2;
const TYPE_MIDDLE: u8 = 3;
const TYPE_LAST: u8 = 4;
/// The type of a recyclable record minus that of the same legacy record.
const RECYCLABLE: u8 = 4;
const TYPE_COMPRESSION: u8 = 9;
const TYPE_TIMESTAMP_SIZES: u8 = 10;
const TYPE_RECYCLABLE_TIMESTAMP_SIZES: u8 = 11;
/// Types with this bit may be skipped by readers that do not know them.
const TYPE_IGNORABLE: u8 = 0x80;
const TYPE_RECYCLABLE_PREDECESSOR: u8 = 131;

/// The stored checksum of a physical record; `body` is the part after its type byte.
fn record_crc(record_type: u8, body: &[u8]) -> u32 {
    mask(crc32c_extend(crc32c_extend(0, &[record_type]), body))
}

/// Helpers for the tests of other modules, which compare their records with files of RocksDB.
#[cfg(test)]
pub(crate) mod testing {
    use std::path::Path;
    use std::process::Command;

    use super::{LogEnd, LogReader, TailMode};
    use crate::format::numbers::FileNumber;
    use crate::vfs::{Access, StdVfs, Vfs, requirement};

    /// Runs RocksDB's `db_bench` on `dir`; returns false if it is not installed.
    pub(crate) fn db_bench(dir: &Path, args: &[&str]) -> bool {
        let mut command = Command::new("db_bench");
        let command = command.arg(format!("--db={}", dir.display())).args(args);
        let output = requirement::met(requirement::ROCKSDB_TOOLS, command.output());
        output.is_some_and(|output| {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "db_bench {args:?}: {text}");
            true
        })
    }

    /// All records of a log, which must be undamaged.
    pub(crate) fn read_whole_log(path: &Path, number: FileNumber, mode: TailMode) -> Vec<Vec<u8>> {
        let file = StdVfs.open(path, Access::Sequential).unwrap();
        let mut reader = LogReader::new(file, path, number, mode);
        let mut records = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            records.push(record.payload.to_vec());
        }
        assert_eq!(reader.end(), Some(&LogEnd::Clean), "{}", path.display());
        records
    }
}
