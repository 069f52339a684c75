//! The end of a history: exactly the versions of the model are left.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use titan::ReadOptions;
use titan_mvcc::{Timestamp, VersionKind};
use titan_testkit::failure::{Checked, Doing, ensure};
use titan_testkit::sim::Loss;
use titan_testkit::versions::{Whole, Write};

use super::seen::Seen;
use super::world::{LOCK_TTL, World};

/// All keys.
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

impl World {
    /// Ends everything, drops the versions that may be dropped, and compares those left: first at
    /// the safe point of the history, then at the present.
    pub(super) fn finish(&mut self) -> Checked<Seen> {
        self.check_everything()?;
        match self.configuration.crashes {
            true => {
                let (loss, back) = self.last_crash();
                self.crash(loss, back)?;
            }
            false => self.whole(Whole::Reopen)?,
        }
        loop {
            self.store.sweep().doing("a sweep")?;
            self.note_safe_point()?;
            self.store.drop_old_versions().doing("dropping")?;
            let left = self.check_left();
            // The store sweeps after an opening, too, perhaps only now.
            if self.store.safe_point() == self.safe_point {
                left?;
                break;
            }
        }
        // No lock stays.
        self.clock.advance(2 * LOCK_TTL);
        let now = self.store.now();
        let moved = self.store.advance_safe_point(now).doing("the safe point")?;
        ensure!(
            moved == now,
            "the safe point moved to {moved} instead of {now}"
        );
        self.safe_point = now;
        let locks = self.entries("locks")?;
        ensure!(locks == 0, "{locks} locks are left");
        self.store.drop_old_versions().doing("dropping")?;
        self.check_left()?;
        let keys = self.model.keys(ALL);
        let needed: usize = keys.map(|key| self.model.needed(key, now).len()).sum();
        let left = self.entries("versions")?;
        ensure!(
            left == needed,
            "{left} versions are left instead of {needed}"
        );
        self.check_everything()?;
        self.end_cache()?;
        self.count_engine()?;
        self.store.close().doing("closing")?;
        Ok(self.seen)
    }

    /// The crash at the end of a history: any loss, within one of the last operations of the disk.
    fn last_crash(&self) -> (Loss, usize) {
        let seed = self.commits.len();
        let loss = match seed % 3 {
            0 => Loss::None,
            1 => Loss::All,
            _ => Loss::Random(seed as u64),
        };
        (loss, seed / 3 % 8)
    }

    /// Checks each stored version of each key without a lock, after everything was dropped that may
    /// be: it is one that the model has, and none is missing.
    fn check_left(&self) -> Checked<()> {
        let locks = self.store.percolator();
        let locks = locks.scan_locks(Timestamp::MAX, b"", usize::MAX);
        // The lock of an async commit may stand for its version.
        let locked: BTreeSet<&[u8]> = locks.iter().map(|lock| &*lock.key).collect();
        let keys = self.model.keys(ALL);
        for key in keys.filter(|key| !locked.contains(key)) {
            let shown = key.escape_ascii();
            let needed = self.model.needed(key, self.safe_point).into_iter();
            let mut needed: BTreeMap<Timestamp, bool> = needed.collect();
            for version in self.store.versions(key).doing("versions")? {
                let version = version.doing("a version")?;
                let (at, of_start) = (version.commit, self.starts.get(&version.start));
                let of_start = of_start.map(|(_, commit)| *commit);
                if version.kind == VersionKind::Rollback {
                    ensure!(
                        at > self.safe_point && of_start.is_none(),
                        "key {shown} has {version:?}, and the safe point is {}",
                        self.safe_point
                    );
                    continue;
                }
                let is_needed = needed.remove(&at).is_some();
                let expected = self.model.written(key, at);
                let kind = expected.map(|write| match write {
                    Write::Set(Some(_)) => VersionKind::Put,
                    Write::Set(None) => VersionKind::Delete,
                    Write::Lock => VersionKind::Lock,
                });
                ensure!(
                    is_needed && kind == Some(version.kind) && of_start.is_none_or(|it| it == at),
                    "key {shown} still has {version:?}, of {of_start:?}; written was {kind:?}"
                );
            }
            needed.retain(|_, may_be_dropped| !*may_be_dropped);
            ensure!(needed.is_empty(), "key {shown} lacks versions: {needed:?}");
        }
        Ok(())
    }

    /// The number of entries of a family.
    fn entries(&self, family: &str) -> Checked<usize> {
        let family = self.store.db().column_family(family);
        let mut entries = match &family {
            Some(family) => family.iter(&ReadOptions::default())?,
            None => return Ok(0),
        };
        entries.seek_to_first()?;
        let mut n = 0;
        while entries.valid() {
            n += 1;
            entries.next()?;
        }
        Ok(n)
    }

    /// The records of rollbacks that must be there, or a newer one of the same key.
    pub(super) fn check_records(&self) -> Checked<()> {
        for txn in self.txns.values().filter(|txn| txn.start > self.safe_point) {
            for key in &txn.records {
                let mut versions = self.store.versions(key).doing("versions")?;
                let is_recorded = versions.any(|version| {
                    version.is_ok_and(|version| {
                        version.kind == VersionKind::Rollback && version.commit >= txn.start
                    })
                });
                // The store may have swept meanwhile.
                ensure!(
                    is_recorded || txn.start <= self.store.safe_point(),
                    "the rollback of {} left no record at {}",
                    txn.start,
                    key.escape_ascii()
                );
            }
        }
        Ok(())
    }
}
