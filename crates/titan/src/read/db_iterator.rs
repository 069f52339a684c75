//! The iterator of users.

mod values;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use super::moves::Moves;
use super::ranged_source::{RangedSource, all_tombstones};
use super::value_window::{ScanHistory, ValueWindow};
use super::visible::VisibleIterator;
use super::{ListedIterator, SuperVersion};
use crate::blob::ValueFetcher;
use crate::dead_ranges::DeadRanges;
use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::format::prefix::PrefixExtractor;
use crate::merge::MergeOperator;
use crate::open_files::OpenFiles;
use crate::range_del::TombstoneCursor;
use crate::read::ReadOptions;
use crate::read::Snapshot;
use crate::stats::{HistogramKind, StopWatch};

/// Sources of an iterator.
#[derive(Clone)]
pub(crate) struct IteratorSource {
    pub(crate) super_version: Arc<SuperVersion>,
    pub(crate) open_files: Arc<OpenFiles>,
    pub(crate) fetcher: ValueFetcher,
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    pub(crate) sequence: SequenceNumber,
    pub(crate) scans: Arc<ScanHistory>,
    pub(crate) dead: Arc<DeadRanges>,
}

/// A cursor over the keys of a column family, in their order, as of one moment.
///
/// It starts nowhere: seek first. It pins the memory and files that it can see until it is dropped,
/// so a file that became obsolete meanwhile is deleted only after that. The cost of a movement is
/// that of its sources; values in blob files are read by [`DbIterator::value`] only, with readahead
/// while the iterator goes forward and its values are taken.
///
/// After an error the iterator is not valid; seek to go on.
pub struct DbIterator {
    visible: VisibleIterator,
    ranged: RangedSource,
    sought: Sought,
    window: ValueWindow,
    /// Whether the entry shown is the window's front; then `visible` is somewhere ahead of it.
    in_window: bool,
    /// Whether the value of the entry shown was read from a blob file.
    value_taken: Cell<bool>,
    fetcher: ValueFetcher,
    merge_operator: Option<Arc<dyn MergeOperator>>,
    super_version: Arc<SuperVersion>,
    moves: Moves,
    /// `None` of an iterator that is counted with others.
    _listed: Option<ListedIterator>,
    _snapshot: Option<Snapshot>,
}

/// The prefix of the last seek, if it bounds the iterator.
#[derive(Default)]
struct Sought {
    prefix: Option<Vec<u8>>,
    /// Whether the bounds of the iterator are those of the prefix, so that it begins no other one.
    is_whole: bool,
    /// Whether the entry has another prefix than that, so that it is not within the bounds.
    is_passed: bool,
}

impl Drop for DbIterator {
    fn drop(&mut self) {
        if let Some(detailed) = self.fetcher.statistics().detailed() {
            self.moves.count(detailed.stripe());
        }
    }
}

impl DbIterator {
    pub(crate) fn new(
        source: IteratorSource,
        listed: Option<ListedIterator>,
        options: &ReadOptions,
    ) -> Result<Self> {
        let IteratorSource {
            super_version,
            open_files,
            fetcher,
            merge_operator,
            prefix_extractor,
            sequence,
            scans,
            dead,
        } = source;
        let comparator = &super_version.version.comparator;
        if options.prefix_same_as_start && prefix_extractor.is_none() {
            let why = "prefix_same_as_start needs a family with a prefix extractor";
            return Err(Error::invalid_argument(why));
        }
        if options.prefix_same_as_start && options.prefix.is_some() {
            let why = "prefix_same_as_start and prefix exclude each other";
            return Err(Error::invalid_argument(why));
        }
        let tombstones = all_tombstones(&super_version, &open_files)?;
        let ranged = RangedSource {
            cursor: TombstoneCursor::new(tombstones, comparator.clone(), sequence),
            super_version: Arc::clone(&super_version),
            open_files,
            sequence,
            dead,
            prefix_extractor,
            options: options.clone(),
        };
        Ok(DbIterator {
            visible: ranged.visible(options.prefix.as_deref())?,
            sought: Sought::default(),
            ranged,
            window: ValueWindow::new(options.prefetch_values, scans),
            in_window: false,
            value_taken: Cell::new(false),
            fetcher,
            merge_operator,
            super_version,
            moves: Moves::default(),
            _listed: listed,
            _snapshot: options.snapshot.clone(),
        })
    }

    /// Whether the iterator is on an entry.
    pub fn valid(&self) -> bool {
        self.is_on_entry() && !self.sought.is_passed
    }

    /// The same for an entry with any prefix.
    fn is_on_entry(&self) -> bool {
        self.in_window || self.visible.valid()
    }

