//! Merges several sorted cursors into one.

use std::cmp::Ordering;

use super::InternalIterator;
use super::prefix_skip::PrefixSkip;
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::InternalKeyComparator;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The union of its children, in order. Children earlier in the list win ties, so list newer
/// sources first.
///
/// A binary heap of child numbers, by the children's current keys; a step costs one movement of
/// one child and `log2(children)` comparisons, or one comparison while the same child stays first.
pub struct MergingIterator {
    children: Vec<Box<dyn InternalIterator>>,
    comparator: InternalKeyComparator,
    /// Valid children; the first one in `direction` is at the root.
    heap: Vec<usize>,
    /// The position in `heap` of the child that comes second, if it is known. It stays there while
    /// the same child is first.
    second: Option<usize>,
    direction: Direction,
}

impl MergingIterator {
    pub fn new(
        children: Vec<Box<dyn InternalIterator>>,
        comparator: InternalKeyComparator,
    ) -> Self {
        MergingIterator {
            children,
            comparator,
            heap: Vec::new(),
            second: None,
            direction: Direction::Forward,
        }
    }

    fn current(&self) -> Option<&dyn InternalIterator> {
        self.heap
            .first()
            .and_then(|&i| self.children.get(i))
            .map(|c| &**c)
    }

    fn key_of(&self, child: usize) -> &[u8] {
        self.children.get(child).map_or(&[], |c| c.key())
    }

    /// Whether child `a` comes before child `b` in the current direction.
    fn precedes(&self, a: usize, b: usize) -> bool {
        let order = self.comparator.compare(self.key_of(a), self.key_of(b));
        let order = if self.direction == Direction::Forward {
            order
        } else {
            order.reverse()
        };
        order.then(a.cmp(&b)) == Ordering::Less
    }

    fn slot(&self, position: usize) -> Option<usize> {
        self.heap.get(position).copied()
    }

    /// The position of the first child below `position` in the heap.
    fn first_below(&self, position: usize) -> Option<usize> {
        let left = 2 * position + 1;
        let one = self.slot(left)?;
        match self.slot(left + 1) {
            Some(other) if self.precedes(other, one) => Some(left + 1),
            _ => Some(left),
        }
    }

    /// The position of the child that comes second.
    fn second(&mut self) -> Option<usize> {
        if self.second.is_none() {
            self.second = self.first_below(0);
        }
        self.second
    }

    /// Exchanges two children if the one at `below` precedes the other. Returns whether it does.
    fn exchange(&mut self, position: usize, below: usize) -> bool {
        let precedes = match (self.slot(position), self.slot(below)) {
            (Some(item), Some(first)) => self.precedes(first, item),
            _ => false,
        };
        if precedes {
            self.heap.swap(position, below);
        }
        precedes
    }

    fn sift_down(&mut self, mut position: usize) {
        while let Some(below) = self.first_below(position)
            && self.exchange(position, below)
        {
            position = below;
        }
    }

    /// Restores the heap after the first child has moved.
    fn restore(&mut self) {
        if let Some(second) = self.second()
            && self.exchange(0, second)
        {
            self.second = None;
            self.sift_down(second);
        }
    }

    /// Rebuilds the heap from the children that are valid.
    fn rebuild(&mut self, direction: Direction) {
        self.direction = direction;
        self.second = None;
        self.heap.clear();
        self.heap.extend(
            (0..self.children.len()).filter(|&i| self.children.get(i).is_some_and(|c| c.valid())),
        );
        for position in (0..self.heap.len() / 2).rev() {
            self.sift_down(position);
        }
    }

    fn move_all(
        &mut self,
        direction: Direction,
        movement: impl Fn(&mut dyn InternalIterator) -> Result<()>,
    ) -> Result<()> {
        self.heap.clear();
        for child in &mut self.children {
            movement(&mut **child)?;
        }
        self.rebuild(direction);
        Ok(())
    }

    /// Moves the first child with `movement` and restores the heap.
    fn step(
        &mut self,
        movement: impl FnOnce(&mut dyn InternalIterator) -> Result<()>,
    ) -> Result<()> {
        let Some(&first) = self.heap.first() else {
            return Ok(());
        };
        let Some(child) = self.children.get_mut(first) else {
            return Ok(());
        };
        let moved = movement(&mut **child);
        if moved.is_err() {
            self.heap.clear();
            return moved;
        }
        if !child.valid() {
            self.heap.swap_remove(0);
            self.second = None;
        }
        self.restore();
        Ok(())
    }

    /// Applies `movement` to the children that are on this side of `target`. No child crosses the
    /// current key.
    fn skip(
        &mut self,
        side: Ordering,
        target: &[u8],
        movement: impl Fn(&mut dyn InternalIterator) -> Result<bool>,
    ) -> Result<bool> {
        let (comparator, mut moved) = (&self.comparator, false);
        for child in &mut self.children {
            if !child.valid() || comparator.compare(child.key(), target) != side {
                continue;
            }
            moved |= movement(&mut **child).inspect_err(|_| self.heap.clear())?;
        }
        if moved {
            self.rebuild(self.direction);
        }
        Ok(moved)
    }

