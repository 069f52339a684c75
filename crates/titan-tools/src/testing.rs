//! Log files of tests, read and written whole.

use std::path::Path;

use titan::FileNumber;
use titan::internals::wal::{LogReader, LogWriter, TailMode};
use titan::vfs::{Access, StdVfs, Vfs};

/// The records of a log that has no damage.
pub(crate) fn records(path: &Path, number: FileNumber) -> Vec<Vec<u8>> {
    let file = StdVfs.open(path, Access::Sequential).unwrap();
    let mut log = LogReader::new(file, path, number, TailMode::Strict);
    let mut records = Vec::new();
    while let Some(record) = log.next().unwrap() {
        records.push(record.payload.to_vec());
    }
    records
}

/// Replaces a log by one with these records.
pub(crate) fn write_records(path: &Path, records: &[Vec<u8>]) {
    let mut log = LogWriter::new(StdVfs.create(path).unwrap(), path);
    for record in records {
        log.add_record(record).unwrap();
    }
    log.sync().unwrap();
}
