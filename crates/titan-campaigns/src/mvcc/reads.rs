//! Reads of the store, compared with the model.

use std::collections::BTreeMap;
use std::ops::Bound;

use titan::ReadOptions;
use titan_mvcc::{Direction, Error, ReadStats, Row, Snapshot, Timestamp};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::versions::{Versions, Write};

use super::configurations::Phases;
use super::world::World;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;
type Writes = BTreeMap<Vec<u8>, Write>;

/// A range to scan, and how many rows of it.
struct Wanted {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    direction: Direction,
    most: usize,
}

impl World {
    pub(super) fn get_in_transaction(&mut self) -> Checked<()> {
        let key = self.key();
        if self.open.is_empty() {
            return Ok(());
        }
        let n = self.rng.usize(..self.open.len());
        let open = &self.open[n];
        let found = open.transaction.get(&key).doing("get")?;
        let start = open.transaction.start();
        let expected = value(&self.model, &open.writes, &key, start);
        same_value(&key, found.as_deref(), expected)
    }

    pub(super) fn scan_in_transaction(&mut self) -> Checked<()> {
        let wanted = self.wanted();
        if self.open.is_empty() {
            return Ok(());
        }
        let n = self.rng.usize(..self.open.len());
        let open = &self.open[n];
        let (from, to) = (wanted.from.as_deref(), wanted.to.as_deref());
        let scan = open.transaction.scan(from, to, wanted.direction);
        let found = rows(scan.doing("scan")?, wanted.most)?;
        let start = open.transaction.start();
        same_rows(&found, &expected(&self.model, &open.writes, start, &wanted))
    }

    /// A read at some timestamp, which may be before the safe point.
    pub(super) fn read_at(&mut self) -> Checked<()> {
        let at = self.some_timestamp();
        match self.store.snapshot_at(at) {
            Ok(snapshot) => {
                ensure!(at >= self.safe_point, "a read behind the safe point");
                self.read_some(&snapshot)?;
                if self.snapshots.len() < 3 && self.rng.u32(..8) == 0 {
                    self.snapshots.push(snapshot);
                }
                Ok(())
            }
            Err(Error::BeforeSafePoint { asked, safe_point }) => {
                ensure!(
                    (asked, safe_point) == (at, self.safe_point) && at < safe_point,
                    "a read at {at} was refused at {safe_point}"
                );
                Ok(())
            }
            Err(e) => Err(CheckFailure::wrong(e)),
        }
    }

    /// A read of a snapshot that was taken some time ago.
    pub(super) fn read_snapshot(&mut self) -> Checked<()> {
        let snapshot = self.rng.choice(&self.snapshots).cloned();
        match snapshot {
            Some(snapshot) => self.read_some(&snapshot),
            None => self.read_some(&self.store.snapshot()),
        }
    }

    fn read_some(&mut self, snapshot: &Snapshot) -> Checked<()> {
        let (at, none) = (snapshot.timestamp(), Writes::new());
        if self.rng.u32(..3) > 0 {
            let keys = [self.key(), self.key()];
            let found = snapshot.batch_get(&keys).doing("batch get")?;
            for (key, found) in keys.iter().zip(found) {
                same_value(key, found.as_deref(), self.model.get(key, at))?;
            }
            return self.costs_little(snapshot, &keys[0]);
        }
        let wanted = self.wanted();
        let (from, to) = (wanted.from.as_deref(), wanted.to.as_deref());
        let scan = snapshot.scan(from, to, wanted.direction).doing("scan")?;
        let found = rows(scan, wanted.most)?;
        same_rows(&found, &expected(&self.model, &none, at, &wanted))
    }

    /// However often a key was written and locked, a read of it steps over nothing but records of
    /// rollbacks.
    fn costs_little(&self, snapshot: &Snapshot, key: &[u8]) -> Checked<()> {
        let mut stats = ReadStats::default();
        snapshot.get_lazy_counted(key, &mut stats).doing("get")?;
        let (steps, seeks) = (stats.next + stats.prev, stats.seek);
        let is_one = self.configuration.phases == Phases::One;
        ensure!(
            !is_one || (steps == 0 && seeks <= 2),
            "a read took {steps} steps and {seeks} seeks"
        );
        Ok(())
    }

