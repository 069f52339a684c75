//! Checkpoints: the database as of one moment, in another directory.
//!
//! Tables, blob files and relocation maps never change, so the checkpoint shares them by hard
//! links; only the small files are written. The contents of memtables at that moment are flushed
//! first, and no newer memtable is flushed until the versions have been captured. So every batch is
//! in the tables of all its families or of none, and the checkpoint needs no WAL. Writers wait for
//! nothing but a switch of memtables.
//!
//! The captured files are pinned while they are linked: files that compactions and collections
//! replace meanwhile keep their names until then.

use std::path::{Component, Path, PathBuf};

use crate::db::core::shared::Shared;
use crate::db::on_disk::staging::Staging;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::stats::HistogramKind;
use crate::version::Capture;
use crate::vfs::{Vfs, link_or_copy, replace_file};

/// Files of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CheckpointSummary {
    /// Tables, blob files and relocation maps.
    pub files: usize,
    /// Bytes of the files that are shared with the database by hard links.
    pub linked_bytes: u64,
    /// Bytes of the files that had to be copied: the file system has no links, or is another one.
    pub copied_bytes: u64,
}

impl Shared {
    /// See [`Db::checkpoint`](crate::Db::checkpoint).
    pub(super) fn checkpoint(&self, target: &Path) -> Result<CheckpointSummary> {
        self.lifecycle.check_not_inherited()?;
        let detailed = self.opening.statistics.detailed();
        let _watch = detailed.map(|detailed| detailed.time(HistogramKind::Checkpoint));
        let made = {
            let _one_at_a_time = self.lifecycle.checkpoint();
            let possible = self.check_open().and_then(|()| self.check_not_stopped());
            possible.and_then(|()| self.make_checkpoint(target))
        };
        // Deletes the obsolete files that were pinned for it.
        self.purge();
        made.map_err(|e| e.context("making a checkpoint"))
    }

    fn make_checkpoint(&self, target: &Path) -> Result<CheckpointSummary> {
        let vfs = &*self.files.vfs;
        refuse_within(vfs, target)?;
        let staging = Staging::start(vfs, target)?;
        let dir = staging.path();
        let [wal, options_file, manifest] =
            std::array::from_fn(|_| self.counters.new_file_number());
        let (capture, identity, options) = {
            let barrier = self.flush_to_barrier()?;
            let _barrier = (!mutant!(barrier_lifted_before_the_capture)).then_some(barrier);
            gate!("checkpoint: flushed");
            let versions = self.versions.lock();
            let identity = versions.db_id().to_owned();
            (versions.capture(wal), identity, versions.options_file())
        };
        gate!("checkpoint: captured");
        let summary = self.link_files(&capture, dir)?;
        // An empty WAL file shows the next opening that none was lost.
        vfs.create(&FileKind::Wal(wal).path(dir))?.sync()?;
        let temp = FileKind::Temp(wal).path(dir);
        let path = FileKind::Identity.path(dir);
        replace_file(vfs, &temp, &path, identity.as_bytes())?;
        options.write(vfs, dir, options_file)?;
        if mutant!(checkpoint_named_before_it_is_whole) {
            staging.publish()?;
            capture.write_manifest(vfs, target, manifest)?;
        } else {
            // ORDER: syncs the names of all files before CURRENT makes them a database.
            capture.write_manifest(vfs, dir, manifest)?;
            staging.publish()?;
        }
        Ok(summary)
    }

    /// Flushes the entries in memtables now. Later ones stay in memtables while the guard is alive,
    /// and families are neither created nor dropped.
    fn flush_to_barrier(&self) -> Result<BarrierGuard<'_>> {
        let barrier = self.alone(|lead| {
            let ids: Vec<_> = self.families.load().keys().copied().collect();
            let barrier = self.switch_to_flush(lead, &ids)?;
            if !mutant!(checkpoint_of_several_moments) {
                let before = self.state.lock().flush_barrier.replace(barrier.clone());
                invariant!(before.is_none(), "two checkpoints are made at once");
            }
            Ok(barrier)
        })?;
        let guard = BarrierGuard(self);
        gate!("checkpoint: barrier set");
        self.try_again(barrier.keys().copied());
        self.wait_for_flushes(&barrier)?;
        Ok(guard)
    }

    fn link_files(&self, capture: &Capture, dir: &Path) -> Result<CheckpointSummary> {
        let mut summary = CheckpointSummary::default();
        for file in capture.files() {
            self.check_open()?;
            let (from, to) = (file.path(&self.files.dir), file.path(dir));
            let linked = link_or_copy(&*self.files.vfs, &from, &to)?;
            let bytes = self.files.vfs.size(&to)?;
            summary.files += 1;
            match linked {
                true => summary.linked_bytes += bytes,
                false => summary.copied_bytes += bytes,
            }
            gate!("checkpoint: file linked");
        }
        Ok(summary)
    }
}

/// Refuses a target inside a database's directory: a database takes every name there that looks
/// like one of its files for its own.
pub(super) fn refuse_within(vfs: &dyn Vfs, target: &Path) -> Result<()> {
    for around in leads_to(vfs, target)?.ancestors().skip(1) {
        if vfs.exists(&FileKind::Current.path(around))? {
            let message = "this is inside a database's directory, which has only its own files";
            return Err(Error::invalid_argument(message).in_file(target));
        }
    }
    Ok(())
}

/// Where a path leads once its missing directories have been made.
fn leads_to(vfs: &dyn Vfs, path: &Path) -> Result<PathBuf> {
    let mut target = match path.has_root() {
        true => PathBuf::new(),
        false => vfs.canonicalize(Path::new("."))?,
    };
    for component in path.components() {
        match component {
            // `target` is canonical, and a missing directory will be no link.
            Component::ParentDir => drop(target.pop()),
            other => target.push(other),
        }
        if vfs.exists(&target)? {
            target = vfs.canonicalize(&target)?;
        }
    }
    Ok(target)
}

/// Allows newer memtables to be flushed, and families to change, when it is dropped.
struct BarrierGuard<'a>(&'a Shared);

impl Drop for BarrierGuard<'_> {
    fn drop(&mut self) {
        self.0.state.lock().flush_barrier = None;
        self.0.signals.work.raise();
        self.0.signals.progress.raise();
    }
}
