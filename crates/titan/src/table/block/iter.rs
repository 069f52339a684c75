//! The cursor over a block's entries.
//!
//! Keys are assembled in a buffer that the cursor reuses; values stay where they are. Forward steps
//! decode one entry. Backward steps decode a restart interval and remember it, so that a walk to
//! the front decodes each entry once.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::format::bytes::first_difference;
use crate::format::internal_key::{
    InternalKeyComparator, TIMED_VALUE, TRAILER_LEN, ValueType, pack, trailer, user_key,
};
use crate::iterator::prefix_skip::PrefixSkip;
use crate::table::block::{Block, Entry};

/// No byte shows which of two keys comes first.
const UNKNOWN: usize = usize::MAX;

/// An entry that a backward walk has decoded already.
struct Behind {
    at: usize,
    key: Range<usize>,
    value: Range<usize>,
}

/// Where a skip in a block has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum Skipped {
    /// At an entry that is not skipped.
    ToEntry,
    /// Past the last entry.
    ToEnd,
    /// On no entry, within a prefix that has more entries than the limit.
    Long,
}

/// A cursor over a block. Like [`InternalIterator`](crate::iterator::InternalIterator), except that
/// seeks take the comparator, so that cursors need no reference count on it.
#[derive(Default)]
pub struct BlockIter {
    block: Block,
    /// Replaces the stored sequence numbers, all 0, of an ingested file.
    global_sequence: Option<SequenceNumber>,
    /// Bytes every key must have.
    min_key: usize,
    valid: bool,
    /// Offset of the entry under the cursor.
    at: usize,
    value: Range<usize>,
    /// The key as stored, with which the next entry shares bytes.
    key: Vec<u8>,
    /// The key as callers see it, if that may differ from the one stored.
    seen_key: Vec<u8>,
    /// Whether it may: there is a global sequence number, or there may be timed values.
    shows_other_keys: bool,
    /// Bytes at the end of the value that callers do not see.
    unseen: usize,
    /// The entries from a restart point up to the cursor, nearest last, so that a backward walk
    /// decodes each restart interval once. Usable only if it ends at `at`.
    behind: Vec<Behind>,
    behind_keys: Vec<u8>,
}

impl BlockIter {
    /// A cursor over plain keys: properties, metaindex.
    pub fn over(block: Block) -> Self {
        BlockIter {
            block,
            ..Default::default()
        }
    }

    /// A cursor over internal keys.
    pub fn over_data(block: Block, global_sequence: Option<SequenceNumber>) -> Self {
        BlockIter {
            block,
            global_sequence,
            shows_other_keys: global_sequence.is_some(),
            min_key: TRAILER_LEN,
            ..Default::default()
        }
    }

    /// Shows timed values as plain ones: without the sequence number after the value, and of the
    /// type of values.
    pub fn untimed(mut self) -> Self {
        self.shows_other_keys = true;
        self
    }

    /// The key as stored.
    pub(in crate::table) fn stored_key(&self) -> &[u8] {
        match self.valid {
            true => &self.key,
            false => &[],
        }
    }

    /// Bytes of the value as stored.
    pub(in crate::table) fn stored_value_len(&self) -> usize {
        self.value.len()
    }

    /// Switches to another block and keeps the buffers.
    pub(in crate::table) fn reset(&mut self, block: Block) {
        self.block = block;
        self.valid = false;
        self.behind.clear();
    }