    /// Compares all rows of the present, and of a time that can be read, in both directions.
    pub(super) fn check_everything(&mut self) -> Checked<()> {
        let present = self.store.snapshot();
        let past = self.some_timestamp().max(self.safe_point);
        let past = self.store.snapshot_at(past).doing("a snapshot")?;
        for snapshot in [present, past] {
            let mut expected: Rows = self.model.rows(snapshot.timestamp()).into_iter().collect();
            for direction in [Direction::Forward, Direction::Backward] {
                let scan = snapshot.scan(None, None, direction).doing("scan")?;
                same_rows(&rows(scan, usize::MAX)?, &expected)?;
                expected.reverse();
            }
        }
        let report = self.store.check(&mut |_| {}).doing("a check")?;
        ensure!(report.problems_found == 0, "{:?}", report.problems);
        Ok(())
    }

    /// Number of versions that are stored.
    pub(super) fn stored(&self) -> Checked<usize> {
        let Some(versions) = self.store.db().column_family("versions") else {
            return Err(CheckFailure::wrong("the family of versions is missing"));
        };
        let mut entries = versions.iter(&ReadOptions::default())?;
        entries.seek_to_first()?;
        let mut n = 0;
        while entries.valid() {
            n += 1;
            entries.next()?;
        }
        Ok(n)
    }

    fn wanted(&mut self) -> Wanted {
        let mut end = || self.rng.bool().then(|| self.key());
        Wanted {
            from: end(),
            to: end(),
            direction: match self.rng.bool() {
                true => Direction::Forward,
                false => Direction::Backward,
            },
            most: self.rng.usize(1..10),
        }
    }
}

/// Value that a transaction that began at `at` finds.
fn value<'m>(
    model: &'m Versions<Timestamp>,
    writes: &'m Writes,
    key: &[u8],
    at: Timestamp,
) -> Option<&'m [u8]> {
    match writes.get(key) {
        Some(Write::Set(value)) => value.as_deref(),
        Some(Write::Lock) | None => model.get(key, at),
    }
}

/// The rows of a scan.
fn expected(model: &Versions<Timestamp>, writes: &Writes, at: Timestamp, wanted: &Wanted) -> Rows {
    let range: (Bound<&[u8]>, Bound<&[u8]>) = (
        wanted
            .from
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Included),
        wanted
            .to
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded),
    );
    let mut found = Rows::new();
    if let (Some(from), Some(to)) = (&wanted.from, &wanted.to)
        && from >= to
    {
        return found;
    }
    let (mut stored, mut own) = (model.keys(range), writes.range::<[u8], _>(range));
    let (mut next, mut next_own) = (None, None);
    while found.len() < wanted.most {
        match wanted.direction {
            Direction::Forward => {
                next = next.or_else(|| stored.next());
                next_own = next_own.or_else(|| own.next().map(|(key, _)| &**key));
            }
            Direction::Backward => {
                next = next.or_else(|| stored.next_back());
                next_own = next_own.or_else(|| own.next_back().map(|(key, _)| &**key));
            }
        }
        let key = match (next, next_own, wanted.direction) {
            (Some(a), Some(b), Direction::Forward) => a.min(b),
            (Some(a), Some(b), Direction::Backward) => a.max(b),
            (Some(key), None, _) | (None, Some(key), _) => key,
            (None, None, _) => break,
        };
        next = next.filter(|next| *next != key);
        next_own = next_own.filter(|next| *next != key);
        if let Some(value) = value(model, writes, key, at) {
            found.push((key.to_vec(), value.to_vec()));
        }
    }
    found
}

/// The first rows of a scan, with their values.
fn rows(scan: impl Iterator<Item = titan_mvcc::Result<Row>>, most: usize) -> Checked<Rows> {
    let mut rows = Rows::new();
    for row in scan.take(most) {
        let row = row.doing("a row")?;
        let value = row.value.fetch()?.to_vec();
        rows.push((row.key, value));
    }
    Ok(rows)
}

fn same_value(key: &[u8], found: Option<&[u8]>, expected: Option<&[u8]>) -> Checked<()> {
    ensure!(
        found == expected,
        "key {:?} has {found:?} instead of {expected:?}",
        key.escape_ascii().to_string()
    );
    Ok(())
}

fn same_rows(found: &Rows, expected: &Rows) -> Checked<()> {
    if found == expected {
        return Ok(());
    }
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    Err(CheckFailure::wrong(format!(
        "row {at} of {} is {:?}; expected is, of {}: {:?}",
        found.len(),
        found.get(at),
        expected.len(),
        expected.get(at)
    )))
}
