//! Blob files written by RocksDB itself, where its benchmark tool is installed.

use std::process::Command;

use super::*;
use crate::vfs::requirement;

/// A directory with blob files by RocksDB, or `None` where its tool is missing.
fn rocksdb_directory(compression: &str) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    let outcome = Command::new("db_bench")
        .arg(format!("--db={}", dir.path().display()))
        .args([
            "--benchmarks=fillseq,flush",
            "--num=3000",
            "--value_size=1000",
            "--seed=1",
        ])
        .args([
            "--enable_blob_files=1",
            "--min_blob_size=0",
            "--blob_file_size=1000000",
        ])
        .arg(format!("--blob_compression_type={compression}"))
        .output();
    let output = requirement::met(requirement::ROCKSDB_TOOLS, outcome)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(dir)
}

#[test]
fn rocksdb_s_blob_files_are_read_and_written_alike() {
    for (name, kind) in ["none", "snappy", "lz4", "zstd"].into_iter().zip(KINDS) {
        let Some(dir) = rocksdb_directory(name) else {
            return;
        };
        let mut keys = 0;
        for name in StdVfs.read_dir(dir.path()).unwrap() {
            let Some(FileKind::Blob(number)) = FileKind::parse(&name) else {
                continue;
            };
            let r = open(dir.path(), number.0).unwrap();
            assert_eq!(
                (r.compression(), r.column_family()),
                (kind, ColumnFamilyId(0)),
                "{name}"
            );
            let records = all(&r).unwrap();
            assert_eq!(r.verify_footer().unwrap(), records.len() as u64);
            keys += records.len();

            let copies = tempfile::tempdir().unwrap();
            let cf = r.column_family();
            let mut copy =
                BlobFileWriter::create(&StdVfs, copies.path(), number, cf, kind, true).unwrap();
            for record in &records {
                let value = r.get(&record.key, &record.index(&r)).unwrap();
                assert_eq!((record.key.len(), value.len()), (16, 1000), "{name}");
                let index = copy.add(&record.key, &value).unwrap();
                // Compressed forms may differ between encoders; uncompressed records are at the
                // same offsets.
                if kind == CompressionType::None {
                    assert_eq!(index, record.index(&r));
                }
            }
            copy.finish().unwrap();
            if kind == CompressionType::None {
                let read = |dir: &Path| std::fs::read(dir.join(&name)).unwrap();
                assert!(
                    read(copies.path()) == read(dir.path()),
                    "{name} is the same file"
                );
            }
        }
        assert_eq!(keys, 3000, "{name}");
    }
}
