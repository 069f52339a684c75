//! Estimates the data in older tables that memtables shadow, before they are flushed: while users
//! write, so that a memtable that shadows much is flushed before it is full, and so that live data
//! is not overestimated; and once the database is idle, so that it gives space back.

use std::sync::Arc;

use super::job::{Claimed, Job, JobSource, claimed};
use super::survivors::shadowed_by_memtables;
use crate::compaction::building::shadows::OlderTables;
use crate::db::core::family::Family;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::env::Threads;
use crate::error::Result;
use crate::memtable::{EstimateStart, Memtable};
use crate::panics::contain;

/// No estimate is due before a memtable could shadow enough for a flush if the values it shadows
/// were so many times as large as the average.
const SKEW: u64 = 16;

/// A memtable to be examined.
pub(super) struct Estimate {
    family: Arc<Family>,
    memtable: Arc<Memtable>,
    start: EstimateStart,
}

impl Estimate {
    /// The current memtable of a family. To be called under the state lock.
    pub(super) fn at(family: &FamilyState) -> Self {
        Estimate {
            family: Arc::clone(&family.family),
            memtable: Arc::clone(&family.memtable),
            start: family.memtable.begin_estimate(),
        }
    }
}

impl Job for Estimate {
    const DOING: &'static str = "estimating the shadowed bytes below the memtable of";
    type Done = ();
    type Claim = ();

    fn kind(&self) -> RunningJob {
        RunningJob::Estimate
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn run(self, shared: &Shared) -> (Result<()>, ()) {
        shared.estimate(&self);
        shared.note_filled([(self.family.id, &*self.memtable)].into_iter());
        (Ok(()), ())
    }

    fn release((): (), _: &Result<()>, _: &mut State) {}
}

pub(super) const ESTIMATES: JobSource = JobSource {
    threads: Threads::Workers,
    takes_long: false,
    is_due: |_, state| state.families.values().any(needs_estimate),
    claim: Shared::claim_estimate,
};

/// Whether an estimate is due of the data that the current memtable of a family shadows.
fn needs_estimate(family: &FamilyState) -> bool {
    family.family.collects_by_itself() && family.memtable.wants_estimate()
}

impl Shared {
    /// Claims an estimate that is due. One at a time: the other threads are for flushes.
    fn claim_estimate(&self, state: &mut State) -> Option<Claimed> {
        if state.running.of(RunningJob::Estimate) > 0 {
            return None;
        }
        let mut families = state.families.values();
        let estimate = Estimate::at(families.find(|f| needs_estimate(f))?);
        state.begin(RunningJob::Estimate, estimate.family.id);
        Some(claimed(estimate))
    }

    /// Estimates and records the bytes of separated values that a memtable shadows.
    pub(super) fn estimate(&self, estimate: &Estimate) -> u64 {
        let Estimate {
            family,
            memtable,
            start,
        } = estimate;
        let version = Arc::clone(&family.super_version.load().version);
        let older = OlderTables {
            version: &version,
            open_files: &self.files.open,
        };
        let memtables = [Arc::clone(memtable)];
        let shadowed = shadowed_by_memtables(&memtables, family, older).unwrap_or(0);
        let blobs = &version.blob_files;
        let average = blobs.live_bytes() / blobs.live_count().max(1);
        let lives = blobs.live_bytes().saturating_sub(shadowed);
        let enough = family.options().shadowing_flush(lives);
        let next = next_estimate(start.entries, shadowed, average, enough);
        memtable.note_shadowed(shadowed, enough, *start, next);
        shadowed
    }

    /// Estimates for the memtables of all families that have separated values.
    pub(crate) fn estimate_all(&self) {
        let estimates: Vec<Estimate> = {
            let state = self.state.lock();
            let families = state.families.values();
            families
                .filter(|f| may_shadow(f))
                .map(Estimate::at)
                .collect()
        };
        for estimate in &estimates {
            self.try_estimate(estimate);
        }
    }

    /// Like [`Shared::estimate`], but no job, and a panic in code of the user is no failure.
    pub(super) fn try_estimate(&self, estimate: &Estimate) -> u64 {
        let shadowed = contain(|| self.estimate(estimate)).unwrap_or_else(|_| {
            // An estimate stays due, though not at once.
            let (memtable, entries) = (&estimate.memtable, estimate.start.entries);
            let shadowed = memtable.shadowed_bytes();
            memtable.note_shadowed(
                shadowed,
                u64::MAX,
                estimate.start,
                entries.saturating_mul(2),
            );
            0
        });
        // A caller may wait for the estimate that was due before.
        if !mutant!(estimate_wakes_nobody) {
            self.signals.progress.raise();
        }
        shadowed
    }
}

/// Whether the memtable of a family may shadow separated values.
pub(super) fn may_shadow(family: &FamilyState) -> bool {
    !family.memtable.is_empty() && family.version.blob_files.live_bytes() > 0
}

/// Number of entries at the next estimate, if so many shadow so much: before it is `most`, if it
/// goes on like this, or if values shadowed from now on are much larger than the average.
fn next_estimate(entries: u64, shadowed: u64, average: u64, most: u64) -> u64 {
    let full = u128::from(entries) * u128::from(most) / u128::from(shadowed.max(1));
    let full = u64::try_from(full).unwrap_or(u64::MAX);
    let soonest = entries.saturating_add(entries / 4).saturating_add(1);
    let latest = entries.saturating_mul(4).max(soonest);
    let large = most / average.saturating_mul(SKEW).max(1);
    full.clamp(soonest, latest).max(large)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::{ColumnFamilyOptions, Db, Options};

    #[test]
    fn an_estimate_that_no_job_makes_wakes_those_who_wait() {
        let dir = tempfile::tempdir().unwrap();
        // Nothing goes on in the background that could wake them.
        let options = Options {
            default: ColumnFamilyOptions {
                min_blob_size: 100,
                enable_blob_garbage_collection: false,
                ..ColumnFamilyOptions::default()
            },
            ..Options::default()
        };
        let db = Db::open(dir.path(), &options).unwrap();
        db.put(b"k", &[1; 1000]).unwrap();
        db.flush().unwrap();
        db.put(b"k", &[2; 1000]).unwrap();
        db.wait_idle().unwrap();
        let shared = Arc::clone(&db.core.shared);
        let seen = shared.signals.progress.seen();
        shared.estimate_all();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            shared.signals.progress.wait(seen);
            let _ = tell.send(());
        });
        let woken = told.recv_timeout(Duration::from_secs(60));
        woken.expect("nobody was woken");
    }

    #[test]
    fn estimates_are_few_and_the_last_is_where_it_is_full() {
        // Entries of a few bytes over values of 4 KiB, in a buffer of 64 MiB.
        let most = 64 << 20;
        let (mut entries, mut estimates) = (64, Vec::new());
        while entries * 4096 < most {
            estimates.push(entries);
            entries = next_estimate(entries, entries * 4096, 4096, most);
        }
        assert_eq!(
            (entries, estimates.len()),
            (most / 4096, 3),
            "{estimates:?}"
        );
        // Where nothing is shadowed they become rarer and rarer.
        assert_eq!(next_estimate(1 << 20, 0, 4096, most), 4 << 20);
        // No separated values: only data that range tombstones shadow would count.
        assert!(next_estimate(64, 0, 0, most) >= most);
    }
}
