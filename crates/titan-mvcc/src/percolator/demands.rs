//! The demands of a prewrite on its keys, and their checks.

use bytes::Bytes;
use titan::LazyValue;

use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::Lock;
use crate::lookup::{ReadStats, newest_change, value_at};
use crate::timestamp::Timestamp;

/// Demands of a prewrite beyond locks without conflicts. The default has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands<'a> {
    /// The demand on the key of each mutation, in their order. Keys beyond the end have none.
    pub on_keys: &'a [KeyDemand],
    /// Keys that must have no value. They are not locked.
    pub absent: &'a [AbsentKey<'a>],
    /// Commits in this call and leaves no lock. The call must have all keys of the transaction.
    pub one_phase: bool,
    /// The last timestamp at which the transaction may commit in one phase or by an async commit.
    /// Later, its locks are those of a commit in two phases. `None` is no bound.
    pub max_commit: Option<Timestamp>,
}

impl Demands<'_> {
    /// The demand on the key of the mutation with this number.
    pub(super) fn on_key(&self, number: usize) -> KeyDemand {
        self.on_keys.get(number).copied().unwrap_or_default()
    }
}

/// A key that must have no value, and that the prewrite does not lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentKey<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The check for conflicts.
    pub check: ConflictCheck,
}

/// The demand of a prewrite on one key. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyDemand {
    /// The key must have no value: an insert.
    pub absent: bool,
    /// The state of the key that the client knows, or believes to know.
    pub assertion: Option<Assertion>,
    /// The check for conflicts.
    pub check: ConflictCheck,
    /// The timestamp for update of the pessimistic lock, if the client knows it. A lock with
    /// another one is of a late copy of a request that the client gave up, and counts as lost: the
    /// key may have been written before it.
    pub locked_at: Option<Timestamp>,
}

impl KeyDemand {
    /// Checks the pessimistic lock of a key.
    ///
    /// # Errors
    /// `PessimisticLockNotFound` if it is not the one that the client knows.
    pub(super) fn check_lock(&self, key: &[u8], lock: &Lock) -> Result<()> {
        match self.locked_at {
            Some(at) if at != lock.for_update && !mutant!(any_lock_converted) => {
                Err(Error::PessimisticLockNotFound {
                    key: Bytes::copy_from_slice(key),
                    start: lock.start,
                })
            }
            _ => Ok(()),
        }
    }
}

/// The state of a key that a client asserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assertion {
    /// The key has a value.
    Exists,
    /// The key has no value.
    Absent,
}

/// The check of a key for conflicts with writes of other transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConflictCheck {
    /// The check of the transaction. An optimistic one must find no later version. A pessimistic
    /// one must have locked the key, or find no version after its start.
    #[default]
    Usual,
    /// No later version, also for a pessimistic transaction that has not locked the key.
    Versions,
    /// None: the lock of another key protects this one, in a pessimistic transaction.
    Nothing,
}

/// Checks the presence of the key's value. The caller has taken the latch of the key. Cost: that of
/// a read of the key. If an assertion fails, an iterator steps over locks.
///
/// # Errors
/// `AlreadyExists`, `AssertionFailed`; those of the engine.
pub(super) fn check_presence(
    core: &Core,
    key: &[u8],
    start: Timestamp,
    demand: KeyDemand,
) -> Result<()> {
    if !demand.absent && demand.assertion.is_none() {
        return Ok(());
    }
    let exists = present_value(core, key)?.is_some();
    if demand.absent && exists && !mutant!(inserts_unchecked) {
        let key = Bytes::copy_from_slice(key);
        return Err(Error::AlreadyExists { key });
    }
    let is_right = match demand.assertion {
        None => true,
        Some(Assertion::Exists) => exists,
        Some(Assertion::Absent) => !exists,
    };
    match is_right {
        true => Ok(()),
        false => {
            let newest = newest_change(&core.versions, key)?;
            Err(Error::AssertionFailed {
                key: Bytes::copy_from_slice(key),
                start,
                must_exist: demand.assertion == Some(Assertion::Exists),
                existing: newest.map(|version| (version.start, version.commit)),
            })
        }
    }
}

/// The newest value of a key. The caller has taken the latch of the key, and found no lock of
/// another transaction.
pub(super) fn present_value(core: &Core, key: &[u8]) -> Result<Option<LazyValue>> {
    let mut read = ReadStats::default();
    let value = value_at(&core.versions, key, Timestamp::MAX, &mut read);
    core.reads.totals.add(read);
    value
}
