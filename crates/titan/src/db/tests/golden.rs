//! A database as text: the files of `golden`, in the form of [`titan_testkit::golden`].
//!
//! `open` makes an empty database; its words set options. The input lines of `do` are steps; each
//! output line is one that has a result. Keys are words, `x*300` is a value of 300 letters, and
//! values of 100 bytes and more are separated. `files`, `tree`, `wals` and `contents` show the
//! directory, the tables, the WAL files that are needed, and the keys. `kill` ends the process
//! without closing. `damage RECORD flip|cut|zeros` damages the newest WAL file, and `recover MODE`
//! opens a copy of the database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use titan_testkit::golden::Machine;

use crate::db::on_disk::directory::files_of;
use crate::format::file_name::FileKind;
use crate::options::DataInMemory;
use crate::vfs::{Access, StdVfs, Vfs};
use crate::wal::{LogReader, TailMode};
use crate::{
    ColumnFamily, ColumnFamilyOptions, CompressionType, Db, DbIterator, Error, EventListener,
    FileNumber, Options, ReadOptions, Result, Snapshot, WalDamageEvent, WalRecoveryMode,
    WriteBatch, WriteOptions,
};

mod files {
    titan_testkit::golden_tests!(
        super::World,
        "src/db/tests/golden/files",
        collections,
        compactions,
        families,
        flushes,
        iterators,
        reopening,
        snapshots,
    );
}

mod wal_recovery {
    titan_testkit::golden_tests!(
        super::World,
        "src/db/tests/golden/wal_recovery",
        cut_tails,
        families,
        flipped_bytes,
        synced_records,
        zeros,
    );
}

mod shadows {
    titan_testkit::golden_tests!(
        super::World,
        "src/db/tests/golden/shadows",
        compactions,
        deletions,
        overwrites,
        ranges,
    );
}

/// A database in a directory of its own, and the objects of its program.
#[derive(Default)]
struct World {
    options: Options,
    snapshots: BTreeMap<String, Snapshot>,
    iterators: BTreeMap<String, DbIterator>,
    db: Option<Db>,
    dir: Option<tempfile::TempDir>,
}

#[derive(Default)]
struct Damage(Mutex<Vec<String>>);

impl EventListener for Damage {
    fn wal_damaged(&self, event: &WalDamageEvent) {
        let lost = event.kept.iter().map(|wal| format!(", {wal} is in lost"));
        let text = format!(
            "damage in {}: {}, {} records left, {} places skipped{}",
            event.wal,
            event.reason,
            event.records_left,
            event.skipped,
            lost.collect::<String>()
        );
        self.0.lock().unwrap().push(text);
    }
}

fn value(word: &str) -> Vec<u8> {
    match word.split_once('*') {
        Some((letters, times)) => letters.repeat(times.parse().unwrap()).into_bytes(),
        None => word.as_bytes().to_vec(),
    }
}

fn shown(value: &[u8]) -> String {
    match value.len() {
        0..20 => String::from_utf8_lossy(value).into_owned(),
        length => format!("{}*{length}", char::from(value[0])),
    }
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for name in StdVfs.read_dir(from).unwrap() {
        if FileKind::parse(&name).is_some() {
            std::fs::copy(from.join(&name), to.path().join(&name)).unwrap();
        }
    }
    to
}

impl Machine for World {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        let words: Vec<&str> = command.split(' ').collect();
        match words[0] {
            "open" => self.create(&words[1..]),
            "do" => input.iter().flat_map(|step| self.step(step)).collect(),
            "files" => self.files(),
            "tree" => self.tree(),
            "wals" => self.wals(),
            "contents" => contents(self.db()).unwrap(),
            "kill" => self.kill(),
            "damage" => self.damage(&words[1..]),
            "recover" => self.recover(words[1]),
            _ => panic!("unknown command: {command}"),
        }
    }
}

fn contents(db: &Db) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for family in db.column_families() {
        let mut iter = family.iter(&ReadOptions::default())?;
        let mut line = format!("{}:", family.name());
        iter.seek_to_first()?;
        while iter.valid() {
            let key = String::from_utf8_lossy(iter.key()).into_owned();
            line += &format!(" {key}={}", shown(&iter.value()?));
            iter.next()?;
        }
        out.push(line);
    }
    Ok(out)
}

impl World {
    fn create(&mut self, words: &[&str]) -> Vec<String> {
        self.options = Options {
            default: ColumnFamilyOptions {
                compression: CompressionType::None,
                min_blob_size: 100,
                disable_auto_compactions: true,
                enable_blob_garbage_collection: false,
                ..ColumnFamilyOptions::default()
            },
            ..Options::default()
        };
        self.options.db.data_in_memory = DataInMemory::Never;
        self.options.db.extend_wal_files = false;
        for word in words {
            match word.split_once('=') {
                Some(("family", name)) => {
                    let own = self.options.default.clone();
                    self.options.families.insert(name.to_owned(), own);
                }
                _ => panic!("unknown option: {word}"),
            }
        }
        self.end();
        self.dir = Some(tempfile::tempdir().unwrap());
        self.open()
    }

