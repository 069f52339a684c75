//! Random ingestions among other operations, against a model in memory.

use std::collections::BTreeMap;

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, FileTransfer, IngestOptions, ReadOptions,
    SstFileWriter, Stated,
};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use super::{MADE, Rows, rows, rows_with};
use crate::support::{DIR, options, scaled, value};

fn key(n: usize) -> String {
    format!("k{n:03}")
}

#[test]
fn a_database_with_files_is_the_model() {
    for seed in 0..scaled(40) {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let vfs = SimVfs::new();
    let automatic = rng.bool();
    let family = ColumnFamilyOptions {
        disable_auto_compactions: !automatic,
        min_blob_size: 100,
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: 2,
        target_file_size_base: 4 << 10,
        max_bytes_for_level_base: 8 << 10,
        max_bytes_for_level_multiplier: 3,
        blob_file_size: 64 << 10,
        stated: Stated::all(),
        ..ColumnFamilyOptions::default()
    };
    let options = options(&vfs, family);
    options.db.vfs.create_dir_all(MADE.as_ref()).unwrap();
    let mut db = Db::open(DIR, &options).unwrap();
    let mut model: Rows = BTreeMap::new();
    let mut snapshots: Vec<(titan::Snapshot, Rows)> = Vec::new();
    let mut next = 0;
    for step in 0..60 {
        let what = format!("seed {seed}, step {step}");
        match rng.u32(..12) {
            0..=3 => {
                let count = rng.usize(1..4);
                let mut files = Vec::new();
                for n in 0..count {
                    let path = format!("{MADE}/{n}.sst");
                    let mut file = SstFileWriter::create(&path, &options).unwrap();
                    let (mut deleted, mut points) = (None, BTreeMap::new());
                    let from = rng.usize(..200);
                    if rng.u32(..4) == 0 {
                        let to = from + rng.usize(1..30);
                        deleted = Some((key(from), key(to)));
                        file.delete_range(key(from), key(to)).unwrap();
                    }
                    let mut at = from;
                    for _ in 0..rng.usize(1..20) {
                        next += 1;
                        let new = match rng.u32(..5) {
                            0 => None,
                            _ => Some(value(next, rng.usize(..300))),
                        };
                        points.insert(key(at), new);
                        at += rng.usize(1..4);
                    }
                    for (key, new) in &points {
                        match new {
                            Some(new) => file.put(key, new).unwrap(),
                            None => file.delete(key).unwrap(),
                        }
                    }
                    file.finish().unwrap();
                    files.push(path);
                    if let Some((begin, end)) = deleted {
                        model.retain(|key, _| *key < begin || *key >= end);
                    }
                    for (key, new) in points {
                        match new {
                            Some(new) => drop(model.insert(key, new)),
                            None => drop(model.remove(&key)),
                        }
                    }
                }
                let transfer = [FileTransfer::Copy, FileTransfer::Link, FileTransfer::Move];
                let settings = IngestOptions {
                    transfer: transfer[rng.usize(..3)],
                    verify_checksums: rng.bool(),
                    ..IngestOptions::default()
                };
                db.ingest(&files, &settings).unwrap();
                for file in files {
                    let _ = options.db.vfs.remove(file.as_ref());
                }
            }
            4..=6 => {
                for _ in 0..rng.usize(1..30) {
                    next += 1;
                    let (key, new) = (key(rng.usize(..230)), value(next, rng.usize(..300)));
                    db.put(&key, &new).unwrap();
                    model.insert(key, new);
                }
            }
            7 => {
                let from = rng.usize(..200);
                let (begin, end) = (key(from), key(from + rng.usize(1..40)));
                db.delete_range(&begin, &end).unwrap();
                model.retain(|key, _| *key < begin || *key >= end);
            }
            8 => match rng.bool() {
                true => db.flush().unwrap(),
                false => db
                    .compact_range(None, None, &CompactRangeOptions::default())
                    .unwrap(),
            },
            9 => {
                snapshots.push((db.snapshot(), model.clone()));
                if snapshots.len() > 3 {
                    snapshots.remove(0);
                }
            }
            10 if rng.u32(..3) == 0 => {
                snapshots.clear();
                db.close().unwrap();
                let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
                assert!(report.problems.is_empty(), "{what}: {report:?}");
                db = Db::open(DIR, &options).unwrap();
            }
            _ => {}
        }
        assert!(rows(&db) == model, "{what}");
        for (snapshot, seen) in &snapshots {
            let options = ReadOptions {
                snapshot: Some(snapshot.clone()),
                ..ReadOptions::default()
            };
            assert!(rows_with(&db, &options) == *seen, "{what}");
        }
    }
    snapshots.clear();
    db.wait_idle().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert!(rows(&db) == model, "seed {seed}");
    db.close().unwrap();
    let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "seed {seed}: {report:?}");
}
