//! Every order of a few steps in the life of a column family. After each step the MANIFEST on disk
//! describes exactly the version set that runs, field by field, and the directory has exactly the
//! files that it needs.
//!
//! `TITAN_LIFE_CYCLE_STEPS` sets the number of steps.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::db::api::handle::Db;
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::options::{ColumnFamilyOptions, Options};
use crate::version::set::recorded::{Counted, Recorded, assert_recovered, assert_same};
use crate::vfs::{Overlay, StdVfs};
use crate::{CollectGarbageOptions, ColumnFamily, CompressionType, Stated, WriteBatch};

const NAME: &str = "family";
/// Steps of each sequence.
const STEPS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Drop,
    Put,
    Delete,
    Flush,
    FlushDefault,
    Compact,
    Collect,
    NewManifest,
    Reopen,
}

const ALL: [Step; 10] = [
    Step::Create,
    Step::Drop,
    Step::Put,
    Step::Delete,
    Step::Flush,
    Step::FlushDefault,
    Step::Compact,
    Step::Collect,
    Step::NewManifest,
    Step::Reopen,
];

/// Steps with which every sequence starts: two tables, garbage in a blob file, and entries in the
/// WAL.
const BEFORE: [Step; 7] = [
    Step::Create,
    Step::Put,
    Step::Flush,
    Step::Put,
    Step::Delete,
    Step::Compact,
    Step::Put,
];

/// A database, whose files are in memory.
struct Life<'a> {
    dir: &'a Path,
    options: Options,
    db: Db,
    /// Makes values distinct.
    round: u8,
    /// Whether a memtable has entries.
    has_memtables: BTreeSet<String>,
}

impl<'a> Life<'a> {
    fn new(dir: &'a Path) -> Self {
        let mut options = Options {
            default: ColumnFamilyOptions {
                disable_auto_compactions: true,
                enable_blob_garbage_collection: false,
                min_blob_size: 100,
                compression: CompressionType::None,
                num_levels: 3,
                stated: Stated::all(),
                ..ColumnFamilyOptions::default()
            },
            ..Options::default()
        };
        options.db.vfs = Arc::new(Overlay::new(Arc::new(StdVfs)));
        options.db.max_background_jobs = 1;
        let mut life = Life {
            dir,
            db: Db::open(dir, &options).unwrap(),
            options,
            round: 0,
            has_memtables: BTreeSet::new(),
        };
        for step in BEFORE {
            assert!(life.take(step));
        }
        life
    }

    /// Takes a step; false if it makes no sense now.
    fn take(&mut self, step: Step) -> bool {
        self.round += 1;
        let family = self.db.column_family(NAME);
        let Some(family) = family else {
            match step {
                Step::Create => {
                    let options = self.options.default.clone();
                    self.db.create_column_family(NAME, options).unwrap();
                }
                Step::FlushDefault => self.flush("default"),
                Step::NewManifest => self.start_manifest(),
                Step::Reopen => self.reopen(),
                _ => return false,
            }
            return true;
        };
        match step {
            Step::Create => return false,
            Step::Drop => {
                self.db.drop_column_family(&family).unwrap();
                self.has_memtables.remove(NAME);
            }
            Step::Put => self.put(&family),
            Step::Delete => {
                family.delete(b"a").unwrap();
                family.delete_range(b"c", b"e").unwrap();
                self.has_memtables.insert(NAME.to_owned());
            }
            Step::Flush => self.flush(NAME),
            Step::FlushDefault => self.flush("default"),
            Step::Compact => {
                let all = Default::default();
                family.compact_range(None, None, &all).unwrap();
                self.has_memtables.remove(NAME);
            }
            Step::Collect => {
                let all = CollectGarbageOptions::default();
                family.collect_garbage(None, None, &all).unwrap();
                self.has_memtables.remove(NAME);
            }
            Step::NewManifest => self.start_manifest(),
            Step::Reopen => self.reopen(),
        }
        true
    }

    /// Writes small and large values, also to the default family, so that both need the WAL.
    fn put(&mut self, family: &ColumnFamily) {
        let mut batch = WriteBatch::new();
        for (key, len) in [("a", 300), ("b", 10), ("c", 300), ("d", 300)] {
            batch.put(family, key, vec![self.round; len]).unwrap();
        }
        batch.put(&*self.db, "a", vec![self.round; 300]).unwrap();
        // A value that stays, so that only a part of the blob file becomes garbage.
        let stays = format!("f{}", self.round);
        batch.put(family, stays, vec![self.round; 300]).unwrap();
        self.db.write(batch, &Default::default()).unwrap();
        for name in [NAME, "default"] {
            self.has_memtables.insert(name.to_owned());
        }
    }

    fn flush(&mut self, name: &str) {
        self.db.column_family(name).unwrap().flush().unwrap();
        self.has_memtables.remove(name);
    }

