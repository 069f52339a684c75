//! Scans of the engine: the rows of a range at a timestamp, in either direction.
//!
//! Forward, a row costs one step from key to key, however many versions it has, and a seek if more than
//! eight of them are newer than the timestamp. Where more than eight change nothing, a lock among them says where the value
//! is, and that is looked up. The engine steps over dead rows by itself
//! ([`DbIterator::skip_prefixes`]). Backward, the engine meets the oldest version of a key first:
//! up to eight versions are stepped over, and if there are more, a row costs two seeks.

use titan::{DbIterator, LazyValue, ReadOptions};

use super::dead_rows::DeadRows;
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::version::{Version, newest_at, split};
use crate::format::{AFTER_VERSIONS, Kind, LockValue, VERSIONS, decode_key};
use crate::lookup::{Below, Direction, MAX_STEPS, ReadStats, value_below_lock};
use crate::timestamp::Timestamp;

/// A key with its value.
#[derive(Clone)]
pub struct Row {
    /// The key.
    pub key: Vec<u8>,
    /// The value. If it is in a blob file, it is read when it is fetched; if the row is from a range source that does
    /// not have the value, it is looked up then.
    pub value: LazyValue,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row")
            .field("key", &self.key.escape_ascii().to_string())
            .field("value", &self.value)
            .finish()
    }
}

/// What a version of the current key is, and when it was committed.
type KindAndCommit = (Kind, Timestamp);

/// Where the iterator of a scan is.
#[derive(PartialEq, Eq)]
enum Place {
    /// Nowhere yet.
    Start,
    /// At some version of the current key.
    InRow,
    /// At the first version, in the scan's direction, of a key that was not looked at yet, or past the last one.
    AtNextRow,
    /// The scan has ended or failed.
    End,
}

/// The rows of a range that the engine has.
pub(super) struct EngineScan {
    snapshot: Snapshot,
    cursor: DbIterator,
    direction: Direction,
    place: Place,
    /// The current key, encoded.
    encoded: Vec<u8>,
    stats: ReadStats,
    /// Versions that the engine stepped over within its own steps.
    within: u64,
    /// Rows that were returned.
    rows: u64,
    dead_rows: DeadRows,
}

