//! The recorded operations of a run, and the crashes that could have interrupted it.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use super::crash::Loss;
use super::disk::Disk;
use super::op::{FsOp, Mark};
use super::vfs::SimVfs;

/// All operations that changed a [`SimVfs`], in order, from its state at the start.
///
/// A *crash point* is a number `i` from 0 to [`Journal::len`]: the operations before `i` happened,
/// operation `i` and those after it did not.
#[derive(Clone)]
pub struct Journal {
    pub(super) base: Disk,
    pub(super) ops: Vec<FsOp>,
    pub(super) marks: Vec<Mark>,
    /// For each mark, the number of operations before it; never decreases.
    pub(super) positions: Vec<usize>,
}

impl Journal {
    pub(super) fn starting_at(base: Disk) -> Self {
        Journal {
            base,
            ops: Vec::new(),
            marks: Vec::new(),
            positions: Vec::new(),
        }
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The operations in order.
    pub fn ops(&self) -> &[FsOp] {
        &self.ops
    }

    /// The marks that are set before a crash at `point`, in order.
    pub fn marks_before(&self, point: usize) -> &[Mark] {
        let count = self
            .positions
            .partition_point(|position| *position <= point);
        &self.marks[..count]
    }

    /// The largest number among the marks before `point`; 0 if there is none. Cost: a pass over
    /// them.
    pub fn acknowledged_before(&self, point: usize) -> u64 {
        let numbers = self
            .marks_before(point)
            .iter()
            .filter_map(|mark| match mark {
                Mark::Number(number) => Some(*number),
                Mark::Text(_) => None,
            });
        numbers.max().unwrap_or(0)
    }

    /// The file system after a crash at `point`. Replays from the start: to visit many points use
    /// [`Journal::crash_points`].
    pub fn crash_at(&self, point: usize, loss: &Loss) -> SimVfs {
        let mut disk = self.base.clone();
        self.ops
            .iter()
            .take(point)
            .for_each(|op| replay(&mut disk, op));
        SimVfs::from_disk(disk.after_crash(loss, point.min(self.len())))
    }

    /// All crash points from 0 to [`Journal::len`], in order. Cost: for a step that of the
    /// operation, for a point one pointer per file; points left out by `step_by` and `skip` cost
    /// nothing.
    pub fn crash_points(&self) -> CrashPoints<'_> {
        CrashPoints {
            journal: self,
            disk: self.base.clone(),
            applied: 0,
            next: 0,
        }
    }
}

/// One operation per line, with the marks between them.
impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut marks = self.positions.iter().zip(&self.marks).peekable();
        for point in 0..=self.ops.len() {
            while let Some((_, mark)) = marks.next_if(|(position, _)| **position == point) {
                match mark {
                    Mark::Number(number) => writeln!(f, "-- {number}")?,
                    Mark::Text(text) => writeln!(f, "-- {text}")?,
                }
            }
            if let Some(op) = self.ops.get(point) {
                writeln!(f, "{op}")?;
            }
        }
        Ok(())
    }
}

/// The operation succeeded on the same state when it was recorded, so it succeeds again.
fn replay(disk: &mut Disk, op: &FsOp) {
    let outcome = disk.apply(op);
    debug_assert!(outcome.is_ok(), "replaying {op}: {outcome:?}");
}

/// Iterator over the crash points of a [`Journal`].
pub struct CrashPoints<'a> {
    journal: &'a Journal,
    disk: Disk,
    /// The number of operations applied to `disk`.
    applied: usize,
    next: usize,
}

impl<'a> Iterator for CrashPoints<'a> {
    type Item = CrashPoint<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        let index = self.next.saturating_add(n);
        self.next = index.saturating_add(1).min(self.journal.len() + 1);
        if index > self.journal.len() {
            return None;
        }
        for op in &self.journal.ops[self.applied..index] {
            replay(&mut self.disk, op);
        }
        self.applied = index;
        Some(CrashPoint {
            journal: self.journal,
            index,
            disk: self.disk.clone(),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.journal.len() + 1 - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for CrashPoints<'_> {}
impl FusedIterator for CrashPoints<'_> {}

/// A point at which the machine may stop.
pub struct CrashPoint<'a> {
    journal: &'a Journal,
    index: usize,
    disk: Disk,
}

impl<'a> CrashPoint<'a> {
    /// The number of operations before it.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The last operation before it.
    pub fn last_op(&self) -> Option<&'a FsOp> {
        self.journal.ops.get(self.index.checked_sub(1)?)
    }

    /// The marks set before it.
    pub fn marks(&self) -> &'a [Mark] {
        self.journal.marks_before(self.index)
    }

    /// The largest number among [`CrashPoint::marks`]; 0 if there is none.
    pub fn acknowledged(&self) -> u64 {
        self.journal.acknowledged_before(self.index)
    }

    /// The file system after the crash.
    pub fn crash(&self, loss: &Loss) -> SimVfs {
        SimVfs::from_disk(self.disk.after_crash(loss, self.index))
    }

    /// The file system after the process, but not the machine, was killed during the next
    /// operation, if that is an append: a part of it was written, and nothing else is lost.
    pub fn kill_within(&self, seed: u64) -> Option<SimVfs> {
        match self.journal.ops.get(self.index)? {
            FsOp::Append { path, file, data } if data.len() > 1 => {
                let len = fastrand::Rng::with_seed(seed).usize(1..data.len());
                let (path, data) = (Arc::clone(path), data.slice(..len));
                let mut disk = self.disk.clone();
                replay(
                    &mut disk,
                    &FsOp::Append {
                        path,
                        file: *file,
                        data,
                    },
                );
                Some(SimVfs::from_disk(disk.after_crash(&Loss::None, self.index)))
            }
            _ => None,
        }
    }
}
