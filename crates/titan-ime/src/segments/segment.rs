//! A segment: a range of keys that is whole in memory, or being loaded.
//!
//! ```text
//! Announced --barrier--> Loading --merged--> (replaced by segments that are) Active
//!     \                     \                                                  /
//!      `---------------------`----------------> Gone <------------------------'
//! ```
//!
//! A segment becomes active once and gone once; a range that is loaded again is another segment
//! with another generation. Readers load `root` alone: there is one while the segment is active.

use std::sync::Arc;

use titan_mvcc::Timestamp;

use crate::content::keys::EncodedRange;
use crate::content::leaf::Leaf;
use crate::content::memory::{BLOCK, Budget, Charge};
use crate::content::root::{Root, Target};
use crate::content::write::{NewValue, Write};
use crate::segments::costs::Costs;
use crate::stats::Dropped;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Cell, Mutex};

/// A segment and its state.
pub(crate) struct Segment {
    /// The first encoded key.
    pub(crate) lower: Box<[u8]>,
    /// The first encoded key after it; none at the end of the key space.
    pub(crate) upper: Option<Box<[u8]>>,
    /// A number that no other segment of the cache has.
    pub(crate) generation: u64,
    /// Whether it is evicted last. Becomes true while the directory is locked.
    is_pinned: AtomicBool,
    /// Whether the program loads it, not the cache itself.
    pub(crate) is_of_program: bool,
    /// The content for readers.
    root: Cell<Option<Arc<Root>>>,
    /// Locked for changes of the state and writes, never for reads or I/O.
    state: Mutex<State>,
    /// Whether it was read since the last pass. Readers write it only if it is false.
    touched: AtomicBool,
    pub(crate) costs: Costs,
    /// Covers the segment and its place in the directory, not the content.
    charge: Charge,
}

enum State {
    /// The snapshot of the load is not taken yet: it will have all writes.
    Announced,
    /// The snapshot is taken. Its rows read so far, and later writes, are here.
    Loading {
        leaves: Vec<Arc<Leaf>>,
        delta: Delta,
    },
    Active,
    Gone(Dropped),
}

/// Writes to a segment that is being loaded, in order.
pub(crate) struct Delta {
    writes: Vec<OwnedWrite>,
    charge: Charge,
}

struct OwnedWrite {
    key: Box<[u8]>,
    commit: Timestamp,
    value: Option<Option<Box<[u8]>>>,
}

impl Delta {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Delta {
            writes: Vec::new(),
            charge: Charge::new(budget, 0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.writes.len()
    }

    fn push(&mut self, write: &Write<'_>) {
        let value = write.value.map(|value| match value {
            NewValue::Inline(value) => Some(value.into()),
            NewValue::Stored => None,
        });
        let write = OwnedWrite {
            key: write.key.into(),
            commit: write.commit,
            value,
        };
        let value_len = write
            .value
            .as_ref()
            .and_then(Option::as_ref)
            .map_or(0, |v| v.len());
        let blocks = 2 * BLOCK + write.key.len() + value_len;
        let room = self.writes.capacity();
        self.writes.push(write);
        let more_room = self.writes.capacity() - room;
        self.charge
            .add(blocks + more_room * size_of::<OwnedWrite>());
    }

    /// The writes in the order of their keys, those of one key in the order of arrival.
    pub(crate) fn sorted(&self) -> Vec<Write<'_>> {
        let mut writes: Vec<Write<'_>> = self.writes.iter().map(OwnedWrite::borrowed).collect();
        writes.sort_by_key(|write| write.key);
        writes
    }
}

impl OwnedWrite {
    fn borrowed(&self) -> Write<'_> {
        Write {
            key: &self.key,
            commit: self.commit,
            value: self.value.as_ref().map(|value| match value {
                Some(value) => NewValue::Inline(value),
                None => NewValue::Stored,
            }),
        }
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is in memory, or will be loaded.
    Done,
    /// It is in memory, in a new root.
    Remade,
    /// The segment is gone: another one may need the write.
    Gone,
}

