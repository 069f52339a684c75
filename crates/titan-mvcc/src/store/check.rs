//! The check that every entry is one that the store writes.
//!
//! Reads keys only. `titan_tools::check` covers files and values.

use serde::Serialize;
use titan::ReadOptions;

use crate::core::Core;
use crate::error::Result;
use crate::format::lock::{Lock, key_of_record, value_key};
use crate::format::version::split;
use crate::format::{Kind, LOCKS, LastChange, LockValue, VERSIONS, Version, decode_key};
use crate::lock_info::LockKind;
use crate::meta::{KNOWN, LEASE, Meta, SAFE_POINT};
use crate::timestamp::Timestamp;

/// The most problems in a report, which counts all.
const LISTED: usize = 100;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// All versions.
    pub versions: u64,
    /// Different keys.
    pub rows: u64,
    /// Versions that are puts.
    pub puts: u64,
    /// Versions that are deletions.
    pub deletes: u64,
    /// Versions of locks, and rollback records.
    pub locks: u64,
    /// The oldest commit; `None` without versions.
    pub oldest: Option<Timestamp>,
    /// The newest commit.
    pub newest: Option<Timestamp>,
    /// Locks of transactions that have not ended.
    pub transaction_locks: u64,
    /// The oldest timestamp that can be read.
    pub safe_point: Timestamp,
    /// The number of problems.
    pub problems_found: u64,
    /// The first hundred problems.
    pub problems: Vec<CheckProblem>,
}

/// An entry that no store can have written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckProblem {
    /// The column family.
    pub column_family: String,
    /// The key of the entry in the engine, in hexadecimal.
    pub engine_key: String,
    /// The key of the version, if it can be decoded, with bytes outside of ASCII escaped.
    pub key: Option<String>,
    /// The problem.
    pub what: String,
}

impl std::fmt::Display for CheckProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column family {}, ", self.column_family)?;
        if let Some(key) = &self.key {
            write!(f, "key `{key}`, ")?;
        }
        write!(f, "entry 0x{}: {}", self.engine_key, self.what)
    }
}

/// See [`Store::check`](crate::Store::check).
pub(crate) fn check(core: &Core, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
    let mut report = CheckReport {
        safe_point: core.safe_point.get(),
        ..CheckReport::default()
    };
    let meta = Meta(core.db.clone());
    check_meta(core, &meta, &mut report)?;
    check_versions(core, &meta, &mut report, progress)?;
    check_locks(core, &meta, &mut report)?;
    Ok(report)
}

impl CheckReport {
    fn add_problem(&mut self, family: &str, engine_key: &[u8], what: impl Into<String>) {
        self.problems_found += 1;
        if self.problems.len() == LISTED {
            return;
        }
        let len = crate::format::key::encoded_len(engine_key);
        let encoded = len.and_then(|len| engine_key.get(..len));
        let key = encoded.and_then(decode_key);
        let digits = engine_key.iter().map(|byte| format!("{byte:02X}"));
        self.problems.push(CheckProblem {
            column_family: family.to_owned(),
            engine_key: digits.collect(),
            key: key.map(|key| key.escape_ascii().to_string()),
            what: what.into(),
        });
    }
}

/// Checks the numbers of the store, in the family `default`.
fn check_meta(core: &Core, meta: &Meta, report: &mut CheckReport) -> Result<()> {
    let family = core.db.name().to_owned();
    let mut entries = core.db.iter(&ReadOptions::default())?;
    entries.seek_to_first()?;
    while entries.valid() {
        let name = entries.key().to_vec();
        if !KNOWN.iter().any(|known| known.as_bytes() == name) {
            report.add_problem(&family, &name, "the store records nothing under this name");
        } else if entries.value()?.len() != 8 {
            report.add_problem(&family, &name, "its value must have 8 bytes");
        }
        entries.next()?;
    }
    let number = |name| meta.get(name).unwrap_or_default();
    if let (Some(safe_point), Some(leased)) = (number(SAFE_POINT), number(LEASE))
        && safe_point >= leased
    {
        let what = format!("the safe point {safe_point} is not before the lease {leased}");
        report.add_problem(&family, SAFE_POINT.as_bytes(), what);
    }
    Ok(())
}

