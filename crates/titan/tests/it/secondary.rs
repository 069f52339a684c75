//! Reading a database while another instance writes it.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use titan::{Db, ErrorKind, Options, ReadOptions, Secondary};
use titan_campaigns::beside::{Writer, moment_of};
use titan_testkit::sim::{OpKind, SimVfs};

use crate::rocksdb_tools::run;
use crate::support::{key, manual, open, scaled, value};

/// Holes are punched, records relocated, files deleted, families created and dropped, the MANIFEST
/// replaced.
#[test]
fn each_view_is_one_moment_of_a_database_under_full_load() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("db");
    let mut writer = Writer::start(&path).unwrap();
    let options = titan_campaigns::beside::options();
    let secondary = Secondary::open(&path, &options).unwrap();
    let mut older = secondary.db();
    let mut shown = moment_of(&older).unwrap();
    for view in 0..scaled(40) {
        let acknowledged = writer.acknowledged();
        secondary.try_catch_up().unwrap();
        let newest = secondary.db();
        let n = moment_of(&newest).unwrap();
        assert!(n >= acknowledged, "view {view}: {n} after {acknowledged}");
        let report = newest.space_report().unwrap();
        assert_eq!(report.moment, newest.moment());
        // The previous view does not change, however many files have been deleted since.
        assert_eq!(moment_of(&older).unwrap(), shown, "view {view}");
        (older, shown) = (newest, n);
    }
    let last = writer.stop().unwrap();
    secondary.try_catch_up().unwrap();
    assert_eq!(moment_of(&secondary.db()).unwrap(), last);
}

fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iterator = db.iter(&ReadOptions::default()).unwrap();
    iterator.seek_to_first().unwrap();
    let mut rows = Vec::new();
    while iterator.valid() {
        let value = iterator.value().unwrap();
        rows.push((iterator.key().to_vec(), value.to_vec()));
        iterator.next().unwrap();
    }
    rows
}

fn options() -> Options {
    Options {
        default: manual(),
        ..Options::default()
    }
}

#[test]
fn a_view_stays_and_catching_up_gives_another() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Secondary::open(dir.path().join("none"), &options()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let db = Db::open(dir.path(), &options()).unwrap();
    for n in 0..50 {
        db.put(&key(n), &value(n, 300)).unwrap();
    }
    db.flush_all().unwrap();
    db.put(b"logged", b"yes").unwrap();
    let before = contents(&db);

    let secondary = Secondary::open(dir.path(), &options()).unwrap();
    let view = secondary.db();
    let moment = view.moment().unwrap();
    assert_eq!(moment.sequence, 51);
    assert!(moment.unix_seconds > 0 && moment.manifest > 0);
    assert!(contents(&view) == before);
    let refused = view.put(b"a", b"b").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    let mut iterator = view.iter(&ReadOptions::default()).unwrap();

    // All files that the view has become obsolete.
    let pages = db.create_column_family("pages", manual()).unwrap();
    pages.put(b"page", b"1").unwrap();
    for n in 0..50 {
        db.put(&key(n), &value(n + 1, 300)).unwrap();
    }
    db.flush_all().unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    db.wait_idle().unwrap();
    iterator.seek_to_first().unwrap();
    assert_eq!(iterator.value().unwrap(), value(0, 300));
    drop(iterator);
    assert!(contents(&view) == before, "another moment");
    assert!(view.column_family("pages").is_none());

    secondary.try_catch_up().unwrap();
    let newest = secondary.db();
    assert!(contents(&newest) == contents(&db));
    let pages = newest.column_family("pages").unwrap();
    assert_eq!(pages.get(b"page").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(contents(&view) == before, "another moment");
    // The writer neither notices nor waits.
    db.put(b"more", b"1").unwrap();
    db.close().unwrap();
    secondary.try_catch_up().unwrap();
    assert!(secondary.db().contains_key(b"more").unwrap());
    assert!(!newest.contains_key(b"more").unwrap());
}

/// A log at every byte of a record that is being appended to it.
#[test]
fn a_record_that_is_being_appended_is_not_there_yet() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &options()).unwrap();
    db.put(b"a", b"1").unwrap();
    let copy = |to: &Path| {
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    };
    let wal = |dir: &Path| {
        let files = std::fs::read_dir(dir).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let mut logs = paths.filter(|path| path.extension().is_some_and(|e| e == "log"));
        logs.next().unwrap()
    };
    let before = std::fs::read(wal(dir.path())).unwrap();
    db.put(b"b", b"2").unwrap();
    let after = std::fs::read(wal(dir.path())).unwrap();
    let differs = |from: usize| (from..after.len()).find(|&at| before.get(at) != after.get(at));
    let first = differs(0).unwrap();
    let end = after.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for cut in first..=end {
        let place = tempfile::tempdir().unwrap();
        copy(place.path());
        let mut log = after.clone();
        log[cut..end].fill(0);
        std::fs::write(wal(place.path()), log).unwrap();
        let writer = std::fs::File::open(place.path().join("LOCK"));
        let secondary = Secondary::open(place.path(), &options()).unwrap();
        assert!(secondary.db().contains_key(b"a").unwrap());
        let there = secondary.db().contains_key(b"b").unwrap();
        assert_eq!(there, cut == end, "{cut} of {end}");
        drop(writer);
    }
}

