//! The interface of the commit hook, and the operations that it is shown.
//!
//! Owns no state: [`write`](crate::write) calls the hook.

use std::fmt;

use crate::batch::{BatchOp, WriteBatch};
use crate::format::{ColumnFamilyId, SequenceNumber};

/// Learns of every change of a database before readers can see it, for a copy that must never be
/// older than the view of a reader of the database: a cache of whole ranges, an index in memory, a
/// stream of changes.
///
/// All calls come from writing threads, one at a time. They may not block, fail or call the
/// database, except for gets and iterators, which see the group in `after_publish` only: other
/// writers wait for them. A write, a flush or a [barrier](crate::Db::barrier) from within a call
/// fails with `InvalidArgument`.
///
/// If a call panics, the commit goes on as if nothing had happened, the hook is never called again,
/// [`Db::is_commit_hook_poisoned`](crate::Db::is_commit_hook_poisoned) returns true from before the
/// group is visible on (before the next group, if `after_publish` panicked), and listeners are
/// [notified](crate::EventListener::commit_hook_poisoned). The data that the hook maintains must
/// not be used any more then; the next opening may have a hook again.
pub trait CommitHook: Send + Sync {
    /// A group of batches is in the memtables, and becomes visible when this returns. The first
    /// operation has the sequence number `first`, each one after it the next.
    ///
    /// Not called for batches that an opening replays from the WAL, nor for batches that failed.
    fn before_publish(&self, first: SequenceNumber, operations: &CommittedOps<'_>);

    /// A group is visible, and none of its writers has been told yet: they return after this.
    /// `tickets` are those that [`WriteBatch::set_ticket`] gave to its batches, in their order. Not
    /// called for a group without tickets.
    fn after_publish(&self, _tickets: &mut dyn Iterator<Item = u64>) {}

    /// The data of a family changes in a range without passing as operations, and the change
    /// becomes visible when this returns. It has the effect of an operation with this sequence
    /// number after all those that the hook has seen up to it. Today that happens when a family is
    /// dropped, when [`ColumnFamily::put_reader`](crate::ColumnFamily::put_reader) sets a key,
    /// since the value is not in memory, and when
    /// [`ColumnFamily::ingest`](crate::ColumnFamily::ingest) adds a file. The number is that of the
    /// put or of the file then, which no operation has.
    ///
    /// Compactions and garbage collections change no data and are not reported. A
    /// [compaction filter](crate::ColumnFamilyOptions) does, and is not reported either: it must
    /// not remove entries that may still be read elsewhere.
    fn on_bypass(&self, range: &BypassedRange<'_>, sequence: SequenceNumber);

    /// The owner of the entries, if they are records of a program that files made elsewhere would
    /// damage: [`ingest`](crate::ColumnFamily::ingest) then fails, and names the owner. The default
    /// is none. May be called by any thread, and may not call the database.
    fn refuses_files(&self) -> Option<String> {
        None
    }
}

impl fmt::Debug for dyn CommitHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitHook")
    }
}

/// The operations of a group, in the order of their sequence numbers.
#[derive(Clone, Copy)]
pub struct CommittedOps<'a> {
    batches: &'a [WriteBatch],
    first: SequenceNumber,
}

impl<'a> CommittedOps<'a> {
    /// The first operation has the number `first`.
    pub(crate) fn new(batches: &'a [WriteBatch], first: SequenceNumber) -> Self {
        CommittedOps { batches, first }
    }

    /// The operations that take a sequence number, each with its own. No copies, no allocation.
    pub fn iter(&self) -> impl Iterator<Item = (SequenceNumber, BatchOp<'a>)> + use<'a> {
        let ops = self.batches.iter().flat_map(WriteBatch::iter);
        // Operations that cannot be decoded were refused before anything was logged.
        let ops = ops.filter_map(|op| op.ok().filter(BatchOp::takes_sequence));
        let numbers = (self.first.0..).map(SequenceNumber);
        numbers.zip(ops)
    }
}

impl fmt::Debug for CommittedOps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A range of keys of a family. `None` is the end of the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BypassedRange<'a> {
    /// The family.
    pub column_family: ColumnFamilyId,
    /// The first key.
    pub begin: Option<&'a [u8]>,
    /// The first key after the range.
    pub end: Option<&'a [u8]>,
}

impl BypassedRange<'static> {
    /// Everything in a family.
    pub(crate) fn all_of(column_family: ColumnFamilyId) -> Self {
        BypassedRange {
            column_family,
            begin: None,
            end: None,
        }
    }
}
