//! The safe point, which is the oldest timestamp that can be read, and the holds that it does not
//! pass.
//!
//! Promises: a read at a timestamp finds every version that it needs while its hold exists.
//! Versions are dropped only up to [`SafePoint::droppable`], which passes no hold. The safe point
//! survives restarts and never moves backwards.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use titan::{SystemClock, invariant};

use super::commit_order::CommitOrder;
use super::wakeups::Wakeups;
use crate::error::{Error, Result};
use crate::meta::{Meta, SAFE_POINT};
use crate::timestamp::Timestamp;

/// The safe point and the holds of a store.
pub(crate) struct SafePoint {
    meta: Meta,
    clock: Arc<dyn SystemClock>,
    state: Mutex<State>,
    /// The safe point on disk. Locked while a new one is written.
    stored: Mutex<Timestamp>,
    droppable: Arc<AtomicU64>,
    /// Raised when a hold ends that kept the safe point from its target.
    wake: Arc<Wakeups>,
}

struct State {
    /// Reads before this timestamp are refused.
    safe_point: Timestamp,
    /// By timestamp and a serial number.
    holds: BTreeMap<(Timestamp, u64), HoldEntry>,
    /// The serial number of the next hold.
    next_hold: u64,
    /// The safe point by retention, without holds.
    target: Timestamp,
}

impl State {
    fn check(&self, at: Timestamp) -> Result<()> {
        match at < self.safe_point {
            true => Err(Error::BeforeSafePoint {
                asked: at,
                safe_point: self.safe_point,
            }),
            false => Ok(()),
        }
    }
}

struct HoldEntry {
    name: Cow<'static, str>,
    since: Duration,
}

/// A hold, as [`Store::holds`](crate::Store::holds) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoldInfo {
    /// The name that the caller gave, or "snapshot" or "transaction".
    pub name: Cow<'static, str>,
    /// The timestamp that the safe point does not pass.
    pub timestamp: Timestamp,
    /// The age of the hold.
    pub age: Duration,
}

impl SafePoint {
    /// The safe point of the last opening. The compaction filter reads `droppable`.
    ///
    /// # Errors
    /// `Oracle` if the safe point is after the present; those of the engine.
    pub(crate) fn open(
        meta: Meta,
        clock: Arc<dyn SystemClock>,
        order: &CommitOrder,
        droppable: Arc<AtomicU64>,
    ) -> Result<Self> {
        let safe_point = Timestamp(meta.get(SAFE_POINT)?.unwrap_or(0));
        let now = order.visible();
        if safe_point > now {
            return Err(Error::oracle(format!(
                "the oracle is at {now}, before the safe point {safe_point} of the store"
            )));
        }
        droppable.store(safe_point.0, Ordering::Release);
        let state = State {
            safe_point,
            holds: BTreeMap::new(),
            next_hold: 0,
            target: Timestamp::ZERO,
        };
        Ok(SafePoint {
            meta,
            clock,
            state: Mutex::new(state),
            stored: Mutex::new(safe_point),
            droppable,
            wake: Arc::clone(order.wake()),
        })
    }

    /// The safe point on disk, up to which versions may be dropped.
    pub(crate) fn droppable(&self) -> Timestamp {
        Timestamp(self.droppable.load(Ordering::Acquire))
    }

    /// The oldest timestamp that can be read.
    pub(crate) fn get(&self) -> Timestamp {
        self.state.lock().safe_point
    }

    /// Keeps the safe point from passing `at`.
    ///
    /// # Errors
    /// `BeforeSafePoint` if it has passed `at`.
    pub(crate) fn hold(self: &Arc<Self>, name: Cow<'static, str>, at: Timestamp) -> Result<Hold> {
        let mut state = self.state.lock();
        state.check(at)?;
        Ok(self.insert(&mut state, name, at))
    }

    /// Keeps the safe point before `start`, the start of a transaction.
    ///
    /// # Errors
    /// `BeforeSafePoint` if it has reached `start`.
    pub(crate) fn hold_before(
        self: &Arc<Self>,
        name: Cow<'static, str>,
        start: Timestamp,
    ) -> Result<Hold> {
        let mut state = self.state.lock();
        let at = start.previous();
        // Also for zero, which has no timestamp before it.
        if start <= state.safe_point {
            return Err(Error::BeforeSafePoint {
                asked: at,
                safe_point: state.safe_point,
            });
        }
        Ok(self.insert(&mut state, name, at))
    }

    /// Confirms, after a search, that all versions after `at` were still there.
    ///
    /// # Errors
    /// `BeforeSafePoint` if some may have been dropped.
    pub(crate) fn check(&self, at: Timestamp) -> Result<()> {
        self.state.lock().check(at)
    }

