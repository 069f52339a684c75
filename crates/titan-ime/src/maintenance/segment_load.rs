//! Loads of a range into one segment, while it is written and read.
//!
//! The steps leave neither a gap nor an overlap:
//!
//! 1. The segment is *announced*: listed, without content; no other segment can overlap it.
//! 2. In a *barrier*, without a commit under way, the load takes a snapshot of the engine, and the
//!    segment begins to keep writes. Earlier writes are in the snapshot, later ones in the delta.
//! 3. The load reads the snapshot, some rows at a time, and prunes each row before it takes memory.
//! 4. The load merges the delta: most of it while writes go on, the rest under the lock of the
//!    segment, once the delta is short or shrinks no more. Active segments of the usual size
//!    replace the loading one.
//!
//! A load can be dropped after each step. Nothing of it remains then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use titan::DbIterator;
use titan_mvcc::codec::{self, Effect};

use crate::content::keys::EncodedRange;
use crate::content::leaf::Rows;
use crate::content::memory::BLOCK;
use crate::content::root::{Root, Target};
use crate::content::timestamps::Timestamps;
use crate::content::versions::{self, Version};
use crate::content::write::{NewValue, Write};
use crate::error::{Error, Result};
use crate::maintenance::attached::Attached;
use crate::segments::directory::Changing;
use crate::segments::segment::{Last, Segment};
use crate::segments::shared::Shared;
use crate::segments::splits::cut;
use crate::stats::Dropped;

/// Entries of the engine read by one step.
const STEP: usize = 512;
/// The most bytes of a segment and its root without leaves and with short bounds.
const ROOT_AND_SEGMENT: usize = size_of::<Root>() + size_of::<Segment>() + 20 * BLOCK;
/// Bytes of a leaf in the list of leaves, beside its first key.
const PLACE: usize = 32;
/// The longest delta after which the next one is merged under the lock of the segment.
const SHORT_DELTA: usize = 64;

/// A load of a range into one segment. Dropping it abandons it.
pub(crate) struct SegmentLoad {
    attached: Attached,
    segment: Arc<Segment>,
    /// The limits of pruning as of the begin.
    target: Target,
    stage: Stage,
    /// The number of complete leaves. The segment has them.
    leaves: usize,
    /// Bytes of these since the last cut into a segment, about.
    in_segment: usize,
    /// The charge of the lists of leaves and segments, about. Each leaf is listed twice for a
    /// moment.
    lists: usize,
    /// The rows after the complete leaves.
    rows: Rows,
}

pub(crate) fn is_empty((lower, upper): &EncodedRange) -> bool {
    upper.as_ref().is_some_and(|upper| lower >= upper)
}

/// The kind of a load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Range,
    /// A range that is evicted last.
    Pinned,
    /// A range of dead rows.
    Gap,
}

enum Stage {
    Announced,
    Scanning {
        cursor: Box<DbIterator>,
        /// The row that is being read.
        encoded: Vec<u8>,
        versions: Vec<Version>,
    },
    Merging(Merging),
    Done,
}

/// The content of a load that has read its snapshot.
pub(crate) struct Merging {
    root: Root,
    /// The length of the delta that was merged last.
    merged: usize,
}

impl Merging {
    /// Content into which no delta was merged.
    pub(crate) fn new(root: Root) -> Self {
        Merging {
            root,
            merged: usize::MAX,
        }
    }
}

/// The state of a load after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More steps remain.
    Going,
    /// The range is held.
    Done,
}

/// Begins a change of the directory, for a load of `range`.
///
/// # Errors
/// `EmptyRange`, `Off`.
pub(crate) fn begin_change<'s>(shared: &'s Shared, range: &EncodedRange) -> Result<Changing<'s>> {
    if is_empty(range) {
        return Err(Error::EmptyRange);
    }
    let changing = shared.directory.change();
    match shared.faults.is_off() {
        true => Err(Error::Off),
        false => Ok(changing),
    }
}

impl SegmentLoad {
    /// Announces the segment, for the cache itself.
    ///
    /// # Errors
    /// `EmptyRange`, `Overlaps`, `Off`.
    pub(crate) fn begin(attached: &Attached, range: EncodedRange, kind: Kind) -> Result<Self> {
        let mut changing = begin_change(&attached.shared, &range)?;
        let load = SegmentLoad::announce(attached, range, kind, false, &mut changing);
        let load = load.ok_or(Error::Overlaps)?;
        changing.publish();
        Ok(load)
    }

