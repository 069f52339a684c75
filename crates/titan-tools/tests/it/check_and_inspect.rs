//! `check` and `inspect` report nothing about what is sound, and exactly what is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::{ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, ErrorKind, Options};
use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};
use titan_tools::{CheckReport, InspectItem, check, inspect};

fn options() -> Options {
    Options {
        db: DbOptions::default(),
        default: ColumnFamilyOptions {
            write_buffer_size: 1 << 20,
            target_file_size_base: 1 << 20,
            block_size: 1024,
            min_blob_size: 256,
            // The set of blob files must not depend on when jobs run.
            enable_blob_garbage_collection: false,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

/// A database with tables on two levels, blob files with garbage, tombstones and a WAL.
fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &options()).unwrap();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut put = |i: u32| {
        let mut value = vec![0; [20, 300, 2000][(i % 3) as usize]];
        rng.fill(&mut value);
        db.put(format!("key{i:05}").as_bytes(), &value).unwrap();
    };
    (0..600).for_each(&mut put);
    db.flush().unwrap();
    (0..600).step_by(4).for_each(&mut put);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    (100..200).for_each(&mut put);
    db.delete(b"key00007").unwrap();
    db.delete_range(b"key00300", b"key00310").unwrap();
    db.flush().unwrap();
    (0..100).for_each(&mut put);
    db.wait_idle().unwrap();
    db.sync_wal().unwrap();
    db.close().unwrap();
    dir
}

fn run(dir: &Path) -> CheckReport {
    let mut last = (0, 0);
    let report = check(dir, &options(), &mut |at| {
        assert!(at.done_bytes >= last.0 && at.done_bytes <= at.total_bytes);
        last = (at.done_bytes, at.total_bytes);
    })
    .unwrap();
    if report.problems.is_empty() {
        assert_eq!(last.0, last.1, "progress ends at the end");
    }
    report
}

/// The files with this extension, smallest number first.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension().is_some_and(|e| e == extension)
                || path
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .starts_with(extension)
        })
        .collect();
    files.sort();
    files
}

fn flip(path: &Path, at: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at as usize] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Some problem names this file and an offset in this range.
#[track_caller]
fn found(report: &CheckReport, path: &Path, offsets: std::ops::RangeInclusive<u64>) {
    assert!(
        report.problems.iter().any(|e| {
            e.path() == Some(path) && e.offset().is_some_and(|offset| offsets.contains(&offset))
        }),
        "{} in {offsets:?}: {:?}",
        path.display(),
        report.problems
    );
    let elsewhere = report.problems.iter().find(|e| e.path() != Some(path));
    assert!(elsewhere.is_none(), "{elsewhere:?}");
}

fn items(path: &Path) -> Vec<InspectItem> {
    let mut items = Vec::new();
    let summary = inspect(path, &mut |item| {
        items.push(item);
        true
    })
    .unwrap();
    assert_eq!(summary.items, items.len() as u64);
    assert_eq!(summary.size, fs::metadata(path).unwrap().len());
    let damaged = items.iter().filter(|item| item.kind == "damage").count();
    assert_eq!(summary.damaged, damaged as u64);
    items
}

fn size_of(item: &InspectItem) -> Option<u64> {
    let size = item.fields.iter().find(|(name, _)| name == "size");
    size.map(|(_, value)| value.parse().unwrap())
}

#[test]
fn a_whole_database_has_no_problems() {
    let dir = database();
    let before = fs::read_dir(dir.path()).unwrap().count();
    let report = run(dir.path());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    assert!(report.tables >= 2 && report.blob_files >= 2, "{report:?}");
    assert!(
        report.entries >= 600 && report.pointers >= 400,
        "{report:?}"
    );
    assert!(report.wal_files >= 1 && report.wal_records >= 100);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before);

    let db = Db::open(dir.path(), &options()).unwrap();
    let beside = run(dir.path());
    assert!(beside.problems.is_empty(), "{:?}", beside.problems);
    assert!(beside.moment.is_some() && report.moment.is_none());
    db.close().unwrap();
    let nothing = tempfile::tempdir().unwrap();
    let e = check(nothing.path(), &options(), &mut |_| {}).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_dir(nothing.path()).unwrap().count(), 0);
}

