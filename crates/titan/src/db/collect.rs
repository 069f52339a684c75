//! Running garbage collections.

use std::sync::Arc;

use super::core::Shared;
use super::family::{Family, dropped};
use super::running::{Running, RunningJob};
use crate::error::{Error, ErrorKind, Result};
use crate::format::BlobFileNumber;
use crate::gc::choose::Collection;
use crate::gc::job::{self, Collected, GcContext};
use crate::stats::{self, GarbageCollectionEvent};
use crate::version::edit::VersionEdit;

impl Shared {
    /// Runs a collection that the caller has counted as running, and installs it.
    pub(super) fn run_collection(
        &self,
        family: &Arc<Family>,
        collection: Collection,
    ) -> Result<()> {
        let _running = Running::counted(self, family.id, RunningJob::Collection);
        let outcome = self.collect_and_install(family, &collection);
        let inputs = collection.physical.clone();
        // The inputs are released before the job counts as done: their files can go then.
        drop(collection);
        match outcome {
            Ok(Some(event)) => self.listeners.tell(|l| l.garbage_collected(&event)),
            Ok(None) => {}
            Err(e) if e.kind() == ErrorKind::Closed || family.is_dropped() => return Err(e),
            Err(e) if e.is_corruption() => self.set_aside(family, &inputs, &e),
            Err(e) => {
                let doing = format!("collecting garbage of column family {}", family.name);
                return Err(self.failure.set(self, e.context(doing)));
            }
        }
        Ok(())
    }

    /// Gives up collecting files that are damaged: what lives in them stays readable as far as it
    /// is whole.
    fn set_aside(&self, family: &Family, inputs: &[BlobFileNumber], error: &Error) {
        {
            let mut state = self.state.lock();
            if let Some(family) = state.families.get_mut(&family.id) {
                family.set_aside.extend(inputs);
            }
        }
        self.listeners.tell(|l| l.garbage_collection_failed(error));
    }

    fn collect_and_install(
        &self,
        family: &Family,
        collection: &Collection,
    ) -> Result<Option<GarbageCollectionEvent>> {
        let versions = {
            let versions = self.versions.lock();
            let known = versions.family(family.id);
            known.ok_or_else(|| dropped(&family.name))?.live_versions()
        };
        let context = GcContext {
            factory: &self.factory,
            family: &family.output(),
            open_files: &self.open_files,
            versions,
            cancel: &self.closing,
        };
        let collected = job::run(collection, &context)?;
        drop(context);
        self.install_collection(family, collection, collected)
    }

    fn install_collection(
        &self,
        family: &Family,
        collection: &Collection,
        mut collected: Collected,
    ) -> Result<Option<GarbageCollectionEvent>> {
        let files = collected.files();
        let mut versions = self.versions.lock();
        let Some(known) = versions.family(family.id) else {
            self.factory.discard(&files);
            return Err(dropped(&family.name));
        };
        // What fell out of the tree meanwhile is no longer there to be moved.
        let there = &known.current.blob_files;
        let relocation = collected.relocation.take().and_then(|mut relocation| {
            relocation
                .logical
                .retain(|logical| there.contains_key(logical));
            (!relocation.logical.is_empty()).then_some(relocation)
        });
        let Some(relocation) = relocation else {
            self.factory.discard(&files);
            return Ok(None);
        };
        // The records are durable in both places. Readers are sent to the new one first, since the
        // old files may be deleted as soon as the edit has been applied.
        let before = self.locations.load_full();
        self.move_locations(family.id, &relocation);
        let event = GarbageCollectionEvent {
            column_family: family.id,
            inputs: collection.physical.clone(),
            output: relocation.file,
            bytes_read: collected.bytes_read,
            bytes_written: collected.bytes_written,
        };
        let edit = VersionEdit {
            column_family: family.id,
            relocations: vec![relocation.clone()],
            ..VersionEdit::default()
        };
        if let Err(e) = versions.apply(edit) {
            // The next MANIFEST will say that they are where they were.
            self.restore_locations(&before, &relocation);
            return Err(e);
        }
        let current = versions.family(family.id).map(|f| Arc::clone(&f.current));
        {
            let mut state = self.state.lock();
            if let (Some(family), Some(version)) = (state.families.get_mut(&family.id), current) {
                let live = relocation.logical.iter();
                let live = live.filter_map(|file| Some(version.blob_files.get(file)?.live_bytes()));
                let held = relocation.total_bytes.saturating_sub(live.sum());
                family.held.insert(relocation.file, held);
                family
                    .held
                    .retain(|file, held| *held > 0 && !collection.physical.contains(file));
                family.version = version;
                family.publish();
            }
        }
        drop(versions);
        stats::add(&self.statistics.garbage_collections, 1);
        stats::add(&self.statistics.gc_read_bytes, event.bytes_read);
        stats::add(&self.statistics.gc_blob_bytes, event.bytes_written);
        Ok(Some(event))
    }
}