    /// Announces the segment in a list that the caller publishes. None if it overlaps another one.
    pub(crate) fn announce(
        attached: &Attached,
        (lower, upper): EncodedRange,
        kind: Kind,
        is_of_program: bool,
        changing: &mut Changing<'_>,
    ) -> Option<Self> {
        let generation = changing.generation();
        let (lower, upper) = (lower.into_boxed_slice(), upper.map(Vec::into_boxed_slice));
        let is_pinned = kind == Kind::Pinned;
        let budget = &attached.shared.budget;
        let segment =
            Segment::announced(lower, upper, generation, is_pinned, is_of_program, budget);
        let segment = Arc::new(segment);
        if !changing.insert(Arc::clone(&segment)) {
            return None;
        }
        let mut target = Target::clone(&attached.shared.target.load());
        if kind == Kind::Gap {
            // What is dead now is to be gone. Older readers read the engine, as before.
            target.kept = Timestamps::new(target.needed.from(), []);
        }
        Some(SegmentLoad {
            attached: attached.clone(),
            segment,
            target,
            stage: Stage::Announced,
            leaves: 0,
            in_segment: 0,
            lists: 2 * ROOT_AND_SEGMENT,
            rows: Rows::default(),
        })
    }

    /// Sets the steps that reads of the engine wasted for each row of the range.
    pub(crate) fn expect(&self, wasted: u64) {
        self.segment.costs.expect(wasted);
    }

    /// The number of complete leaves.
    pub(crate) fn leaves(&self) -> usize {
        self.leaves
    }

    /// Makes a step: the barrier first, then some hundred entries each, then merging. Called until
    /// it returns `Done`.
    ///
    /// # Errors
    /// `MemoryLimit`, `Abandoned`, `Off`; `Store` if entries cannot be read. Nothing is held then,
    /// and further steps fail with `Abandoned`.
    pub(crate) fn step(&mut self) -> Result<Progress> {
        let stepped = self.try_step();
        if stepped.is_err() {
            self.abandon();
        }
        stepped
    }

    fn try_step(&mut self) -> Result<Progress> {
        if self.attached.shared.faults.is_off() {
            return Err(Error::Off);
        }
        match self.segment.gone() {
            None => {}
            // Other segments have its content.
            Some(Dropped::Replaced) => return Ok(Progress::Done),
            Some(why) => return Err(Error::Abandoned { why }),
        }
        let budget = &self.attached.shared.budget;
        if budget.excess() > 0 || budget.limit() == 0 {
            return Err(Error::MemoryLimit {
                used: budget.used(),
                limit: budget.limit(),
            });
        }
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Done => return Ok(Progress::Done),
            Stage::Announced => self.stage = self.take_snapshot()?,
            Stage::Scanning {
                cursor,
                encoded,
                versions,
            } => self.stage = self.scan(cursor, encoded, versions)?,
            Stage::Merging(merging) => {
                match merge(&self.attached.shared, &self.segment, &self.target, merging)? {
                    Some(merging) => self.stage = Stage::Merging(merging),
                    None => return Ok(Progress::Done),
                }
            }
        }
        Ok(Progress::Going)
    }

    fn take_snapshot(&self) -> Result<Stage> {
        let (segment, budget) = (&self.segment, &self.attached.shared.budget);
        let db = &self.attached.db;
        let begun = db.barrier(|_| {
            // What is in the snapshot is not in the delta.
            self.attached.shared.apply_pending();
            // ORDER: no commit is under way, so both are of one moment.
            segment.begin_loading(budget).map(|()| db.snapshot())
        })?;
        let snapshot = begun.map_err(|why| Error::Abandoned { why })?;
        let cursor = self.attached.entries(segment, snapshot)?;
        Ok(Stage::Scanning {
            cursor: Box::new(cursor),
            encoded: Vec::new(),
            versions: Vec::new(),
        })
    }

    fn scan(
        &mut self,
        mut cursor: Box<DbIterator>,
        mut encoded: Vec<u8>,
        mut versions: Vec<Version>,
    ) -> Result<Stage> {
        for _ in 0..STEP {
            if !cursor.valid() {
                self.end_row(&encoded, &mut versions)?;
                self.end_leaf()?;
                let leaves = self.segment.take_leaves();
                let leaves = leaves.map_err(|why| Error::Abandoned { why })?;
                let served = self.target.kept.clone();
                let root = Root::new(served, leaves, &self.attached.shared.budget);
                return Ok(Stage::Merging(Merging::new(root)));
            }
            let entry = codec::decode(cursor.key())?;
            if *entry.encoded != *encoded {
                self.end_row(&encoded, &mut versions)?;
                encoded.clear();
                encoded.extend_from_slice(entry.encoded);
            }
            let value = match entry.effect {
                Effect::None => None,
                Effect::Delete => Some(None),
                // The value is not read if it is in a blob file, or larger than what memory has.
                Effect::Put => Some(Some(cursor.lazy_value()?)),
            };
            if let Some(value) = value {
                let inline = value.map(|value| match value.len() {
                    Some(len) if len <= versions::LARGEST_INLINE as u64 => value.fetch().map(Some),
                    _ => Ok(None),
                });
                let inline = inline.transpose()?;
                let write = Write {
                    key: &encoded,
                    commit: entry.commit,
                    value: inline.as_ref().map(|value| match value {
                        Some(value) => NewValue::Inline(value),
                        None => NewValue::Stored,
                    }),
                };
                // They come newest first.
                versions.push(write.version());
            }
            cursor.next()?;
        }
        Ok(Stage::Scanning {
            cursor,
            encoded,
            versions,
        })
    }

    /// # Errors
    /// `MemoryLimit` if so many more bytes would exceed it.
    fn check_room(&self, bytes: usize) -> Result<()> {
        let budget = &self.attached.shared.budget;
        let bytes = budget.used().saturating_add(bytes + self.lists);
        let fits = bytes <= budget.limit() || mutant!(steps_overshoot_the_limit);
        match fits {
            true => Ok(()),
            false => Err(Error::MemoryLimit {
                used: budget.used(),
                limit: budget.limit(),
            }),
        }
    }

    /// Adds the versions of a key to the rows.
    fn end_row(&mut self, encoded: &[u8], versions: &mut Vec<Version>) -> Result<()> {
        versions::prune(versions, &self.target.kept);
        self.check_room(versions::charged(versions))?;
        let budget = &self.attached.shared.budget;
        self.rows.push(encoded, versions, budget);
        versions.clear();
        match self.rows.is_enough() {
            true => self.end_leaf(),
            false => Ok(()),
        }
    }

    /// Makes a leaf of the rows, if memory allows.
    fn end_leaf(&mut self) -> Result<()> {
        self.check_room(self.rows.charged())?;
        let mut leaves = Vec::new();
        std::mem::take(&mut self.rows).into_leaves(&self.attached.shared.budget, &mut leaves);
        self.leaves += leaves.len();
        for leaf in &leaves {
            let key = leaf.first_key().len();
            self.lists += 2 * (key + PLACE);
            self.in_segment += leaf.bytes();
            if self.in_segment >= self.attached.shared.segment_size {
                self.in_segment = 0;
                self.lists += ROOT_AND_SEGMENT + 3 * key;
            }
        }
        let kept = self.segment.add_leaves(leaves);
        kept.map_err(|why| Error::Abandoned { why })
    }

    /// Drops the segment if it is not active yet.
    fn abandon(&mut self) {
        let generation = self.segment.generation;
        let is_this = |segment: &Segment| segment.generation == generation;
        self.attached
            .shared
            .drop_segments(Dropped::LoadEnded, is_this);
        self.stage = Stage::Done;
        self.rows = Rows::default();
    }
}

