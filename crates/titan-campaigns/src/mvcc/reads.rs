//! Reads of the store, compared with the model.

use std::collections::BTreeMap;
use std::ops::Bound;

use titan_mvcc::{Direction, Error, ReadStats, Row, Scan, Snapshot, Timestamp};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::versions::{At, Range, Versions, Write};

use super::configurations::Phases;
use super::transactions::{Handle, Txn};
use super::world::World;

pub(super) type Rows = Vec<(Vec<u8>, Vec<u8>)>;
type Writes = BTreeMap<Vec<u8>, Write>;
/// A scan that goes on.
pub(super) struct Iter {
    pub(super) snapshot: Snapshot,
    scan: Scan,
    /// The range that is left.
    range: Range,
    reverse: bool,
}

/// The number of reads whose timestamps are known.
const READS: usize = 64;

/// The rows to be found.
pub(super) struct Wanted<'a> {
    pub(super) range: &'a Range,
    pub(super) reverse: bool,
    pub(super) most: usize,
}

impl Wanted<'_> {
    fn direction(&self) -> Direction {
        match self.reverse {
            false => Direction::Forward,
            true => Direction::Backward,
        }
    }
}

impl World {
    /// The timestamp of a moment, if it is known.
    pub(super) fn at(&self, at: At) -> Option<Timestamp> {
        match at {
            At::Present => Some(self.store.now()),
            At::Of(id) => self.names.get(&id).copied(),
            At::Before(id) => self.names.get(&id).map(|at| Timestamp(at.0 - 1)),
            At::In(id) => self.txns.get(&id).map(|txn| txn.read_at),
        }
    }

    /// A snapshot of a moment, unless that is before the safe point.
    pub(super) fn snapshot(&mut self, at: At) -> Checked<Option<Snapshot>> {
        if let At::Of(id) = at
            && let Some(kept) = self.snapshots.get(&id)
        {
            return Ok(Some(kept.clone()));
        }
        if at == At::Present {
            let snapshot = self.store.snapshot();
            let (at, last) = (snapshot.timestamp(), self.acknowledged);
            ensure!(
                at >= last,
                "a snapshot at {at}, before the commit at {last}"
            );
            return Ok(Some(snapshot));
        }
        match self.at(at) {
            Some(at) => self.snapshot_at(at),
            None => Ok(None),
        }
    }

    /// A snapshot of a time, unless that is before the safe point, which may move meanwhile.
    fn snapshot_at(&mut self, at: Timestamp) -> Checked<Option<Snapshot>> {
        match self.store.snapshot_at(at) {
            Ok(snapshot) => {
                ensure!(at >= self.safe_point, "a read behind the safe point");
                Ok(Some(snapshot))
            }
            Err(Error::BeforeSafePoint { asked, safe_point }) => {
                self.seen.refused += 1;
                self.note_safe_point()?;
                ensure!(
                    asked == at && at < safe_point && safe_point <= self.safe_point,
                    "a read at {at} was refused at {safe_point}"
                );
                Ok(None)
            }
            Err(e) => Err(CheckFailure::wrong(e)),
        }
    }

    pub(super) fn get(&mut self, key: &[u8], at: At) -> Checked<()> {
        if let At::In(id) = at {
            return self.get_in_transaction(id, key);
        }
        let Some(snapshot) = self.snapshot(at)? else {
            return Ok(());
        };
        let at = snapshot.timestamp();
        let found = snapshot.batch_get(&[key]).doing("get")?.pop().flatten();
        self.was_read(Some(key), Some(key), at);
        same_value(key, found.as_deref(), self.model.get(key, at))?;
        self.costs_little(&snapshot, key)
    }

    fn get_in_transaction(&mut self, id: u32, key: &[u8]) -> Checked<()> {
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        let found = match &txn.handle {
            Handle::Optimistic(it) => it.get(key).doing("get")?,
            Handle::Pessimistic(it) => it.get(key).doing("get")?,
            _ => return Ok(()),
        };
        let current = txn.current.get(key).map(|(_, value)| value.as_deref());
        let expected = match (txn.writes.get(key), current) {
            (Some(Write::Lock), Some(current)) => current,
            _ => value(&self.model, &txn.writes, key, txn.read_at),
        };
        same_value(key, found.as_deref(), expected)?;
        self.was_read(Some(key), Some(key), txn.read_at);
        Ok(())
    }

