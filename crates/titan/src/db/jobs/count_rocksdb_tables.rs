//! Counts the pointers of tables that another program wrote: once, after the first opening. The
//! counts are recorded in the MANIFEST, those of some tables at a time, so that an opening that
//! ends early leaves less to the next one.
//!
//! RocksDB records no such counts, and no garbage for tables that it deletes whole: the garbage
//! that its MANIFEST records is a lower bound. With the counts the accounts are exact (BLOB-3), and
//! the size of a level includes the values that its keys point to.

use std::sync::Arc;

use super::job::{Job, JobSource, claimed};
use crate::db::core::family::Family;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::State;
use crate::env::Threads;
use crate::error::{Error, ErrorKind, Result};
use crate::format::internal_key::ParsedInternalKey;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};
use crate::number_map::NumberMap;
use crate::stats::{Listeners, notify};
use crate::table::TableVisitor;
use crate::version::edit::{BlobFileGarbage, TableFacts, VersionEdit};
use crate::version::{TableFile, Version, VersionSet};

/// Whether the table has pointers that have not been counted.
fn is_uncounted(table: &TableFile) -> bool {
    table.uncounted_blob_file().is_some()
}

fn has_uncounted(version: &Version) -> bool {
    version.tables().any(|(_, table)| is_uncounted(table))
}

/// Whether an opening finds tables to count, or garbage of counted ones that was never recorded: an
/// opening ended between, or the last tables left before they were counted.
pub(super) fn is_count_due(version: &Arc<Version>) -> bool {
    if has_uncounted(version) {
        return true;
    }
    let facts = || version.tables().filter_map(|(_, table)| table.facts());
    let is_counted = facts().any(|facts| facts.foreign);
    is_counted && !unknown_garbage(version, &references(facts())).is_empty()
}

/// Bytes of tables whose counts are recorded together. Then an urgent collection comes first.
const COUNTED_TOGETHER: u64 = 64 << 20;

/// Before collections, which the counts make exact, but for urgent ones.
pub(super) const COUNTS: JobSource = JobSource {
    threads: Threads::Collector,
    takes_long: false,
    is_due: |_, state| state.to_count().is_some(),
    claim: |_, state| {
        let waits = mutant!(urgent_collection_waits_for_a_count);
        if state.is_collecting_urgent() && state.to_collect().is_some() && !waits {
            return None;
        }
        let family = Arc::clone(&state.to_count()?.family);
        // Now, not at its end: a panic in a program's comparator must not come again after each
        // `resume`.
        if let Some(state) = state.families.get_mut(&family.id) {
            state.jobs.count_due = false;
        }
        state.begin(RunningJob::Collection, family.id);
        Some(claimed(Count { family }))
    },
};

/// A count of the pointers of some of a family's tables, at the rate of a collection. If more are
/// left, or a pause of collections or a lack of file descriptors ends it, it is due again. Tables
/// that closing or damage keeps from being counted stay for the next opening.
struct Count {
    family: Arc<Family>,
}

/// Result of a count.
struct Counted {
    /// Tables are left to be counted.
    is_more_due: bool,
    /// The reason why nothing more is counted, if a table cannot be read.
    damage: Option<Error>,
}

impl Job for Count {
    const DOING: &'static str = "counting references of";
    type Done = Counted;
    type Claim = ColumnFamilyId;

    fn kind(&self) -> RunningJob {
        RunningJob::Collection
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn run(self, shared: &Shared) -> (Result<Counted>, ColumnFamilyId) {
        let mut counted = NumberMap::new();
        let ended = shared.count_references(&self.family, &mut counted);
        if ended.is_err() && mutant!(count_lost_by_closing) {
            counted = NumberMap::new();
        }
        // Also the findings of a count that ends early.
        let installed = shared.install_counts(&self.family, counted);
        let outcome = installed.and_then(|()| match ended {
            Ok(is_more_due) => Ok(Counted {
                is_more_due,
                damage: None,
            }),
            Err(e) if is_abandoned(&e) => Err(e),
            Err(e) => Ok(Counted {
                is_more_due: false,
                damage: Some(e),
            }),
        });
        (outcome, self.family.id)
    }

    fn release(family: ColumnFamilyId, outcome: &Result<Counted>, state: &mut State) {
        if let Some(family) = state.families.get_mut(&family) {
            family.jobs.count_due = match outcome {
                Ok(counted) => counted.is_more_due,
                Err(e) => is_abandoned(e),
            };
        }
    }

    fn report(counted: &Counted, listeners: &Listeners) {
        if let Some(e) = &counted.damage {
            notify!(listeners, garbage_collection_failed(e));
        }
    }
}

/// Whether a count ended for a reason that passes.
fn is_abandoned(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Busy | ErrorKind::Closed | ErrorKind::TooManyOpenFiles
    )
}

