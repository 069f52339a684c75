//! The status of the transaction that owns a lock, for callers that found the lock.

use super::secondaries::{Decided, SecondariesStatus, check_secondaries, decided};
use super::status::{TransactionStatus, check_expired};
use crate::core::Core;
use crate::error::Result;
use crate::locks::ActiveLock;
use crate::lookup::{Ended, ended};
use crate::timestamp::Timestamp;

/// How the transaction of a lock stands.
pub(super) enum OwnerStatus {
    /// It committed at this timestamp.
    Committed(Timestamp),
    /// It was rolled back.
    RolledBack,
    /// It may still commit.
    Running,
}

/// How the transaction of a lock stands. With `may_roll_back` it is rolled back if it has expired.
pub(super) fn owner_status(
    core: &Core,
    held: &ActiveLock,
    may_roll_back: bool,
) -> Result<OwnerStatus> {
    let (mut primary, start) = (&held.lock.primary, held.lock.start);
    let mut deciding = core.locks.of(primary, start);
    // A pessimistic transaction may give up its primary key and choose another one. A lock that stayed from before
    // ends as the transaction does.
    let chosen = deciding
        .as_ref()
        .map(|deciding| deciding.lock.primary.clone());
    if let Some(chosen) = chosen.as_ref().filter(|chosen| *chosen != primary) {
        (primary, deciding) = (chosen, core.locks.of(chosen, start));
    }
    let Some(deciding) = deciding else {
        return match ended(&core.versions, primary, start)? {
            Ended::Committed(at) => Ok(OwnerStatus::Committed(at)),
            Ended::RolledBack => Ok(OwnerStatus::RolledBack),
            Ended::Unknown if may_roll_back && core.locks.is_expired(held) => {
                of_status(check_expired(core, primary, start, true)?)
            }
            Ended::Unknown => Ok(OwnerStatus::Running),
        };
    };
    let is_expired = may_roll_back && core.locks.is_expired(&deciding);
    if !deciding.lock.is_async() {
        return match is_expired {
            true => of_status(check_expired(core, primary, start, true)?),
            false => Ok(OwnerStatus::Running),
        };
    }
    match decided(core, &deciding.lock)? {
        Decided::Committed(at) => Ok(OwnerStatus::Committed(at)),
        Decided::RolledBack => Ok(OwnerStatus::RolledBack),
        Decided::Open if is_expired => {
            let secondaries = deciding.lock.secondaries.as_deref().unwrap_or_default();
            let keys: Vec<&[u8]> = secondaries.iter().map(|key| &**key).collect();
            match check_secondaries(core, &keys, start)? {
                SecondariesStatus::Committed(at) => Ok(OwnerStatus::Committed(at)),
                SecondariesStatus::RolledBack => Ok(OwnerStatus::RolledBack),
                // The last one was prewritten meanwhile.
                SecondariesStatus::Locked(_) => Ok(OwnerStatus::Running),
            }
        }
        Decided::Open => Ok(OwnerStatus::Running),
    }
}

fn of_status(status: TransactionStatus) -> Result<OwnerStatus> {
    Ok(match status {
        TransactionStatus::Alive { .. } => OwnerStatus::Running,
        TransactionStatus::Committed(at) => OwnerStatus::Committed(at),
        TransactionStatus::RolledBack => OwnerStatus::RolledBack,
    })
}
