//! RocksDB 7.8 and Titan ingest each other's files, in turns, in one directory. Skipped where
//! RocksDB's tools are not installed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use titan::{ColumnFamilyOptions, Db, FileTransfer, IngestOptions, Options, SstFileWriter, Stated};
use titan_tools::check;

use super::{Rows, rows};
use crate::rocksdb_tools::{ldb_scan, run};
use crate::support::value;

/// Runs `ldb` with lines on its standard input; it must succeed.
fn ldb(dir: &Path, args: &[&str], input: &str) {
    let mut child = Command::new("ldb")
        .arg(format!("--db={}", dir.display()))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !text.contains("ailed"),
        "{args:?}: {text}"
    );
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02X}"));
    std::iter::once("0x".to_owned()).chain(digits).collect()
}

#[test]
fn files_go_back_and_forth_for_twenty_rounds() {
    if run("ldb", &["--version"]).is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let dir = &place.path().join("db");
    let family = ColumnFamilyOptions {
        min_blob_size: 400,
        disable_auto_compactions: true,
        enable_blob_garbage_collection: false,
        stated: Stated::all(),
        ..ColumnFamilyOptions::default()
    };
    let options = Options {
        default: family,
        ..Options::default()
    };
    let mut rng = fastrand::Rng::with_seed(7);
    let mut model = Rows::new();
    drop(Db::open(dir, &options).unwrap());
    for round in 0..20 {
        let what = format!("round {round}");
        let file = place.path().join("file.sst");
        let mut new = Rows::new();
        for _ in 0..rng.usize(1..40) {
            let key = format!("key{:03}", rng.u32(..150));
            new.insert(key, value(rng.usize(..), rng.usize(1..800)));
        }
        let by_rocksdb = round % 2 == 0;
        let mut deleted = None;
        if by_rocksdb {
            let lines = new
                .iter()
                .map(|(key, value)| format!("{} ==> {}\n", hex(key.as_bytes()), hex(value)));
            let args = ["--hex", "write_extern_sst", file.to_str().unwrap()];
            ldb(dir, &args, &lines.collect::<String>());
        } else {
            let mut written = SstFileWriter::create(&file, &options).unwrap();
            let from = rng.u32(..140);
            let (begin, end) = (format!("key{from:03}"), format!("key{:03}", from + 10));
            written.delete_range(&begin, &end).unwrap();
            deleted = Some((begin, end));
            for (key, value) in &new {
                written.put(key, value).unwrap();
            }
            written.finish().unwrap();
        }
        // Each engine takes in the files of both in turn.
        if round % 4 < 2 {
            let db = Db::open(dir, &options).unwrap();
            let settings = IngestOptions {
                transfer: [FileTransfer::Copy, FileTransfer::Move][round % 2],
                ..IngestOptions::default()
            };
            db.put("key000", "written by Titan").unwrap();
            model.insert("key000".to_owned(), b"written by Titan".to_vec());
            db.ingest(&[&file], &settings)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            if rng.bool() {
                db.compact_range(None, None, &Default::default()).unwrap();
            }
            db.close().unwrap();
        } else {
            ldb(dir, &["put", "key001", "written by RocksDB"], "");
            model.insert("key001".to_owned(), b"written by RocksDB".to_vec());
            let writes_into_file = format!("--write_global_seqno={}", rng.bool());
            ldb(
                dir,
                &[
                    "ingest_extern_sst",
                    file.to_str().unwrap(),
                    &writes_into_file,
                ],
                "",
            );
        }
        if let Some((begin, end)) = deleted {
            model.retain(|key, _| *key < begin || *key >= end);
        }
        model.extend(new);
        let scanned = ldb_scan(dir, "default");
        let expected: Vec<_> = model
            .iter()
            .map(|(key, value)| (key.clone().into_bytes(), value.clone()))
            .collect();
        assert!(scanned == expected, "{what}: RocksDB");
        let db = Db::open(dir, &options).unwrap();
        assert!(rows(&db) == model, "{what}: Titan");
        db.close().unwrap();
        let report = check(dir, &options, &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "{what}: {report:?}");
        let _ = std::fs::remove_file(file);
    }
}
