//! Scans of the engine: the rows of a range at a timestamp, in either direction.
//!
//! Forward, a row costs one step from key to key, however many versions it has, and a seek if more
//! than eight of them are newer than the timestamp. After more than eight locks, the scan follows
//! one to the value. The engine steps over dead rows by itself ([`DbIterator::skip_prefixes`]).
//! Backward, the engine meets the oldest version of a key first: the scan steps over up to eight
//! versions, and a row with more costs two seeks.

use titan::{DbIterator, LazyValue, ReadOptions};

use super::dead_rows::DeadRows;
use super::row::{Row, RowRef, ValueRef};
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::version::{Version, newest_at, split};
use crate::format::{AFTER_VERSIONS, Kind, LockValue, VERSIONS, decode_key_to};
use crate::lookup::{Below, Direction, MAX_STEPS, ReadStats, value_below_lock};
use crate::timestamp::Timestamp;

/// Kind and commit timestamp of a version.
type KindAndCommit = (Kind, Timestamp);

/// The position of the iterator.
#[derive(PartialEq, Eq)]
enum Place {
    /// Not positioned yet.
    Start,
    /// At a version of the current key.
    InRow,
    /// At the first version of the next key, in the scan's direction, or after the last one.
    AtNextRow,
    /// The scan has ended or failed.
    End,
}

/// The place of the value of the current row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundValue {
    /// There is no row.
    Nowhere,
    /// The iterator is at its version.
    AtCursor,
    /// The iterator has left it: the scan has taken the value.
    Taken,
}

/// The rows of a range, from the engine.
pub(super) struct EngineScan {
    snapshot: Snapshot,
    cursor: DbIterator,
    direction: Direction,
    place: Place,
    /// The current encoded key.
    encoded: Vec<u8>,
    /// The key of the current row.
    key: Vec<u8>,
    found: FoundValue,
    /// Its value, if that was taken.
    taken: Option<LazyValue>,
    stats: ReadStats,
    /// Versions that the engine stepped over by itself.
    within: u64,
    /// Returned rows.
    rows: u64,
    dead_rows: DeadRows,
}

