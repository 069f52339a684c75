//! A database on the simulated file system: small settings, operations applied with a record of
//! what was acknowledged, and what is asked of every database that was recovered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use titan::vfs::Vfs;
use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions, Error,
    Options, ReadOptions, Result, Snapshot, WriteBatch, WriteOptions,
};
use titan_testkit::history::History;
use titan_testkit::model::{Model, Pairs};
use titan_testkit::ops::{Op, Write};
use titan_testkit::sim::SimVfs;

/// Where the database is; its directory is made by the engine.
pub(crate) const DIR: &str = "/data/db";

/// Values from here on go to blob files.
pub(crate) const MIN_BLOB: u64 = 100;

/// Settings under which a few hundred writes flush, separate and compact.
pub(crate) fn options(vfs: &SimVfs, jobs: usize) -> Options {
    let family = ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 32 << 10,
        max_bytes_for_level_multiplier: 4,
        num_levels: 4,
        target_file_size_base: 4 << 10,
        block_size: 512,
        min_blob_size: MIN_BLOB,
        blob_file_size: 64 << 10,
        compression: CompressionType::None,
        ..ColumnFamilyOptions::default()
    };
    Options {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            max_background_jobs: jobs,
            block_cache_size: 1 << 20,
            // Small enough that the MANIFEST is replaced now and then while it is in use.
            max_manifest_file_size: 4096,
            ..DbOptions::default()
        },
        default: family,
        ..Options::default()
    }
}

/// The path of a file of the database.
pub(crate) fn file(name: &str) -> std::path::PathBuf {
    Path::new(DIR).join(name)
}

/// Everything in the database, read by scans and again by gets; the two must agree.
pub(crate) fn contents(db: &Db) -> Result<Model> {
    let mut model = Model::without_families();
    for family in db.column_families() {
        let pairs = scan(&family, &ReadOptions::default())?;
        for (key, value) in &pairs {
            let got = family.get(key)?;
            assert_eq!(
                got.as_deref(),
                Some(&**value),
                "get and scan of \"{}\" in {}",
                key.escape_ascii(),
                family.name()
            );
        }
        model.insert_family(family.name(), pairs);
    }
    Ok(model)
}

/// The pairs of one family.
pub(crate) fn scan(family: &ColumnFamily, options: &ReadOptions) -> Result<Pairs> {
    let mut pairs = Pairs::new();
    let mut it = family.iter(options)?;
    it.seek_to_first()?;
    while it.valid() {
        pairs.insert(it.key().to_vec(), it.value()?.to_vec());
        it.next()?;
    }
    Ok(pairs)
}

/// A family that must exist.
pub(crate) fn family(db: &Db, name: &str) -> ColumnFamily {
    db.column_family(name)
        .unwrap_or_else(|| panic!("family {name} is missing"))
}

/// The batch of an operation.
pub(crate) fn batch_of(db: &Db, writes: &[Write]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for write in writes {
        let family = family(db, write.family());
        match write {
            Write::Put { key, value, .. } => batch.put(&family, key, value.bytes())?,
            Write::Delete { key, .. } => batch.delete(&family, key)?,
            Write::SingleDelete { key, .. } => batch.single_delete(&family, key)?,
            Write::DeleteRange { from, to, .. } => batch.delete_range(&family, from, to)?,
        }
    }
    Ok(batch)
}

/// A database that operations are applied to.
pub(crate) struct Store {
    pub(crate) vfs: SimVfs,
    pub(crate) options: Options,
    pub(crate) db: Db,
    pub(crate) history: History,
    snapshots: BTreeMap<u32, (Snapshot, Model)>,
}

impl Store {
    pub(crate) fn open(vfs: &SimVfs, jobs: usize) -> Result<Store> {
        let options = options(vfs, jobs);
        Ok(Store {
            vfs: vfs.clone(),
            db: Db::open(DIR, &options)?,
            options,
            history: History::new(),
            snapshots: BTreeMap::new(),
        })
    }