impl Segment {
    /// A segment without content, whose load has not begun.
    pub(crate) fn announced(
        lower: Box<[u8]>,
        upper: Option<Box<[u8]>>,
        generation: u64,
        is_pinned: bool,
        is_of_program: bool,
        budget: &Arc<Budget>,
    ) -> Self {
        let upper_len = upper.as_ref().map_or(0, |upper| upper.len());
        let own = size_of::<Segment>() + 16 + 3 * BLOCK + lower.len() + upper_len;
        let place = size_of::<Arc<Segment>>() + size_of::<usize>() + upper_len;
        Segment {
            charge: Charge::new(budget, own + place),
            lower,
            upper,
            generation,
            is_pinned: AtomicBool::new(is_pinned),
            is_of_program,
            root: Cell::new(None),
            state: Mutex::new(State::Announced),
            touched: AtomicBool::new(true),
            costs: Costs::default(),
        }
    }

    /// An active segment.
    pub(crate) fn active(
        lower: Box<[u8]>,
        upper: Option<Box<[u8]>>,
        generation: u64,
        is_pinned: bool,
        root: Root,
        costs: Costs,
        budget: &Arc<Budget>,
    ) -> Self {
        Segment {
            costs,
            root: Cell::new(Some(Arc::new(root))),
            state: Mutex::new(State::Active),
            ..Segment::announced(lower, upper, generation, is_pinned, false, budget)
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.is_pinned.load(Ordering::Relaxed)
    }

    pub(crate) fn pin(&self) {
        self.is_pinned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *self.lower <= *key && self.upper.as_deref().is_none_or(|upper| key < upper)
    }

    /// Its bounds.
    pub(crate) fn range(&self) -> EncodedRange {
        let upper = self.upper.as_deref();
        (self.lower.to_vec(), upper.map(<[u8]>::to_vec))
    }

    /// Whether it has keys from `lower` to before `upper`.
    pub(crate) fn overlaps(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        self.upper.as_deref().is_none_or(|own| lower < own)
            && upper.is_none_or(|upper| *self.lower < *upper)
    }

    /// The content, if the segment is active.
    pub(crate) fn root(&self) -> Option<Arc<Root>> {
        self.root.load()
    }

    /// Notes that it was read.
    pub(crate) fn touch(&self) {
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Forgets that it was read.
    pub(crate) fn untouch(&self) {
        self.touched.store(false, Ordering::Relaxed);
    }

    /// Begins to keep writes, at the moment of the load's snapshot. Called in a barrier.
    ///
    /// # Errors
    /// The reason why the segment was dropped.
    pub(crate) fn begin_loading(&self, budget: &Arc<Budget>) -> Result<(), Dropped> {
        let mut state = self.state.lock();
        if let State::Gone(why) = &*state {
            return Err(*why);
        }
        if mutant!(writes_while_loading_are_forgotten) {
            return Ok(());
        }
        *state = State::Loading {
            leaves: Vec::new(),
            delta: Delta::new(budget),
        };
        Ok(())
    }

    /// Adds leaves made of the snapshot, which go with the segment.
    ///
    /// # Errors
    /// The reason why the segment was dropped.
    pub(crate) fn add_leaves(&self, more: Vec<Arc<Leaf>>) -> Result<(), Dropped> {
        match &mut *self.state.lock() {
            State::Loading { leaves, .. } => leaves.extend(more),
            State::Gone(why) => return Err(*why),
            State::Announced | State::Active => {}
        }
        Ok(())
    }

    /// Takes these leaves.
    ///
    /// # Errors
    /// The reason why the segment was dropped.
    pub(crate) fn take_leaves(&self) -> Result<Vec<Arc<Leaf>>, Dropped> {
        match &mut *self.state.lock() {
            State::Loading { leaves, .. } => Ok(std::mem::take(leaves)),
            State::Gone(why) => Err(*why),
            State::Announced | State::Active => Ok(Vec::new()),
        }
    }

    /// A lower bound of the bytes that dropping it frees.
    pub(crate) fn bytes(&self) -> usize {
        let content = match &*self.state.lock() {
            State::Loading { leaves, delta } => {
                let leaves: usize = leaves.iter().map(|leaf| leaf.bytes()).sum();
                leaves + delta.charge.bytes()
            }
            _ => self.root.load().as_ref().map_or(0, |root| root.bytes),
        };
        self.charge.bytes() + content
    }

    /// Takes the writes since the last call.
    ///
    /// # Errors
    /// The reason why the segment was dropped.
    pub(crate) fn take_delta(&self, budget: &Arc<Budget>) -> Result<Delta, Dropped> {
        match &mut *self.state.lock() {
            State::Loading { delta, .. } => Ok(std::mem::replace(delta, Delta::new(budget))),
            State::Gone(why) => Err(*why),
            State::Announced | State::Active => Ok(Delta::new(budget)),
        }
    }

    /// The name of the state.
    #[cfg(test)]
    pub(crate) fn state_name(&self) -> &'static str {
        match &*self.state.lock() {
            State::Announced => "announced",
            State::Loading { .. } => "loading",
            State::Active => "active",
            State::Gone(_) => "gone",
        }
    }

    /// The reason why it was dropped, if it was.
    pub(crate) fn gone(&self) -> Option<Dropped> {
        match &*self.state.lock() {
            State::Gone(why) => Some(*why),
            _ => None,
        }
    }

    /// Adds versions, in the order of their keys. Cost: an allocation for each, and a copy of each
    /// leaf whose tail is full.
    pub(crate) fn write(
        &self,
        writes: &[Write<'_>],
        target: &Target,
        budget: &Arc<Budget>,
    ) -> Written {
        let unlocked = mutant!(write_to_a_replaced_root);
        let early = unlocked.then(|| self.root.load());
        let mut state = self.state.lock();
        match &mut *state {
            State::Announced => Written::Done,
            State::Loading { delta, .. } => {
                writes.iter().for_each(|write| delta.push(write));
                Written::Done
            }
            State::Active => {
                self.costs.written(writes.len());
                let root = early.unwrap_or_else(|| self.root.load());
                let next = root
                    .as_ref()
                    .and_then(|root| root.add(writes, target, budget));
                drop(root);
                match next {
                    Some(next) => {
                        self.root.store(Some(Arc::new(next)));
                        Written::Remade
                    }
                    None => Written::Done,
                }
            }
            State::Gone(_) => Written::Gone,
        }
    }

    /// Replaces the content of an active segment, unless `change` returns none.
    pub(crate) fn change(&self, change: impl FnOnce(&Root) -> Option<Root>) {
        let state = self.state.lock();
        if !matches!(&*state, State::Active) {
            return;
        }
        let next = self.root.load().as_ref().and_then(|root| change(root));
        if let Some(next) = next {
            self.root.store(Some(Arc::new(next)));
        }
    }

    /// Ends the segment: no write and no reader finds content any more. Called with the lock of the
    /// directory, before the segment is removed from it. False if it was gone.
    pub(crate) fn drop_content(&self, why: Dropped) -> bool {
        self.end(why, |_| ()).is_some()
    }

    /// Ends the segment in favour of others. `replace` gets its last content and publishes a
    /// directory with the others in its place; no write comes in between. Called with the lock of
    /// the directory. None if it was gone.
    pub(crate) fn end<T>(&self, why: Dropped, replace: impl FnOnce(Last<'_>) -> T) -> Option<T> {
        let mut state = self.state.lock();
        let root = self.root.load();
        let last = match (&*state, &root) {
            (State::Gone(_), _) => return None,
            (State::Loading { delta, .. }, _) => Last::Loading(delta),
            (State::Active, Some(root)) => Last::Active(root),
            (State::Active | State::Announced, _) => Last::Nothing,
        };
        // ORDER: before the directory is published, because from then on writes go past this
        // segment: as long as there is a root, it has all that is published.
        if !mutant!(ended_segment_is_read) {
            self.root.store(None);
        }
        let replaced = replace(last);
        // ORDER: after the directory was published, so that a write that finds it gone finds what
        // took its place.
        *state = State::Gone(why);
        Some(replaced)
    }
}

/// The last content of a segment.
pub(crate) enum Last<'a> {
    Nothing,
    /// Writes that were not merged yet.
    Loading(&'a Delta),
    Active(&'a Root),
}