impl EngineScan {
    /// From the encoded key `lower` to before `upper`, or to the end.
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
            stats: ReadStats::default(),
            within: 0,
            rows: 0,
            dead_rows: DeadRows::new(lower, upper, direction),
        })
    }

    /// What the scan has cost so far. Rows that were returned are not counted.
    pub(super) fn stats(&self) -> ReadStats {
        self.stats
    }

    /// The next row. Not to be called again after an error.
    pub(super) fn next_row(&mut self) -> Result<Option<Row>> {
        while self.place != Place::End
            && let Some(first) = self.enter_row()?
        {
            let found = match self.direction {
                Direction::Forward => self.newest_forward(first)?,
                Direction::Backward => self.newest_backward(first)?,
            };
            if let Some(value) = found {
                let key = decode_key(&self.encoded).ok_or_else(|| {
                    Error::corrupt_entry(VERSIONS, &self.encoded, "its key is damaged")
                })?;
                self.end_dead_rows(true);
                self.rows += 1;
                return Ok(Some(Row { key, value }));
            }
            self.dead_rows.add(&self.encoded);
        }
        self.place = Place::End;
        self.end_dead_rows(false);
        Ok(None)
    }

    /// Tells the range source of dead rows before the current row, or before the end.
    fn end_dead_rows(&mut self, is_at_row: bool) {
        let Some(source) = &self.snapshot.core().reads.range_source else {
            return;
        };
        let live = is_at_row.then_some(&*self.encoded);
        if let Some(run) = self.dead_rows.end_run(live) {
            source.met_dead_rows(&run.lower, run.upper.as_deref(), run.rows);
        }
    }

    /// Moves to the next key, and makes it the current one. Returns the version that the iterator is at; none
    /// if there is no more key.
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
                // All versions of the key are after its encoded form.
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

    /// The same, forward from a version of the current key. Goes past keys whose newest version is a deletion
    /// that the scan sees.
    fn next_row_forward(&mut self) -> Result<Option<KindAndCommit>> {
        let at = self.snapshot.timestamp();
        let (encoded, place, stats) = (&mut self.encoded, &mut self.place, &mut self.stats);
        let dead_rows = &mut self.dead_rows;
        // The first entry is of the current key.
        let mut left = Some(encoded.len());
        let mut met = Ok(None);
        // The newest versions of the keys that are passed: they are counted as rows.
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
            // MUTANT: a scan takes a deletion after its timestamp for one that it sees.
            let too_early = mutant!(
                "scan-skips-what-dies-later",
                "-p titan-campaigns --test it mvcc::"
            );
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

    /// The kind and the timestamp of the version at which the iterator is; none if it is none of the current
    /// key, which is noted.
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

    /// The value of the current key. The iterator is at its newest version, which is `first`.
    fn newest_forward(&mut self, first: KindAndCommit) -> Result<Option<LazyValue>> {
        let at = self.snapshot.timestamp();
        let (mut met, mut steps) = (Some(first), 0);
        // Until a lock leads to a put that is not there.
        let mut follows_locks = true;
        while let Some((kind, commit)) = met {
            // MUTANT: a scan finds a version that was committed after its timestamp.
            let too_new = mutant!("scan-finds-newer", "-p titan-campaigns --test it mvcc::");
            let commit = if too_new { commit.previous() } else { commit };
            match kind {
                _ if commit > at && steps == MAX_STEPS => {
                    self.stats.seek += 1;
                    self.cursor.seek(&newest_at(&self.encoded, at))?;
                    met = self.version()?;
                    continue;
                }
                Kind::Put if commit <= at => return Ok(Some(self.cursor.lazy_value()?)),
                Kind::Delete if commit <= at => {
                    self.stats.dead_rows_skipped += 1;
                    return Ok(None);
                }
                Kind::Lock if commit <= at && follows_locks && steps >= MAX_STEPS => {
                    match self.value_below_lock(commit)? {
                        Below::Found(value) => return Ok(value),
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
        Ok(None)
    }

    /// The value of the current key. The iterator is at one of its locks, which was committed at `commit`.
    fn value_below_lock(&mut self, commit: Timestamp) -> Result<Below> {
        let lock = LockValue::read(&self.cursor.value()?, commit);
        let mut stats = ReadStats::default();
        let family = self.snapshot.versions();
        let below = value_below_lock(family, &self.encoded, lock.last_change, &mut stats)?;
        // Rows are counted where they are returned.
        stats.processed = 0;
        self.stats += stats;
        Ok(below)
    }

    /// The value of the current key. The iterator is at its oldest version, which is `first`.
    fn newest_backward(&mut self, first: KindAndCommit) -> Result<Option<LazyValue>> {
        let at = self.snapshot.timestamp();
        // The newest put or deletion so far.
        let mut newest = None;
        let (mut met, mut steps) = (Some(first), 0);
        while let Some((kind, commit)) = met {
            if commit > at {
                self.stats.versions_skipped += 1;
                break;
            }
            if steps == MAX_STEPS {
                self.stats.seek += 1;
                self.cursor.seek(&newest_at(&self.encoded, at))?;
                let found = match self.version()? {
                    Some(first) => self.newest_forward(first),
                    None => Ok(None),
                };
                // Wherever the iterator is now, the next key in this direction is before the current one.
                self.place = Place::InRow;
                return found;
            }
            // MUTANT: a scan backward keeps the older of two versions.
            let older = newest.is_some()
                && mutant!(
                    "backward-keeps-the-older",
                    "-p titan-campaigns --test it mvcc::"
                );
            let replaced = match kind {
                _ if older => true,
                Kind::Put => newest.replace(Some(self.cursor.lazy_value()?)).is_some(),
                Kind::Delete => newest.replace(None).is_some(),
                Kind::Lock | Kind::Rollback => true,
            };
            self.stats.versions_skipped += u64::from(replaced);
            steps += 1;
            self.stats.prev += 1;
            self.cursor.prev()?;
            met = self.version()?;
        }
        self.stats.dead_rows_skipped += u64::from(matches!(newest, Some(None)));
        Ok(newest.flatten())
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
    /// Tells the range source what the part has cost.
    fn drop(&mut self) {
        let Some(source) = &self.snapshot.core().reads.range_source else {
            return;
        };
        // A version that is skipped in the engine costs about half a step.
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
