//! Tests of a database whose files are larger than 4 GiB: the pointers, block handles and locations
//! of some of its data lead beyond the range of 32 bits, and those of the rest do not.
//!
//! The files are on the real file system. Each begins with a hole, so they take little space.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::vfs::{
    Access, FileLock, PunchableFile, ReadableFile, StdVfs, Vfs, WritableFile, forward,
};
use crate::{
    ColumnFamilyOptions, CompactRangeOptions, CompressionType, DataInMemory, Db, Options,
    ReadOptions, Stated,
};

/// Bytes of the hole in a blob file: some of its values are before 4 GiB, others after.
const BLOB_GAP: u64 = (1 << 32) - 60_000;
/// The same for a table, which is smaller.
const TABLE_GAP: u64 = (1 << 32) - 2_000;

/// The file system of the operating system, where tables and blob files begin with a hole.
struct HugeFiles;

/// A file with a hole.
struct HugeFile {
    file: File,
    path: PathBuf,
    gap: u64,
    /// Whether the hole comes after the bytes that are appended next: the header.
    has_header: bool,
}

impl HugeFile {
    fn create(path: &Path) -> Result<Self> {
        let has_header = path.extension().is_some_and(|e| e == "blob");
        let mut this = HugeFile {
            file: File::create(path).map_err(|e| Error::io(e, "create file", path))?,
            path: path.to_owned(),
            gap: if has_header { BLOB_GAP } else { TABLE_GAP },
            has_header,
        };
        if !has_header {
            this.skip()?;
        }
        Ok(this)
    }

    fn skip(&mut self) -> Result<()> {
        let skipped = self.file.seek(SeekFrom::Current(self.gap as i64));
        skipped.map_err(|e| Error::io(e, "skip", &self.path))?;
        Ok(())
    }
}

impl WritableFile for HugeFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let written = self.file.write_all(data);
        written.map_err(|e| Error::io(e, "append", &self.path))?;
        match std::mem::take(&mut self.has_header) {
            true => self.skip(),
            false => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        let synced = self.file.sync_data();
        synced.map_err(|e| Error::io(e, "sync", &self.path))
    }

    fn gap(&self) -> u64 {
        self.gap
    }
}

impl Vfs for HugeFiles {
    fn create_bulk(&self, path: &Path, _: bool) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(HugeFile::create(path)?))
    }

    forward! {
        self, StdVfs;
        create create_log open remove rename link link_count sync_dir create_dir_all remove_dir
        read_dir size allocated_bytes exists canonicalize resources lock lock_shared
    }

    fn open_guarded(&self, path: &Path) -> Result<Arc<dyn ReadableFile>> {
        StdVfs.open_guarded(path)
    }

    fn open_to_punch(&self, path: &Path) -> Result<Box<dyn PunchableFile>> {
        StdVfs.open_to_punch(path)
    }
}

/// Compacts and collects on request only. No file is cut for its size.
fn options() -> Options {
    let mut options = Options {
        default: ColumnFamilyOptions {
            disable_auto_compactions: true,
            compression: CompressionType::None,
            block_size: 256,
            min_blob_size: 100,
            blob_file_size: 1 << 50,
            target_file_size_base: 1 << 50,
            max_bytes_for_level_base: 1 << 50,
            stated: Stated::all(),
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    options.db.vfs = Arc::new(HugeFiles);
    // Nothing reads whole files ahead.
    options.db.data_in_memory = DataInMemory::Never;
    options
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// Writes every `step`-th key: large values at even keys, small ones at odd keys.
fn write(db: &Db, model: &mut Model, round: usize, step: usize) {
    for n in (0..90).step_by(step) {
        let mut value = vec![0; if n % 2 == 0 { 8_000 + n } else { 50 }];
        fastrand::Rng::with_seed((round * 1000 + n) as u64).fill(&mut value);
        db.put(&key(n), &value).unwrap();
        model.insert(key(n), value);
    }
    let (from, to) = (key(30 + round), key(34 + round));
    db.delete_range(&from, &to).unwrap();
    model.retain(|key, _| *key < from || *key >= to);
    db.flush().unwrap();
}

fn holds(db: &Db, model: &Model) {
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    for (key, value) in model {
        assert_eq!(iter.key(), key);
        assert!(iter.value().unwrap() == *value, "{key:?}");
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    for (key, value) in model.iter().rev() {
        assert_eq!(iter.key(), key);
        assert!(iter.value().unwrap() == *value, "{key:?}");
        iter.prev().unwrap();
    }
    assert!(!iter.valid());
    let keys: Vec<_> = (0..91).map(key).collect();
    let many = db.multi_get(&keys);
    for (key, found) in keys.iter().zip(many) {
        let expected = model.get(key).map(Vec::as_slice);
        assert_eq!(found.unwrap().as_deref(), expected, "{key:?}");
        assert_eq!(db.get(key).unwrap().as_deref(), expected, "{key:?}");
    }
}

/// The files whose names end in `suffix`; each must be huge.
fn huge_files(dir: &Path, suffix: &str) -> Vec<String> {
    let mut names = StdVfs.read_dir(dir).unwrap();
    names.retain(|name| name.ends_with(suffix));
    for name in &names {
        assert!(StdVfs.size(&dir.join(name)).unwrap() > 1 << 32, "{name}");
    }
    names
}

/// Closes the database, opens it again and compares its content.
fn reopened(db: Db, dir: &Path, options: &Options, model: &Model) -> Db {
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir, options).unwrap();
    holds(&db, model);
    db
}

#[test]
fn what_is_beyond_4_gib_is_found_compacted_and_relocated() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, options) = (dir.path(), options());
    let mut model = Model::new();
    let db = Db::open(dir, &options).unwrap();
    write(&db, &mut model, 0, 1);
    write(&db, &mut model, 1, 3);
    assert_eq!(huge_files(dir, ".sst").len(), 2);
    assert_eq!(huge_files(dir, ".blob").len(), 2);
    holds(&db, &model);
    let db = reopened(db, dir, &options, &model);

    // Reads the blocks of the tables, and the data that says which records are live, and writes
    // them anew.
    let everything = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &everything).unwrap();
    assert_eq!(huge_files(dir, ".sst").len(), 1);
    holds(&db, &model);

    // Relocates the live records, also those that were relocated before.
    for (round, step) in [(2, 4), (3, 6), (4, 10)] {
        write(&db, &mut model, round, step);
        let summary = db.collect_garbage(None, None, &Default::default());
        assert!(!summary.unwrap().files.is_empty(), "nothing is collected");
        huge_files(dir, ".blob");
        holds(&db, &model);
    }
    let names = StdVfs.read_dir(dir).unwrap();
    assert!(names.iter().any(|name| name.ends_with(".blobmap")));
    let db = reopened(db, dir, &options, &model);
    db.close().unwrap();
    drop(db);
    // Reads the holes too, which takes seconds.
    #[cfg(workspace)]
    if std::env::var_os("TITAN_LONG_TESTS").is_some() {
        let report = titan_tools::check(dir, &Default::default(), &mut |_| {}).unwrap();
        assert!(report.problems.is_empty(), "{:#?}", report.problems);
    }
}