    /// Drops everything that the program has, the database last.
    fn end(&mut self) {
        self.snapshots.clear();
        self.iterators.clear();
        self.db = None;
    }

    fn open(&mut self) -> Vec<String> {
        self.db = Some(Db::open(self.path(), &self.options).unwrap());
        self.rest();
        vec!["open".to_owned()]
    }

    fn path(&self) -> &Path {
        self.dir.as_ref().unwrap().path()
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Lets jobs end, and deletes obsolete files.
    fn rest(&self) {
        if let Some(db) = &self.db {
            db.wait_idle().unwrap();
            db.core.shared.purge();
        }
    }

    fn family<'w>(&self, word: &'w str) -> (ColumnFamily, &'w str) {
        let (family, key) = word.split_once('/').unwrap_or(("default", word));
        (self.db().column_family(family).unwrap(), key)
    }

    fn step(&mut self, step: &str) -> Vec<String> {
        let words: Vec<&str> = step.split(' ').collect();
        let said = self.perform_step(&words);
        self.rest();
        match said {
            Ok(None) => Vec::new(),
            Ok(Some(said)) => vec![format!("{step} -> {said}")],
            Err(e) => vec![format!("{step} -> {}", self.error(&e))],
        }
    }

    fn error(&self, error: &Error) -> String {
        let text = error.to_string();
        let text = text.replace(&format!("{}/", self.path().display()), "");
        let text = text.replace(&self.path().display().to_string(), "the directory");
        format!("{:?}, {text}", error.kind())
    }

    fn perform_step(&mut self, words: &[&str]) -> Result<Option<String>> {
        match words {
            ["put", pairs @ ..] => {
                let mut batch = WriteBatch::new();
                let mut options = WriteOptions::default();
                for pair in pairs {
                    match pair.split_once('=') {
                        Some((key, text)) => {
                            let (family, key) = self.family(key);
                            batch.put(&family, key, value(text))?;
                        }
                        None => options = WriteOptions::synced(),
                    }
                }
                self.db().write(batch, &options)?;
            }
            ["delete", key] => {
                let (family, key) = self.family(key);
                family.delete(key.as_bytes())?;
            }
            ["delete", from, to] => {
                let (family, from) = self.family(from);
                family.delete_range(from.as_bytes(), to.as_bytes())?;
            }
            ["get", key] => {
                let (family, key) = self.family(key);
                let found = family.get(key.as_bytes())?;
                return Ok(Some(found.map_or("none".to_owned(), |v| shown(&v))));
            }
            ["sync"] => self.db().sync_wal()?,
            ["flush"] => self.db().flush()?,
            ["flush", family] => self.db().column_family(family).unwrap().flush()?,
            ["compact"] => self.db().compact_range(None, None, &Default::default())?,
            ["collect"] => {
                let summary = self.db().collect_garbage(None, None, &Default::default())?;
                return Ok(Some(format!("{} files", summary.files.len())));
            }
            ["snapshot", name] => {
                let snapshot = self.db().snapshot();
                self.snapshots.insert((*name).to_owned(), snapshot);
            }
            ["release", name] => drop(self.snapshots.remove(*name).unwrap()),
            ["read", key, name] => {
                let options = ReadOptions {
                    snapshot: Some(self.snapshots[*name].clone()),
                    ..ReadOptions::default()
                };
                let found = self.db().get_with(key.as_bytes(), &options)?;
                return Ok(Some(found.map_or("none".to_owned(), |v| shown(&v))));
            }
            ["iterate", name] => {
                let mut iter = self.db().iter(&ReadOptions::default())?;
                iter.seek_to_first()?;
                self.iterators.insert((*name).to_owned(), iter);
            }
            ["next", name] => {
                let iter = self.iterators.get_mut(*name).unwrap();
                let key = String::from_utf8_lossy(iter.key()).into_owned();
                let said = format!("{key}={}", shown(&iter.value()?));
                iter.next()?;
                return Ok(Some(said));
            }
            ["drop", name] => drop(self.iterators.remove(*name).unwrap()),
            ["create", name] => {
                let options = self.options.default.clone();
                self.db().create_column_family(name, options)?;
            }
            ["drop-family", name] => {
                let family = self.db().column_family(name).unwrap();
                self.db().drop_column_family(&family)?;
                self.options.families.remove(*name);
            }
            ["reopen"] => {
                self.end();
                self.open();
            }
            ["close"] => self.end(),
            _ => panic!("unknown step: {words:?}"),
        }
        Ok(None)
    }

    fn files(&self) -> Vec<String> {
        let mut kinds: BTreeMap<&str, String> = BTreeMap::new();
        for file in files_of(&StdVfs, self.path()).unwrap() {
            let kind = match file {
                FileKind::Wal(_) => "WAL files",
                FileKind::Table(_) => "tables",
                FileKind::Blob(_) => "blob files",
                FileKind::BlobMap(_) => "relocation maps",
                _ => continue,
            };
            let number = file.number().unwrap();
            *kinds.entry(kind).or_default() += &format!(" {number}");
        }
        let kinds = kinds
            .iter()
            .map(|(kind, numbers)| format!("{kind}:{numbers}"));
        kinds.collect()
    }