/// A file that the MANIFEST names and that stays missing is damage.
#[test]
fn damage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &options()).unwrap();
    db.put(b"a", &value(1, 5000)).unwrap();
    db.flush_all().unwrap();
    let check = || titan_tools::check(dir.path(), &options(), &mut |_| {}).unwrap();
    let report = check();
    assert!(report.problems.is_empty(), "{report:?}");
    assert_eq!(report.moment.unwrap().sequence, 1);
    let files = std::fs::read_dir(dir.path()).unwrap();
    let mut paths = files.map(|file| file.unwrap().path());
    let blob = paths.find(|path| path.extension().is_some_and(|e| e == "blob"));
    let blob = blob.unwrap();
    let bytes = std::fs::read(&blob).unwrap();
    std::fs::write(&blob, &bytes[..bytes.len() / 2]).unwrap();
    let error = Secondary::open(dir.path(), &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(!check().problems.is_empty());
    std::fs::remove_file(&blob).unwrap();
    let error = Secondary::open(dir.path(), &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.path(), Some(&*blob));
    assert!(!check().problems.is_empty());
}

/// RocksDB writes keys in order, then overwrites them at random. At each moment as many keys exist
/// as operations were written, up to all of them, without a gap.
#[test]
fn each_view_of_a_running_rocksdb_is_one_moment() {
    const KEYS: u64 = 100_000;
    if run("db_bench", &["--version"]).is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("db");
    let mut bench = Command::new("db_bench")
        .args(["--benchmarks=fillseq,overwrite", "--compression_type=none"])
        .args([format!("--num={KEYS}"), format!("--db={}", path.display())])
        .args(["--value_size=300", "--write_buffer_size=1000000"])
        .args(["--target_file_size_base=300000"])
        .args(["--enable_blob_files=1", "--min_blob_size=200"])
        .args([
            "--blob_file_size=1000000",
            "--max_bytes_for_level_base=1000000",
        ])
        .args(["--enable_blob_garbage_collection=1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let options = Options::default();
    let mut views = 0;
    let mut last = 0;
    while bench.try_wait().unwrap().is_none() {
        let Ok(secondary) = Secondary::open(&path, &options) else {
            // The database is being created.
            assert_eq!(last, 0, "a database at work does not open");
            std::thread::yield_now();
            continue;
        };
        let view = secondary.db();
        let sequence = view.moment().unwrap().sequence;
        assert!(sequence >= last, "{sequence} after {last}");
        if sequence == 0 {
            // db_bench deletes this first, empty database and creates another.
            continue;
        }
        last = sequence;
        let keys = contents(&view);
        let number = |key: &[u8]| u64::from_be_bytes(*key.first_chunk().unwrap());
        let gap = keys.iter().zip(0..).find(|((key, _), n)| number(key) != *n);
        assert!(gap.is_none(), "view {views} of {sequence}: {gap:?}");
        assert_eq!(keys.len() as u64, sequence.min(KEYS), "view {views}");
        let report = titan_tools::check(&path, &options, &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "view {views}: {report:?}");
        views += 1;
    }
    println!("{views} views");
    assert!(last > KEYS, "{views} views, up to {last}");
}

#[test]
fn a_view_that_has_a_write_has_the_value_from_a_reader_before_it() {
    // The writer comes before each look of the follower at CURRENT.
    for look in 1..=6 {
        view_beside_a_value_from_a_reader(look);
    }
}

fn view_beside_a_value_from_a_reader(look: usize) {
    const LEN: u64 = 1 << 20;
    let vfs = SimVfs::new();
    let with = crate::support::options(&vfs, manual());
    let db = open(&with);
    db.put("b", "0").unwrap();
    db.flush().unwrap();
    let secondary = Secondary::open("/db", &with).unwrap();
    let (writer, looks) = (db.clone(), AtomicUsize::new(0));
    vfs.set_hook(move |call| {
        let looked = call.kind == OpKind::Read && call.path.ends_with("CURRENT");
        if looked && looks.fetch_add(1, Ordering::Relaxed) + 1 == look {
            let value = std::io::repeat(7).take(LEN);
            assert_eq!(writer.put_reader("a", value).unwrap(), LEN);
            writer.put("b", "1").unwrap();
        }
    });
    secondary.try_catch_up().unwrap();
    let view = secondary.db();
    let len = view.get_lazy("a").unwrap().and_then(|value| value.len());
    let b = view.get("b").unwrap();
    let is_new = b.as_deref() == Some(b"1");
    assert!(
        len == Some(LEN) || !is_new,
        "{b:?} without the value before it, at look {look}"
    );
    vfs.set_hook(|_| ());
    db.put_reader("a", std::io::repeat(7).take(LEN)).unwrap();
    secondary.try_catch_up().unwrap();
    let value = secondary.db().get_lazy("a").unwrap().unwrap();
    assert_eq!(value.len(), Some(LEN));
    drop(secondary);
    db.close().unwrap();
}