    /// Applies one operation, and marks in the journal what must survive the machine from then
    /// on: synced writes and whatever came before them, families created and dropped, and
    /// everything when the database was closed.
    pub(crate) fn apply(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Write { writes, sync } => {
                let options = WriteOptions {
                    sync: *sync,
                    ..WriteOptions::default()
                };
                self.db.write(batch_of(&self.db, writes)?, &options)?;
            }
            Op::CreateCf { family } => {
                let options = self.options.default.clone();
                self.db.create_column_family(family, options)?;
            }
            Op::DropCf { family: name } => {
                self.db.drop_column_family(&family(&self.db, name))?;
            }
            Op::Flush { family: name } => family(&self.db, name).flush()?,
            Op::Compact { family: name, .. } => {
                family(&self.db, name).compact_range(
                    None,
                    None,
                    &CompactRangeOptions::default(),
                )?;
            }
            Op::Snapshot { id } => {
                let seen = (self.db.snapshot(), self.history.last().clone());
                self.snapshots.insert(*id, seen);
            }
            Op::DropSnapshot { id } => {
                if let Some((snapshot, model)) = self.snapshots.remove(id) {
                    let options = ReadOptions {
                        snapshot: Some(snapshot),
                        ..ReadOptions::default()
                    };
                    for family in self.db.column_families() {
                        // A family made since, or made anew, is not what the snapshot saw.
                        if let Some(pairs) = model.family(family.name())
                            && family.name() == "default"
                        {
                            assert!(scan(&family, &options)? == *pairs, "snapshot {id}");
                        }
                    }
                }
            }
            Op::Reopen => {
                self.snapshots.clear();
                self.db.close()?;
                self.vfs.mark(self.history.len() as u64);
                self.db = Db::open(DIR, &self.options)?;
            }
            Op::Get { .. } | Op::Scan { .. } => {}
        }
        let length = self.history.push(op);
        if let Op::Write { sync: true, .. } | Op::CreateCf { .. } | Op::DropCf { .. } = op {
            self.vfs.mark(length as u64);
        }
        Ok(())
    }
}

/// The files of the database that its present state has no use for, and those it needs and has
/// not. Waits for background work, which may be about to remove some.
pub(crate) fn misplaced_files(db: &Db, vfs: &SimVfs) -> Result<Vec<String>> {
    db.wait_idle()?;
    let names: BTreeSet<String> = vfs.list(DIR)?.into_iter().collect();
    let count = |suffix: &str| names.iter().filter(|n| n.ends_with(suffix)).count();
    let metrics = db.metrics().families;
    let tables: usize = metrics
        .iter()
        .flat_map(|f| &f.levels)
        .map(|l| l.files)
        .sum();
    let blob_files: usize = metrics.iter().map(|f| f.blob_files).sum();
    let current = String::from_utf8_lossy(&vfs.read_all(file("CURRENT"))?).into_owned();
    let mut wrong = Vec::new();
    let mut expect = |what: &str, found: usize, allowed: std::ops::RangeInclusive<usize>| {
        if !allowed.contains(&found) {
            wrong.push(format!("{found} {what}, not {allowed:?}"));
        }
    };
    expect("tables", count(".sst"), tables..=tables);
    expect("blob files", count(".blob"), blob_files..=blob_files);
    expect("WAL files", count(".log"), 1..=1);
    expect("temporary files", count(".dbtmp"), 0..=0);
    let starting = |prefix: &str| names.iter().filter(|n| n.starts_with(prefix)).count();
    expect("MANIFEST files", starting("MANIFEST-"), 1..=1);
    expect("OPTIONS files", starting("OPTIONS-"), 1..=2);
    if !names.contains(current.trim_end()) {
        wrong.push(format!("CURRENT names {current}"));
    }
    if !wrong.is_empty() {
        wrong.push(format!("{names:?}"));
    }
    Ok(wrong)
}

/// The errors that led to this one, as text.
pub(crate) fn causes(error: &Error) -> String {
    let mut text = String::new();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!("{error}\n");
        cause = error.source();
    }
    text
}

/// The file system as a machine that loses power now leaves it.
pub(crate) fn power_cut(vfs: &SimVfs) -> SimVfs {
    let journal = vfs.journal();
    journal.crash_at(journal.len(), &titan_testkit::sim::Loss::All)
}

/// Whether a directory entry of this name is there.
pub(crate) fn exists(vfs: &SimVfs, name: &str) -> bool {
    vfs.exists(&file(name)).is_ok_and(|there| there)
}