    fn start_manifest(&self) {
        let mut versions = self.db.core.shared.versions.lock();
        let before = Recorded::of(&versions);
        versions.start_manifest().unwrap();
        assert_recovered(&versions, &self.options, Counted::Exactly);
        let mut after = Recorded::of(&versions);
        after.next_file = before.next_file;
        assert_same(&before, &after);
    }

    /// Closes and opens. If there was nothing to replay, nothing has changed but the facts that
    /// every opening changes.
    fn reopen(&mut self) {
        let before = Recorded::of(&self.db.core.shared.versions.lock());
        self.db.close().unwrap();
        self.db = Db::open(self.dir, &self.options).unwrap();
        if std::mem::take(&mut self.has_memtables).is_empty() {
            let mut after = Recorded::of(&self.db.core.shared.versions.lock());
            assert!(after.next_file > before.next_file);
            after.next_file = before.next_file;
            // The WAL starts anew.
            assert!(after.min_log_number_to_keep > before.min_log_number_to_keep);
            after.min_log_number_to_keep = before.min_log_number_to_keep;
            for (id, family) in after.families.iter_mut() {
                let log = before.families[id].log_number;
                assert!(family.log_number > log);
                family.log_number = log;
            }
            assert_same(&before, &after);
        }
    }

    /// Compares the running database with the files.
    fn check(&self) {
        self.db.wait_idle().unwrap();
        let shared = &self.db.core.shared;
        let versions = shared.versions.lock();
        assert_recovered(&versions, &self.options, Counted::AtLeastWhatIsNamed);

        let ids: Vec<_> = shared.families.load().keys().copied().collect();
        let recorded: Vec<_> = versions.families().keys().copied().collect();
        assert_eq!(ids, recorded, "families");
        let with_state: Vec<_> = shared.state.lock().families.keys().copied().collect();
        assert_eq!(ids, with_state, "families of the state");

        let names = self.options.db.vfs.read_dir(self.dir).unwrap();
        let found: BTreeSet<FileKind> = names.iter().filter_map(|n| FileKind::parse(n)).collect();
        let is_data = |file: &FileKind| {
            matches!(
                file,
                FileKind::Table(_) | FileKind::Blob(_) | FileKind::BlobMap(_)
            )
        };
        let data: BTreeSet<FileKind> = found.iter().copied().filter(is_data).collect();
        assert_eq!(data, versions.live_files(), "tables and blob files");

        let wals: Vec<FileNumber> = found
            .iter()
            .filter_map(|file| match file {
                FileKind::Wal(number) => Some(*number),
                _ => None,
            })
            .collect();
        let state = shared.state.lock();
        let known: Vec<_> = state.wals.iter().map(|wal| wal.number).collect();
        assert_eq!(wals, known, "WAL files");
        let needed = state.oldest_log_needed(None);
        assert!(
            wals.iter().all(|wal| *wal >= needed),
            "{wals:?}, of which none is needed before {needed}"
        );
        let since = versions.oldest_log_needed();
        assert!(
            since <= needed,
            "recovery starts after {needed}, at {since}"
        );

        let manifests = found.iter().filter_map(|file| match file {
            FileKind::Manifest(number) => Some(*number),
            _ => None,
        });
        let manifests: Vec<_> = manifests.collect();
        let current: Vec<_> = versions.manifest_number().into_iter().collect();
        assert_eq!(manifests, current, "MANIFESTs");
        assert!(!found.iter().any(|file| matches!(file, FileKind::Temp(_))));
    }
}

/// Prints the steps if they fail.
struct Steps<'a>(&'a [Step]);

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after {BEFORE:?}, then {:?}", self.0);
        }
    }
}

#[test]
fn what_runs_is_what_the_manifest_says_after_every_order_of_steps() {
    let steps = std::env::var("TITAN_LIFE_CYCLE_STEPS");
    let steps = steps.map_or(STEPS, |steps| steps.parse().unwrap());
    let total = ALL.len().pow(steps as u32);
    let dir = tempfile::tempdir().unwrap();
    let mut whole = 0;
    let mut last: Vec<Step> = Vec::new();
    for n in 0..total {
        let digits = (0..steps).rev().map(|at| n / ALL.len().pow(at as u32));
        let sequence: Vec<Step> = digits.map(|digit| ALL[digit % ALL.len()]).collect();
        // The last sequence ended at a step that makes no sense, and so would this one.
        if !last.is_empty() && sequence.starts_with(&last) {
            continue;
        }
        last.clear();
        let _steps = Steps(&sequence);
        let mut life = Life::new(dir.path());
        if n == 0 {
            life.check();
        }
        for (at, &step) in sequence.iter().enumerate() {
            if !life.take(step) {
                last = sequence[..=at].to_vec();
                break;
            }
            // An earlier sequence had the same steps before, unless this is the first to take this.
            let begins = n % ALL.len().pow((steps - 1 - at) as u32) == 0;
            if begins || at + 1 == steps {
                life.check();
            }
        }
        whole += usize::from(last.is_empty());
        life.db.close().unwrap();
    }
    assert!(whole > total / 4, "only {whole} of {total}");
}
