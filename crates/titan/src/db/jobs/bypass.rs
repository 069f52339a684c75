//! Steps of writes that bypass the WAL: [values from readers](super::value_from_reader) and
//! [ingested files](super::ingestion).
//!
//! Such a write brings files into the directory that no version names, while other writers go on.
//! Then its thread leads the commit queue, and takes the steps here in this order:
//!
//! | step | why |
//! |---|---|
//! | [`prepare_bypass`](Shared::prepare_bypass) | earlier writes are durable, and above the files is no memtable |
//! | [`snapshot_before_bypass`](Shared::snapshot_before_bypass) | compactions keep what readers see until the publication |
//! | a job that installs [`edit_of_bypass`](Shared::edit_of_bypass) | a crash before it leaves files that no version names |
//! | [`publish_bypass`](Shared::publish_bypass) | readers see the write, as they would see a batch |

use crate::commit_hook::BypassedRange;
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::db::core::state::FamilyState;
use crate::error::Result;
use crate::filter::check_may_wait_for_jobs;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber};
use crate::read::Snapshot;
use crate::version::edit::VersionEdit;
use crate::write::pipeline::CommitEnv;
use crate::write::queue::Lead;

/// Files in the directory that no version names yet. They are deleted if this is dropped before one
/// may; if the database has been closed, by the next opening.
pub(crate) struct UnlistedFiles<'a> {
    shared: &'a Shared,
    files: Vec<FileKind>,
}

impl<'a> UnlistedFiles<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        UnlistedFiles {
            shared,
            files: Vec::new(),
        }
    }

    /// The name of a table that is yet to be created.
    pub(crate) fn new_table(&mut self) -> FileNumber {
        let number = self.shared.counters.new_file_number();
        self.files.push(FileKind::Table(number));
        number
    }

    /// The name of a blob file that is yet to be created.
    pub(crate) fn new_blob_file(&mut self) -> BlobFileNumber {
        let number = BlobFileNumber(self.shared.counters.new_file_number().0);
        self.files.push(FileKind::Blob(number));
        number
    }

    /// Leaves the decision whether the files stay to the version set, from now on. Returns them.
    pub(super) fn hand_over(&mut self) -> Vec<FileKind> {
        std::mem::take(&mut self.files)
    }
}

impl Drop for UnlistedFiles<'_> {
    fn drop(&mut self) {
        if self.files.is_empty() || mutant!(unlisted_files_stay) {
            return;
        }
        for file in &self.files {
            self.shared.files.obsolete.push(*file);
        }
        self.shared.purge();
    }
}

