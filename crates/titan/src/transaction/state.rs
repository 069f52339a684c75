//! The state of a transaction: its snapshot, the keys that it touched, its writes.

use std::sync::Arc;

use bytes::Bytes;

use super::index::{Index, Pending};
use super::tracked::TrackedKeys;
use crate::batch::{BatchShape, WriteBatch};
use crate::db::{ColumnFamily, Conditions};
use crate::error::{Error, Result};
use crate::format::ColumnFamilyId;
use crate::number_map::NumberMap;
use crate::read::{ReadOptions, Snapshot};
use crate::wide_columns::WideColumns;

/// The parts of a transaction that its calls change.
#[derive(Default)]
pub(super) struct State {
    /// Snapshot that reads see.
    pub(super) snapshot: Option<Snapshot>,
    /// Keeps the evidence that the check of conditions needs; no condition is about an earlier
    /// moment.
    pub(super) evidence: Option<Snapshot>,
    pub(super) tracked: TrackedKeys,
    pub(super) batch: WriteBatch,
    /// The shape of a batch that was taken to be committed, until it comes back whole.
    taken: Option<BatchShape>,
    /// The writes by family, for reads.
    pub(super) written: NumberMap<ColumnFamilyId, Index>,
    /// Copies of `written` at each save point. The copies share the parts that did not change
    /// since.
    pub(super) written_at: Vec<NumberMap<ColumnFamilyId, Index>>,
}

impl State {
    /// Write of the transaction to a key, if anything: a value, or that there is none.
    pub(super) fn own(&self, family: &ColumnFamily, key: &[u8]) -> Option<Result<Option<Bytes>>> {
        let written = self.written.get(&family.id())?.get(key)?;
        Some(match written {
            Pending::Value(value) => Ok(Some(value.clone())),
            Pending::Entity(columns) => columns.default_value().fetch().map(Some),
            Pending::Deleted => Ok(None),
        })
    }

    /// The columns that the transaction has written to a key, if anything.
    pub(super) fn own_columns(
        &self,
        family: &ColumnFamily,
        key: &[u8],
    ) -> Option<Option<WideColumns>> {
        let written = self.written.get(&family.id())?.get(key)?;
        Some(match written {
            Pending::Value(value) => Some(WideColumns::of_value(value.clone().into())),
            Pending::Entity(columns) => Some(columns.clone()),
            Pending::Deleted => None,
        })
    }

    /// Notes the last write of a key.
    pub(super) fn insert(&mut self, family: &ColumnFamily, key: &[u8], pending: Pending) {
        let written = &mut self.written;
        let index = written.get_or_insert_with(family.id(), || new_index(family));
        index.insert(Bytes::copy_from_slice(key), pending);
    }

    /// Fails with `Internal` if the writes are lost: the thread that committed them panicked.
    pub(super) fn check_not_lost(&self) -> Result<()> {
        match self.taken {
            None => Ok(()),
            Some(_) => Err(Error::internal(
                "the thread that committed the transaction panicked, and its writes are lost: begin another one",
            )),
        }
    }

    /// The writes, and the conditions under which they are made: none if no key was touched. Writes
    /// that were not committed are to be [given back](State::give_back).
    ///
    /// # Errors
    /// `Internal` if an earlier call took them, and they were not given back whole.
    pub(super) fn take_writes(&mut self) -> Result<(WriteBatch, Option<Conditions>)> {
        self.check_not_lost()?;
        let Some(evidence) = self.evidence.as_ref().filter(|_| !self.tracked.is_empty()) else {
            return Ok((WriteBatch::new(), None));
        };
        let mut conditions = Conditions::since(evidence);
        let unguarded = mutant!(guards_have_no_effect);
        for (key, tracked) in self.tracked.iter() {
            if unguarded && !tracked.is_written() {
                continue;
            }
            conditions.unchanged_since(key.family(), key.key(), tracked.since)?;
        }
        self.taken = Some(self.batch.shape());
        Ok((std::mem::take(&mut self.batch), Some(conditions)))
    }

    /// Gives back writes that were not committed. They are empty if the thread panicked that was to
    /// commit them.
    pub(super) fn give_back(&mut self, batch: WriteBatch) {
        if self.taken == Some(batch.shape()) {
            self.batch = batch;
            self.taken = None;
        }
    }

    pub(super) fn read_options(&self, options: ReadOptions) -> ReadOptions {
        let snapshot = options.snapshot.or_else(|| self.snapshot.clone());
        ReadOptions {
            snapshot,
            ..options
        }
    }
}

/// The writes to a family, before there are any.
pub(super) fn new_index(family: &ColumnFamily) -> Index {
    Index::new(Arc::clone(family.comparator()))
}
