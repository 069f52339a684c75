//! The database of a test: opening it, reading it in every way, and the checks at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::db::files_of;
use crate::format::file_name::FileKind;
use crate::vfs::{MemoryVfs, Vfs, read_file};
use crate::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbIterator,
    DbOptions, ErrorKind, FileNumber, Options, ReadOptions, Result, Snapshot, WriteBatch,
    WriteOptions,
};
use titan_testkit::gates::{Actor, Gates};

/// Keys and values of a family.
pub(super) type Contents = BTreeMap<String, String>;

/// Contents of all families, by name.
pub(super) type AllContents = BTreeMap<String, Contents>;

pub(super) const DIR: &str = "/db";

/// A database whose threads have the gates of a test. Nothing runs in the background that was not
/// asked for.
pub(super) struct Store {
    pub(super) gates: Gates,
    pub(super) vfs: MemoryVfs,
    pub(super) options: Options,
    pub(super) db: Db,
}

/// Options for a file system. Values of 100 bytes and more are separated.
fn options_on(vfs: &MemoryVfs) -> Options {
    Options {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            disable_auto_compactions: true,
            enable_blob_garbage_collection: false,
            min_blob_size: 100,
            compression: CompressionType::None,
            write_buffer_size: 1 << 20,
            // A test that stops a flush goes on writing.
            max_write_buffer_number: 8,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

impl Store {
    pub(super) fn open(gates: &Gates) -> Self {
        Self::open_with(gates, |_| {})
    }

    pub(super) fn open_with(gates: &Gates, change: impl FnOnce(&mut Options)) -> Self {
        let vfs = MemoryVfs::default();
        let mut options = options_on(&vfs);
        change(&mut options);
        Store {
            db: gates.given(|| Db::open(DIR, &options)).unwrap(),
            gates: gates.clone(),
            vfs,
            options,
        }
    }

    /// Runs `run` with the database on a thread that stops at gates.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        run: impl FnOnce(&Db) -> T + Send + 'static,
    ) -> Actor<T> {
        let db = self.db.clone();
        self.gates.spawn(name, move || run(&db))
    }

    /// The same with a family.
    pub(super) fn spawn_with<T: Send + 'static>(
        &self,
        name: &'static str,
        family: &ColumnFamily,
        run: impl FnOnce(&ColumnFamily) -> T + Send + 'static,
    ) -> Actor<T> {
        let family = family.clone();
        self.gates.spawn(name, move || run(&family))
    }

    pub(super) fn create(&self, name: &str) -> ColumnFamily {
        let options = self.options.default.clone();
        self.db.create_column_family(name, options).unwrap()
    }

    /// The tables, blob files and relocation maps in the directory.
    pub(super) fn data_files(&self) -> BTreeSet<FileKind> {
        data_files(&self.vfs)
    }

    /// Contents that the next opening would find if the process were killed now. It is checked,
    /// too.
    pub(super) fn after_a_kill(&self) -> AllContents {
        let image = self.vfs.image();
        let options = options_on(&image);
        assert_sound(DIR, &options);
        let db = Db::open(DIR, &options).unwrap();
        let found = all_contents(&db);
        db.close().unwrap();
        assert_sound(DIR, &options);
        found
    }

    /// The contents of the checkpoint in `dir`. It is checked, too.
    pub(super) fn checkpoint_in(&self, dir: &str) -> AllContents {
        assert_sound(dir, &self.options);
        let db = Db::open(dir, &self.options).unwrap();
        let found = all_contents(&db);
        db.close().unwrap();
        found
    }

    /// Ends the test: nothing has failed, the directory has the files that the versions name and no
    /// others, and after a reopening everything is as before. Returns the contents.
    pub(super) fn finish(self) -> AllContents {
        let failed = self.db.background_error();
        assert!(failed.is_none(), "{failed:?}");
        self.db.wait_idle().unwrap();
        assert_eq!(self.data_files(), named_files(&self.db));
        let before = all_contents(&self.db);
        self.db.close().unwrap();
        self.finish_closed(&before);
        before
    }

    /// The rest of [`Store::finish`], for a database that has been closed: `expected` are the
    /// contents that the next opening must have.
    pub(super) fn finish_closed(self, expected: &AllContents) {
        drop(self.db);
        assert_sound(DIR, &self.options);
        let db = Db::open(DIR, &self.options).unwrap();
        assert_eq!(all_contents(&db), *expected);
        assert_eq!(data_files(&self.vfs), named_files(&db));
        db.close().unwrap();
        assert_sound(DIR, &self.options);
    }
}