/// Merges the delta of a loading segment into its content. Returns the content if the next delta
/// will be shorter, and none if the range is held.
///
/// # Errors
/// `Abandoned`.
pub(crate) fn merge(
    shared: &Shared,
    segment: &Segment,
    target: &Target,
    merging: Merging,
) -> Result<Option<Merging>> {
    let budget = &shared.budget;
    let delta = segment.take_delta(budget);
    let delta = delta.map_err(|why| Error::Abandoned { why })?;
    let root = merging.root.with(&delta.sorted(), target, budget);
    let merged = delta.len();
    // Each delta is what came while the one before was merged. Where writes come so fast that it is
    // not half as long, the load would not end.
    if merged > SHORT_DELTA && merged <= merging.merged / 2 {
        return Ok(Some(Merging { root, merged }));
    }
    let mut changing = shared.directory.change();
    let Some(at) = changing.position(segment.generation) else {
        let why = segment.gone().unwrap_or(Dropped::Off);
        return Err(Error::Abandoned { why });
    };
    let ended = segment.end(Dropped::Replaced, |last| {
        let root = match last {
            Last::Loading(delta) if !mutant!(last_writes_of_a_load_are_lost) => {
                root.with(&delta.sorted(), target, budget)
            }
            Last::Nothing | Last::Loading(_) | Last::Active(_) => root,
        };
        let segments = cut(segment, root, &mut changing, shared);
        changing.list.splice(at..=at, segments);
        changing.publish();
    });
    if ended.is_none() {
        return Err(Error::Abandoned {
            why: Dropped::LoadEnded,
        });
    }
    shared.counters.loads.fetch_add(1, Ordering::Relaxed);
    Ok(None)
}

impl Drop for SegmentLoad {
    fn drop(&mut self) {
        // Also after a panic in a step.
        if self.segment.gone().is_none() {
            self.abandon();
        }
    }
}

impl std::fmt::Debug for SegmentLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentLoad")
            .field("generation", &self.segment.generation)
            .field("leaves", &self.leaves)
            .finish_non_exhaustive()
    }
}
