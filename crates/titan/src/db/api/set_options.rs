//! Changing options while the database is open.

use std::sync::Arc;

use super::column_family::ColumnFamily;
use crate::db::core::family::{Family, dropped};
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::{Core, Shared};
use crate::db::jobs::job::Running;
use crate::db::on_disk::directory::files_of;
use crate::db::on_disk::options_file::write_options_file;
use crate::env::OpenFilesLimits;
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::options::{ColumnFamilyOptions, DbOptions, is_of_database};
use crate::version::VersionSet;

/// Options after a change of them; `None` if they stay.
struct Changed {
    family: Option<ColumnFamilyOptions>,
    database: Option<DbOptions>,
}

/// Number of OPTIONS files that are left.
const OPTIONS_KEPT: usize = 2;

impl ColumnFamily {
    /// Changes options by their names, with values as text: `("write_buffer_size", "128M")`. Names
    /// and values may be those of configuration files or RocksDB's; of its codecs, those that are
    /// only read become the nearest one that is written. All changes apply, or none does.
    ///
    /// Everything that is kept with the family can change, except for `num_levels`. A write buffer
    /// has its new size from the next memtable on; jobs that run go on with the options that they
    /// began with; existing tables and blob files stay as they are until a compaction or a
    /// collection rewrites them. Unless [`keep_options`](crate::DbOptions::keep_options) is off,
    /// the change is durable on return, and the next opening takes it over.
    ///
    /// Cost: a synced write to the MANIFEST, and OPTIONS is written again.
    ///
    /// # Errors
    /// `InvalidOption`, which names the option and the rule: nothing has changed. `InvalidArgument`
    /// if the family was dropped, and in a commit hook or a barrier. `ReadOnly`, `WritesStopped`,
    /// `Closed`. `Io`, `NoSpace`: if the MANIFEST cannot be written, writes stop; if only OPTIONS
    /// cannot, the options have changed, and RocksDB's tools see the old ones.
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.core.set_options(&self.family, changes, false)
    }
}

impl Core {
    /// Changes options of a family, and of the database if `of_database` allows it.
    pub(super) fn set_options(
        &self,
        family: &Family,
        changes: &[(&str, &str)],
        of_database: bool,
    ) -> Result<()> {
        // Like every other call that writes.
        self.shared.pipeline.check_may_wait()?;
        self.shared.lifecycle.check_not_inherited()?;
        let changed = self.shared.set_options(family, changes, of_database);
        let numbers = || {
            let options = self.shared.opening.options.load();
            let jobs = options.max_background_jobs;
            (options.env.is_none().then_some(jobs), jobs)
        };
        // Also after a failure to write OPTIONS.
        self.shared.opening.env.resize(numbers).and(changed)
    }
}

impl Shared {
    /// Changes options of a family, and of the database if `of_database` allows it.
    fn set_options(
        &self,
        family: &Family,
        changes: &[(&str, &str)],
        of_database: bool,
    ) -> Result<()> {
        let is_of_database = |(name, _): &(&str, &str)| of_database && is_of_database(name.trim());
        let (of_database, of_family): (Vec<_>, Vec<_>) =
            changes.iter().copied().partition(is_of_database);
        gate!("options: to be changed");
        let running = self.begin_change(family)?;
        let recorded = self.record_and_apply(family, &of_family, &of_database);
        running.end();
        let written = recorded?;
        if !of_family.is_empty() {
            family.report_loosened_bound(&self.opening.listeners);
        }
        let mut state = self.state.lock();
        if let Some(family) = state.families.get_mut(&family.id) {
            family.has_changed();
        }
        let options = self.opening.options.load();
        self.admission.wal_limit.set(&state, &options);
        self.update_stalls(state);
        // Jobs may be due, and waiting writers may go on now.
        self.signals.raise_all();
        // The MANIFEST may be another one.
        self.purge();
        written
    }

    /// Counts a change as running, so that closing waits for it: afterwards the directory may be
    /// another opening's.
    fn begin_change(&self, family: &Family) -> Result<Running<'_>> {
        let mut state = self.state.lock();
        // Under the lock: closing and resuming wait for the jobs that they find counted.
        self.check_open()?;
        self.check_not_stopped()?;
        state.begin(RunningJob::OptionsChange, family.id);
        Ok(Running::counted(self, family.id, RunningJob::OptionsChange))
    }

    /// Makes a change durable, and applies it. Fails if nothing has changed; otherwise returns
    /// whether OPTIONS has been written, too.
    fn record_and_apply(
        &self,
        family: &Family,
        of_family: &[(&str, &str)],
        of_database: &[(&str, &str)],
    ) -> Result<Result<()>> {
        // Changes apply in the order in which they are recorded.
        let mut versions = self.versions.lock();
        if versions.family(family.id).is_none() {
            return Err(dropped(&family.name));
        }
        let new = Changed {
            family: (!of_family.is_empty())
                .then(|| family.options().changed(of_family))
                .transpose()?,
            database: (!of_database.is_empty())
                .then(|| self.opening.options.load().changed(of_database))
                .transpose()?,
        };
        invariant!(
            new.family
                .as_ref()
                .is_none_or(|options| options.validate().is_ok()),
            "options of family {} are changed to values that an opening refuses",
            family.id
        );
        let keeps = self.opening.options.load().keep_options;
        // ORDER: the change is durable before anything is done by it. So nothing is ever found that
        // the options in the MANIFEST do not explain.
        if keeps && !mutant!(changed_options_not_kept) {
            let of_family = new.family.as_ref().map(ColumnFamilyOptions::kept_texts);
            let of_database = new.database.as_ref().map(DbOptions::kept_texts);
            if let Err(e) = versions.set_options(family.id, of_family, of_database) {
                drop(versions);
                return Err(self.failure.set(e));
            }
        }
        gate!("options: recorded");
        invariant!(
            self.state.lock().running.of(RunningJob::OptionsChange) > 0,
            "options are changed by a thread that does not count"
        );
        if let Some(options) = new.family {
            family.options.store(Arc::new(options));
        }
        if let Some(options) = new.database {
            self.apply_of_database(options, &mut versions)?;
        }
        Ok(match keeps {
            true => self.rewrite_options_file(&versions),
            false => Ok(()),
        })
    }

    fn apply_of_database(&self, options: DbOptions, versions: &mut VersionSet) -> Result<()> {
        versions.set_max_manifest_file_size(options.max_manifest_file_size);
        if options.env.is_none() {
            let max_open_files = OpenFilesLimits::of_database(&options).files;
            self.opening
                .env
                .parts()
                .change(&options.of_own_env(), max_open_files);
        }
        let detail = self.opening.statistics.detail();
        let slow = options.slow_operation_micros;
        let leveled = detail.set(options.stats_level, slow, &self.opening.clock);
        self.opening.options.store(Arc::new(options));
        leveled
    }

    /// Writes OPTIONS again, and deletes all but the newest two, as RocksDB does.
    fn rewrite_options_file(&self, versions: &VersionSet) -> Result<()> {
        let (env, families) = (&self.files.env, self.families.load());
        write_options_file(versions, &env.dir, &self.opening.options.load(), |name| {
            let family = families.values().find(|family| family.name == name);
            family.and_then(|family| family.options().compaction_filter.clone())
        })?;
        let mut listed: Vec<FileKind> = files_of(&*env.vfs, &env.dir)?
            .into_iter()
            .filter(|file| matches!(file, FileKind::Options(_)))
            .collect();
        listed.truncate(listed.len().saturating_sub(OPTIONS_KEPT));
        env.discard(&listed);
        Ok(())
    }
}
