//! The status of the transaction that owns a lock.

use super::secondaries::{AsyncStatus, SecondariesStatus, async_status, check_secondaries};
use super::status::{TransactionStatus, check_expired};
use crate::core::Core;
use crate::error::Result;
use crate::locks::ActiveLock;
use crate::lookup::{Outcome, outcome};
use crate::timestamp::Timestamp;

/// The status of the transaction that owns a lock.
pub(super) enum OwnerStatus {
    /// Committed at this timestamp.
    Committed(Timestamp),
    /// Rolled back.
    RolledBack,
    /// Running: it may still commit.
    Running,
}

/// The status of the owner of a lock. With `may_roll_back`, an expired transaction is rolled back.
pub(super) fn owner_status(
    core: &Core,
    active: &ActiveLock,
    may_roll_back: bool,
) -> Result<OwnerStatus> {
    let (mut primary, start) = (&active.lock.primary, active.lock.start);
    let mut deciding = core.locks.owned_by(primary, start);
    // A pessimistic transaction may release its primary key and choose another one. A lock with the
    // former primary key ends as the transaction does.
    let chosen = deciding
        .as_ref()
        .map(|deciding| deciding.lock.primary.clone());
    if let Some(chosen) = chosen.as_ref().filter(|chosen| *chosen != primary) {
        (primary, deciding) = (chosen, core.locks.owned_by(chosen, start));
    }
    let Some(deciding) = deciding else {
        return match outcome(&core.versions, primary, start)? {
            Outcome::Committed(at) => Ok(OwnerStatus::Committed(at)),
            Outcome::RolledBack => Ok(OwnerStatus::RolledBack),
            Outcome::Unknown if may_roll_back && core.locks.is_expired(active) => {
                of_status(check_expired(core, primary, start, true)?)
            }
            Outcome::Unknown => Ok(OwnerStatus::Running),
        };
    };
    let is_expired = may_roll_back && core.locks.is_expired(&deciding);
    let by_primary = || match is_expired {
        true => of_status(check_expired(core, primary, start, true)?),
        false => Ok(OwnerStatus::Running),
    };
    if !deciding.lock.is_async() {
        return by_primary();
    }
    match async_status(core, &deciding.lock)? {
        AsyncStatus::FellBack => by_primary(),
        AsyncStatus::Committed(at) => Ok(OwnerStatus::Committed(at)),
        AsyncStatus::RolledBack => Ok(OwnerStatus::RolledBack),
        AsyncStatus::Undecided if is_expired || mutant!(running_async_commit_rolled_back) => {
            let secondaries = deciding.lock.secondaries.as_deref().unwrap_or_default();
            let keys: Vec<&[u8]> = secondaries.iter().map(|key| &**key).collect();
            match check_secondaries(core, &keys, start)? {
                SecondariesStatus::Committed(at) => Ok(OwnerStatus::Committed(at)),
                SecondariesStatus::RolledBack => Ok(OwnerStatus::RolledBack),
                // The last key was prewritten at the same time.
                SecondariesStatus::Locked(_) => Ok(OwnerStatus::Running),
            }
        }
        AsyncStatus::Undecided => Ok(OwnerStatus::Running),
    }
}

fn of_status(status: TransactionStatus) -> Result<OwnerStatus> {
    Ok(match status {
        TransactionStatus::Running { .. } => OwnerStatus::Running,
        TransactionStatus::Committed(at) => OwnerStatus::Committed(at),
        TransactionStatus::RolledBack => OwnerStatus::RolledBack,
    })
}
