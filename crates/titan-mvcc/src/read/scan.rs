//! Scans: the rows of a range at a timestamp, in either direction.
//!
//! Forward, a row costs one step from key to key, however many versions it has, and a seek if more than
//! eight of them are newer than the timestamp. The engine steps over dead rows by itself
//! ([`DbIterator::skip_prefixes`]). Backward, the engine meets the oldest version of a key first:
//! up to eight versions are stepped over, and if there are more, a row costs two seeks.

use std::cmp::Ordering;

use titan::{DbIterator, LazyValue, ReadOptions};

use super::locked::LockedKeys;
use super::{ReadStats, Snapshot};
use crate::error::{Error, Result};
use crate::format::version::{Version, newest_at, split};
use crate::format::{Kind, VERSIONS, decode_key, encode_key};
use crate::timestamp::Timestamp;

/// Versions of a key that are stepped over before the iterator seeks. TiKV has the same bound.
const MAX_STEPS: u32 = 8;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

impl Direction {
    /// Which of two keys comes first.
    pub(crate) fn order(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Direction::Forward => a.cmp(b),
            Direction::Backward => b.cmp(a),
        }
    }
}

/// A key with its value.
#[derive(Clone)]
pub struct Row {
    /// The key.
    pub key: Vec<u8>,
    /// The value. If it is in a blob file, it is read when it is fetched.
    pub value: LazyValue,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row")
            .field("key", &self.key.escape_ascii().to_string())
            .field("stored_len", &self.value.stored_len())
            .finish()
    }
}

/// What a version of the current key is, and when it was committed.
type Met = (Kind, Timestamp);

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

/// The rows of a range, from [`Snapshot::scan`]. Ends after the first error.
pub struct Scan {
    snapshot: Snapshot,
    cursor: DbIterator,
    direction: Direction,
    place: Place,
    /// The current key, encoded.
    encoded: Vec<u8>,
    stats: ReadStats,
    /// Keys that were locked when the scan began.
    locked: LockedKeys,
}

impl Scan {
    pub(super) fn new(
        snapshot: Snapshot,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Self> {
        let is_empty = matches!((from, to), (Some(from), Some(to)) if from >= to);
        // ORDER: first the locks: one that is gone by now has left its version.
        let locked = LockedKeys::new(&snapshot, from, to, direction);
        let cursor = snapshot.versions().iter(&ReadOptions {
            lower_bound: from.filter(|_| !is_empty).map(encode_key),
            upper_bound: to.filter(|_| !is_empty).map(encode_key),
            ..ReadOptions::default()
        })?;
        Ok(Scan {
            snapshot,
            cursor,
            direction,
            place: match is_empty {
                true => Place::End,
                false => Place::Start,
            },
            encoded: Vec::new(),
            stats: ReadStats::default(),
            locked,
        })
    }

    /// What the scan has cost so far.
    pub fn stats(&self) -> ReadStats {
        self.stats
    }

    fn next_stored(&mut self) -> Result<Option<Row>> {
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
                return Ok(Some(Row { key, value }));
            }
        }
        self.place = Place::End;
        Ok(None)
    }

    fn next_row(&mut self) -> Result<Option<Row>> {
        let row = match self.locked.is_empty() {
            true => self.next_stored()?,
            false => {
                let mut locked = std::mem::take(&mut self.locked);
                let (snapshot, direction) = (self.snapshot.clone(), self.direction);
                let mut points = ReadStats::default();
                let row = locked.next_row(&snapshot, direction, &mut points, || self.next_stored());
                self.locked = locked;
                // Rows are counted below.
                points.processed = 0;
                self.stats += points;
                row?
            }
        };
        self.stats.processed += u64::from(row.is_some());
        Ok(row)
    }

    /// Moves to the next key, and makes it the current one. Returns the version that the iterator is at; none
    /// if there is no more key.
    fn enter_row(&mut self) -> Result<Option<Met>> {
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
    fn next_row_forward(&mut self) -> Result<Option<Met>> {
        let at = self.snapshot.timestamp();
        let (encoded, place, stats) = (&mut self.encoded, &mut self.place, &mut self.stats);
        // The first entry is of the current key.
        let mut left = Some(encoded.len());
        let mut met = Ok(None);
        self.cursor.skip_prefixes(|entry| {
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
                stats.next += 1;
                stats.dead_rows_skipped += 1;
                return Some(found.len());
            }
            met = Ok(Some(enter(encoded, place, found, version)));
            None
        })?;
        met
    }

    /// The kind and the timestamp of the version at which the iterator is; none if it is none of the current
    /// key, which is noted.
    fn version(&mut self) -> Result<Option<Met>> {
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
    fn newest_forward(&mut self, first: Met) -> Result<Option<LazyValue>> {
        let at = self.snapshot.timestamp();
        let (mut met, mut steps) = (Some(first), 0);
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

    /// The value of the current key. The iterator is at its oldest version, which is `first`.
    fn newest_backward(&mut self, first: Met) -> Result<Option<LazyValue>> {
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
fn enter(current: &mut Vec<u8>, place: &mut Place, encoded: &[u8], version: Version) -> Met {
    current.clear();
    current.extend_from_slice(encoded);
    *place = Place::InRow;
    (version.kind, version.commit)
}

impl Iterator for Scan {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.next_row();
        if row.is_err() {
            self.place = Place::End;
        }
        row.transpose()
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.snapshot.core().reads.add(self.stats);
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("timestamp", &self.snapshot.timestamp())
            .field("direction", &self.direction)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