impl Shared {
    /// Adds the counts of some of the tables that have none. Whether more are left.
    fn count_references(
        &self,
        family: &Family,
        counted: &mut NumberMap<FileNumber, TableFacts>,
    ) -> Result<bool> {
        let current = self.versions.lock().current(family.id);
        let Some(version) = current.filter(|version| has_uncounted(version)) else {
            return Ok(false);
        };
        let limit_rate = self.rate_limit_of(family);
        let mut bytes = 0_u64;
        let tables = version.tables().map(|(_, table)| table);
        for table in tables.filter(|table| is_uncounted(table)) {
            if bytes >= COUNTED_TOGETHER {
                return Ok(true);
            }
            gate!("count: before a table");
            limit_rate(table.size())?;
            counted.insert(table.number(), self.count(table, &version)?);
            bytes = bytes.saturating_add(table.size());
        }
        Ok(false)
    }

    /// Reads and verifies a whole table.
    fn count(&self, table: &TableFile, version: &Version) -> Result<TableFacts> {
        let reader = self
            .files
            .open
            .table(table.meta.identity(), &version.comparator)?;
        let mut damage = FirstDamage(None);
        let check = reader.verify(&mut damage);
        if let Some(e) = damage.0 {
            return Err(e.context("counting the references of a table"));
        }
        table.require_pointer(|oldest| check.blob_refs.iter().any(|refs| refs.file == oldest))?;
        Ok(TableFacts {
            foreign: true,
            num_shadowed: 0,
            ..TableFacts::of(table.number(), &check)
        })
    }

    /// Records the counts of the tables that are still there, and, once all tables are counted, the
    /// blob records to which none points as garbage.
    fn install_counts(
        &self,
        family: &Family,
        mut counted: NumberMap<FileNumber, TableFacts>,
    ) -> Result<()> {
        let prepare = |versions: &VersionSet| {
            let version = versions.current(family.id)?;
            let mut table_facts = Vec::new();
            let mut known = Vec::new();
            let mut all_known = true;
            for (_, table) in version.tables() {
                match (counted.remove(&table.number()), table.facts()) {
                    (Some(new), _) => table_facts.push(new),
                    (None, Some(facts)) => known.push(facts),
                    (None, None) => all_known &= !is_uncounted(table),
                }
            }
            let referenced = references(known.into_iter().chain(&table_facts));
            let blob_garbage = match all_known || mutant!(uncounted_table_taken_for_garbage) {
                true => unknown_garbage(&version, &referenced),
                false => Vec::new(),
            };
            if table_facts.is_empty() && blob_garbage.is_empty() {
                return None;
            }
            let edit = VersionEdit {
                column_family: family.id,
                table_facts,
                blob_garbage,
                ..VersionEdit::default()
            };
            Some((vec![edit], ()))
        };
        let installed = self.install(&[family], &[], prepare, |_, ()| {});
        installed.map(|_| ())
    }
}

/// Number and bytes of the records that tables point to, by blob file.
fn references<'f>(
    facts: impl Iterator<Item = &'f TableFacts>,
) -> NumberMap<BlobFileNumber, (u64, u64)> {
    let mut referenced: NumberMap<BlobFileNumber, (u64, u64)> = NumberMap::new();
    for refs in facts.flat_map(|facts| &facts.blob_refs) {
        let (count, bytes) = referenced.get_or_default(refs.file);
        *count = count.saturating_add(refs.count);
        *bytes = bytes.saturating_add(refs.bytes);
    }
    referenced
}

