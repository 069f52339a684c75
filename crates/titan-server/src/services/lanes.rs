//! The lanes of calls that run.
//!
//! Reads have one lane, and calls that begin, write or end something another one: however long the
//! reads of some client take, commits and heart beats of others wait for none of them. A connection
//! has half of the reads' lane at most, so that the reads of others go on. Calls that wait for
//! locks, timestamps and other services have lanes, too. A lane is as many threads as it has
//! permits.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

use crate::calls::Failure;
use crate::options::Limits;
use crate::permits::permits;

/// Threads for timestamps, which do not wait for calls that wait for the disk.
const FOR_TIMESTAMPS: usize = 2;
/// Threads for other services than the key-value one.
const FOR_OTHERS: usize = 4;

/// The most calls of each lane that run at the same time.
pub(crate) struct Lanes {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    waits: Arc<Semaphore>,
    timestamps: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

/// The lane of a call.
#[derive(Clone, Copy)]
pub(super) enum Lane<'a> {
    /// A read, of the connection with this share.
    Reads(&'a Share),
    Writes,
    /// A call that waits for locks of other transactions.
    Waits,
    Timestamps,
    Others,
}

/// The share of a connection in the lane of reads.
#[derive(Clone)]
pub(crate) struct Share(Arc<Semaphore>);

impl Share {
    /// The share of one connection.
    pub(crate) fn new(limits: &Limits) -> Self {
        Share(permits(limits.running / 2))
    }
}

/// The place of a call in its lane, given back when it is dropped.
pub(super) struct Place {
    _share: Option<OwnedSemaphorePermit>,
    _lane: OwnedSemaphorePermit,
}

impl Lanes {
    pub(super) fn new(limits: &Limits) -> Self {
        Lanes {
            reads: permits(limits.running),
            writes: permits(limits.running),
            waits: permits(limits.waiting),
            timestamps: permits(FOR_TIMESTAMPS),
            others: permits(FOR_OTHERS),
        }
    }

    /// The threads of all lanes.
    pub(crate) fn threads(limits: &Limits) -> usize {
        2 * limits.running + limits.waiting + FOR_TIMESTAMPS + FOR_OTHERS
    }

    /// Returns true if a call that waits for locks need not wait for others.
    pub(super) fn has_room_to_wait(&self) -> bool {
        self.waits.available_permits() > 0
    }

    /// Waits for a place in a lane.
    ///
    /// # Errors
    /// Busy after the deadline.
    pub(super) async fn enter(
        &self,
        lane: Lane<'_>,
        deadline: Option<Instant>,
    ) -> Result<Place, Failure> {
        let entered = self.place(lane);
        let place = match deadline {
            Some(deadline) => timeout_at(deadline.into(), entered)
                .await
                .map_err(|_| Failure::deadline())?,
            None => entered.await,
        };
        place.map_err(|_| Failure::busy("the server stops"))
    }

    async fn place(&self, lane: Lane<'_>) -> Result<Place, AcquireError> {
        // The own share first: who waits for that takes no place.
        let share = match lane {
            Lane::Reads(Share(share)) => Some(Arc::clone(share).acquire_owned().await?),
            _ => None,
        };
        let lane = match lane {
            Lane::Reads(_) => &self.reads,
            Lane::Writes => &self.writes,
            Lane::Waits => &self.waits,
            Lane::Timestamps => &self.timestamps,
            Lane::Others => &self.others,
        };
        Ok(Place {
            _share: share,
            _lane: Arc::clone(lane).acquire_owned().await?,
        })
    }
}