fn check_versions(
    core: &Core,
    meta: &Meta,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let family = core.versions.name().to_owned();
    let mut entries = core.versions.iter(&ReadOptions {
        fill_cache: false,
        prefetch_values: 0,
        ..ReadOptions::default()
    })?;
    // ORDER: after the iterator, so that the lease covers all entries, and none that it misses was
    // dropped later.
    let (leased, safe_point) = (leased(meta), core.safe_point.get());
    // The encoded key and the commit of the last entry.
    let mut last: Option<(Vec<u8>, Timestamp)> = None;
    let mut claim = Claim::default();
    entries.seek_to_first()?;
    while entries.valid() {
        let engine_key = entries.key();
        let (encoded, version) = match split(engine_key) {
            Ok(parts) => parts,
            Err(e) => {
                report.add_problem(&family, engine_key, reason(&e.to_string()));
                entries.next()?;
                continue;
            }
        };
        if decode_key(encoded).is_none() {
            report.add_problem(&family, engine_key, "its key is damaged");
        }
        let newer = last.as_ref().filter(|(key, _)| key == encoded);
        match newer {
            // The engine orders entries, so only equal ones can be wrong. A rollback record may
            // have the timestamp of a commit.
            Some((_, newer))
                if *newer < version.commit
                    || *newer == version.commit && version.kind != Kind::Rollback =>
            {
                report.add_problem(&family, engine_key, "another version has this commit");
            }
            Some(_) => {}
            None => {
                report.rows += 1;
                std::mem::take(&mut claim).end(report);
            }
        }
        let is_committed = matches!(version.kind, Kind::Put | Kind::Delete | Kind::Lock);
        if is_committed && version.start >= version.commit {
            report.add_problem(
                &family,
                engine_key,
                "it was committed at its start or before",
            );
        }
        if let Some(leased) = leased.filter(|leased| version.commit >= *leased) {
            let what = format!("its commit is not before the end of the lease, {leased}");
            report.add_problem(&family, engine_key, what);
        }
        match version.kind {
            Kind::Delete if entries.lazy_value()?.stored_len() > 0 => {
                report.add_problem(&family, engine_key, "a deletion has a value");
            }
            Kind::Lock => {
                match LockValue::decode(&entries.lazy_value()?.fetch()?, version.commit) {
                    None => {
                        report.add_problem(&family, engine_key, "the value of a lock is damaged")
                    }
                    // The version that an older lock leads to may have been dropped.
                    Some(said) if version.commit > safe_point => {
                        claim.add_lock(said.last_change, engine_key, report);
                    }
                    Some(_) => {}
                }
            }
            _ => {}
        }
        claim.compare(version, report);
        match version.kind {
            Kind::Put => report.puts += 1,
            Kind::Delete => report.deletes += 1,
            _ => report.locks += 1,
        }
        report.versions += 1;
        let oldest = report.oldest.into_iter().chain([version.commit]);
        report.oldest = oldest.min();
        report.newest = report.newest.max(Some(version.commit));
        last = Some((encoded.to_vec(), version.commit));
        progress(report.versions);
        entries.next()?;
    }
    claim.end(report);
    Ok(())
}

/// The last change that the newer locks of a key record, with one of the locks.
#[derive(Default)]
struct Claim(Option<(LastChange, Vec<u8>)>);

impl Claim {
    /// Adds the record of a lock.
    fn add_lock(&mut self, said: LastChange, engine_key: &[u8], report: &mut CheckReport) {
        match &self.0 {
            _ if said == LastChange::Unknown => {}
            None => self.0 = Some((said, engine_key.to_vec())),
            Some((before, _)) if *before == said => {}
            Some(_) => {
                let what = "a newer lock records another last change";
                report.add_problem(VERSIONS, engine_key, what);
            }
        }
    }

    /// Compares the record with the next older version, if that is a change.
    fn compare(&mut self, version: Version, report: &mut CheckReport) {
        let found = match version.kind {
            Kind::Put => LastChange::Put(version.commit),
            Kind::Delete => LastChange::NoValue,
            Kind::Lock | Kind::Rollback => return,
        };
        if let Some((said, engine_key)) = self.0.take()
            && said != found
        {
            let what =
                format!("it records {said} as the last change, but the versions have {found}");
            report.add_problem(VERSIONS, &engine_key, what);
        }
    }

    /// Ends the key, which has no older version.
    fn end(self, report: &mut CheckReport) {
        if let Some((said @ LastChange::Put(_), engine_key)) = self.0 {
            report.add_problem(
                VERSIONS,
                &engine_key,
                format!("it records {said} as the last change, but the key has no older version"),
            );
        }
    }
}

/// The end of the lease.
fn leased(meta: &Meta) -> Option<Timestamp> {
    meta.get(LEASE).unwrap_or_default().map(Timestamp)
}

/// Checks the locks of transactions that have not ended, and their values.
fn check_locks(core: &Core, meta: &Meta, report: &mut CheckReport) -> Result<()> {
    let Some(family) = core.db.column_family(LOCKS) else {
        return Ok(());
    };
    let mut entries = family.iter(&ReadOptions::default())?;
    // ORDER: after the iterator, so that the lease covers all entries.
    let leased = leased(meta);
    // The engine's key of the last lock's value, the lock's kind, and true once the value was read.
    let mut last: Option<(Vec<u8>, LockKind, bool)> = None;
    let value_missing = |report: &mut CheckReport, last: &Option<(Vec<u8>, LockKind, bool)>| {
        if let Some((value, LockKind::Put, false)) = last {
            report.add_problem(LOCKS, value, "the value of a lock is lost");
        }
    };
    entries.seek_to_first()?;
    while entries.valid() {
        let engine_key = entries.key().to_vec();
        match key_of_record(&engine_key) {
            Err(e) => report.add_problem(LOCKS, &engine_key, reason(&e.to_string())),
            Ok(Some(key)) => match Lock::decode(&entries.value()?) {
                None => report.add_problem(LOCKS, &engine_key, "its record is damaged"),
                Some(lock) => {
                    value_missing(report, &last);
                    report.transaction_locks += 1;
                    if leased.is_some_and(|leased| lock.start >= leased) {
                        let what = "its transaction began after the end of the lease";
                        report.add_problem(LOCKS, &engine_key, what);
                    }
                    if lock.is_prewritten() && lock.min_commit <= lock.start {
                        let what = "its transaction may commit at its start or before";
                        report.add_problem(LOCKS, &engine_key, what);
                    }
                    last = Some((value_key(&key), lock.kind, false));
                }
            },
            // A value follows the record of its lock.
            Ok(None) => match last.as_mut().filter(|(value, ..)| *value == engine_key) {
                Some((_, LockKind::Put, has_come)) => *has_come = true,
                Some(_) => report.add_problem(
                    LOCKS,
                    &engine_key,
                    "it is a value, but its lock is not of a put",
                ),
                None => report.add_problem(LOCKS, &engine_key, "it is a value without a lock"),
            },
        }
        entries.next()?;
    }
    value_missing(report, &last);
    Ok(())
}

/// The fault in an error's text, without the entry, which the problem has already.
fn reason(error: &str) -> String {
    let (_, what) = error.rsplit_once(": ").unwrap_or(("", error));
    what.to_owned()
}