    pub(super) fn scan(&mut self, wanted: &Wanted<'_>, at: At) -> Checked<()> {
        let (from, to) = (wanted.range.from.as_deref(), wanted.range.to.as_deref());
        let direction = wanted.direction();
        let none = Writes::new();
        let (found, at, writes) = match at {
            At::In(id) => {
                let Some(txn) = self.txns.get(&id) else {
                    return Ok(());
                };
                let scan = match &txn.handle {
                    Handle::Optimistic(it) => it.scan(from, to, direction),
                    Handle::Pessimistic(it) => it.scan(from, to, direction),
                    _ => return Ok(()),
                };
                let found = rows(scan.doing("scan")?, wanted.most)?;
                (found, txn.read_at, &txn.writes)
            }
            at => {
                let Some(snapshot) = self.snapshot(at)? else {
                    return Ok(());
                };
                let scan = snapshot.scan(from, to, direction).doing("scan")?;
                (rows(scan, wanted.most)?, snapshot.timestamp(), &none)
            }
        };
        same_rows(&found, &expected(&self.model, writes, at, wanted))?;
        // The range after the last row was not read.
        if found.len() < wanted.most {
            self.was_scanned(wanted.range, at);
        }
        Ok(())
    }

    /// Begins to read rows.
    pub(super) fn iter(&mut self, id: u32, range: &Range, at: At, reverse: bool) -> Checked<()> {
        if matches!(at, At::In(_)) {
            return Ok(());
        }
        let Some(snapshot) = self.snapshot(at)? else {
            return Ok(());
        };
        let wanted = Wanted {
            range,
            reverse,
            most: usize::MAX,
        };
        let (from, to) = (range.from.as_deref(), range.to.as_deref());
        let scan = snapshot.scan(from, to, wanted.direction()).doing("scan")?;
        let iter = Iter {
            snapshot,
            scan,
            range: range.clone(),
            reverse,
        };
        self.iters.insert(id, iter);
        Ok(())
    }

    /// Reads the next rows. A key that was locked is read when the scan reaches it.
    pub(super) fn next(&mut self, id: u32, n: u32) -> Checked<()> {
        let Some(iter) = self.iters.get_mut(&id) else {
            return Ok(());
        };
        let at = iter.snapshot.timestamp();
        let wanted = Wanted {
            range: &iter.range,
            reverse: iter.reverse,
            most: n as usize,
        };
        let expected = expected(&self.model, &Writes::new(), at, &wanted);
        let found = rows(&mut iter.scan, expected.len())?;
        same_rows(&found, &expected)?;
        let mut read = iter.range.clone();
        if found.len() < n as usize {
            let more = iter.scan.next().is_some();
            ensure!(!more, "a scan at {at} goes on after its end");
            self.iters.remove(&id);
        } else if let Some((last, _)) = found.last() {
            let after = [last, &b"\0"[..]].concat();
            match iter.reverse {
                false => (read.to, iter.range.from) = (Some(after.clone()), Some(after)),
                true => (read.from, iter.range.to) = (Some(last.clone()), Some(last.clone())),
            }
        } else {
            return Ok(());
        }
        self.was_scanned(&read, at);
        Ok(())
    }

    /// Notes a read of a range, unless it is empty.
    fn was_scanned(&mut self, range: &Range, at: Timestamp) {
        let (from, to) = (range.from.as_deref(), range.to.as_deref());
        let is_empty = from.zip(to).is_some_and(|(from, to)| from >= to);
        if !is_empty {
            self.was_read(from, to, at);
        }
    }

    /// Notes a read of a key, or of a range: no later commit may be before it.
    fn was_read(&mut self, from: Option<&[u8]>, to: Option<&[u8]>, at: Timestamp) {
        if self.reads.len() == READS {
            self.reads.pop_front();
        }
        let range = Range {
            from: from.map(<[u8]>::to_vec),
            to: to.map(<[u8]>::to_vec),
        };
        self.reads.push_back((range, at));
    }