    fn tree(&self) -> Vec<String> {
        let mut out = Vec::new();
        for family in self.db().column_families() {
            let version = Arc::clone(&family.family.super_version.load().version);
            for (level, table) in version.tables() {
                let facts = table.facts().cloned().unwrap_or_default();
                let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
                let mut line = format!(
                    "{} level {level}: {} {}-{}, {} entries",
                    family.name(),
                    table.number(),
                    key(table.smallest_user_key()),
                    key(table.largest_user_key()),
                    facts.num_entries
                );
                for (count, what) in [
                    (facts.num_deletions, "deletions"),
                    (facts.num_range_deletions, "range deletions"),
                    (facts.shadowed_bytes, "bytes shadowed"),
                ] {
                    if count > 0 {
                        line += &format!(", {count} {what}");
                    }
                }
                for refs in &facts.blob_refs {
                    line += &format!(", {} in blob file {}", refs.count, refs.file);
                }
                out.push(line);
            }
            for (number, file) in version.blob_files.iter() {
                let physical = file.shared.physical().number;
                let mut line = format!(
                    "{} blob file {number}: {} live of {}",
                    family.name(),
                    file.live_count(),
                    file.shared.total_count
                );
                if physical != *number {
                    line += &format!(", in {physical}");
                }
                out.push(line);
            }
        }
        match out.is_empty() {
            true => vec!["no files".to_owned()],
            false => out,
        }
    }

    fn wals(&self) -> Vec<String> {
        let shared = &self.db().core.shared;
        let needed = shared.versions.lock().oldest_log_needed();
        let state = shared.state.lock();
        let wals = state.wals.iter().map(|wal| wal.number.to_string());
        let mut out = vec![format!(
            "written {}, needed from {needed}",
            wals.collect::<Vec<_>>().join(" ")
        )];
        out.extend(state.families.values().map(|family| {
            format!(
                "{}: from {}, {} memtables wait",
                family.family.name,
                family.oldest_log_needed(),
                family.immutables.len()
            )
        }));
        out
    }

    fn kill(&mut self) -> Vec<String> {
        let left = copy(self.path());
        self.end();
        self.dir = Some(left);
        vec!["killed".to_owned()]
    }

    /// Where the records of a WAL file start.
    fn records(&self, wal: FileNumber) -> Vec<usize> {
        let path = FileKind::Wal(wal).path(self.path());
        let file = StdVfs.open(&path, Access::Sequential).unwrap();
        let mut log = LogReader::new(file, &path, wal, TailMode::PointInTime);
        let mut records = Vec::new();
        while let Some(record) = log.next().unwrap() {
            records.push(record.offset as usize);
        }
        records
    }

    fn damage(&mut self, words: &[&str]) -> Vec<String> {
        let [record, how] = words else {
            panic!("no damage: {words:?}")
        };
        let files = files_of(&StdVfs, self.path()).unwrap().into_iter();
        let wals = files.filter(|file| matches!(file, FileKind::Wal(_)));
        let wal = FileNumber(wals.filter_map(FileKind::number).max().unwrap());
        let records = self.records(wal);
        let start = records[record.parse::<usize>().unwrap()];
        let path = FileKind::Wal(wal).path(self.path());
        let mut bytes = std::fs::read(&path).unwrap();
        match *how {
            "flip" => bytes[start + 8] ^= 1,
            "cut" => bytes.truncate(start + 9),
            "zeros" => {
                let end = records.iter().find(|at| **at > start);
                let end = end.copied().unwrap_or(bytes.len());
                bytes[start..end].fill(0);
            }
            _ => panic!("unknown damage: {how}"),
        }
        std::fs::write(&path, bytes).unwrap();
        vec![format!("record {record} of {} records", records.len())]
    }

    fn recover(&self, mode: &str) -> Vec<String> {
        let dir = copy(self.path());
        let heard = Arc::new(Damage::default());
        let mut options = self.options.clone();
        options.db.listeners = vec![heard.clone()];
        options.db.wal_recovery_mode = match mode {
            "absolute" => WalRecoveryMode::AbsoluteConsistency,
            "tolerate" => WalRecoveryMode::TolerateCorruptedTailRecords,
            "point-in-time" => WalRecoveryMode::PointInTimeRecovery,
            "skip" => WalRecoveryMode::SkipAnyCorruptedRecords,
            _ => panic!("unknown mode: {mode}"),
        };
        match Db::open(dir.path(), &options) {
            Ok(db) => {
                let mut out = contents(&db).unwrap();
                db.close().unwrap();
                out.append(&mut heard.0.lock().unwrap());
                out
            }
            Err(e) => {
                let text = e.to_string();
                let text = text.replace(&format!("{}/", dir.path().display()), "");
                let text = text.replace(&dir.path().display().to_string(), "the directory");
                vec![format!("refused: {:?}, {text}", e.kind())]
            }
        }
    }
}