    /// Moves to the first key within the bounds.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek_by(|iter| {
            iter.start_at(None)?;
            iter.visible.seek_to_first()
        })
    }

    /// Moves to the last key within the bounds.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.seek_by(|iter| {
            iter.start_at(None)?;
            iter.visible.seek_to_last()
        })
    }

    /// Moves to the first key not before `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        self.seek_key(target.as_ref())
    }

    fn seek_key(&mut self, target: &[u8]) -> Result<()> {
        self.seek_by(|iter| {
            iter.start_at(Some(target))?;
            iter.visible.seek(target)?;
            iter.compare_prefix()
        })
    }

    /// Moves to the last key not after `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        self.seek_for_prev_key(target.as_ref())
    }

    fn seek_for_prev_key(&mut self, target: &[u8]) -> Result<()> {
        self.seek_by(|iter| {
            iter.start_at(Some(target))?;
            iter.visible.seek_for_prev(target)?;
            iter.compare_prefix()
        })
    }

    /// Leaves the entry, and counts and times the search for another one.
    fn seek_by(&mut self, seek: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.leave_window();
        self.moves.seeks += 1;
        let watch = self.fetcher.statistics().sample(HistogramKind::Seek);
        let begun = watch.map(StopWatch::begun);
        let sought = seek(self);
        if let Some(begun) = begun
            && let Some(detailed) = self.fetcher.statistics().detailed()
        {
            detailed.end(begun);
        }
        self.moves.seeks_found += u64::from(self.valid());
        sought
    }

    /// Moves one key forward. Does nothing if the iterator is not valid.
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor's step, which may fail, beside `prev`"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.moves.nexts += 1;
        self.step()?;
        self.compare_prefix()
    }

    /// One key forward, with any prefix.
    fn step(&mut self) -> Result<()> {
        let took = self.value_taken.take();
        if took {
            self.window.count_used();
        }
        if self.in_window {
            self.window.pop();
            if !took {
                // The user does not want every value: the values read ahead are used up, and no
                // more is read ahead.
                self.in_window = self.window.front().is_some();
                return Ok(());
            }
        } else {
            self.visible.next()?;
            if !took || !self.window.is_enabled() {
                return Ok(());
            }
        }
        self.fill_window()
    }

    fn fill_window(&mut self) -> Result<()> {
        let filled = self.window.fill(
            &mut self.visible,
            &self.fetcher,
            &*self.super_version.version,
        );
        self.in_window = self.window.front().is_some();
        self.or_invalidate(filled)
    }

    /// Moves one key back. Does nothing if the iterator is not valid.
    pub fn prev(&mut self) -> Result<()> {
        self.moves.prevs += 1;
        if self.in_window {
            let key = self.key().to_vec();
            self.leave_window();
            if !mutant!(window_out_of_step) {
                self.visible.seek(&key)?;
            }
        }
        self.value_taken.set(false);
        self.visible.prev()?;
        self.compare_prefix()
    }

    /// The key; empty if the iterator is not valid.
    pub fn key(&self) -> &[u8] {
        match self.window.front() {
            Some(entry) if self.in_window => &entry.key,
            _ => self.visible.key(),
        }
    }

    /// Bounds the iterator to the prefix of a seek's target, if that is asked for.
    fn start_at(&mut self, target: Option<&[u8]>) -> Result<()> {
        let extractor = self.ranged.prefix_extractor.clone();
        let extractor = extractor.filter(|_| self.ranged.options.prefix_same_as_start);
        let extractor = extractor.as_deref();
        let prefix = match (target, extractor) {
            (Some(target), Some(extractor)) => self.or_invalidate(extractor.prefix(target))?,
            _ => None,
        };
        self.sought.is_passed = false;
        if prefix != self.sought.prefix.as_deref() {
            let prefix = prefix.map(<[u8]>::to_vec);
            self.leave_window();
            let bounds = prefix.as_deref().or(self.ranged.options.prefix.as_deref());
            // If this fails, the iterator is on no entry.
            self.visible.invalidate();
            self.visible = self.ranged.visible(bounds)?;
            let is_whole = |prefix: &Vec<u8>| extractor.is_some_and(|e| e.is_surely_whole(prefix));
            self.sought.is_whole = prefix.as_ref().is_some_and(is_whole);
            self.sought.prefix = prefix;
        }
        Ok(())
    }

    /// Finds out whether the entry has another prefix than that of the seek's target, to which the
    /// iterator is bounded. Its bounds do not tell if the prefix begins others, too.
    fn compare_prefix(&mut self) -> Result<()> {
        let goes_on = mutant!(prefix_begins_another);
        let extractor = self.ranged.prefix_extractor.as_deref();
        let (Some(start), Some(extractor)) = (&self.sought.prefix, extractor) else {
            return Ok(());
        };
        if self.sought.is_whole || goes_on || !self.is_on_entry() {
            return Ok(());
        }
        let prefix = extractor.prefix(self.key());
        let is_other = prefix.map(|prefix| prefix != Some(&**start));
        self.sought.is_passed = self.or_invalidate(is_other)?;
        Ok(())
    }

    /// After an error the iterator is on no entry.
    fn or_invalidate<T>(&mut self, result: Result<T>) -> Result<T> {
        result.inspect_err(|_| {
            self.leave_window();
            self.visible.invalidate();
        })
    }

    /// Moves forward to the first key with another prefix than the current one's, by the family's
    /// extractor; past a key without a prefix, to the next key. Does nothing if the iterator is not
    /// valid. Cost: that of [`skip_prefix`](Self::skip_prefix) if the prefix is
    /// [whole](crate::prefix::PrefixExtractor::is_whole) and the order bytewise; otherwise the rest
    /// of the prefix is stepped over.
    ///
    /// # Errors
    /// `InvalidArgument` without an extractor; `Internal` if the extractor panics.
    pub fn next_prefix(&mut self) -> Result<()> {
        let Some(extractor) = self.ranged.prefix_extractor.clone() else {
            let why = "stepping over a prefix needs a family with a prefix extractor";
            return Err(Error::invalid_argument(why));
        };
        if !self.valid() {
            return Ok(());
        }
        let prefix = extractor.prefix(self.key());
        let prefix = prefix.map(|prefix| prefix.map(<[u8]>::to_vec));
        let Some(prefix) = self.or_invalidate(prefix)? else {
            return self.next();
        };
        // The end of a prefix that begins others is not known.
        if self.ranged.is_bytewise() && extractor.is_surely_whole(&prefix) {
            return self.skip_prefix(&prefix);
        }
        while self.valid() {
            let same = extractor.prefix(self.key());
            let same = same.map(|found| found == Some(&*prefix));
            if !self.or_invalidate(same)? {
                break;
            }
            self.next()?;
        }
        Ok(())
    }

    /// Moves forward to the first key that does not begin with `prefix`. Does nothing if the
    /// iterator is not valid, or its key does not begin with `prefix`. Cost: that of
    /// [`skip_prefixes`](Self::skip_prefixes).
    ///
    /// # Errors
    /// `InvalidArgument` if the family's order of keys is not bytewise.
    pub fn skip_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let prefix = prefix.as_ref();
        self.skip_prefixes(|key| key.starts_with(prefix).then_some(prefix.len()))?;
        Ok(())
    }

    /// Asks `rule` about the current key. It returns the length of a prefix, at most the whole key:
    /// then all keys that begin with the prefix are skipped, and the rule is asked about the next
    /// one. Ends at the first key for which it returns `None`. The rule may also be asked about
    /// keys that the iterator would not show: those past its bound or its prefix. Does nothing if
    /// the iterator is not valid.
    ///
    /// Returns how many entries it has stepped over, the current one and deletions among them.
    /// Entries that sources have jumped over are not counted.
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// for key in ["apple 1", "apple 2", "banana 1", "cherry 1"] {
    ///     db.put(key.as_bytes(), b"value")?;
    /// }
    /// let mut iter = db.iter(&titan::ReadOptions::default())?;
    /// iter.seek_to_first()?;
    /// // Neither apples nor bananas.
    /// iter.skip_prefixes(|key| match key.first() {
    ///     Some(b'a' | b'b') => Some(1),
    ///     _ => None,
    /// })?;
    /// assert_eq!(iter.key(), b"cherry 1");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cost: where many keys have a prefix, the sources seek. An entry that they step over is
    /// cheaper than [`next`](Self::next): its key is not assembled, and each source goes on by
    /// itself to where another one has an entry.
    ///
    /// # Errors
    /// `InvalidArgument` if the family's order of keys is not bytewise.
    pub fn skip_prefixes(&mut self, mut rule: impl FnMut(&[u8]) -> Option<usize>) -> Result<u64> {
        let mut stepped = 0;
        if !self.ranged.is_bytewise() {
            let why = "skipping a prefix needs a family in bytewise order";
            return Err(Error::invalid_argument(why));
        }
        while self.valid() {
            let Some(len) = rule(self.key()) else {
                return Ok(stepped);
            };
            if self.in_window {
                stepped += self.skip_in_window(len)?;
                continue;
            }
            let took = self.value_taken.take();
            if took {
                self.window.count_used();
            }
            let (was_asked, passed) = self.visible.skip_prefixes(len, &mut rule)?;
            stepped += passed;
            if took && self.window.is_enabled() {
                self.fill_window()?;
            }
            self.compare_prefix()?;
            if was_asked {
                return Ok(stepped);
            }
        }
        Ok(stepped)
    }

    /// Steps over keys that begin with the first `len` bytes of the current one, while they were
    /// read ahead. Returns how many these were.
    fn skip_in_window(&mut self, len: usize) -> Result<u64> {
        let mut stepped = 0;
        let key = self.key();
        let prefix = key.get(..len).unwrap_or(key).to_vec();
        while self.in_window && self.key().starts_with(&prefix) {
            stepped += 1;
            self.step()?;
        }
        // The values read ahead may end in the middle of the prefix.
        match self.visible.valid() && !self.in_window && self.key().starts_with(&prefix) {
            true => {
                let rest = |key: &[u8]| key.starts_with(&prefix).then_some(prefix.len());
                stepped += self.skip_prefixes(rest)?;
            }
            false => self.compare_prefix()?,
        }
        Ok(stepped)
    }

    fn leave_window(&mut self) {
        self.window.reset();
        self.in_window = false;
        self.value_taken.set(false);
    }
}

impl fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.valid() {
            true => write!(f, "DbIterator(on {})", self.key().escape_ascii()),
            false => write!(f, "DbIterator(on no entry)"),
        }
    }
}