#[test]
fn directories_of_rocksdb_have_no_problems() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../titan/tests/fixtures");
    let mut seen = 0;
    for entry in fs::read_dir(fixtures).unwrap() {
        let from = entry.unwrap().path();
        if !from.join("CURRENT").exists() {
            continue;
        }
        seen += 1;
        let dir = tempfile::tempdir().unwrap();
        for file in fs::read_dir(&from).unwrap() {
            let file = file.unwrap().path();
            fs::copy(&file, dir.path().join(file.file_name().unwrap())).unwrap();
        }
        let name = from.file_name().unwrap().to_str().unwrap();
        let report = run(dir.path());
        assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
        assert!(
            report.tables > 0 && report.wal_files > 0,
            "{name}: {report:?}"
        );
        let has_blobs = name.contains("blob") || name.contains("wide-columns");
        assert_eq!(report.blob_files > 0, has_blobs, "{name}");
        assert_eq!(report.pointers > 0, has_blobs, "{name}");
        for file in fs::read_dir(dir.path()).unwrap() {
            let path = file.unwrap().path();
            if !path.ends_with("LOCK") {
                let damage = items(&path).into_iter().find(|item| item.kind == "damage");
                assert!(damage.is_none(), "{}: {damage:?}", path.display());
            }
        }
    }
    assert_eq!(seen, 25);
}

#[test]
fn damage_is_found_where_it_is() {
    let dir = database();
    let sst = files(dir.path(), "sst").remove(0);
    let blob = files(dir.path(), "blob").remove(0);
    let wal = files(dir.path(), "log").pop().unwrap();
    let manifest = files(dir.path(), "MANIFEST").remove(0);
    let blob_size = fs::metadata(&blob).unwrap().len();
    let block = items(&sst)
        .into_iter()
        .find(|i| i.kind == "data block")
        .unwrap();
    let record = items(&blob)
        .into_iter()
        .filter(|i| i.kind == "record")
        .nth(3)
        .unwrap();
    let edit = items(&manifest)
        .into_iter()
        .filter(|i| i.kind == "edit")
        .nth(1)
        .unwrap();
    let batch = items(&wal)
        .into_iter()
        .filter(|i| i.kind == "batch")
        .nth(40)
        .unwrap();

    let with = |path: &Path, damage: &dyn Fn(), offsets| {
        let whole = fs::read(path).unwrap();
        damage();
        found(&run(dir.path()), path, offsets);
        fs::write(path, whole).unwrap();
    };
    let (b, r) = (block.offset, record.offset);
    with(&sst, &|| flip(&sst, b + 9), b..=b);
    with(&sst, &|| fs::write(&sst, b"short").unwrap(), 5..=5);
    with(&blob, &|| flip(&blob, r + 40), r..=r); // the key
    with(&blob, &|| flip(&blob, r + 3), r..=r); // the record's header
    with(
        &blob,
        &|| flip(&blob, blob_size - 20),
        blob_size - 32..=blob_size - 32,
    );
    let e = edit.offset;
    with(&manifest, &|| flip(&manifest, e + 9), e..=e);
    let w = batch.offset;
    with(&wal, &|| flip(&wal, w + 9), w..=w);
    let cut = blob_size / 2;
    let truncate = |path: &Path, len| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(len).unwrap();
    };
    with(&blob, &|| truncate(&blob, cut), cut..=cut);
    assert!(run(dir.path()).problems.is_empty(), "all is as it was");

    // A record whose header is damaged does not prevent reports about those after it.
    let whole = fs::read(&blob).unwrap();
    flip(&blob, r + 3);
    let last = items(&blob).len();
    let later = whole.len() as u64 - 40;
    flip(&blob, later);
    let report = run(dir.path());
    assert_eq!(report.problems.len(), 2, "{:?} {last}", report.problems);
    fs::write(&blob, whole).unwrap();

    // The end of a WAL may be missing.
    let len = fs::metadata(&wal).unwrap().len();
    truncate(&wal, len - 3);
    let report = run(dir.path());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(
        report.notes.iter().any(|n| n.contains("cut short")),
        "{:?}",
        report.notes
    );

    for (path, kind) in [(&sst, "sst"), (&blob, "blob")] {
        let whole = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        let report = run(dir.path());
        assert!(
            report
                .problems
                .iter()
                .any(|e| e.path() == Some(path) && e.is_corruption()),
            "{kind}: {:?}",
            report.problems
        );
        fs::write(path, whole).unwrap();
    }
}