/// Records that nothing points to and that the accounts count as live.
fn unknown_garbage(
    version: &Arc<Version>,
    referenced: &NumberMap<BlobFileNumber, (u64, u64)>,
) -> Vec<BlobFileGarbage> {
    let files = version.blob_files.iter();
    let garbage = files.filter_map(|(&number, meta)| {
        let (count, bytes) = referenced.get(&number).copied().unwrap_or_default();
        let garbage = BlobFileGarbage {
            number,
            count: meta.live_count().checked_sub(count)?,
            bytes: meta.live_bytes().checked_sub(bytes)?,
            unknown: Vec::new(),
        };
        (garbage.count > 0).then_some(garbage)
    });
    garbage.collect()
}

struct FirstDamage(Option<Error>);

impl TableVisitor for FirstDamage {
    fn entry(&mut self, _: ParsedInternalKey<'_>, _: &[u8], _: &[u8], _: u64) {}

    fn damage(&mut self, error: Error) {
        self.0.get_or_insert(error);
    }
}

#[cfg(test)]
pub(crate) use self::tests::forget_counts;
#[cfg(test)]
#[cfg(workspace)]
pub(crate) use self::tests::{change_first_block, change_manifest};

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::format::ColumnFamilyId;
    use crate::format::checksum::ChecksumType;
    use crate::format::file_name::FileKind;
    use crate::version::edit::VersionEdit;
    use crate::version::{ManifestReader, read_current};
    use crate::vfs::{Access, StdVfs, Vfs};
    use crate::wal::LogWriter;
    use crate::{ColumnFamilyOptions, Db, ErrorKind, FamilyMetrics, Options, Stated};
    #[cfg(not(any(loom, shuttle)))]
    use titan_testkit::gates::race;

    /// Makes the MANIFEST one of a program that counts no pointers and records no garbage.
    pub(crate) fn forget_counts(dir: &Path) {
        change_manifest(dir, |edit| {
            edit.table_facts.clear();
            edit.blob_garbage.clear();
        });
    }

    /// Writes the MANIFEST again with its edits changed.
    pub(crate) fn change_manifest(dir: &Path, mut change: impl FnMut(&mut VersionEdit)) {
        let (number, path) = read_current(&StdVfs, dir).unwrap();
        let file = StdVfs.open(&path, Access::Sequential).unwrap();
        let mut manifest = ManifestReader::new(file, &path, number);
        let mut edits = Vec::new();
        while let Some(record) = manifest.next().unwrap() {
            let mut edit = record.edit.unwrap();
            change(&mut edit);
            let mut encoded = Vec::new();
            edit.encode(&mut encoded);
            edits.push(encoded);
        }
        let mut log = LogWriter::new(StdVfs.create(&path).unwrap(), &path);
        edits.iter().for_each(|edit| log.add_record(edit).unwrap());
    }

    /// The tools find nothing wrong.
    fn assert_sound(dir: &Path) {
        #[cfg(workspace)]
        {
            let report = titan_tools::check(dir, &Default::default(), &mut |_| {}).unwrap();
            assert!(report.problems.is_empty(), "{:?}", report.problems);
        }
        #[cfg(not(workspace))]
        let _ = dir;
    }

    fn metrics(db: &Db) -> FamilyMetrics {
        db.wait_idle().unwrap();
        db.metrics().families.remove(0)
    }

    fn referenced(metrics: &FamilyMetrics) -> u64 {
        metrics.levels.iter().map(|l| l.referenced_blob_bytes).sum()
    }

    #[test]
    fn what_tables_refer_to_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut options = Options {
            default: ColumnFamilyOptions {
                min_blob_size: 100,
                disable_auto_compactions: true,
                enable_blob_garbage_collection: false,
                ..ColumnFamilyOptions::default()
            },
            ..Options::default()
        };
        let db = Db::open(dir, &options).unwrap();
        for (round, step) in [1, 2, 7].into_iter().enumerate() {
            for n in (0..200).step_by(step) {
                let value = vec![round as u8; 300 + n];
                db.put(format!("{n:04}").as_bytes(), &value).unwrap();
            }
            db.flush().unwrap();
            if round < 2 {
                db.compact_range(None, None, &Default::default()).unwrap();
            }
        }
        let before = metrics(&db);
        assert!(before.garbage_blob_bytes > 0 && referenced(&before) > 0);
        db.close().unwrap();
        forget_counts(dir);

