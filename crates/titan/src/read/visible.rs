//! The entries that an iterator shows, out of all versions of keys in all sources.
//!
//! [`Resolver`] decides on the value of a key. This module feeds it, and skips entries that need
//! not be looked at.

use std::sync::Arc;

use bytes::Bytes;

use crate::dead_ranges::{DeadRanges, DeadRun, Edge, Way};
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::{
    InternalKeyComparator, ParsedInternalKey, internal_key, seek_key, user_key,
};
use crate::iterator::InternalIterator;
use crate::iterator::merging::MergingIterator;
use crate::iterator::prefix_skip::{PrefixSkip, SkipBuffers};
use crate::merge::Operands;
use crate::range_del::TombstoneCursor;
use crate::read::covered_run::{CoveredRun, Skipped};
use crate::read::resolve::{Outcome, Resolver, Step, Stored};
use crate::stats::perf_context;

/// Versions of one key stepped over before a seek is tried instead.
const MAX_SKIPS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// `merged` is at the entry shown.
    Forward,
    /// `merged` is after the operands of the key shown, which is copied.
    ForwardPast,
    /// `merged` is before all versions of the key shown, which is copied.
    Backward,
}

/// Stops once at each user key that has a value at the snapshot, within the bounds.
pub(crate) struct VisibleIterator {
    merged: MergingIterator,
    comparator: InternalKeyComparator,
    snapshot: SequenceNumber,
    tombstones: TombstoneCursor,
    /// The first key allowed.
    lower: Option<Vec<u8>>,
    /// The first key not allowed any more.
    upper: Option<Vec<u8>>,
    direction: Direction,
    valid: bool,
    /// Forward: the user key to skip, reused. Otherwise: the key shown.
    key: Vec<u8>,
    /// The value shown, or the base of its operands, unless it is where `merged` is.
    value: Vec<u8>,
    /// The form of that; `None` if there are only operands.
    stored: Option<Stored>,
    /// The operands of the key shown, oldest first.
    operands: Operands,
    /// Memory of skips, reused.
    skip_buffers: SkipBuffers,
    /// The dead keys of the movement that goes on.
    run: DeadRun<Arc<DeadRanges>>,
    /// Entries stepped over that were not shown, and not reported yet.
    skipped: u64,
}

impl Drop for VisibleIterator {
    fn drop(&mut self) {
        self.report();
    }
}

impl VisibleIterator {
    pub(crate) fn new(
        merged: MergingIterator,
        comparator: InternalKeyComparator,
        snapshot: SequenceNumber,
        tombstones: TombstoneCursor,
        lower: Option<Vec<u8>>,
        upper: Option<Vec<u8>>,
        run: DeadRun<Arc<DeadRanges>>,
    ) -> Self {
        VisibleIterator {
            merged,
            comparator,
            snapshot,
            tombstones,
            lower,
            upper,
            direction: Direction::Forward,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
            stored: None,
            operands: Operands::default(),
            skip_buffers: SkipBuffers::default(),
            run,
            skipped: 0,
        }
    }

    /// Filters have ruled out tables that are not among its sources.
    pub(crate) fn sees_a_part(&mut self) {
        self.run.sees_a_part();
    }

    /// Reports the entries stepped over.
    fn report(&mut self) {
        if self.skipped > 0 {
            self.run.count_skipped(std::mem::take(&mut self.skipped));
        }
    }

    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    /// Leaves the entry, after an error in its content.
    pub(crate) fn invalidate(&mut self) {
        self.valid = false;
    }

    /// The user key; empty if not valid.
    pub(crate) fn key(&self) -> &[u8] {
        match self.direction {
            _ if !self.valid => &[],
            Direction::Forward => user_key(self.merged.key()),
            Direction::ForwardPast | Direction::Backward => &self.key,
        }
    }

