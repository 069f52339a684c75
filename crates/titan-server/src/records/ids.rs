//! Numbers that are handed out once: of regions, of their peers, and those that clients ask for.

use parking_lot::Mutex;
use titan::{Db, invariant};

use super::numbers;
use crate::error::Result;

/// The key of the first number that no run has.
const KEY: &[u8] = b"ids";
/// The first number. Smaller ones are fixed: the store is 1.
const FIRST: u64 = 2;
/// Numbers that one write reserves. After a crash the rest of them is lost.
const RUN: u64 = 1000;

/// A source of numbers.
pub(crate) struct Ids {
    db: Db,
    state: Mutex<State>,
}

struct State {
    next: u64,
    /// The end of the numbers that the disk knows as handed out.
    reserved: u64,
}

impl Ids {
    /// Goes on after the numbers of the last opening.
    ///
    /// # Errors
    /// Those of the engine; `Corruption`.
    pub(crate) fn open(db: Db) -> Result<Self> {
        let next = numbers::get(&db, KEY)?.unwrap_or(FIRST);
        Ok(Ids {
            db,
            state: Mutex::new(State {
                next,
                reserved: next,
            }),
        })
    }

    /// The next number. Cost: a synced write for each thousand.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn next(&self) -> Result<u64> {
        let mut state = self.state.lock();
        if state.next == state.reserved {
            let reserved = state.next + RUN;
            // ORDER: on disk before any of them is handed out.
            numbers::set(&self.db, KEY, reserved)?;
            state.reserved = reserved;
        }
        invariant!(
            state.next < state.reserved,
            "{} is handed out, and the disk knows of those before {}",
            state.next,
            state.reserved
        );
        let id = state.next;
        state.next += 1;
        Ok(id)
    }
}