        for opening in 0..2 {
            let db = Db::open(dir, &options).unwrap();
            let after = metrics(&db);
            let what = format!("opening {opening}");
            assert_eq!(referenced(&after), referenced(&before), "{what}");
            assert_eq!(after.live_blob_bytes, before.live_blob_bytes, "{what}");
            assert_eq!(
                after.garbage_blob_bytes, before.garbage_blob_bytes,
                "{what}"
            );
            db.close().unwrap();
            assert_sound(dir);
        }

        // Garbage that a count found is collected like any other.
        forget_counts(dir);
        options.default.enable_blob_garbage_collection = true;
        options.default.stated = Stated::all();
        let db = Db::open(dir, &options).unwrap();
        assert!(metrics(&db).garbage_blob_bytes < before.garbage_blob_bytes);
        for n in 0..200 {
            assert!(db.get(format!("{n:04}").as_bytes()).unwrap().is_some());
        }
        db.close().unwrap();
        assert_sound(dir);
    }

    #[test]
    fn a_count_waits_for_the_end_of_a_pause_of_collections() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &Options::default()).unwrap();
        db.wait_idle().unwrap();
        let is_due = |db: &Db| {
            let state = db.core.shared.state.lock();
            state.families[&ColumnFamilyId::DEFAULT].jobs.count_due
        };
        let pause = db.pause_garbage_collection().unwrap();
        let mut state = db.core.shared.state.lock();
        let family = state.families.get_mut(&ColumnFamilyId::DEFAULT).unwrap();
        family.jobs.count_due = true;
        db.core.shared.update_stalls(state);
        // No caller waits for a count that a pause keeps from running.
        db.wait_idle().unwrap();
        assert!(is_due(&db));
        drop(pause);
        let (done, outcome) = std::sync::mpsc::channel();
        let waiting = db.clone();
        std::thread::spawn(move || done.send(waiting.wait_idle()));
        let idle = outcome.recv_timeout(std::time::Duration::from_secs(60));
        idle.expect("the end of a pause wakes nobody").unwrap();
        assert!(!is_due(&db));
    }

    /// A database of `tables` tables with pointers that nobody has counted, closed.
    fn uncounted(dir: &Path, tables: u8) -> Options {
        let mut options = Options::default();
        options.default.min_blob_size = 100;
        options.default.disable_auto_compactions = true;
        options.default.enable_blob_garbage_collection = false;
        let db = Db::open(dir, &options).unwrap();
        for n in 0..tables {
            db.put(&[b'k', n], &[n; 500]).unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();
        forget_counts(dir);
        options
    }

    /// The tables whose pointers are counted by the MANIFEST.
    fn counted(dir: &Path) -> usize {
        let mut tables = std::collections::BTreeSet::new();
        change_manifest(dir, |edit| {
            tables.extend(edit.table_facts.iter().map(|facts| facts.table));
        });
        tables.len()
    }

    #[test]
    fn what_was_counted_before_a_damaged_table_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let options = uncounted(dir, 3);
        let names = StdVfs.read_dir(dir).unwrap();
        let tables = names.iter().filter_map(|name| FileKind::parse(name));
        // The oldest table comes last.
        let oldest = tables.filter(|f| matches!(f, FileKind::Table(_))).min();
        let path = oldest.unwrap().path(dir);
        let mut bytes = std::fs::read(&path).unwrap();
        flip(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let db = Db::open(dir, &options).unwrap();
        // Records to which only the damaged table points are not garbage.
        assert_eq!(metrics(&db).garbage_blob_bytes, 0);
        db.close().unwrap();
        assert_eq!(counted(dir), 2);
    }

    #[test]
    #[cfg(not(any(loom, shuttle)))]
    fn an_opening_that_ends_early_keeps_what_it_has_counted() {
        race(|gates| {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            let options = uncounted(dir, 4);
            let mut stop = gates.stop_at("count: before a table");
            let db = gates.given(|| Db::open(dir, &options)).unwrap();
            for _ in 0..2 {
                stop.reached();
                let next = gates.stop_at("count: before a table");
                stop.open();
                stop = next;
            }
            stop.reached();
            let closing = gates.spawn("close", move || db.close());
            gates.first_of(&["close: threads to be waited for"]);
            stop.open();
            closing.join().unwrap();
            assert_eq!(counted(dir), 2, "after one opening");

            let db = Db::open(dir, &options).unwrap();
            db.wait_idle().unwrap();
            db.close().unwrap();
            assert_eq!(counted(dir), 4, "after the next one");
        });
    }

    fn flip(table: &mut [u8]) {
        table[3] ^= 1;
    }

    /// Changes the first block of a table and its codec, with a checksum that agrees.
    pub(crate) fn change_first_block(table: &mut [u8], change: impl FnOnce(&mut [u8], &mut u8)) {
        let checksum = |block: &[u8], codec: u8| {
            let checksum = ChecksumType::Xxh3.block_checksum(block, codec);
            checksum.to_le_bytes()
        };
        let ends_at = |&len: &usize| table[len + 1..len + 5] == checksum(&table[..len], table[len]);
        let len = (1..table.len() - 5).find(ends_at).unwrap();
        let (block, trailer) = table.split_at_mut(len);
        change(block, &mut trailer[0]);
        let sum = checksum(block, trailer[0]);
        trailer[1..5].copy_from_slice(&sum);
    }

    /// Says that the first block is compressed by Xpress.
    fn compress_by_xpress(table: &mut [u8]) {
        change_first_block(table, |_, codec| *codec = 6);
    }

    #[test]
    fn a_damaged_table_is_told_of_and_left_and_one_not_understood_is_refused() {
        // A byte of a block, and a codec that there is nothing for.
        for (damage, kind) in [
            (flip as fn(&mut [u8]), ErrorKind::Corruption),
            (compress_by_xpress, ErrorKind::Unsupported),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            let mut options = Options::default();
            options.default.min_blob_size = 100;
            let db = Db::open(dir, &options).unwrap();
            db.put(b"k", &[7; 500]).unwrap();
            db.flush().unwrap();
            db.close().unwrap();
            drop(db);
            forget_counts(dir);
            let names = StdVfs.read_dir(dir).unwrap();
            let table = names.iter().filter_map(|name| FileKind::parse(name));
            let table = table.into_iter().find(|f| matches!(f, FileKind::Table(_)));
            let path = table.unwrap().path(dir);
            let mut bytes = std::fs::read(&path).unwrap();
            damage(&mut bytes);
            std::fs::write(&path, bytes).unwrap();

            let queue = std::sync::Arc::new(Queue::default());
            options.db.listeners = vec![std::sync::Arc::clone(&queue) as _];
            if kind == ErrorKind::Unsupported {
                // A table that is not understood is refused before anything is written.
                let error = Db::open(dir, &options).unwrap_err();
                assert_eq!(
                    (error.kind(), error.path()),
                    (kind, Some(&*path)),
                    "{error}"
                );
                let db = Db::open_read_only(dir, &options).unwrap();
                assert_eq!(db.get(b"k").unwrap_err().kind(), kind);
                continue;
            }
            let db = Db::open(dir, &options).unwrap();
            db.wait_idle().unwrap();
            let reported = queue.0.lock().unwrap().clone();
            assert_eq!(reported.len(), 1, "{reported:?}");
            assert_eq!(reported[0].kind(), kind, "{reported:?}");
            assert_eq!(reported[0].path(), Some(&*path), "{reported:?}");
            assert!(db.background_error().is_none());
            db.put(b"other", b"value").unwrap();
        }
    }

    #[derive(Default)]
    struct Queue(std::sync::Mutex<Vec<crate::Error>>);

    impl crate::EventListener for Queue {
        fn garbage_collection_failed(&self, error: &crate::Error) {
            self.0.lock().unwrap().push(error.clone());
        }
    }
}
