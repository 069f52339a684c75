//! Knowledge of the room on the device, and of the room for which jobs wait.
//! [`lack_of_room`](crate::db::resources::lack_of_room) decides what follows from it.

use std::time::Duration;

use crate::compaction::choosing::budget::{Budget, Lack};
use crate::error::Error;

/// The time after which jobs that lack room look again whether there is some, in real time.
pub(crate) const LOOK_EACH: Duration = Duration::from_secs(1);

/// The longest time after which a job that found the device full is tried again.
const MAX_RETRY: Duration = Duration::from_secs(64);

/// Knowledge of the room on the device. Guarded by the state lock.
pub(crate) struct Room {
    pub(crate) budget: Budget,
    /// When that was asked, by the steady clock.
    pub(crate) now: Duration,
    /// The amount that running compactions may still write.
    pub(crate) promised: u64,
}

impl Default for Room {
    fn default() -> Self {
        Room {
            budget: Budget::UNLIMITED,
            now: Duration::ZERO,
            promised: 0,
        }
    }
}

impl Room {
    /// Promises room to a job that begins.
    pub(crate) fn promise(&mut self, need: u64) {
        self.promised = self.promised.saturating_add(need);
    }

    /// It has ended.
    pub(crate) fn release(&mut self, need: u64) {
        // Resuming takes back the room promised to jobs that have panicked, and no job runs then.
        invariant!(
            self.promised >= need,
            "a job gives back {need} bytes of room, and {} are promised",
            self.promised
        );
        self.promised = self.promised.saturating_sub(need);
    }
}

/// The room for which a flush waits.
#[derive(Clone)]
pub(crate) struct FlushWait {
    /// Bytes.
    need: u64,
    /// Number of memtables that it was to write. With further ones it may write less: they may
    /// delete.
    memtables: usize,
    not_before: Duration,
    pub(crate) error: Error,
}

impl FlushWait {
    /// For these bytes, or until this time, where it found the device full.
    pub(crate) fn new(need: u64, memtables: usize, not_before: Duration, error: Error) -> Self {
        FlushWait {
            need,
            memtables,
            not_before,
            error,
        }
    }

    pub(crate) fn is_over(&self, memtables: usize, room: &Room) -> bool {
        room.now >= self.not_before
            && (memtables != self.memtables || room.budget.available >= self.need)
    }
}

/// The room for which compactions or the collections of a family wait.
#[derive(Clone, Default)]
pub(crate) struct RoomWait {
    lack: Option<Lack>,
    not_before: Duration,
    /// Number of times that one has found the device full since the last that did not.
    failures: u32,
    /// The error of the last of them.
    error: Option<Error>,
}

impl RoomWait {
    pub(crate) fn is_over(&self, room: &Room) -> bool {
        self.may_try(room) && self.lack.is_none_or(|lack| room.budget.meets(lack))
    }

    /// Whether the last failure is long enough ago.
    pub(crate) fn may_try(&self, room: &Room) -> bool {
        room.now >= self.not_before
    }

    /// The room that is lacking.
    pub(crate) fn lack(&self) -> Option<Lack> {
        self.lack
    }

    /// The error of the last that has found the device full, although its need had been estimated.
    pub(crate) fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Those that are due lack room.
    pub(crate) fn lacks(&mut self, lack: Option<Lack>) {
        self.lack = lack;
    }

    /// One has found the device full at this time, although its need had been estimated.
    pub(crate) fn failed(&mut self, now: Duration, error: &Error) {
        let seconds = 1_u64.checked_shl(self.failures).unwrap_or(u64::MAX);
        self.failures += 1;
        self.error = Some(error.clone());
        self.not_before = now + Duration::from_secs(seconds).min(MAX_RETRY);
    }

    /// One has succeeded.
    pub(crate) fn succeeded(&mut self) {
        *self = RoomWait::default();
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.lack.is_some() || self.failures > 0
    }
}