    /// Keeps the safe point from passing the visible timestamp.
    pub(crate) fn hold_visible(
        self: &Arc<Self>,
        name: Cow<'static, str>,
        order: &CommitOrder,
    ) -> Hold {
        let mut state = self.state.lock();
        // ORDER: under the mutex. The safe point could pass a timestamp that was read before it. It
        // cannot pass the present one, because it moves to no later timestamp.
        let at = order.visible();
        gate!("hold: has its timestamp");
        self.insert(&mut state, name, at)
    }

    /// Whether a thread is between two steps of which another one must see both or none.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.state.is_locked()
    }

    fn insert(self: &Arc<Self>, state: &mut State, name: Cow<'static, str>, at: Timestamp) -> Hold {
        let safe_point = state.safe_point;
        invariant!(at >= safe_point, "hold at {at}, before {safe_point}");
        let id = (at, state.next_hold);
        state.next_hold += 1;
        let since = self.clock.monotonic();
        state.holds.insert(id, HoldEntry { name, since });
        Hold {
            safe_point: Arc::clone(self),
            id,
        }
    }

    /// All holds, the oldest timestamp first.
    pub(crate) fn holds(&self) -> Vec<HoldInfo> {
        let now = self.clock.monotonic();
        let state = self.state.lock();
        let info = |(id, holder): (&(Timestamp, u64), &HoldEntry)| HoldInfo {
            name: holder.name.clone(),
            timestamp: id.0,
            age: now.saturating_sub(holder.since),
        };
        state.holds.iter().map(info).collect()
    }

    /// Moves the safe point forward to `to`, or to the oldest hold before it, as the retention
    /// demands. Does nothing if `to` is reached already. The end of that hold wakes the sweeper.
    ///
    /// # Errors
    /// Those of [`SafePoint::advance`].
    pub(crate) fn advance_by_time(&self, to: Timestamp, order: &CommitOrder) -> Result<()> {
        if to <= self.droppable() {
            return Ok(());
        }
        self.state.lock().target = to;
        match self.advance(to, order) {
            // Another call moved it further.
            Ok(_) | Err(Error::SafePointBackwards { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Moves the safe point forward to `to`, or to the oldest hold before it, durably. Returns the
    /// new one.
    ///
    /// # Errors
    /// `SafePointBackwards`; `InFuture` if `to` is after the visible timestamp; those of the
    /// engine. After an error of the engine the safe point may have moved, but no version is
    /// dropped until a call succeeds.
    pub(crate) fn advance(&self, to: Timestamp, order: &CommitOrder) -> Result<Timestamp> {
        let mut stored = self.stored.lock();
        let now = order.visible();
        if to > now {
            return Err(Error::InFuture { asked: to, now });
        }
        let safe_point = {
            let mut state = self.state.lock();
            if to < state.safe_point {
                return Err(Error::SafePointBackwards {
                    asked: to,
                    safe_point: state.safe_point,
                });
            }
            // Holds begin at the safe point or later, so this is not before it.
            let oldest_hold = state.holds.keys().next().map(|(at, _)| *at);
            let passes = mutant!(holds_passed);
            let oldest_hold = oldest_hold.filter(|_| !passes);
            let before = state.safe_point;
            let safe_point = oldest_hold.map_or(to, |hold| hold.min(to));
            invariant!(
                before <= safe_point,
                "the safe point goes from {before} to {safe_point}"
            );
            invariant!(
                state.holds.keys().all(|(hold, _)| *hold >= safe_point),
                "the safe point {safe_point} passes a hold"
            );
            invariant!(durable: safe_point <= now, "the safe point {safe_point} is after {now}")?;
            state.safe_point = safe_point;
            safe_point
        };
        gate!("safe point: moved, not stored");
        if *stored < safe_point {
            // ORDER: first reads before it are refused, then it is durable, and only then may
            // versions be dropped. So no opening admits a read whose versions another one has
            // dropped.
            self.meta.set(SAFE_POINT, safe_point.0)?;
            *stored = safe_point;
            let droppable = match mutant!(dropped_past_holds) {
                true => to,
                false => safe_point,
            };
            self.droppable.store(droppable.0, Ordering::Release);
        }
        Ok(safe_point)
    }
}

/// A hold: the safe point does not pass its timestamp until it is dropped.
pub struct Hold {
    safe_point: Arc<SafePoint>,
    id: (Timestamp, u64),
}

impl Hold {
    /// The timestamp of the hold.
    pub fn timestamp(&self) -> Timestamp {
        self.id.0
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hold({})", self.timestamp())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        gate!("hold: to end");
        let mut state = self.safe_point.state.lock();
        let was_oldest = state.holds.keys().next() == Some(&self.id);
        let removed = state.holds.remove(&self.id);
        let planted = mutant!(hold_ends_its_twins);
        if planted {
            state.holds.retain(|(at, _), _| *at != self.id.0);
        }
        invariant!(
            removed.is_some() || planted,
            "hold at {} was lost",
            self.id.0
        );
        if was_oldest && state.target > state.safe_point {
            drop(state);
            self.safe_point.wake.raise();
        }
    }
}
