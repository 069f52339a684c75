//! The memory that answers take until they are sent.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;
use crate::permits::PERMIT_BYTES;

/// Permits that an answer takes at once, once it is larger.
const STEP: usize = 64;

/// The memory of an answer. Given back when it is dropped.
pub(crate) struct Reserved {
    /// The memory of all answers.
    all: Arc<Semaphore>,
    /// The limit of one answer.
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: usize,
    permits: Option<OwnedSemaphorePermit>,
}

impl Reserved {
    pub(crate) fn new(all: Arc<Semaphore>, limit: usize) -> Self {
        Reserved {
            all,
            limit,
            state: Mutex::default(),
        }
    }

    /// Returns true if the answer is so small that it takes none.
    pub(crate) fn is_none(&self) -> bool {
        self.state.lock().permits.is_none()
    }

    /// Takes memory for what an answer of so many bytes takes beyond its parts.
    ///
    /// # Errors
    /// Those for a part.
    pub(crate) fn cover(&self, bytes: usize) -> Result<(), Failure> {
        let counted = self.state.lock().bytes;
        match bytes > counted {
            true => self.grow(bytes - counted),
            false => Ok(()),
        }
    }

    /// Takes memory for a part of the answer: the bytes of its keys and values, and those of its
    /// messages. A small answer takes none: calls in flight bound them.
    ///
    /// # Errors
    /// Too large for the limit of an answer; busy if all answers take too much.
    pub(super) fn grow(&self, bytes: usize) -> Result<(), Failure> {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_add(bytes);
        if state.bytes > self.limit {
            let limit = self.limit;
            let reason = format!("the answer exceeds {limit} bytes: ask for fewer keys at once");
            return Err(Failure::too_large(reason, state.bytes));
        }
        let held = state.permits.as_ref().map_or(0, |held| held.num_permits());
        let needed = state.bytes / PERMIT_BYTES;
        if needed <= held {
            return Ok(());
        }
        let more = (needed - held).max(STEP.min(needed));
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.all).try_acquire_many_owned(more);
        let taken = taken.map_err(|_| Failure::busy("too many bytes of answers"))?;
        match &mut state.permits {
            Some(held) => held.merge(taken),
            none => *none = Some(taken),
        }
        Ok(())
    }
}