/// Checks a copy of the files: the tools are built with another copy of this crate, whose file
/// systems are of other types.
fn assert_sound(dir: &str, options: &Options) {
    let (vfs, dir) = (&options.db.vfs, Path::new(dir));
    let copy = tempfile::tempdir().unwrap();
    for name in vfs.read_dir(dir).unwrap() {
        let content = read_file(&**vfs, &dir.join(&name)).unwrap();
        std::fs::write(copy.path().join(name), content).unwrap();
    }
    #[cfg(workspace)]
    {
        let report = titan_tools::check(copy.path(), &Default::default(), &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

fn data_files(vfs: &dyn Vfs) -> BTreeSet<FileKind> {
    let files = files_of(vfs, Path::new(DIR)).unwrap().into_iter();
    let is_data = |file: &FileKind| {
        use FileKind::{Blob, BlobMap, Table};
        matches!(file, Table(_) | Blob(_) | BlobMap(_))
    };
    files.filter(is_data).collect()
}

fn named_files(db: &Db) -> BTreeSet<FileKind> {
    db.core.shared.versions.lock().live_files()
}

/// Contents as literals.
pub(super) fn contents<const N: usize>(entries: [(&str, &str); N]) -> Contents {
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    entries.map(owned).into()
}

/// The keys `a`, `b` and `c` with one value.
pub(super) fn abc(value: &str) -> Contents {
    contents([("a", value), ("b", value), ("c", value)])
}

/// Contents of families by name.
pub(super) fn all<const N: usize>(families: [(&str, Contents); N]) -> AllContents {
    families.map(|(name, c)| (name.to_owned(), c)).into()
}

/// The contents of all families now.
pub(super) fn all_contents(db: &Db) -> AllContents {
    let families = db.column_families();
    let named = |f: &ColumnFamily| (f.name().to_owned(), now(f));
    families.iter().map(named).collect()
}

/// The contents of a family now.
pub(super) fn now(family: &ColumnFamily) -> Contents {
    scan(&mut family.iter(&ReadOptions::default()).unwrap()).unwrap()
}

/// Options of a read at a snapshot.
pub(super) fn at(snapshot: &Snapshot) -> ReadOptions {
    ReadOptions {
        snapshot: Some(snapshot.clone()),
        ..ReadOptions::default()
    }
}

/// All keys and values from the first on.
pub(super) fn scan(iter: &mut DbIterator) -> Result<Contents> {
    let mut found = Contents::new();
    iter.seek_to_first()?;
    while iter.valid() {
        found.insert(shown(iter.key()), shown(&iter.value()?));
        iter.next()?;
    }
    Ok(found)
}

/// A value that is separated.
pub(super) fn large(text: &str) -> String {
    format!("{text}{}", ".".repeat(200))
}

/// A value without the bytes that [`large`] has added.
pub(super) fn shown(value: &[u8]) -> String {
    let text = String::from_utf8(value.to_vec()).unwrap();
    text.trim_end_matches('.').to_owned()
}

/// A way to read a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Get,
    GetLazy,
    ContainsKey,
    MultiGet,
    Forwards,
    Backwards,
}

impl Way {
    pub(super) const ALL: [Way; 6] = [
        Way::Get,
        Way::GetLazy,
        Way::ContainsKey,
        Way::MultiGet,
        Way::Forwards,
        Way::Backwards,
    ];

    /// Part of these contents that one call shows.
    pub(super) fn shows(self, contents: &Contents) -> Contents {
        let mut seen = contents.clone();
        if matches!(self, Way::Get | Way::GetLazy | Way::ContainsKey) {
            seen.retain(|key, _| key == "a");
        }
        if self == Way::ContainsKey {
            seen.values_mut().for_each(String::clear);
        }
        seen
    }

    /// Reads with one call: the key `a`, or all of `a`, `b` and `c`.
    pub(super) fn read(self, family: &ColumnFamily, options: &ReadOptions) -> Result<Contents> {
        let mut found = Contents::new();
        match self {
            Way::Get => {
                let value = family.get_with(b"a", options)?;
                found.extend(value.map(|v| ("a".to_owned(), shown(&v))));
            }
            Way::GetLazy => {
                if let Some(value) = family.get_lazy_with(b"a", options)? {
                    found.insert("a".to_owned(), shown(&value.fetch()?));
                }
            }
            Way::ContainsKey => {
                if family.contains_key_with(b"a", options)? {
                    found.insert("a".to_owned(), String::new());
                }
            }
            Way::MultiGet => {
                let keys = ["a", "b", "c"];
                for (key, value) in keys.iter().zip(family.multi_get_with(&keys, options)) {
                    found.extend(value?.map(|v| ((*key).to_owned(), shown(&v))));
                }
            }
            Way::Forwards => found = scan(&mut family.iter(options)?)?,
            Way::Backwards => {
                let mut iter = family.iter(options)?;
                iter.seek_to_last()?;
                while iter.valid() {
                    found.insert(shown(iter.key()), shown(&iter.value()?));
                    iter.prev()?;
                }
            }
        }
        Ok(found)
    }
}

/// Reads in every way and compares with `expected`.
#[track_caller]
pub(super) fn assert_reads(family: &ColumnFamily, options: &ReadOptions, expected: &Contents) {
    for way in Way::ALL {
        let found = way.read(family, options).unwrap();
        assert_eq!(found, way.shows(expected), "{way:?}");
    }
}

/// Writes these values with one batch. That of `a` is inline, the others are separated.
pub(super) fn write(family: &ColumnFamily, entries: &Contents) {
    let mut batch = WriteBatch::new();
    add(&mut batch, family, entries);
    let shared = &family.core.shared;
    shared.write(&mut batch, &WriteOptions::default()).unwrap();
}

pub(super) fn add(batch: &mut WriteBatch, family: &ColumnFamily, entries: &Contents) {
    for (key, value) in entries {
        match &**key {
            "a" => batch.put(family, key, value).unwrap(),
            _ => batch.put(family, key, large(value)).unwrap(),
        };
    }
}

/// The tables of the default family.
pub(super) fn numbers(db: &Db) -> Vec<FileNumber> {
    let tables = db.table_properties(None, None).unwrap();
    tables.iter().map(|table| table.file).collect()
}

/// Flushes and compacts everything, so that nothing is kept that no reader sees.
pub(super) fn compact(family: &ColumnFamily) -> Result<()> {
    let options = CompactRangeOptions {
        force_bottommost: true,
    };
    family.compact_range(None, None, &options)
}

/// Collects all garbage.
pub(super) fn collect(family: &ColumnFamily) -> Result<()> {
    let collected = family.collect_garbage(None, None, &Default::default());
    collected.map(drop)
}

/// Whether a call that was running when the database was closed ended as it may.
pub(super) fn ended_by_closing<T>(result: &Result<T>) -> bool {
    let error = result.as_ref().err();
    error.is_none_or(|e| e.kind() == ErrorKind::Closed)
}

/// Whether a call on a family ended as it must since the family was dropped.
pub(super) fn ended_by_dropping<T>(result: &Result<T>) -> bool {
    let error = result.as_ref().err();
    error.is_some_and(|e| e.kind() == ErrorKind::InvalidArgument)
}
