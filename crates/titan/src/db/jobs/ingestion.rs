//! Putting files made elsewhere into the tree: the end of
//! [`ingest`](crate::ColumnFamily::ingest).
//!
//! The files are in the directory already, and no version names them. One edit for each family adds
//! them, all edits in one step. Assumes that the caller leads the commit queue, and that the
//! memtables of the families are empty: readers search them before tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::bypass::{UnlistedFiles, replace_empty_memtable};
use super::job::Job;
use crate::db::core::family::{Family, dropped};
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::ingest::IngestOptions;
use crate::ingest::external_file::ExternalFile;
use crate::ingest::placement::Placement;
use crate::stats::{IngestionEvent, Listeners, notify};
use crate::version::VersionSet;
use crate::version::edit::VersionEdit;
use crate::write::queue::Lead;

/// A table that has been brought into the directory.
pub(crate) struct NewTable {
    pub(crate) number: FileNumber,
    pub(crate) file: ExternalFile,
    /// Its place among all files of the call: later ones are newer.
    pub(crate) age: u64,
}

/// The files for a family.
pub(crate) struct FamilyFiles {
    pub(crate) family: Arc<Family>,
    /// The oldest first.
    pub(crate) tables: Vec<NewTable>,
}

/// An ingestion whose files are in the directory.
pub(crate) struct Ingestion<'a> {
    /// The family whose job it is; the others come with it.
    pub(crate) family: Arc<Family>,
    pub(crate) families: Vec<FamilyFiles>,
    /// The sequence number of the oldest file.
    pub(crate) first: SequenceNumber,
    pub(crate) options: IngestOptions,
    pub(crate) unlisted: UnlistedFiles<'a>,
}

impl Ingestion<'_> {
    /// The edits that add the files to the current versions, and the events that tell of them.
    ///
    /// # Errors
    /// `InvalidArgument` and `Busy`, for places that the options do not allow.
    fn edits(&self, shared: &Shared, versions: &VersionSet) -> Result<Edits> {
        let now = shared.files.env.unix_seconds();
        let mut edits = Edits::default();
        for files in &self.families {
            let family = &*files.family;
            let Some(version) = versions.current(family.id) else {
                return Err(dropped(&family.name));
            };
            let sequences = files.tables.iter().map(|table| self.first.plus(table.age));
            let mut edit = shared.edit_of_bypass(family, sequences);
            let mut event = IngestionEvent {
                column_family: family.id,
                tables: Vec::new(),
                bytes: 0,
            };
            let options = family.options();
            let mut placement = Placement::new(&version, &options);
            let last = version.num_levels().saturating_sub(1);
            for table in &files.tables {
                let place = placement.place(table.file.begin(), table.file.end());
                self.check_place(family, place.overlaps, place.level == last)?;
                let sequence = self.first.plus(table.age);
                let meta = table.file.as_table(table.number, sequence, now);
                event.tables.push((place.level, table.number));
                event.bytes += meta.size;
                edit.new_files.push((place.level, meta));
                edit.table_facts.push(table.file.facts(table.number));
            }
            edits.edits.push(edit);
            edits.events.push(event);
        }
        Ok(edits)
    }

    fn check_place(&self, family: &Family, overlaps: bool, is_last: bool) -> Result<()> {
        if overlaps && !self.options.allow_global_seqno {
            return Err(needs_number(&family.name));
        }
        if !is_last && self.options.fail_if_not_bottommost_level {
            let text = format!(
                "a file cannot be placed at the last level of column family {}: it overlaps tables \
                 or a running compaction",
                family.name
            );
            return Err(Error::new(ErrorKind::Busy, text));
        }
        Ok(())
    }
}

/// The edits of an ingestion, and the events that tell of them, one for each family.
#[derive(Default)]
struct Edits {
    edits: Vec<VersionEdit>,
    events: Vec<IngestionEvent>,
}

/// The end of an ingestion that did not fail.
pub(crate) enum Ending {
    /// Its edits are durable.
    Installed(Vec<IngestionEvent>),
    /// The options do not allow the places that the files would get. Nothing has changed.
    Refused(Error),
}

