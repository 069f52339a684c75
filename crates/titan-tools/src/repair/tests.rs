//! Cases that do not occur in databases that only Titan wrote.

use std::path::Path;
use std::sync::Arc;

use titan::internals::db::files_of;
use titan::internals::format::{
    BlobIndex, FileKind, InternalKeyComparator, ValueType, internal_key,
};
use titan::internals::table::{TableFamily, TableWriter, TableWriterOptions};
use titan::internals::version::VersionEdit;
use titan::vfs::{StdVfs, Vfs};
use titan::{
    BlobFileNumber, BytewiseComparator, ColumnFamilyId, ColumnFamilyOptions, CompressionType, Db,
    FileNumber, Options, SequenceNumber,
};

use super::{RepairTo, repair};
use crate::testing::{records, write_records};

/// The family id that RocksDB writes for an unknown family.
const UNKNOWN: ColumnFamilyId = ColumnFamilyId(i32::MAX as u32);

/// Writes a table with one entry, as for ingestion into any database.
fn write_foreign_table(dir: &Path, key: &[u8], value_type: ValueType, value: &[u8]) {
    let number = FileNumber(1000);
    let path = FileKind::Table(number).path(dir);
    let options = TableWriterOptions {
        comparator: InternalKeyComparator::new(Arc::new(BytewiseComparator)),
        block_size: 4096,
        restart_interval: 16,
        bloom_bits_per_key: 0.0,
        prefix_extractor: None,
        compression: CompressionType::None,
        family: TableFamily {
            id: UNKNOWN,
            name: String::new(),
            merge_operator: None,
        },
        db_id: String::new(),
        db_session_id: String::new(),
        file_number: number,
        creation_time: 1_700_000_000,
    };
    let mut writer = TableWriter::new(StdVfs.create(&path).unwrap(), &path, options);
    let ikey = internal_key(key, SequenceNumber(9), value_type as u8);
    writer.add(&ikey, value).unwrap();
    writer.finish().unwrap();
}

#[test]
fn an_ingested_table_is_the_default_familys_where_no_other_is_known() {
    for (other, owner) in [(false, "default"), (true, "recovered-2")] {
        let dir = tempfile::tempdir().unwrap();
        let (damaged, repaired) = (dir.path().join("damaged"), dir.path().join("repaired"));
        let options = Options::default();
        let db = Db::open(&damaged, &options).unwrap();
        db.put(b"a", b"written").unwrap();
        if other {
            let other = db.create_column_family("other", ColumnFamilyOptions::default());
            other.unwrap().put(b"b", b"the other's").unwrap();
        }
        db.flush_all().unwrap();
        db.close().unwrap();
        write_foreign_table(&damaged, b"b", ValueType::Value, b"ingested");
        for file in files_of(&StdVfs, &damaged).unwrap() {
            if matches!(file, FileKind::Manifest(_)) {
                StdVfs.remove(&file.path(&damaged)).unwrap();
            }
        }
        let to = RepairTo::Directory(repaired.clone());
        let report = repair(&damaged, &to, &options, &mut |_| {}).unwrap();
        let db = Db::open(&repaired, &options).unwrap();
        let all = db.column_families();
        let holders = all
            .iter()
            .filter(|family| family.get(b"b").unwrap().as_deref() == Some(b"ingested"));
        let holders: Vec<_> = holders.map(|family| family.name()).collect();
        assert_eq!(holders, [owner], "{report:#?}");
        db.close().unwrap();
    }
}

/// Adds an edit to the newest MANIFEST.
fn add_edit(dir: &Path, edit: &VersionEdit) {
    let files = files_of(&StdVfs, dir).unwrap();
    let manifests = files.iter().filter_map(|file| match file {
        FileKind::Manifest(number) => Some(*number),
        _ => None,
    });
    let number = manifests.max().unwrap();
    let path = FileKind::Manifest(number).path(dir);
    let mut edits = records(&path, number);
    let mut added = Vec::new();
    edit.encode(&mut added);
    edits.push(added);
    write_records(&path, &edits);
}

#[test]
fn numbers_out_of_reach_in_damaged_files_leave_numbers_for_others() {
    for in_manifest in [false, true] {
        for far in [1_u64 << 59, (1 << 60) - 1, 1 << 62, u64::MAX] {
            let dir = tempfile::tempdir().unwrap();
            let (damaged, repaired) = (dir.path().join("damaged"), dir.path().join("repaired"));
            let options = Options::default();
            let db = Db::open(&damaged, &options).unwrap();
            db.put(b"a", b"written").unwrap();
            db.flush().unwrap();
            db.close().unwrap();
            if in_manifest {
                add_edit(
                    &damaged,
                    &VersionEdit {
                        next_file_number: Some(FileNumber(far)),
                        ..VersionEdit::default()
                    },
                );
            } else {
                let pointer = BlobIndex {
                    file: BlobFileNumber(far),
                    offset: 33,
                    size: 40,
                    compression: CompressionType::None,
                };
                let mut value = Vec::new();
                pointer.encode(&mut value);
                write_foreign_table(&damaged, b"b", ValueType::BlobIndex, &value);
            }
            let to = RepairTo::Directory(repaired.clone());
            repair(&damaged, &to, &options, &mut |_| {}).unwrap();
            for _ in 0..2 {
                let db = Db::open(&repaired, &options).unwrap();
                assert_eq!(db.get(b"a").unwrap().unwrap(), "written", "{far}");
                db.put(b"c", b"more").unwrap();
                db.flush().unwrap();
                db.close().unwrap();
            }
        }
    }
}
