//! The requests of writers and their results, in the order in which they happened, and what a
//! reader may therefore find.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::failure::{CheckFailure, Checked, ensure};

/// The keys to which a writer writes in rotation.
pub(crate) const SLOTS: u64 = 4;

/// The state of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Pending,
    Acknowledged(u64),
    Failed,
}

/// One batch of a writer.
#[derive(Clone, Debug)]
struct Entry {
    began: u64,
    sync: bool,
    fate: Fate,
}

#[derive(Default)]
struct Entries {
    moments: u64,
    /// By writer; batch `n` of a writer is at `n - 1`.
    writers: BTreeMap<usize, Vec<Entry>>,
}

/// Shared by the threads of an execution. Its lock is never held where the scheduler may switch.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Entries>);

/// A reader's findings about one writer: the number of its newest batch, and for each slot the
/// batch that wrote its value. Zero stands for none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) newest: u64,
    pub(crate) slots: [u64; SLOTS as usize],
}

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a writer is about to write its next batch; returns its number, from 1 on.
    pub(crate) fn begin(&self, writer: usize, sync: bool) -> u64 {
        let mut entries = self.entries();
        entries.moments += 1;
        let began = entries.moments;
        let fate = Fate::Pending;
        let batches = entries.writers.entry(writer).or_default();
        batches.push(Entry { began, sync, fate });
        batches.len() as u64
    }

    /// Records that the writer's batch returned.
    pub(crate) fn end(&self, writer: usize, batch: u64, acknowledged: bool) {
        let mut entries = self.entries();
        entries.moments += 1;
        let fate = match acknowledged {
            true => Fate::Acknowledged(entries.moments),
            false => Fate::Failed,
        };
        let batches = entries.writers.get_mut(&writer);
        if let Some(entry) = batches.and_then(|b| b.get_mut(batch as usize - 1)) {
            entry.fate = fate;
        }
    }

    /// The newest acknowledged batch of each writer: every later read must find it.
    pub(crate) fn acknowledged(&self) -> BTreeMap<usize, u64> {
        self.newest_that(|entry| matches!(entry.fate, Fate::Acknowledged(_)))
    }

    /// The newest batch of each writer that must survive a crash of the machine: acknowledged as
    /// synced, or acknowledged before such a batch began.
    pub(crate) fn durable(&self) -> BTreeMap<usize, u64> {
        let synced = {
            let entries = self.entries();
            let synced = entries.writers.values().flatten();
            let synced = synced.filter(|e| e.sync && matches!(e.fate, Fate::Acknowledged(_)));
            synced.map(|e| e.began).max().unwrap_or(0)
        };
        self.newest_that(|entry| match entry.fate {
            Fate::Acknowledged(when) => entry.sync || when < synced,
            _ => false,
        })
    }

    fn newest_that(&self, is_so: impl Fn(&Entry) -> bool) -> BTreeMap<usize, u64> {
        let entries = self.entries();
        let newest = |batches: &Vec<Entry>| batches.iter().rposition(&is_so);
        entries
            .writers
            .iter()
            .filter_map(|(writer, batches)| Some((*writer, newest(batches)? as u64 + 1)))
            .collect()
    }

    /// Checks that the findings together are a state that the database went through, no older than
    /// `at_least`.
    pub(crate) fn check(
        &self,
        found: &BTreeMap<usize, Found>,
        at_least: &BTreeMap<usize, u64>,
    ) -> Checked<()> {
        let entries = self.entries();
        for (writer, batches) in &entries.writers {
            let nothing = Found {
                newest: 0,
                slots: [0; SLOTS as usize],
            };
            let found_here = found.get(writer).unwrap_or(&nothing);
            let complain = |what: &str| {
                CheckFailure::Wrong(format!(
                    "writer {writer}: {what}\n{found_here:?}\n{batches:#?}"
                ))
            };
            let newest = found_here.newest;
            let least = at_least.get(writer).copied().unwrap_or(0);
            if newest < least {
                return Err(complain(&format!("batch {least} is lost")));
            }
            if newest > batches.len() as u64 {
                return Err(complain("a batch that was never written"));
            }
            for (slot, &at) in (0..).zip(&found_here.slots) {
                if !may_be_newest_in_slot(batches, newest, slot, at) {
                    return Err(complain(&format!(
                        "slot {slot} has the value of batch {at}"
                    )));
                }
            }
        }
        ensure_prefix(&entries, found)
    }
}

/// Whether batch `at` may be the one whose value is in a slot, up to batch `newest`. A failed
/// batch may be there or not.
fn may_be_newest_in_slot(batches: &[Entry], newest: u64, slot: u64, at: u64) -> bool {
    let of_slot = |n: &u64| n % SLOTS == slot;
    let fate = |n: u64| batches.get(n as usize - 1).map(|e| e.fate);
    let certain = (1..=newest)
        .rev()
        .filter(of_slot)
        .find(|n| *n == newest || !matches!(fate(*n), Some(Fate::Failed)));
    let certain = certain.unwrap_or(0);
    at == certain || (at > certain && at <= newest && of_slot(&at))
}

/// If one batch was acknowledged before another began, the later one is never found without the
/// earlier.
fn ensure_prefix(entries: &Entries, found: &BTreeMap<usize, Found>) -> Checked<()> {
    for (later, Found { newest, .. }) in found {
        let Some(last) = newest
            .checked_sub(1)
            .and_then(|n| entries.writers.get(later)?.get(n as usize))
        else {
            continue;
        };
        for (earlier, batches) in &entries.writers {
            let before = |e: &Entry| matches!(e.fate, Fate::Acknowledged(at) if at < last.began);
            let needed = batches.iter().rposition(before).map_or(0, |n| n as u64 + 1);
            let there = found.get(earlier).map_or(0, |f| f.newest);
            ensure!(
                there >= needed,
                "batch {newest} of writer {later} is there without batch {needed} of writer \
                     {earlier}, acknowledged before it began"
            );
        }
    }
    Ok(())
}
