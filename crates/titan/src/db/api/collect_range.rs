//! Collecting the garbage of a range of keys, on the caller's thread.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::compaction::CompactRangeOptions;
use crate::db::core::family::{Family, dropped};
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::db::jobs::collect::{CollectionJob, Outcome};
use crate::error::{Error, Result};
use crate::filter::check_may_wait_for_jobs;
use crate::format::BlobFileNumber;
use crate::gc::CollectGarbageOptions;
use crate::gc::pinned::CopiedForOlder;
use crate::gc::range::{
    DamagedBlobFile, GarbageCollectionProgress, GarbageCollectionSummary, Waiting, files_of_range,
};
use crate::gc::selection::{Collection, Exclusions, Urgency};

impl Shared {
    /// See [`ColumnFamily::collect_garbage`](crate::ColumnFamily::collect_garbage).
    pub(super) fn collect_garbage(
        &self,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CollectGarbageOptions,
    ) -> Result<GarbageCollectionSummary> {
        check_may_wait_for_jobs()?;
        self.lifecycle.check_not_inherited()?;
        options.validate()?;
        if let (Some(begin), Some(end)) = (begin, end)
            && family.comparator.compare_user(begin, end).is_gt()
        {
            return Err(Error::invalid_argument(
                "a range to be collected ends before it begins",
            ));
        }
        let _call = ManualCollection::begin(self)?;
        let files = self.find_garbage(family, begin, end, options)?;
        let excluded = self.pinned_by_older(family)?;
        let mut waiting = self.with_state_of(family, |f| {
            let threshold = options.threshold;
            Waiting::of(&f.version, &family.options(), excluded, &files, threshold)
        })?;
        let mut summary = GarbageCollectionSummary::default();
        let mut progress = GarbageCollectionProgress {
            done_bytes: 0,
            total_bytes: waiting.live_bytes(),
        };
        let mut yields = false;
        while let Some(collection) = self.claim_manual(family, &mut waiting, yields)? {
            let done = progress.done_bytes.saturating_add(collection.live);
            let rate_limit = self.at_full_speed(family, options, progress, collection.live);
            let outcome = self.run_job(CollectionJob {
                family: Arc::clone(family),
                collection,
                manual_rate_limit: Some(&rate_limit),
            })?;
            match outcome {
                Outcome::Relocated(event, _) => summary.add(event),
                Outcome::Punched(_) | Outcome::NothingLive(_) => {}
                Outcome::SetAside(files, error) => {
                    waiting.give_up(&files);
                    let damaged = |&file| DamagedBlobFile {
                        file,
                        error: error.clone(),
                    };
                    summary.damaged.extend(files.iter().map(damaged));
                }
            }
            self.purge();
            progress.done_bytes = done.min(progress.total_bytes);
            yields = true;
        }
        progress.done_bytes = progress.total_bytes;
        options.report(progress);
        Ok(summary)
    }

    /// The logical files to which tables over the range point, and those to which they pointed
    /// before a compaction found that nothing in the range needs them.
    fn find_garbage(
        &self,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CollectGarbageOptions,
    ) -> Result<BTreeSet<BlobFileNumber>> {
        let bound = end.map_or(Bound::Unbounded, Bound::Included);
        let find = || self.with_state_of(family, |f| files_of_range(&f.version, begin, bound));
        if !options.compact {
            return find();
        }
        self.flush(&[family.id])?;
        let mut files = find()?;
        let oldest_snapshot = self.pins.snapshots.oldest();
        let force_bottommost = self.with_state_of(family, |f| {
            let last = f.version.num_levels().saturating_sub(1);
            let mut tables = f.version.overlapping(last, begin, bound).iter();
            tables.any(|table| table.released_bytes(oldest_snapshot) > 0)
        })?;
        let compact = CompactRangeOptions { force_bottommost };
        self.compact_range(family, begin, end, &compact)?;
        if mutant!(range_forgets_what_it_no_longer_needs) {
            files.clear();
        }
        files.extend(find()?);
        Ok(files)
    }

    /// The records that a collection would copy for older versions of the family only, as of now.
    fn pinned_by_older(&self, family: &Family) -> Result<Exclusions> {
        let versions = self.versions.lock();
        let known = versions.family(family.id);
        let known = known.ok_or_else(|| dropped(&family.name))?;
        let mut pinned = CopiedForOlder::default();
        for (older, _) in known.older_versions() {
            let files = older.blob_files.values();
            pinned.note(
                &older,
                files.map(|file| (file.shared.physical().number, file)),
            );
        }
        Ok(Exclusions {
            pinned,
            ..Exclusions::default()
        })
    }

    /// Calls `ask` with the state of the family, under the state lock.
    fn with_state_of<T>(&self, family: &Family, ask: impl FnOnce(&FamilyState) -> T) -> Result<T> {
        let state = self.state.lock();
        let found = state.families.get(&family.id);
        found.map(ask).ok_or_else(|| dropped(&family.name))
    }

    /// Waits until no collection runs, and counts the next one as running. A collection that is
    /// urgent and due by itself goes first if this `yields`.
    fn claim_manual(
        &self,
        family: &Family,
        waiting: &mut Waiting,
        mut yields: bool,
    ) -> Result<Option<Collection>> {
        let _awaits = self.admission.awaits_jobs(&self.signals);
        let mut state = loop {
            let seen = self.signals.progress.seen();
            let state = self.state.lock();
            // Under the lock: closing waits for the jobs that it finds counted.
            self.check_open()?;
            self.check_not_stopped()?;
            if state.running.is_collecting() {
                yields = false;
            } else if !(yields && is_urgent(&state)) {
                break state;
            }
            drop(state);
            self.signals.progress.wait(seen);
        };
        let Some(f) = state.families.get(&family.id) else {
            return Err(dropped(&family.name));
        };
        let collection = waiting.next(&f.version, &family.options());
        if collection.is_some() {
            state.begin(RunningJob::ManualCollection, family.id);
        }
        Ok(collection)
    }

    /// Unthrottled; reports progress. Fails when the database closes, or the family is dropped.
    fn at_full_speed(
        &self,
        family: &Family,
        options: &CollectGarbageOptions,
        before: GarbageCollectionProgress,
        live: u64,
    ) -> impl Fn(u64) -> Result<()> {
        let moved = Cell::new(0);
        move |bytes| {
            self.check_open()?;
            if family.is_dropped() {
                return Err(dropped(&family.name));
            }
            moved.set(moved.get() + bytes);
            // Each byte is read and written.
            let copied = (moved.get() / 2).min(live);
            options.report(GarbageCollectionProgress {
                done_bytes: before
                    .done_bytes
                    .saturating_add(copied)
                    .min(before.total_bytes),
                ..before
            });
            Ok(())
        }
    }
}

fn is_urgent(state: &State) -> bool {
    let due = state.to_collect();
    due.is_some_and(|family| family.collection_urgency() == Some(Urgency::High))
}

/// Counts as a manual collection until this is dropped.
struct ManualCollection<'a>(&'a Shared);

impl<'a> ManualCollection<'a> {
    fn begin(shared: &'a Shared) -> Result<Self> {
        let mut state = shared.state.lock();
        shared.check_open()?;
        state.collections.manual += 1;
        // A throttled collection must go on at full speed.
        shared.signals.progress.raise();
        Ok(ManualCollection(shared))
    }
}

impl Drop for ManualCollection<'_> {
    fn drop(&mut self) {
        self.0.state.lock().collections.manual -= 1;
        self.0.signals.progress.raise();
    }
}
