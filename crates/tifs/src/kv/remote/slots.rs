//! Slots: keys of which each transaction writes one. They tell the fate of a commit without an
//! answer, and on TiKV old transactions conflict there.
//!
//! A transaction takes a slot before it begins, and gives it back when its fate is known or will
//! not be asked for. So no two of a mount that run at the same time write the same slot, and the
//! slots cost no conflicts, but a small key in each commit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use titan::invariant;

use crate::error::{Error, Result};

/// The number of slots of a volume. A thread has at most two transactions, so this is enough for
/// 128 threads. It never changes: a mount must conflict with those of other versions.
pub(in crate::kv) const SLOTS: u16 = 256;

/// The first byte of a value, as of all that a volume stores.
const FORMAT: u8 = 1;

/// The bytes of a [`Mark`].
const MARK: usize = 17;

/// The value of a slot: the session and the number of the last transaction there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kv) struct Mark {
    pub(in crate::kv) session: u64,
    pub(in crate::kv) transaction: u64,
}

impl Mark {
    pub(in crate::kv) fn encode(self) -> Vec<u8> {
        let mut value = vec![FORMAT];
        value.extend_from_slice(&self.session.to_be_bytes());
        value.extend_from_slice(&self.transaction.to_be_bytes());
        value
    }

    /// The mark of a stored value, if it is one of this format.
    pub(in crate::kv) fn decode(value: &[u8]) -> Option<Mark> {
        let (&format, numbers) = value.split_first()?;
        let (session, transaction) = numbers.split_first_chunk::<8>()?;
        (format == FORMAT && value.len() == MARK).then_some(Mark {
            session: u64::from_be_bytes(*session),
            transaction: u64::from_be_bytes(transaction.try_into().ok()?),
        })
    }
}

/// The outcome of a commit that had no answer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::kv) enum Fate {
    Committed,
    /// It did nothing, and never will.
    Nothing,
    Unknown,
}

/// The free slots of a mount.
pub(in crate::kv) struct Slots {
    session: u64,
    /// The one that was free for the longest time comes first: locks of its last transaction are
    /// gone by then.
    free: Mutex<VecDeque<u16>>,
    transactions: AtomicU64,
}

impl Slots {
    pub(in crate::kv) fn new(session: u64) -> Slots {
        Slots {
            session,
            free: Mutex::new((0..SLOTS).collect()),
            transactions: AtomicU64::new(1),
        }
    }

    /// A slot for a new transaction.
    ///
    /// # Errors
    /// `EAGAIN` if all are taken.
    pub(in crate::kv) fn take(&self) -> Result<Slot<'_>> {
        let number = self.free.lock().pop_front().ok_or_else(|| {
            let what = format!("{SLOTS} transactions are running already");
            Error::new(Errno::AGAIN, what)
        })?;
        let mark = Mark {
            session: self.session,
            transaction: self.transactions.fetch_add(1, Ordering::Relaxed),
        };
        Ok(Slot {
            slots: self,
            number,
            mark,
        })
    }
}

/// A slot of a running transaction. It is free again when this is dropped.
pub(in crate::kv) struct Slot<'a> {
    slots: &'a Slots,
    pub(in crate::kv) number: u16,
    /// The value that the transaction leaves there.
    pub(in crate::kv) mark: Mark,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut free = self.slots.free.lock();
        invariant!(
            !free.contains(&self.number),
            "slot {} is given back twice",
            self.number
        );
        free.push_back(self.number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn a_slot_has_one_transaction_at_a_time() {
        let slots = Slots::new(7);
        let taken: Vec<Slot<'_>> = (0..SLOTS).map(|_| slots.take().unwrap()).collect();
        assert_eq!(slots.take().err().unwrap().errno(), Errno::AGAIN);
        let mut numbers: Vec<u16> = taken.iter().map(|slot| slot.number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), usize::from(SLOTS));
        assert_ne!(taken[0].mark, taken[1].mark);
        drop(taken);
        slots.take().unwrap();
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = Mark {
            session: u64::MAX - 1,
            transaction: 2,
        };
        let value = mark.encode();
        assert_eq!(Mark::decode(&value), Some(mark));
        assert_eq!(Mark::decode(&value[1..]), None);
        assert_eq!(Mark::decode(&[&value[..], &[0]].concat()), None);
    }
}