    /// The stored value, or the base of the operands: the value itself, or an encoded pointer.
    pub(crate) fn value(&self) -> &[u8] {
        match self.direction {
            _ if !self.valid => &[],
            Direction::Forward => self.merged.value(),
            Direction::ForwardPast | Direction::Backward => &self.value,
        }
    }

    /// Whether the stored value is the value or a pointer; `None` if the key has operands only.
    pub(crate) fn stored(&self) -> Option<Stored> {
        self.stored
    }

    /// The operands that change the value, oldest first.
    pub(crate) fn operands(&self) -> &Operands {
        &self.operands
    }

    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.report();
        self.direction = Direction::Forward;
        self.valid = false;
        match &self.lower {
            Some(lower) => self.merged.seek(&seek_key(lower, self.snapshot))?,
            None => self.merged.seek_to_first()?,
        }
        self.find_next(false)
    }

    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        self.report();
        self.direction = Direction::Backward;
        self.valid = false;
        match &self.upper {
            Some(upper) => self.merged.seek_for_prev(&before_all(upper))?,
            None => self.merged.seek_to_last()?,
        }
        self.find_prev()
    }

    /// Moves to the first key not smaller than `target`.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.report();
        self.direction = Direction::Forward;
        self.valid = false;
        let target = match &self.lower {
            Some(lower) if self.comparator.compare_user(target, lower).is_lt() => lower,
            _ => target,
        };
        self.merged.seek(&seek_key(target, self.snapshot))?;
        self.find_next(false)
    }

    /// Moves to the last key not larger than `target`.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.report();
        self.direction = Direction::Backward;
        self.valid = false;
        match &self.upper {
            Some(upper) if self.comparator.compare_user(target, upper).is_ge() => {
                self.merged.seek_for_prev(&before_all(upper))?;
            }
            _ => self.merged.seek_for_prev(&after_all(target))?,
        }
        self.find_prev()
    }

    pub(crate) fn next(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        self.valid = false;
        match self.direction {
            Direction::Forward => {
                self.key.clear();
                self.key.extend_from_slice(user_key(self.merged.key()));
                self.merged.next()?;
            }
            Direction::ForwardPast => {}
            Direction::Backward => self.merged.seek(&seek_key(&self.key, self.snapshot))?,
        }
        self.direction = Direction::Forward;
        self.find_next(true)
    }

    /// Skips all keys that begin with the first `len` bytes of the key shown. `rule` says of the
    /// next key whether it is skipped in the same way, and so on. Returns whether the rule was
    /// asked about the key that is shown then; if not, it is to be asked. Also returns how many
    /// entries were stepped over, the one that was shown among them. The order of keys must be
    /// bytewise.
    pub(crate) fn skip_prefixes(
        &mut self,
        len: usize,
        rule: &mut dyn FnMut(&[u8]) -> Option<usize>,
    ) -> Result<(bool, u64)> {
        if !self.valid {
            return Ok((false, 0));
        }
        let (resolver, upper) = (Resolver::new(self.snapshot), self.upper.as_deref());
        let (comparator, tombstones) = (&self.comparator, &mut self.tombstones);
        let mut kept = None;
        // Every entry that is not simply a value that the snapshot sees is left to `find_next`.
        let mut seen_rule = |key: &[u8]| {
            let entry = ParsedInternalKey::parse(key).ok()?;
            if upper.is_some_and(|upper| comparator.compare_user(entry.user_key, upper).is_ge()) {
                return None;
            }
            let covered = || tombstones.covers(entry.user_key, entry.sequence);
            let stored = match resolver.see(entry.sequence, entry.value_type, covered) {
                Step::Done(Outcome::Value(stored)) => stored,
                Step::Done(_) if mutant!(skip_asks_about_deleted) => Stored::Inline,
                _ => return None,
            };
            let skipped = rule(entry.user_key);
            kept = skipped.is_none().then_some(stored);
            skipped
        };
        let buffers = std::mem::take(&mut self.skip_buffers);
        let (shown, is_behind) = match self.direction {
            Direction::Forward => (user_key(self.merged.key()), false),
            Direction::ForwardPast => (&*self.key, false),
            Direction::Backward => (&*self.key, true),
        };
        let is_past = matches!(self.direction, Direction::ForwardPast);
        let prefix = shown.get(..len).unwrap_or(shown);
        let mut skip = PrefixSkip::new(prefix, &mut seen_rule, comparator, buffers);
        self.valid = false;
        self.direction = Direction::Forward;
        if is_behind {
            self.merged.seek(&seek_key(&self.key, self.snapshot))?;
        }
        if self.merged.valid() && skip.passes(self.merged.key()) {
            self.merged.skip_prefixes(&mut skip)?;
        }
        let stepped = skip.stepped() + u64::from(is_past);
        // The one that was shown is among them.
        let skipped = stepped.saturating_sub(1);
        perf_context::add(|running| &running.internal_key_skipped_count, skipped);
        self.skip_buffers = skip.into_buffers();
        if kept.is_some() {
            self.operands.clear();
            (self.stored, self.valid) = (kept, true);
            return Ok((true, stepped));
        }
        self.find_next(false)?;
        Ok((false, stepped))
    }

    pub(crate) fn prev(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        self.valid = false;
        match self.direction {
            Direction::Forward => {
                let key = before_all(user_key(self.merged.key()));
                self.merged.seek_for_prev(&key)?;
            }
            Direction::ForwardPast => self.merged.seek_for_prev(&before_all(&self.key))?,
            Direction::Backward => {}
        }
        self.direction = Direction::Backward;
        self.find_prev()
    }

    /// From the position of `merged`, goes on to the next entry to show; `skipping` says that
    /// `self.key` is done with.
    fn find_next(&mut self, mut skipping: bool) -> Result<()> {
        let resolver = Resolver::new(self.snapshot);
        let (mut skips, mut covered_run) = (0, CoveredRun::new());
        self.operands.clear();
        self.run.begin();
        while self.merged.valid() {
            let entry = ParsedInternalKey::parse(self.merged.key())?;
            if let Some(upper) = &self.upper {
                let order = self.comparator.compare_user(entry.user_key, upper);
                let included = mutant!(bound_included) && order.is_eq();
                if order.is_ge() && !included {
                    break;
                }
            }
            let same_key = skipping && entry.user_key == self.key;
            if !same_key {
                let tombstones = &mut self.tombstones;
                let covered = || tombstones.covers(entry.user_key, entry.sequence);
                match resolver.see(entry.sequence, entry.value_type, covered) {
                    Step::Done(outcome) => {
                        self.stored = outcome.stored()?;
                        if self.stored.is_some() {
                            self.valid = true;
                            break;
                        }
                        perf_context::add(|running| &running.internal_delete_skipped_count, 1);
                        self.key.clear();
                        self.key.extend_from_slice(entry.user_key);
                        skipping = true;
                        skips = 0;
                        if self.run.is_time_to_look()
                            && let Some(end) = self.run.look(&self.key, Way::Forward)
                        {
                            self.pass_dead(&end)?;
                            continue;
                        }
                        if outcome == Outcome::Covered && covered_run.is_long() {
                            covered_run.skipped(self.skip_covered()?);
                            continue;
                        }
                    }
                    Step::Operand => {
                        self.run.end(Way::Forward);
                        return self.take_operands();
                    }
                    Step::TooNew => {}
                }
            }
            skips += 1;
            self.skipped += 1;
            perf_context::add(|running| &running.internal_key_skipped_count, 1);
            if skips <= MAX_SKIPS {
                self.merged.next()?;
                continue;
            }
            skips = 0;
            let target = if same_key {
                after_all(&self.key)
            } else {
                // Too new to be seen: on to the newest version that is.
                seek_key(entry.user_key, self.snapshot)
            };
            if self.comparator.compare(self.merged.key(), &target).is_lt() {
                self.merged.seek_ahead(&target)?;
            } else {
                self.merged.next()?;
            }
        }
        self.run.end(Way::Forward);
        Ok(())
    }

    /// From within a dead range, which ends at `end`, goes on to the first entry after it.
    fn pass_dead(&mut self, end: &Edge) -> Result<()> {
        let target = match end.included {
            true => after_all(&end.key),
            false => before_all(&end.key),
        };
        self.merged.seek_ahead(&target)
    }

    /// The same backward, to the last entry before the range, which starts at `start`.
    fn pass_dead_back(&mut self, start: &Edge) -> Result<()> {
        let target = match start.included {
            true => before_all(&start.key),
            false => after_all(&start.key),
        };
        self.merged.seek_for_prev(&target)
    }

    /// From the newest operand of a key, goes on to the base, and shows the key.
    fn take_operands(&mut self) -> Result<()> {
        self.direction = Direction::ForwardPast;
        self.key.clear();
        self.key.extend_from_slice(user_key(self.merged.key()));
        self.stored = match self.take_versions(Resolver::new(self.snapshot))? {
            Some(outcome) => outcome.stored()?,
            None => None,
        };
        self.valid = true;
        Ok(())
    }

    /// From a version of `self.key`, goes forward over its operands to their base, if there is one.
    fn take_versions(&mut self, resolver: Resolver) -> Result<Option<Outcome>> {
        let mut decided = None;
        while self.merged.valid() {
            let entry = ParsedInternalKey::parse(self.merged.key())?;
            if entry.user_key != self.key {
                break;
            }
            let tombstones = &mut self.tombstones;
            let covered = || tombstones.covers(entry.user_key, entry.sequence);
            match resolver.see(entry.sequence, entry.value_type, covered) {
                Step::Operand => {
                    let operand = Bytes::copy_from_slice(self.merged.value());
                    self.operands.push(operand);
                }
                Step::Done(outcome) => {
                    decided = Some(outcome);
                    self.value.clear();
                    self.value.extend_from_slice(self.merged.value());
                    break;
                }
                Step::TooNew => {}
            }
            self.merged.next()?;
        }
        self.operands.reverse();
        Ok(decided)
    }

    /// From the covered key in `self.key`, skips forward over keys that the tombstone deletes after
    /// it, as far as sources know that they have nothing newer, and no further than the upper
    /// bound. Leaves the key in any case.
    fn skip_covered(&mut self) -> Result<Skipped> {
        let Some((sequence, end)) = self.tombstones.covered_until(&self.key) else {
            return Ok(Skipped::Nothing);
        };
        let end = match &self.upper {
            Some(upper) if self.comparator.compare_user(upper, end).is_lt() => upper,
            _ => end,
        };
        let target = before_all(end);
        let moved = self.merged.skip_older(&target, sequence)?;
        let all =
            !self.merged.valid() || self.comparator.compare(self.merged.key(), &target).is_ge();
        // Not every source may have moved.
        if self.merged.valid() && user_key(self.merged.key()) == self.key {
            self.merged.next()?;
        }
        Ok(Skipped::of(moved, all))
    }

    /// The same backward, from the key that follows the position of `merged`, no further than the
    /// lower bound.
    fn skip_covered_back(&mut self) -> Result<Skipped> {
        let Some((sequence, start)) = self.tombstones.covered_from(&self.key) else {
            return Ok(Skipped::Nothing);
        };
        let start = match &self.lower {
            Some(lower) if self.comparator.compare_user(lower, start).is_gt() => lower,
            _ => start,
        };
        let target = before_all(start);
        let inside = |merged: &MergingIterator| {
            merged.valid() && self.comparator.compare(merged.key(), &target).is_gt()
        };
        if !inside(&self.merged) {
            return Ok(Skipped::All);
        }
        let moved = self.merged.skip_older_back(&target, sequence)?;
        Ok(Skipped::of(moved, !inside(&self.merged)))
    }

    /// From the position of `merged`, goes back to the next key to show, and past its versions.
    fn find_prev(&mut self) -> Result<()> {
        let too_many = u64::from(mutant!(iterator_sees_the_next_write));
        let resolver = Resolver::new(self.snapshot.plus(too_many));
        let mut covered_run = CoveredRun::new();
        self.run.begin();
        while self.merged.valid() {
            let current = user_key(self.merged.key());
            if let Some(lower) = &self.lower
                && self.comparator.compare_user(current, lower).is_lt()
            {
                break;
            }
            self.key.clear();
            self.key.extend_from_slice(current);
            self.operands.clear();
            let (mut outcome, mut versions) = (None, 0);
            // Backward, versions come oldest first: each visible one replaces the one before.
            while self.merged.valid() {
                let entry = ParsedInternalKey::parse(self.merged.key())?;
                if entry.user_key != self.key {
                    break;
                }
                versions += 1;
                if versions > MAX_SKIPS {
                    // The newest one that is seen is found faster by a seek.
                    self.operands.clear();
                    self.merged.seek(&seek_key(&self.key, self.snapshot))?;
                    outcome = self.take_versions(resolver)?;
                    self.merged.seek_for_prev(&before_all(&self.key))?;
                    break;
                }
                let tombstones = &mut self.tombstones;
                let covered = || tombstones.covers(entry.user_key, entry.sequence);
                match resolver.see(entry.sequence, entry.value_type, covered) {
                    Step::Done(Outcome::Value(stored)) => {
                        self.operands.clear();
                        outcome = Some(Outcome::Value(stored));
                        self.value.clear();
                        self.value.extend_from_slice(self.merged.value());
                    }
                    Step::Done(Outcome::Deleted) if mutant!(backward_shows_deleted) => {}
                    Step::Done(other) => {
                        self.operands.clear();
                        outcome = Some(other);
                    }
                    Step::Operand => {
                        let operand = Bytes::copy_from_slice(self.merged.value());
                        self.operands.push(operand);
                    }
                    Step::TooNew => {
                        self.skip_too_new_back()?;
                        break;
                    }
                }
                self.merged.prev()?;
            }
            self.stored = match outcome {
                Some(outcome) => outcome.stored()?,
                None => None,
            };
            self.valid = self.stored.is_some() || !self.operands.is_empty();
            let skipped = versions as u64 - u64::from(self.valid);
            self.skipped += skipped;
            perf_context::add(|running| &running.internal_key_skipped_count, skipped);
            if self.valid {
                break;
            }
            perf_context::add(|running| &running.internal_delete_skipped_count, 1);
            if self.run.is_time_to_look()
                && let Some(start) = self.run.look(&self.key, Way::Backward)
            {
                self.pass_dead_back(&start)?;
            }
            if outcome == Some(Outcome::Covered) && covered_run.is_long() {
                covered_run.skipped(self.skip_covered_back()?);
            }
        }
        self.run.end(Way::Backward);
        Ok(())
    }

    /// Goes back over the versions of `self.key` that are too new to be seen.
    fn skip_too_new_back(&mut self) -> Result<()> {
        let mut skips = 0;
        while self.merged.valid() && user_key(self.merged.key()) == self.key {
            skips += 1;
            if skips > MAX_SKIPS {
                self.merged.seek_for_prev(&before_all(&self.key))?;
            } else {
                self.merged.prev()?;
            }
        }
        Ok(())
    }
}

/// An internal key before every version of `user_key`.
fn before_all(user_key: &[u8]) -> Vec<u8> {
    seek_key(user_key, SequenceNumber::MAX)
}

/// An internal key after every version of `user_key`.
fn after_all(user_key: &[u8]) -> Vec<u8> {
    internal_key(user_key, SequenceNumber::ZERO, 0)
}
