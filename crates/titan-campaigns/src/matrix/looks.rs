//! Checks of a directory that RocksDB wrote.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use titan::{
    BytewiseComparator, ColumnFamily, CompactRangeOptions, Comparator, Db, ErrorKind, KeyOrder,
    Options, Stated,
};
use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::model::Model;
use titan_tools::check;
use xxhash_rust::xxh3::xxh3_128;

use super::cases::Case;
use super::content::reads;
use crate::recovery::sound;

/// Bytewise order, under the name in a case.
struct Renamed(&'static str);

impl Comparator for Renamed {
    fn name(&self) -> &'static str {
        self.0
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        BytewiseComparator.compare(a, b)
    }
}

/// Titan's options for the directory of a case in `root`: small, and some values go to blob files.
pub(super) fn options(case: &Case, root: &Path) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = false;
    options.default.write_buffer_size = 64 << 10;
    options.default.target_file_size_base = 64 << 10;
    options.default.min_blob_size = 1000;
    if let Some(name) = case.comparator {
        options.default.comparator = Arc::new(Renamed(name));
    }
    if let Some(name) = case.alias {
        let aliases = &mut options.db.comparator_aliases;
        aliases.insert(name.to_owned(), KeyOrder::Bytewise);
    }
    options.db.wal_dir = case.wal_dir.map(|dir| root.join(dir));
    options
}

/// States the number of levels of every family in a directory.
pub(super) fn state_levels(options: &mut Options, dir: &Path) -> Checked<()> {
    options.default.stated = Stated::fields(&["num_levels"]);
    let kept = Options::load(dir).doing("its options")?.families;
    let stated = kept.into_keys().map(|name| (name, options.default.clone()));
    options.families = stated.collect();
    Ok(())
}

/// Checks that Titan refuses a directory for the stated reason, however it is opened, and leaves it
/// unchanged.
pub(super) fn refused(dir: &Path, options: &Options, kind: ErrorKind, text: &str) -> Checked<()> {
    let before = files(dir)?;
    let opened = Db::open_read_only(dir, options).map(drop);
    as_stated("opening to read only", opened, kind, text)?;
    match check(dir, options, &mut |_| {}) {
        Ok(report) if !report.problems.is_empty() => {
            let mut problems = report.problems.into_iter();
            problems.try_for_each(|e| as_stated("a check's problem", Err(e), kind, text))?;
        }
        checked => as_stated("checking", checked.map(drop), kind, text)?,
    }
    unchanged(dir, &before)?;
    refused_to_write(dir, options, kind, text)
}

/// Checks that Titan refuses to open a directory for writing for the stated reason, and leaves it
/// unchanged.
pub(super) fn refused_to_write(
    dir: &Path,
    options: &Options,
    kind: ErrorKind,
    text: &str,
) -> Checked<()> {
    let before = files(dir)?;
    as_stated("opening", Db::open(dir, options).map(drop), kind, text)?;
    unchanged(dir, &before)
}

/// Checks that this was refused, and for that reason.
fn as_stated(way: &str, tried: titan::Result<()>, kind: ErrorKind, text: &str) -> Checked<()> {
    match tried {
        Ok(()) => Err(CheckFailure::wrong(format!("{way} is not refused"))),
        Err(e) if e.kind() == kind && e.to_string().contains(text) => Ok(()),
        Err(e) => Err(CheckFailure::wrong(format!(
            "{way}: {e}, not {}: {text}",
            kind.name()
        ))),
    }
}

/// Checks that Titan reads the expected contents, before it writes anything and after each thing it
/// does with the directory. Returns the final contents.
pub(super) fn lived_in(dir: &Path, options: &Options, expected: &Model) -> Checked<Model> {
    looked_at(dir, options, expected)?;
    let mut model = expected.clone();
    let db = Db::open(dir, options).doing("opening")?;
    reads(&db, &model).doing("opened")?;
    for family in db.column_families() {
        write(&family, &mut model).doing("writing")?;
    }
    reads(&db, &model).doing("after writes")?;
    db.flush_all().doing("flushing")?;
    reads(&db, &model).doing("flushed")?;
    for family in db.column_families() {
        let everything = CompactRangeOptions {
            force_bottommost: true,
        };
        let compacted = family.compact_range(None, None, &everything);
        compacted.doing(format_args!("compacting {}", family.name()))?;
    }
    reads(&db, &model).doing("compacted")?;
    // Live records move, those of columns too.
    for family in db.column_families() {
        let collected = family.collect_garbage(None, None, &Default::default());
        collected.doing(format_args!("collecting {}", family.name()))?;
    }
    reads(&db, &model).doing("collected")?;
    db.close().doing("closing")?;
    sound(dir, options)?;
    looked_at(dir, options, &model).doing("compacted and closed")?;
    Ok(model)
}

/// Checks that Titan reads the expected contents when it opens the directory read-only, finds no
/// problems in it, and leaves it unchanged.
pub(super) fn looked_at(dir: &Path, options: &Options, expected: &Model) -> Checked<()> {
    let before = files(dir)?;
    let db = Db::open_read_only(dir, options).doing("opening to read only")?;
    reads(&db, expected).doing("read only")?;
    db.close().doing("closing")?;
    sound(dir, options)?;
    unchanged(dir, &before)
}

/// Overwrites, deletes and adds keys, small values and large ones.
fn write(family: &ColumnFamily, model: &mut Model) -> Checked<()> {
    let key = |n: u32| format!("a{n:08}").into_bytes();
    for (n, size) in [(3, 100), (4, 3000), (1_000_000, 10), (1_000_001, 20_000)] {
        let value = vec![b'x'; size];
        family.put(&key(n), &value)?;
        model.put(family.name(), &key(n), value);
    }
    family.delete(&key(8))?;
    model.delete(family.name(), &key(8));
    let comparator = &family.options().comparator;
    let (mut from, mut to) = (key(21), key(25));
    if comparator.compare(&from, &to) == Ordering::Greater {
        std::mem::swap(&mut from, &mut to);
    }
    family.delete_range(&from, &to)?;
    let keys = model.family(family.name()).into_iter().flatten();
    let covered: Vec<Vec<u8>> = keys
        .map(|(key, _)| key.clone())
        .filter(|key| {
            comparator.compare(key, &from).is_ge() && comparator.compare(key, &to).is_lt()
        })
        .collect();
    for key in covered {
        model.delete(family.name(), &key);
    }
    Ok(())
}

/// The files of a directory with hashes of their contents.
fn files(dir: &Path) -> Checked<BTreeMap<String, u128>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).doing(dir.display())? {
        let entry = entry.doing(dir.display())?;
        if entry.file_type().is_ok_and(|t| t.is_file()) {
            let content = fs::read(entry.path()).doing(entry.path().display())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, xxh3_128(&content));
        }
    }
    Ok(files)
}

fn unchanged(dir: &Path, before: &BTreeMap<String, u128>) -> Checked<()> {
    let after = files(dir)?;
    let changed = |name: &&String| before.get(*name) != after.get(*name);
    match before.keys().chain(after.keys()).find(changed) {
        None => Ok(()),
        Some(name) => Err(CheckFailure::wrong(format!("{name} is not as it was"))),
    }
}
