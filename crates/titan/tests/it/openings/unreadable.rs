//! Databases with tables that this version cannot read are refused when they are opened, before
//! anything is written, and by a check. Tables that can be read are not inspected twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use titan::{CompactRangeOptions, Db, ErrorKind, Options};
use titan_testkit::sim::{OpKind, SimVfs};
use titan_tools::check;

use crate::directory::{copy, files, files_ending};

fn fixture(name: &str) -> tempfile::TempDir {
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name),
    )
}

/// Names and contents, without the lock.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let named = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read(path).unwrap())
    };
    let mut all: BTreeMap<_, _> = files(dir).iter().map(named).collect();
    all.remove("LOCK");
    all
}

/// Opening in every way, and a check, refuse `dir` and name `what` and a table; nothing is written.
fn assert_refused(dir: &Path, what: &str) {
    let before = bytes(dir);
    let options = Options::default();
    for (how, error) in [
        ("open", Db::open(dir, &options).err()),
        ("open_read_only", Db::open_read_only(dir, &options).err()),
        ("check", check(dir, &options, &mut |_| {}).err()),
    ] {
        let error = error.unwrap_or_else(|| panic!("{how} succeeds on {what}"));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{how}: {error}");
        assert!(error.message().contains(what), "{how}: {error}");
        let path = error.path().unwrap();
        assert_eq!(path.extension().unwrap(), "sst", "{how}: {error}");
    }
    let after = bytes(dir);
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>()
    );
    assert!(before == after, "something was written");
}

#[test]
fn tables_of_another_kind_are_refused_before_anything_is_written() {
    assert_refused(fixture("refused/rocksdb-11.8-plain").path(), "plain table");
}

#[test]
fn a_later_version_of_tables_is_refused_before_anything_is_written() {
    let dir = fixture("rocksdb-7.8-default");
    // The oldest table: it is at the lowest level, so a reader would come to it last.
    let table = files_ending(dir.path(), ".sst").remove(0);
    let mut content = std::fs::read(&table).unwrap();
    let version = content.len() - 12;
    content[version] = 9;
    std::fs::write(&table, content).unwrap();
    assert_refused(dir.path(), "table of format version 9");
}

/// Opens read-only, and returns how many tables were opened for that.
fn tables_opened(dir: &Path) -> usize {
    let vfs = Arc::new(SimVfs::new());
    vfs.copy_in_from(dir, "/db").unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    vfs.set_hook(move |call| {
        let is_table = call.path.extension().is_some_and(|e| e == "sst");
        if call.kind == OpKind::Open && is_table {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut options = Options::default();
    options.db.vfs = vfs;
    drop(Db::open_read_only(Path::new("/db"), &options).unwrap());
    count.load(Ordering::Relaxed)
}

#[test]
fn opening_looks_at_no_table_that_titan_wrote() {
    let dir = fixture("titan-blob-opened-by-rocksdb-11.8");
    let tables = files_ending(dir.path(), ".sst").len();
    assert_eq!(tables_opened(dir.path()), tables);
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    let everything = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &everything).unwrap();
    db.close().unwrap();
    assert_eq!(tables_opened(dir.path()), 0);
}

/// Readers of a damaged table report the damage: the other tables can be read.
#[test]
fn a_damaged_table_does_not_keep_the_rest_from_being_read() {
    let dir = fixture("rocksdb-7.8-default");
    let table = files_ending(dir.path(), ".sst").remove(0);
    let mut content = std::fs::read(&table).unwrap();
    let magic = content.len() - 3;
    content[magic] ^= 1;
    std::fs::write(&table, content).unwrap();
    let report = check(dir.path(), &Options::default(), &mut |_| {}).unwrap();
    assert!(report.problems.iter().any(|e| e.is_corruption()));
    let mut options = Options::default();
    // A compaction may be due, and one that finds the damage stops writes.
    options.default.disable_auto_compactions = true;
    let db = Db::open(dir.path(), &options).unwrap();
    db.put(b"other", b"value").unwrap();
    assert_eq!(db.get(b"other").unwrap().as_deref(), Some(&b"value"[..]));
}