impl EngineScan {
    /// Scans from the encoded key `lower` to before `upper`, or to the end.
    pub(super) fn new(
        snapshot: Snapshot,
        lower: &[u8],
        upper: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Self> {
        let cursor = snapshot.versions().iter(&ReadOptions {
            lower_bound: (!lower.is_empty()).then(|| lower.to_vec()),
            upper_bound: upper.map(<[u8]>::to_vec),
            ..ReadOptions::default()
        })?;
        Ok(EngineScan {
            snapshot,
            cursor,
            direction,
            place: Place::Start,
            encoded: Vec::new(),
            key: Vec::new(),
            found: FoundValue::Nowhere,
            taken: None,
            stats: ReadStats::default(),
            within: 0,
            rows: 0,
            dead_rows: DeadRows::new(lower, upper, direction),
        })
    }

    /// The cost of the scan so far, without returned rows.
    pub(super) fn stats(&self) -> ReadStats {
        self.stats
    }

    /// Moves to the next row. Returns false at the end. Must not be called after an error.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.found == FoundValue::Taken {
            self.taken = None;
        }
        while self.place != Place::End
            && let Some(first) = self.enter_row()?
        {
            self.found = match self.direction {
                Direction::Forward => self.newest_forward(first)?,
                Direction::Backward => self.newest_backward(first)?,
            };
            if self.found != FoundValue::Nowhere {
                if !decode_key_to(&mut self.key, &self.encoded) {
                    let what = "its key is damaged";
                    return Err(Error::corrupt_entry(VERSIONS, &self.encoded, what));
                }
                self.end_dead_rows(true);
                self.rows += 1;
                return Ok(true);
            }
            self.dead_rows.add(&self.encoded);
        }
        self.place = Place::End;
        self.found = FoundValue::Nowhere;
        self.end_dead_rows(false);
        Ok(false)
    }

    /// The current row, or `None` before the first and after the last one.
    pub(super) fn row(&self) -> Option<RowRef<'_>> {
        let value = match self.found {
            FoundValue::Nowhere => return None,
            FoundValue::AtCursor => ValueRef::AtCursor(&self.cursor),
            FoundValue::Taken => ValueRef::Lazy(self.taken.as_ref()?),
        };
        Some(RowRef::new(&self.key, value))
    }

    /// Takes the current row; the scan shows none before it moves on.
    pub(super) fn take_row(&mut self) -> Result<Option<Row>> {
        let value = match std::mem::replace(&mut self.found, FoundValue::Nowhere) {
            FoundValue::Nowhere => None,
            FoundValue::AtCursor => Some(self.cursor.lazy_value()?),
            FoundValue::Taken => self.taken.take(),
        };
        let Some(value) = value else {
            return Ok(None);
        };
        let key = std::mem::take(&mut self.key);
        Ok(Some(Row { key, value }))
    }

    /// Reports a run of dead rows before the current row, or before the end, to the range source.
    fn end_dead_rows(&mut self, is_at_row: bool) {
        let Some(source) = &self.snapshot.core().reads.range_source else {
            return;
        };
        let live = is_at_row.then_some(&*self.encoded);
        if let Some(run) = self.dead_rows.end_run(live) {
            source.met_dead_rows(&run.lower, run.upper.as_deref(), run.rows);
        }
    }

    /// Moves to the next key and makes it current. Returns the version at the iterator, or `None`
    /// after the last key.
    fn enter_row(&mut self) -> Result<Option<KindAndCommit>> {
        match (&self.place, self.direction) {
            (Place::Start, Direction::Forward) => {
                self.stats.seek += 1;
                self.cursor.seek_to_first()?;
            }
            (Place::Start, Direction::Backward) => {
                self.stats.seek += 1;
                self.cursor.seek_to_last()?;
            }
            (Place::InRow, Direction::Forward) => return self.next_row_forward(),
            (Place::InRow, Direction::Backward) => {
                // All versions of a key sort after its encoded form.
                self.stats.seek += 1;
                self.cursor.seek_for_prev(&self.encoded)?;
            }
            (Place::AtNextRow | Place::End, _) => {}
        }
        if !self.cursor.valid() {
            return Ok(None);
        }
        let (encoded, version) = split(self.cursor.key())?;
        Ok(Some(enter(
            &mut self.encoded,
            &mut self.place,
            encoded,
            version,
        )))
    }

    /// Moves forward from a version of the current key. Passes dead rows.
    fn next_row_forward(&mut self) -> Result<Option<KindAndCommit>> {
        let at = self.snapshot.timestamp();
        let (encoded, place, stats) = (&mut self.encoded, &mut self.place, &mut self.stats);
        let dead_rows = &mut self.dead_rows;
        // The first entry belongs to the current key.
        let mut left = Some(encoded.len());
        let mut met = Ok(None);
        // The newest version of each passed key, which counts as a row.
        let mut newest = 1;
        let stepped = self.cursor.skip_prefixes(|entry| {
            if let Some(len) = left.take() {
                stats.next += 1;
                return Some(len);
            }
            let (found, version) = match split(entry) {
                Ok(parts) => parts,
                Err(e) => {
                    met = Err(e);
                    return None;
                }
            };
            let too_early = mutant!(scan_skips_what_dies_later);
            if version.kind == Kind::Delete && (version.commit <= at || too_early) {
                newest += 1;
                stats.next += 1;
                stats.dead_rows_skipped += 1;
                dead_rows.add(found);
                return Some(found.len());
            }
            met = Ok(Some(enter(encoded, place, found, version)));
            None
        })?;
        let older = stepped.saturating_sub(newest);
        stats.versions_skipped += older;
        self.within += older;
        met
    }

    /// The version at the iterator, or `None` if it belongs to another key, which is noted.
    fn version(&mut self) -> Result<Option<KindAndCommit>> {
        if self.cursor.valid() {
            let (encoded, version) = split(self.cursor.key())?;
            if encoded == self.encoded {
                return Ok(Some((version.kind, version.commit)));
            }
        }
        self.place = Place::AtNextRow;
        Ok(None)
    }

    /// The value of the current key, from its newest version `first`, at the iterator.
    fn newest_forward(&mut self, first: KindAndCommit) -> Result<FoundValue> {
        let at = self.snapshot.timestamp();
        let (mut met, mut steps) = (Some(first), 0);
        // False after a lock whose put is gone.
        let mut follows_locks = true;
        while let Some((kind, commit)) = met {
            let too_new = mutant!(scan_finds_newer);
            let commit = if too_new { commit.previous() } else { commit };
            match kind {
                _ if commit > at && steps == MAX_STEPS => {
                    self.stats.seek += 1;
                    self.cursor.seek(&newest_at(&self.encoded, at))?;
                    met = self.version()?;
                    continue;
                }
                Kind::Put if commit <= at => return Ok(FoundValue::AtCursor),
                Kind::Delete if commit <= at => {
                    self.stats.dead_rows_skipped += 1;
                    return Ok(FoundValue::Nowhere);
                }
                Kind::Lock if commit <= at && follows_locks && steps >= MAX_STEPS => {
                    match self.value_below_lock(commit)? {
                        Below::Found(value) => return Ok(self.found_taken(value)),
                        Below::Unknown => {}
                        Below::Gone => follows_locks = false,
                    }
                }
                _ => {}
            }
            steps += 1;
            self.stats.versions_skipped += 1;
            self.stats.next += 1;
            self.cursor.next()?;
            met = self.version()?;
        }
        Ok(FoundValue::Nowhere)
    }

    /// Keeps a value that was taken.
    fn found_taken(&mut self, value: Option<LazyValue>) -> FoundValue {
        self.taken = value;
        match self.taken {
            Some(_) => FoundValue::Taken,
            None => FoundValue::Nowhere,
        }
    }

    /// The value of the current key, through the lock at the iterator, committed at `commit`.
    fn value_below_lock(&mut self, commit: Timestamp) -> Result<Below> {
        let lock = LockValue::read(&self.cursor.value()?, commit);
        let mut stats = ReadStats::default();
        let family = self.snapshot.versions();
        let below = value_below_lock(family, &self.encoded, lock.last_change, &mut stats)?;
        // Rows count where they are returned.
        stats.processed = 0;
        self.stats += stats;
        Ok(below)
    }

    /// The value of the current key, from its oldest version `first`, at the iterator.
    fn newest_backward(&mut self, first: KindAndCommit) -> Result<FoundValue> {
        let at = self.snapshot.timestamp();
        // Whether a put or a deletion was met, and the value of the newest.
        let (mut is_met, mut newest) = (false, None);
        let (mut met, mut steps) = (Some(first), 0);
        while let Some((kind, commit)) = met {
            if commit > at {
                self.stats.versions_skipped += 1;
                break;
            }
            if steps == MAX_STEPS {
                self.stats.seek += 1;
                self.cursor.seek(&newest_at(&self.encoded, at))?;
                let mut found = match self.version()? {
                    Some(first) => self.newest_forward(first)?,
                    None => FoundValue::Nowhere,
                };
                if found == FoundValue::AtCursor {
                    let value = self.cursor.lazy_value()?;
                    found = self.found_taken(Some(value));
                }
                // The next key in this direction precedes the current one, wherever the iterator
                // is.
                self.place = Place::InRow;
                return Ok(found);
            }
            let is_change = matches!(kind, Kind::Put | Kind::Delete);
            if is_change && !(is_met && mutant!(backward_keeps_the_older)) {
                newest = match kind {
                    Kind::Put => Some(self.cursor.lazy_value()?),
                    _ => None,
                };
            }
            self.stats.versions_skipped += u64::from(is_met || !is_change);
            is_met |= is_change;
            steps += 1;
            self.stats.prev += 1;
            self.cursor.prev()?;
            met = self.version()?;
        }
        self.stats.dead_rows_skipped += u64::from(is_met && newest.is_none());
        Ok(self.found_taken(newest))
    }
}

/// Makes a key the current one.
fn enter(
    current: &mut Vec<u8>,
    place: &mut Place,
    encoded: &[u8],
    version: Version,
) -> KindAndCommit {
    current.clear();
    current.extend_from_slice(encoded);
    *place = Place::InRow;
    (version.kind, version.commit)
}

impl Drop for EngineScan {
    /// Reports the cost of the part to the range source.
    fn drop(&mut self) {
        let Some(source) = &self.snapshot.core().reads.range_source else {
            return;
        };
        // A version that the engine skips costs about half a step.
        let steps = self.stats.next + self.stats.prev + self.stats.seek + self.within / 2;
        let (lower, upper) = self.dead_rows.bounds();
        match (&self.place, self.direction) {
            (Place::Start, _) => {}
            (Place::End, _) => source.read_engine(lower, upper, steps, self.rows),
            (_, Direction::Forward) => {
                self.encoded.extend_from_slice(&AFTER_VERSIONS);
                source.read_engine(lower, Some(&self.encoded), steps, self.rows);
            }
            (_, Direction::Backward) => {
                source.read_engine(&self.encoded, upper, steps, self.rows);
            }
        }
    }
}