    /// Checks that no read has passed this key at the timestamp of a commit, or later.
    pub(super) fn was_not_read(&self, key: &[u8], commit: Timestamp) -> Checked<()> {
        for (Range { from, to }, at) in &self.reads {
            let is_one = from.is_some() && from == to;
            let is_read = match is_one {
                true => from.as_deref() == Some(key),
                false => {
                    from.as_deref().is_none_or(|from| key >= from)
                        && to.as_deref().is_none_or(|to| key < to)
                }
            };
            ensure!(
                !is_read || *at < commit,
                "{:?} is committed at {commit}, and was read at {at}",
                key.escape_ascii().to_string()
            );
        }
        Ok(())
    }

    /// However often a key was written and locked, a read of it steps over nothing but records of
    /// rollbacks.
    fn costs_little(&self, snapshot: &Snapshot, key: &[u8]) -> Checked<()> {
        let mut stats = ReadStats::default();
        snapshot.get_lazy_counted(key, &mut stats).doing("get")?;
        let (steps, seeks) = (stats.next + stats.prev, stats.seek);
        let is_one = self.configuration.phases == Phases::One;
        let has_clients = self.txns.values().any(Txn::is_of_client) || self.rolled_back > 0;
        ensure!(
            !is_one || has_clients || (steps == 0 && seeks <= 2),
            "a read took {steps} steps and {seeks} seeks"
        );
        Ok(())
    }

    /// Compares all rows of the present, and of a time that can be read, in both directions.
    pub(super) fn check_everything(&mut self) -> Checked<()> {
        let middle = self.commits.len() / 2;
        let some = [self.commits.len().saturating_sub(3), middle].into_iter();
        let past = some.filter_map(|n| self.commits.get(n).map(|(at, _)| *at));
        let past: Vec<Timestamp> = past.filter(|at| *at >= self.safe_point).collect();
        let mut all = vec![self.store.snapshot()];
        for at in past {
            all.extend(self.snapshot_at(at)?);
        }
        for snapshot in all {
            let mut expected: Rows = self.model.rows(snapshot.timestamp()).into_iter().collect();
            for direction in [Direction::Forward, Direction::Backward] {
                let scan = snapshot.scan(None, None, direction).doing("scan")?;
                same_rows(&rows(scan, usize::MAX)?, &expected)?;
                expected.reverse();
            }
        }
        let report = self.store.check(&mut |_| {}).doing("a check")?;
        ensure!(report.problems_found == 0, "{:?}", report.problems);
        self.check_records()
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
fn expected(
    model: &Versions<Timestamp>,
    writes: &Writes,
    at: Timestamp,
    wanted: &Wanted<'_>,
) -> Rows {
    let Range { from, to } = wanted.range;
    let range: (Bound<&[u8]>, Bound<&[u8]>) = (
        from.as_deref().map_or(Bound::Unbounded, Bound::Included),
        to.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
    );
    let mut found = Rows::new();
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        return found;
    }
    let (mut stored, mut own) = (model.keys(range), writes.range::<[u8], _>(range));
    let (mut next, mut next_own) = (None, None);
    while found.len() < wanted.most {
        match wanted.direction() {
            Direction::Forward => {
                next = next.or_else(|| stored.next());
                next_own = next_own.or_else(|| own.next().map(|(key, _)| &**key));
            }
            Direction::Backward => {
                next = next.or_else(|| stored.next_back());
                next_own = next_own.or_else(|| own.next_back().map(|(key, _)| &**key));
            }
        }
        let key = match (next, next_own, wanted.direction()) {
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
pub(super) fn rows(
    scan: impl Iterator<Item = titan_mvcc::Result<Row>>,
    most: usize,
) -> Checked<Rows> {
    let mut rows = Rows::new();
    for row in scan.take(most) {
        let row = row.doing("a row")?;
        let value = row.value.fetch()?.to_vec();
        rows.push((row.key, value));
    }
    Ok(rows)
}

pub(super) fn same_value(key: &[u8], found: Option<&[u8]>, expected: Option<&[u8]>) -> Checked<()> {
    ensure!(
        found == expected,
        "key {:?} has {found:?} instead of {expected:?}",
        key.escape_ascii().to_string()
    );
    Ok(())
}

pub(super) fn same_rows(found: &Rows, expected: &Rows) -> Checked<()> {
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