#[test]
fn pointers_and_records_are_held_against_each_other() {
    let dir = database();
    let blob = files(dir.path(), "blob").remove(0);
    let records: Vec<_> = items(&blob)
        .into_iter()
        .filter(|i| i.kind == "record")
        .collect();
    // Another file's records, undamaged in themselves, in place of this one's.
    let mut bytes = fs::read(&blob).unwrap();
    let (a, b) = records
        .windows(3)
        .find_map(|w| (size_of(&w[0]) == size_of(&w[2])).then(|| (&w[0], &w[2])))
        .unwrap_or((&records[0], &records[0]));
    assert_ne!(a.offset, b.offset, "two records of equal size");
    let len = size_of(a).unwrap() as usize;
    let (at, bt) = (a.offset as usize, b.offset as usize);
    let first = bytes[at..at + len].to_vec();
    bytes.copy_within(bt..bt + len, at);
    bytes[bt..bt + len].copy_from_slice(&first);
    fs::write(&blob, bytes).unwrap();
    let report = run(dir.path());
    found(&report, &blob, a.offset..=b.offset);
    assert!(
        report.problems[0].message().contains("another key"),
        "{:?}",
        report.problems
    );
}

/// A MANIFEST record with this payload: `crc | length | type | payload`.
fn log_record(payload: &[u8]) -> Vec<u8> {
    let mut body = vec![1];
    body.extend_from_slice(payload);
    let crc = crc32c::crc32c(&body)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8);
    let mut out = crc.to_le_bytes().to_vec();
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.extend_from_slice(&body);
    out
}

#[test]
fn wrong_garbage_counts_are_found() {
    let dir = database();
    let blob = files(dir.path(), "blob").pop().unwrap();
    let number: u8 = blob.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let manifest = files(dir.path(), "MANIFEST").remove(0);
    // Garbage of one record and one byte in that file.
    let mut edit = vec![0x91, 0x03, number, 1, 1, 0];
    assert!(number < 0x80);
    let mut bytes = fs::read(&manifest).unwrap();
    assert!(bytes.len() < 32_000, "one block");
    bytes.append(&mut log_record(&edit));
    edit.clear();
    fs::write(&manifest, bytes).unwrap();
    let report = run(dir.path());
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(report.problems[0].path(), Some(&*blob));
    assert!(report.problems[0].message().contains("garbage"));
}

#[test]
fn what_does_not_belong_is_noted() {
    let dir = database();
    for name in [
        "000999.sst",
        "000998.blob",
        "000997.dbtmp",
        "README",
        "000001.log",
    ] {
        fs::write(dir.path().join(name), "x").unwrap();
    }
    let report = run(dir.path());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.notes.len(), 5, "{:?}", report.notes);
    fs::write(dir.path().join("IDENTITY"), "another").unwrap();
    found(&run(dir.path()), &dir.path().join("IDENTITY"), 0..=0);
}

#[test]
fn inspection_covers_the_whole_file_and_stops_when_told() {
    let dir = database();
    for extension in ["sst", "blob"] {
        for path in files(dir.path(), extension) {
            let mut end = 0;
            for item in items(&path) {
                let Some(size) = size_of(&item) else {
                    assert!(item.offset < end, "{item:?}");
                    continue;
                };
                assert_eq!(item.offset, end, "{}: {item:?}", path.display());
                assert_ne!(item.kind, "unclaimed");
                end += size;
            }
            assert_eq!(end, fs::metadata(&path).unwrap().len());
        }
    }
    for extension in ["log", "MANIFEST"] {
        let path = files(dir.path(), extension).pop().unwrap();
        let (mut payload, mut records) = (0, 0);
        for item in items(&path) {
            assert_ne!(item.kind, "damage");
            payload += size_of(&item).unwrap_or(0);
            records += u64::from(size_of(&item).is_some());
        }
        let size = fs::metadata(&path).unwrap().len();
        // Records cost 7 bytes, and a few more where they cross a block.
        assert!(size - payload >= 7 * records && size - payload < 9 * records + 100);
    }
    for name in ["CURRENT", "IDENTITY"] {
        assert_eq!(items(&dir.path().join(name))[0].kind, "text");
    }
    let options = files(dir.path(), "OPTIONS").pop().unwrap();
    assert!(items(&options).iter().any(|i| i.kind == "option"));

    let mut seen = 0;
    let summary = inspect(&files(dir.path(), "sst")[0], &mut |_| {
        seen += 1;
        seen < 5
    });
    assert_eq!((summary.unwrap().items, seen), (5, 5));
    // Recognised by content if the name says nothing.
    for extension in ["sst", "blob", "log", "MANIFEST"] {
        let path = files(dir.path(), extension).pop().unwrap();
        let plain = dir.path().join("plain");
        fs::copy(&path, &plain).unwrap();
        assert_eq!(items(&plain).len(), items(&path).len(), "{extension}");
    }
    let foreign = dir.path().join("README");
    fs::write(&foreign, "x").unwrap();
    let e = inspect(&foreign, &mut |_| true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn inspection_goes_on_behind_damage() {
    let dir = database();
    let sst = files(dir.path(), "sst").remove(0);
    let whole = items(&sst);
    let blocks: Vec<_> = whole.iter().filter(|i| i.kind == "data block").collect();
    assert!(blocks.len() > 3);
    flip(&sst, blocks[1].offset + 5);
    let now = items(&sst);
    let damage: Vec<_> = now.iter().filter(|i| i.kind == "damage").collect();
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0].offset, blocks[1].offset);
    let left = now.iter().filter(|i| i.kind == "data block").count();
    assert_eq!(left, blocks.len() - 1);

    let wal = files(dir.path(), "log").pop().unwrap();
    let whole = items(&wal);
    assert!(
        fs::metadata(&wal).unwrap().len() > 64 << 10,
        "several blocks"
    );
    flip(&wal, whole[5].offset + 9);
    let now = items(&wal);
    assert_eq!(now.iter().filter(|i| i.kind == "damage").count(), 1);
    assert_eq!(now.last(), whole.last());
}