    /// Changes the direction: every child moves to the far side of the current key.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let Some(&first) = self.heap.first() else {
            return Ok(());
        };
        let key = self.key_of(first).to_vec();
        let turned = self.turn_others(direction, first, &key);
        if turned.is_err() {
            self.heap.clear();
            return turned;
        }
        self.rebuild(direction);
        invariant!(
            self.heap.first() == Some(&first),
            "the child with the current key is not the first after a turn"
        );
        Ok(())
    }

    /// Moves every child but `first` to the far side of `key`.
    fn turn_others(&mut self, direction: Direction, first: usize, key: &[u8]) -> Result<()> {
        for (i, child) in self.children.iter_mut().enumerate() {
            if i == first {
                continue;
            }
            match direction {
                // Equal keys of other children count as passed: a child ends strictly on the far
                // side.
                Direction::Forward => {
                    child.seek(key)?;
                    if child.valid() && self.comparator.compare(child.key(), key).is_eq() {
                        child.next()?;
                    }
                }
                Direction::Backward => {
                    if mutant!(turn_repeats_a_key) {
                        child.seek(key)?;
                    } else {
                        child.seek_for_prev(key)?;
                    }
                    if child.valid() && self.comparator.compare(child.key(), key).is_eq() {
                        child.prev()?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl InternalIterator for MergingIterator {
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.move_all(Direction::Forward, |c| c.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.move_all(Direction::Backward, |c| c.seek_to_last())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.move_all(Direction::Forward, |c| c.seek(target))
    }

    /// Moves only the children that are before the target: the others are where a seek would put
    /// them.
    fn seek_ahead(&mut self, target: &[u8]) -> Result<()> {
        if self.direction != Direction::Forward {
            return self.seek(target);
        }
        while let Some(&first) = self.heap.first()
            && self.comparator.compare(self.key(), target).is_lt()
        {
            self.step(|c| c.seek_ahead(target))?;
            // If it stays the first one, no child is before the target.
            if self.heap.first() == Some(&first) {
                break;
            }
        }
        Ok(())
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.move_all(Direction::Backward, |c| c.seek_for_prev(target))
    }

    fn next(&mut self) -> Result<()> {
        if self.direction != Direction::Forward {
            self.turn(Direction::Forward)?;
        }
        self.step(|c| c.next())
    }

    fn prev(&mut self) -> Result<()> {
        if self.direction != Direction::Backward {
            self.turn(Direction::Backward)?;
        }
        self.step(|c| c.prev())
    }

    /// Lets each child skip up to the first entry of the others.
    fn skip_prefixes(&mut self, skip: &mut PrefixSkip<'_>) -> Result<()> {
        debug_assert!(self.direction == Direction::Forward, "turned before");
        loop {
            let second = self.second().and_then(|at| self.slot(at));
            let unbounded = mutant!(skip_passes_other_sources);
            let second = second.filter(|_| !unbounded);
            skip.set_bound(second.map(|child| self.key_of(child)));
            self.step(|c| c.skip_prefixes(skip))?;
            skip.set_bound(None);
            if skip.has_ended() || !self.valid() || !skip.passes(self.key()) {
                return Ok(());
            }
        }
    }

    fn skip_older(&mut self, target: &[u8], sequence: SequenceNumber) -> Result<bool> {
        debug_assert!(self.direction == Direction::Forward, "turned before");
        self.skip(Ordering::Less, target, |c| c.skip_older(target, sequence))
    }

    fn skip_older_back(&mut self, target: &[u8], sequence: SequenceNumber) -> Result<bool> {
        debug_assert!(self.direction == Direction::Backward, "turned before");
        self.skip(Ordering::Greater, target, |c| {
            c.skip_older_back(target, sequence)
        })
    }

    fn key(&self) -> &[u8] {
        self.current().map_or(&[], |c| c.key())
    }

    fn value(&self) -> &[u8] {
        self.current().map_or(&[], |c| c.value())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::BytewiseComparator;
    use crate::format::internal_key::{ValueType, seek_key, user_key};
    use crate::memtable::Memtable;

    /// Random walks of steps and turns, over keys spread at random over the children, compared with
    /// the sorted keys.
    #[test]
    fn it_walks_like_one_sorted_list_however_often_it_turns() {
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        for seed in 0..40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let children: Vec<_> = (0..rng.usize(1..5))
                .map(|_| Memtable::new(comparator.clone(), 64 << 10))
                .collect();
            let mut keys: Vec<String> = (0..20).map(|_| format!("{:03}", rng.u16(..999))).collect();
            keys.sort();
            keys.dedup();
            for (key, sequence) in keys.iter().zip(1..) {
                let child = &children[rng.usize(..children.len())];
                let sequence = SequenceNumber(sequence);
                child
                    .add(sequence, ValueType::Value, key.as_bytes(), b"")
                    .unwrap();
            }
            let children = children.iter().map(|c| Box::new(c.iter()) as Box<_>);
            let mut merged = MergingIterator::new(children.collect(), comparator.clone());
            let mut at = 0;
            merged.seek_to_first().unwrap();
            for _ in 0..200 {
                assert_eq!(user_key(merged.key()), keys[at].as_bytes(), "seed {seed}");
                let ahead = at + rng.usize(1..6);
                if ahead < keys.len() && rng.u8(..4) == 0 {
                    let target = seek_key(keys[ahead].as_bytes(), SequenceNumber::MAX);
                    merged.seek_ahead(&target).unwrap();
                    at = ahead;
                } else if at + 1 < keys.len() && (at == 0 || rng.bool()) {
                    merged.next().unwrap();
                    at += 1;
                } else if at > 0 {
                    merged.prev().unwrap();
                    at -= 1;
                }
            }
        }
    }
}