    /// Makes the cursor invalid.
    pub(in crate::table) fn invalidate(&mut self) {
        self.valid = false;
    }

    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        match (self.valid, self.shows_other_keys) {
            (false, _) => &[],
            (true, false) => &self.key,
            (true, true) => &self.seen_key,
        }
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        if !self.valid {
            return &[];
        }
        self.block
            .data()
            .get(self.value.start..self.value.end - self.unseen)
            .unwrap_or_default()
    }

    /// The value, sharing the block's memory.
    pub(in crate::table) fn value_bytes(&self) -> Bytes {
        if self.valid {
            let end = self.value.end - self.unseen;
            self.block.data().slice(self.value.start..end)
        } else {
            Bytes::new()
        }
    }

    /// Where the last entry that the cursor was at begins in the block.
    pub(in crate::table) fn offset(&self) -> usize {
        self.at
    }

    /// Where the value is in the block.
    pub(in crate::table) fn value_range(&self) -> Range<usize> {
        self.value.clone()
    }

    /// Moves to the entry at `at`. `key` must be the previous key.
    #[inline]
    fn load(&mut self, at: usize) -> Result<()> {
        self.valid = false;
        if at >= self.block.entries_end() {
            return Ok(());
        }
        let entry = self.block.entry(at)?;
        self.load_entry(at, entry)
    }

    /// Moves to `entry`, which is at `at`. `key` must begin with the bytes that it shares with the
    /// previous key.
    #[inline(always)]
    fn load_entry(&mut self, at: usize, entry: Entry) -> Result<()> {
        let fresh = self.block.data().get(entry.key).unwrap_or_default();
        if entry.shared > self.key.len() || entry.shared + fresh.len() < self.min_key {
            return Err(impossible_key());
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(fresh);
        self.value = entry.value;
        self.at = at;
        self.valid = true;
        self.see_key();
        Ok(())
    }

    #[inline]
    fn see_key(&mut self) {
        if self.shows_other_keys {
            self.see_other_key();
        }
    }

    fn see_other_key(&mut self) {
        let stored = trailer(&self.key);
        let sequence = self.global_sequence.unwrap_or(SequenceNumber(stored >> 8));
        self.unseen = 0;
        let mut value_type = stored as u8;
        if value_type == TIMED_VALUE && self.value.len() >= size_of::<u64>() {
            value_type = ValueType::Value as u8;
            self.unseen = size_of::<u64>();
        }
        self.seen_key.clear();
        self.seen_key.extend_from_slice(user_key(&self.key));
        let packed = pack(sequence, value_type);
        self.seen_key.extend_from_slice(&packed.to_le_bytes());
    }

    /// Moves to the entry of a restart point.
    fn load_restart(&mut self, i: usize) -> Result<()> {
        self.key.clear();
        self.load(self.block.restart(i))?;
        if !self.valid && self.block.entries_end() > 0 {
            return Err(Error::corruption("restart point beyond the entries"));
        }
        Ok(())
    }

    pub fn seek_to_first(&mut self) -> Result<()> {
        self.key.clear();
        self.load(0)
    }

    pub(in crate::table) fn seek_to_last(&mut self) -> Result<()> {
        self.valid = false;
        if self.block.entries_end() == 0 {
            return Ok(());
        }
        self.load_restart(self.block.num_restarts().saturating_sub(1))?;
        while self.valid && self.value.end < self.block.entries_end() {
            self.load(self.value.end)?;
        }
        Ok(())
    }

    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a step of a cursor may fail")]
    pub fn next(&mut self) -> Result<()> {
        self.load(self.value.end)
    }

    pub(in crate::table) fn prev(&mut self) -> Result<()> {
        let here = self.at;
        self.valid = false;
        if here == 0 {
            return Ok(());
        }
        if self.behind.last().is_none_or(|b| b.value.end != here) {
            self.decode_behind(here)?;
        }
        self.valid = false;
        let Some(before) = self.behind.pop() else {
            return Err(Error::corruption("restart points are out of order"));
        };
        self.key.clear();
        self.key
            .extend_from_slice(self.behind_keys.get(before.key).unwrap_or_default());
        self.at = before.at;
        self.value = before.value;
        self.valid = true;
        self.see_key();
        Ok(())
    }

    /// Decodes the entries from the last restart point before `here` up to `here`.
    fn decode_behind(&mut self, here: usize) -> Result<()> {
        self.behind.clear();
        self.behind_keys.clear();
        let (mut low, mut high) = (0, self.block.num_restarts());
        while low + 1 < high {
            let mid = low + (high - low) / 2;
            if self.block.restart(mid) < here {
                low = mid
            } else {
                high = mid
            }
        }
        self.load_restart(low)?;
        while self.valid && self.at < here {
            let start = self.behind_keys.len();
            self.behind_keys.extend_from_slice(&self.key);
            let key = start..self.behind_keys.len();
            self.behind.push(Behind {
                at: self.at,
                key,
                value: self.value.clone(),
            });
            self.load(self.value.end)?;
        }
        match self.valid && self.at == here {
            true => Ok(()),
            false => Err(Error::corruption("restart points are out of order")),
        }
    }

    /// Moves to the first entry not before `target`.
    pub(in crate::table) fn seek(
        &mut self,
        order: &InternalKeyComparator,
        target: &[u8],
    ) -> Result<()> {
        self.valid = false;
        if self.block.entries_end() == 0 {
            return Ok(());
        }
        // The last restart point before the target, or the first one.
        let (mut low, mut high) = (0, self.block.num_restarts());
        while low + 1 < high {
            let mid = low + (high - low) / 2;
            if self.restart_before(order, mid, target)? {
                low = mid
            } else {
                high = mid
            }
        }
        self.load_restart(low)?;
        self.walk_to(order, target, usize::MAX)?;
        Ok(())
    }

    /// Moves to the first entry not before `target`, which is likely to be the first one of all.
    pub(in crate::table) fn seek_near_start(
        &mut self,
        order: &InternalKeyComparator,
        target: &[u8],
    ) -> Result<()> {
        self.valid = false;
        // A block without entries may have a restart point.
        if self.block.entries_end() > 0 && !self.restart_before(order, 0, target)? {
            return self.load_restart(0);
        }
        self.seek(order, target)
    }

    /// Moves forward from the entry under the cursor to the first one not before `target`, over at
    /// most `limit` entries. Returns whether that is where the cursor is. If not, it is on no
    /// entry: the target is further ahead, perhaps in another block.
    ///
    /// In the order of bytes, most keys are not assembled: where a key differs from the target in a
    /// byte, the next one has the same byte if it shares it.
    pub(in crate::table) fn walk_to(
        &mut self,
        order: &InternalKeyComparator,
        target: &[u8],
        mut limit: usize,
    ) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        let Some(mut smaller) = self.byte_before(order, target) else {
            return Ok(true);
        };
        self.valid = false;
        let (mut at, mut key_len) = (self.value.end, self.key.len());
        while at < self.block.entries_end() && limit > 0 {
            limit -= 1;
            let entry = self.block.entry(at)?;
            let next = entry.value.end;
            let shares_it = entry.shared > smaller
                || entry.shared == smaller && mutant!(walk_passes_the_target);
            if shares_it {
                let shared = entry.shared;
                let before = std::mem::replace(&mut key_len, shared + entry.key.len());
                if shared > before || key_len < self.min_key {
                    return Err(impossible_key());
                }
                at = next;
                continue;
            }
            let known = match smaller {
                UNKNOWN => None,
                _ => self.fresh_byte_before(&entry, target),
            };
            self.load_entry(at, entry)?;
            match known.unwrap_or_else(|| self.byte_before(order, target)) {
                None => return Ok(true),
                Some(found) => smaller = found,
            }
            self.valid = false;
            (at, key_len) = (next, self.key.len());
        }
        Ok(false)
    }

    /// Skips the entries of the prefix that `skip` is at, which the key begins with, and all after
    /// them that it skips. Their keys are assembled only where `skip` is asked about them.
    pub(in crate::table) fn skip_prefixes(
        &mut self,
        skip: &mut PrefixSkip<'_>,
        limit: usize,
    ) -> Result<Skipped> {
        let (mut at, mut key_len, mut steps) = (self.value.end, self.key.len(), 0);
        self.valid = false;
        // The one that it is at.
        skip.count(1);
        while at < self.block.entries_end() {
            if steps == limit {
                skip.count(steps);
                return Ok(Skipped::Long);
            }
            steps += 1;
            let entry = self.block.entry(at)?;
            let next = entry.value.end;
            // The bytes of the prefix are the first ones of the key, even after skipped entries.
            let has_prefix = match skip.prefix().get(entry.shared..) {
                None => true,
                Some(rest) => {
                    let fresh = self.block.data().get(entry.key.clone());
                    fresh.is_some_and(|fresh| fresh.starts_with(rest))
                }
            };
            if has_prefix {
                let before = std::mem::replace(&mut key_len, entry.shared + entry.key.len());
                if entry.shared > before || key_len < self.min_key {
                    return Err(impossible_key());
                }
                at = next;
                continue;
            }
            self.load_entry(at, entry)?;
            skip.count(steps - 1);
            if !skip.skips(self.key()) {
                return Ok(Skipped::ToEntry);
            }
            self.valid = false;
            skip.count(1);
            (at, key_len, steps) = (next, self.key.len(), 0);
        }
        skip.count(steps);
        Ok(Skipped::ToEnd)
    }

    /// Whether the key is before `target`, and if so, at which byte it is smaller, or [`UNKNOWN`].
    #[inline]
    fn byte_before(&self, order: &InternalKeyComparator, target: &[u8]) -> Option<usize> {
        let key = self.key();
        if order.is_bytewise()
            && let Some((at, key, target)) = first_difference(user_key(key), user_key(target))
        {
            return (key < target).then_some(at);
        }
        order.compare(key, target).is_lt().then_some(UNKNOWN)
    }

    /// The same for an entry that has all its shared bytes in common with `target`; `None` if its
    /// other bytes do not show it. Looks at the block only, since the assembled key was just
    /// written.
    #[inline]
    fn fresh_byte_before(&self, entry: &Entry, target: &[u8]) -> Option<Option<usize>> {
        let fresh = user_key(self.block.data().get(entry.key.clone())?);
        let rest = user_key(target).get(entry.shared..)?;
        let (at, fresh, target) = first_difference(fresh, rest)?;
        Some((fresh < target).then_some(entry.shared + at))
    }

    /// Moves to the last entry not after `target`.
    pub(in crate::table) fn seek_for_prev(
        &mut self,
        order: &InternalKeyComparator,
        target: &[u8],
    ) -> Result<()> {
        self.seek(order, target)?;
        if !self.valid {
            self.seek_to_last()
        } else if order.compare(self.key(), target) == Ordering::Greater {
            self.prev()
        } else {
            Ok(())
        }
    }

    /// Whether the key of restart point `i` is before `target`.
    #[inline]
    fn restart_before(
        &self,
        order: &InternalKeyComparator,
        i: usize,
        target: &[u8],
    ) -> Result<bool> {
        let entry = self.block.entry(self.block.restart(i))?;
        let key = self.block.data().get(entry.key).unwrap_or_default();
        if entry.shared != 0 || key.len() < self.min_key {
            return Err(Error::corruption("restart point without a whole key"));
        }
        let ordering = match self.global_sequence {
            None => order.compare(key, target),
            Some(sequence) => order
                .compare_user(user_key(key), user_key(target))
                .then_with(|| trailer(target).cmp(&pack(sequence, trailer(key) as u8))),
        };
        Ok(ordering == Ordering::Less)
    }
}

#[cold]
fn impossible_key() -> Error {
    Error::corruption("block entry with an impossible key")
}
