//! Touching a key: locking it if the transaction is pessimistic, and noting since when it must be
//! unchanged.

use super::handle::Transaction;
use super::options::LockOptions;
use super::state::State;
use super::tracked::{TrackedKeys, Use};
use crate::db::{ColumnFamily, Conditions};
use crate::error::{Error, ErrorKind, Result};
use crate::format::SequenceNumber;
use crate::locks::{Acquired, LockKey, Mode, Request};

impl Transaction {
    /// Begins a call that touches a key: locks the key if the transaction is pessimistic.
    pub(super) fn touch(
        &self,
        state: &mut State,
        family: &ColumnFamily,
        key: &[u8],
        mode: Mode,
    ) -> Result<Touched<'_>> {
        self.db.check_usable(family)?;
        self.db.check_not_inherited()?;
        let mut touched = Touched {
            transaction: self,
            key: LockKey::new(family.id(), key),
            since: SequenceNumber(0),
            is_newly_locked: false,
        };
        if let Some(options) = &self.options.locks {
            let acquired = self.lock(state, family, &touched.key, mode, options)?;
            touched.is_newly_locked = acquired == Acquired::New;
        }
        touched.since = match state.tracked.get(&touched.key) {
            Some(tracked) => tracked.since,
            // ORDER: after the lock: a write of its last owner is no conflict.
            None => self.since(state, family, &touched.key)?,
        };
        Ok(touched)
    }

    fn lock(
        &self,
        state: &State,
        family: &ColumnFamily,
        key: &LockKey,
        mode: Mode,
        options: &LockOptions,
    ) -> Result<Acquired> {
        let is_new = state.tracked.get(key).is_none();
        let is_full = |max: usize| state.tracked.len() >= max;
        if is_new && options.max_locks.is_some_and(is_full) {
            return Err(Error::new(
                ErrorKind::LockLimit,
                format!(
                    "transaction {} has locked {} keys, and may not lock more: commit it, or raise \
                     LockOptions::max_locks",
                    self.id.0,
                    state.tracked.len()
                ),
            ));
        }
        self.db.locks().acquire(&Request {
            owner: self.id,
            key,
            family: family.name(),
            mode,
            timeout: options.timeout,
            detect_deadlocks: options.detect_deadlocks,
        })
    }

    /// Since when a key must be unchanged that is touched for the first time. A pessimistic
    /// transaction with a snapshot learns at once if it has changed.
    fn since(
        &self,
        state: &mut State,
        family: &ColumnFamily,
        key: &LockKey,
    ) -> Result<SequenceNumber> {
        self.snapshot_if_due(state);
        let Some(snapshot) = &state.snapshot else {
            // ORDER: the evidence is kept from a moment on that is not after the condition's.
            state.evidence.get_or_insert_with(|| self.db.snapshot());
            return Ok(self.db.latest_sequence_number());
        };
        if self.options.locks.is_some() {
            let mut conditions = Conditions::since(snapshot);
            conditions.unchanged(family, key.key())?;
            self.db.check_conditions(&conditions)?;
        }
        Ok(snapshot.sequence())
    }
}

/// A key that a call touches. If the call fails or panics before [`Touched::keep`], the lock that
/// the call took is released.
pub(super) struct Touched<'t> {
    transaction: &'t Transaction,
    key: LockKey,
    since: SequenceNumber,
    is_newly_locked: bool,
}

impl Touched<'_> {
    /// Notes the use of the key: from now on a write of the key by others is a conflict, and the
    /// lock belongs to the transaction.
    pub(super) fn keep(mut self, tracked: &mut TrackedKeys, used: Use) {
        tracked.note(&self.key, self.since, used);
        self.is_newly_locked = false;
    }
}

impl Drop for Touched<'_> {
    fn drop(&mut self) {
        let keeps = mutant!(failed_call_keeps_lock);
        if self.is_newly_locked && !keeps {
            self.transaction.release([&self.key]);
        }
    }
}