impl Shared {
    /// Fails before anything is read, if no such write to these families could be made.
    pub(crate) fn check_may_bypass<'f>(
        &self,
        families: impl IntoIterator<Item = &'f Family>,
    ) -> Result<()> {
        self.check_families_writable(families)?;
        self.pipeline.check_may_wait()?;
        check_may_wait_for_jobs()?;
        self.opening.env.check_not_in_a_job()
    }

    fn check_families_writable<'f>(
        &self,
        families: impl IntoIterator<Item = &'f Family>,
    ) -> Result<()> {
        self.check_writable()?;
        families.into_iter().try_for_each(Family::check_exists)
    }

    /// Makes all earlier writes durable, and the memtables of the families empty, once `admit` has
    /// allowed the write. Returns the first of so many sequence numbers.
    ///
    /// # Errors
    /// Those of `admit`, of commits and of flushes.
    pub(crate) fn prepare_bypass(
        &self,
        lead: &Lead<'_>,
        families: &[&Family],
        numbers: u64,
        admit: impl FnOnce() -> Result<()>,
    ) -> Result<SequenceNumber> {
        self.check_families_writable(families.iter().copied())?;
        admit()?;
        // ORDER: before the edits: after a crash no write is there without those before it (WAL-1).
        if !mutant!(bypass_durable_before_earlier_writes) {
            self.sync_wal(lead)?;
        }
        // ORDER: before the tables get their sequence numbers. Older entries must not be in
        // memtables, which readers search first. The edits name the WAL file that begins here.
        if !mutant!(bypass_below_older_memtables) {
            let ids: Vec<ColumnFamilyId> = families.iter().map(|family| family.id).collect();
            let memtables = self.seal_to_flush(lead, &ids)?;
            self.wait_for_flushes(&memtables)?;
        }
        let (first, _) = self.counters.next_sequences(numbers)?;
        match mutant!(bypass_numbered_as_the_write_before) {
            true => Ok(self.counters.last_sequence()),
            false => Ok(first),
        }
    }

    /// A snapshot without the write, unless a planted bug forgets it. It is kept until the write is
    /// published: a compaction that takes the installed files before must keep the entries that a
    /// reader of the moment before sees.
    pub(crate) fn snapshot_before_bypass(&self) -> Option<Snapshot> {
        let now = self.opening.clock.monotonic();
        let sequence = || self.counters.last_sequence();
        (!mutant!(bypass_installed_without_a_snapshot))
            .then(|| self.pins.snapshots.take(now, sequence))
    }

    /// Makes the name of the WAL file durable that [`prepare_bypass`](Self::prepare_bypass) has
    /// begun.
    pub(super) fn sync_wal_of_bypass(&self) -> Result<()> {
        // ORDER: before the edit names the newest WAL file: a follower expects it then.
        let synced = self.pipeline.sync_wal_names();
        synced.map_err(|e| self.wal_not_synced(e))
    }

    /// The edit of a family, without its files. Its entries have these sequence numbers.
    pub(super) fn edit_of_bypass(
        &self,
        family: &Family,
        sequences: impl IntoIterator<Item = SequenceNumber>,
    ) -> VersionEdit {
        let state = self.state.lock();
        let log_number = state.families.get(&family.id).map(|f| f.memtable_log);
        let oldest_log = state.oldest_log_needed(None);
        drop(state);
        let tells_followers = !mutant!(bypass_unseen_by_followers);
        let of_log = |log| {
            sequences
                .into_iter()
                .map(move |sequence| (sequence, log))
                .filter(|_| !mutant!(bypassed_numbers_missing_in_the_log))
                .collect()
        };
        VersionEdit {
            column_family: family.id,
            // Another one with each such write. The WAL does not have the entries, so a follower
            // that has the state before must not take a later write from there.
            log_number: log_number.filter(|_| tells_followers),
            // Or the operations before the first file that is read would be unknown.
            min_log_number_to_keep: tells_followers.then_some(oldest_log),
            // Other families may need the file before, and this one goes on after the numbers.
            unlogged: log_number.map(of_log).unwrap_or_default(),
            ..VersionEdit::default()
        }
    }

    /// Shows an installed write to the commit hook and to readers. `ranges` are the keys that it
    /// changes, each with its sequence number, of which `last` is the largest.
    pub(crate) fn publish_bypass(
        &self,
        lead: &Lead<'_>,
        ranges: &[(BypassedRange<'_>, SequenceNumber)],
        last: SequenceNumber,
    ) {
        gate!("bypass: to be published");
        if let Some(hook) = self.pipeline.hook()
            && !mutant!(hook_misses_a_bypass)
        {
            for (range, sequence) in ranges {
                // ORDER: before readers see the write, as for a batch.
                hook.on_bypass(lead, range, *sequence);
            }
        }
        self.counters.publish_sequence(last);
        gate!("bypass: published");
        self.signals.wrote();
        let clock = &self.files.env.clock;
        self.opening.write_times.note(last, || clock.latest());
    }
}

/// Gives a family, whose memtables are empty, another one with its new version.
pub(super) fn replace_empty_memtable(family: &mut FamilyState) {
    invariant!(
        family.immutables.is_empty() && family.memtable.is_empty(),
        "files of family {} are put into the tree below memtables",
        family.family.id
    );
    // Readers that have the version before must not see later writes, without this one.
    if family.memtable.is_empty() && !mutant!(bypass_beside_the_old_memtable) {
        family.memtable = family.fresh_memtable();
    }
}

/// The first key after another one, where it is known: only in the order of bytes.
pub(crate) fn key_after(family: &Family, key: &[u8]) -> Option<Vec<u8>> {
    let is_bytewise = family.comparator.is_bytewise();
    is_bytewise.then(|| [key, &[0]].concat())
}