/// The error for files that must be newer than something, where the options do not allow it.
pub(crate) fn needs_number(family: &str) -> Error {
    Error::invalid_argument(format!(
        "a file needs a sequence number, since column family {family} or another file has keys of \
         its range, or there are snapshots; allow_global_seqno is off"
    ))
}

/// Keeps further compactions of families from being picked until it is dropped: an output could
/// overlap a file that is being installed.
struct NoPicks<'a> {
    shared: &'a Shared,
    families: BTreeSet<ColumnFamilyId>,
}

impl<'a> NoPicks<'a> {
    fn begin(shared: &'a Shared, families: BTreeSet<ColumnFamilyId>) -> Self {
        let mut state = shared.state.lock();
        for id in &families {
            if let Some(family) = state.families.get_mut(id) {
                invariant!(
                    !family.jobs.ingesting,
                    "two ingestions of family {id} are installed at once"
                );
                family.jobs.ingesting = !mutant!(compaction_picked_beside_an_ingestion);
            }
        }
        drop(state);
        NoPicks { shared, families }
    }
}

impl Drop for NoPicks<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        for id in &self.families {
            if let Some(family) = state.families.get_mut(id) {
                family.jobs.ingesting = false;
            }
        }
        drop(state);
        self.shared.signals.progress.raise();
        self.shared.signals.work.raise();
    }
}

impl Shared {
    /// Does a step of bringing files into the directory, unless the database has been closed,
    /// writes have stopped, or the family has been dropped. Closing waits for it.
    pub(crate) fn step_of_ingestion<T>(
        &self,
        family: &Family,
        step: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.step_of(RunningJob::Ingestion, family, step)
    }

    /// Installs files. They are visible once their sequence numbers are published.
    ///
    /// # Errors
    /// As those of a flush: any but `NoSpace`, `TooManyOpenFiles` and that of a dropped family
    /// stops writes; and those for places that the options do not allow, which stop nothing.
    pub(crate) fn install_files(&self, _: &Lead<'_>, ingestion: Ingestion<'_>) -> Result<()> {
        self.state
            .lock()
            .begin(ingestion.kind(), ingestion.family.id);
        match self.run_job(ingestion)? {
            Ending::Installed(_) => Ok(()),
            Ending::Refused(e) => Err(e),
        }
    }
}

impl Job for Ingestion<'_> {
    const DOING: &'static str = "ingesting files into";
    type Done = Ending;
    type Claim = ();

    fn kind(&self) -> RunningJob {
        RunningJob::Ingestion
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn run(mut self, shared: &Shared) -> (Result<Ending>, ()) {
        if let Err(e) = shared.sync_wal_of_bypass() {
            return (Err(e), ());
        }
        let ids = self.families.iter().map(|files| files.family.id);
        let _no_picks = NoPicks::begin(shared, ids.collect());
        let tables = self.unlisted.hand_over();
        let mut refused = None;
        let prepare = |versions: &VersionSet| match self.edits(shared, versions) {
            Ok(Edits { edits, events }) => Some((edits, events)),
            Err(e) => {
                refused = Some(e);
                None
            }
        };
        gate!("ingestion: to be installed");
        let families: Vec<&Family> = self.families.iter().map(|f| &*f.family).collect();
        let replace = |family: &mut FamilyState, _: &mut _| replace_empty_memtable(family);
        let installed = shared.install(&families, &tables, prepare, replace);
        gate!("ingestion: installed");
        let ending = |events: Option<Vec<IngestionEvent>>| match (events, refused) {
            (_, Some(e)) => Ending::Refused(e),
            (events, None) => Ending::Installed(events.unwrap_or_default()),
        };
        (installed.map(ending), ())
    }

    fn release((): (), _: &Result<Ending>, _: &mut State) {}

    fn report(ending: &Ending, listeners: &Listeners) {
        if let Ending::Installed(events) = ending {
            for event in events {
                notify!(listeners, files_ingested(event));
            }
        }
    }
}