#[test]
fn garbage_never_panics() {
    let dir = database();
    let scratch = tempfile::tempdir().unwrap();
    for seed in 0..120u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        for (extension, name) in [
            ("sst", "000007.sst"),
            ("blob", "000007.blob"),
            ("log", "000007.log"),
            ("MANIFEST", "MANIFEST-000007"),
            ("OPTIONS", "OPTIONS-000007"),
        ] {
            let mut bytes = match seed % 3 {
                0 => (0..rng.usize(..2000)).map(|_| rng.u8(..)).collect(),
                _ => fs::read(files(dir.path(), extension).pop().unwrap()).unwrap(),
            };
            for _ in 0..rng.usize(..8) {
                // Most of the structure is at the ends.
                let len = bytes.len();
                if let Some(at) = [rng.usize(..=len), len.saturating_sub(rng.usize(1..400))]
                    .get(rng.usize(..2))
                    .filter(|at| **at < len)
                {
                    bytes[*at] = rng.u8(..);
                }
            }
            let path = scratch.path().join(name);
            fs::write(&path, bytes).unwrap();
            let summary = inspect(&path, &mut |_| true);
            assert!(summary.is_ok(), "seed {seed} {name}: {summary:?}");
        }
    }
    // Nor does a check of a directory in which some file is damaged.
    for seed in 0..40u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut all: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        all.sort();
        let path = &all[rng.usize(..all.len())];
        let whole = fs::read(path).unwrap();
        let mut bytes = whole.clone();
        for _ in 0..3 {
            if !bytes.is_empty() {
                let at = rng.usize(..bytes.len());
                bytes[at] ^= 1 << rng.u8(..8);
            }
        }
        fs::write(path, bytes).unwrap();
        let _ = check(dir.path(), &options(), &mut |_| {});
        fs::write(path, whole).unwrap();
    }
    assert!(run(dir.path()).problems.is_empty());
}

#[test]
fn a_file_that_may_not_be_read_is_no_damage() {
    let vfs = SimVfs::new();
    let mut options = options();
    options.db.vfs = Arc::new(vfs.clone());
    let dir = Path::new("db");
    let db = Db::open(dir, &options).unwrap();
    for n in 0..10u8 {
        db.put([n], [n; 1000]).unwrap();
    }
    db.flush().unwrap();
    db.put("in the log", "alone").unwrap();
    db.close().unwrap();
    let run = || check(dir, &options, &mut |_| {});
    assert!(run().unwrap().problems.is_empty());
    for files in ["*.sst", "*.blob", "*.log", "OPTIONS-*"] {
        for (errno, kind) in [
            (Errno(13), ErrorKind::Io),
            (Errno::TOO_MANY_FILES, ErrorKind::TooManyOpenFiles),
        ] {
            let fault = Fault::on([OpKind::Open]).path(files).error(errno);
            let fault = vfs.inject(fault.forever());
            let refused = run().unwrap_err();
            assert_eq!(refused.kind(), kind, "{files}: {refused}");
            assert!(fault.hits() > 0, "{files}");
            vfs.clear_faults();
        }
    }
}
