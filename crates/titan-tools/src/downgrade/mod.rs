//! Converts a database back to files that RocksDB reads.
//!
//! Garbage collection relocates blob records and leaves their pointers as they are. RocksDB does
//! not know relocation and refuses a MANIFEST that mentions it. A downgrade removes it: tables that
//! point to relocated records are rewritten with pointers to the new locations, and the files that
//! collections wrote become ordinary blob files. No value is read or written.
//!
//! | file | step |
//! |---|---|
//! | `plan` | which tables must be rewritten |
//! | `rewrite` | writes them, entry by entry, with new pointers |
//! | `install` | creates the versions and a new MANIFEST; deletes files not needed any more |
//!
//! # Promises
//!
//! 1. Keys, sequence numbers, value types, levels and the contents of WAL files do not change.
//! 2. The counts are exact: the records of a collected file to which no table refers are its
//!    garbage (BLOB-3).
//! 3. It takes effect in one step, the switch of CURRENT. If it ends earlier, the database is as it
//!    was, except for files that the next opening deletes; and it can be run again.
//!
//! If Titan goes on using the database, it collects garbage again if its options say so.

mod install;
mod plan;
mod rewrite;

use std::path::Path;
use std::sync::Arc;

use titan::internals::block_cache::BlockCache;
use titan::internals::clock::SteadyClock;
use titan::internals::compaction::{JobEnv, OutputFamily};
use titan::internals::db::{
    check_files_exist, files_of, refuse_unknown_pointers, require_database, session_id, with_layout,
};
use titan::internals::format::FileKind;
use titan::internals::open_files::{OpenFiles, OpenFilesLimits};
use titan::internals::version::{FamilyVersions, RecoveredState, VersionSet};
use titan::internals::vfs::{in_locked, lock_to_read};
use titan::vfs::{FileLock, Vfs};
use titan::{ColumnFamilyId, ColumnFamilyOptions, Options, Result, Statistics};

use super::Progress;

pub use install::DowngradeReport;
pub use plan::{DowngradePlan, RewrittenTable};

/// Bytes of relocation maps kept in memory.
const MAP_CACHE: usize = 8 << 20;

/// Returns what a downgrade of the database in `path` would do. Writes nothing. The database is
/// locked meanwhile.
///
/// Cost: reads the MANIFEST, and all entries of tables that RocksDB wrote.
///
/// # Errors
/// `NotFound` if there is no database; `Locked` if it is in use; `Corruption` if the MANIFEST is
/// damaged or a file is missing or has another size; `Unsupported` and `InvalidArgument` as for
/// [`Db::open`](titan::Db::open).
pub fn plan_downgrade(path: &Path, options: &Options) -> Result<DowngradePlan> {
    Ok(Downgrade::of(path, options, true)?.plan()?.summary)
}

/// Converts the database in `path` into one that RocksDB can read and reports progress to
/// `progress`. The database is locked meanwhile. `options` say how tables are written.
///
/// Cost: reads and writes the tables that [`plan_downgrade`] names. If the database has nothing
/// that RocksDB refuses, nothing is done.
///
/// # Errors
/// Those of [`plan_downgrade`]; `Corruption` if a table to be rewritten is damaged or does not
/// agree with the maps; failures to write. After an error the database is as it was.
pub fn downgrade(
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<DowngradeReport> {
    let downgrade = Downgrade::of(path, options, false)?;
    let plan = downgrade.plan()?;
    if !plan.summary.needed {
        return Ok(DowngradeReport::default());
    }
    refuse_unknown_pointers(&*downgrade.vfs, path, &downgrade.versions)?;
    let rewritten = downgrade.rewrite(&plan, progress)?;
    downgrade.install(plan, rewritten)
}

/// A downgrade in progress.
struct Downgrade<'d> {
    vfs: Arc<dyn Vfs>,
    dir: &'d Path,
    options: Options,
    /// Whether RocksDB refuses the MANIFEST.
    needed: bool,
    versions: VersionSet,
    open_files: OpenFiles,
    env: JobEnv,
    _lock: Box<dyn FileLock>,
}

impl<'d> Downgrade<'d> {
    /// `looking`: nothing will be changed.
    fn of(dir: &'d Path, options: &Options, looking: bool) -> Result<Self> {
        options.validate()?;
        let options = with_layout(dir, options, looking)?;
        let vfs = Arc::clone(&options.db.vfs);
        require_database(&*vfs, dir)?;
        let lock_file = FileKind::Lock.path(dir);
        let lock = match looking {
            true => lock_to_read(&*vfs, &lock_file)?,
            false => vfs.lock(&lock_file)?,
        };
        let vfs = in_locked(vfs, dir, &*lock);
        let statistics = Arc::new(Statistics::default());
        let recovered = RecoveredState::read(&*vfs, dir, &options)?;
        let needed = recovered.moves_values();
        let kept = recovered.kept_options(&*vfs, dir)?;
        let options = kept.resolve(&options, &recovered.family_names())?.options;
        let versions = recovered.into_set(Arc::clone(&vfs), dir, &options, statistics)?;
        check_files_exist(&*vfs, dir, &versions)?;
        // No existing file name is used again, whichever program left it.
        let files = files_of(&*vfs, dir)?;
        versions.counters().mark_names_used(dir, &files)?;
        let block_cache = Arc::new(BlockCache::new(MAP_CACHE));
        let limits = OpenFilesLimits::new(&options.db);
        Ok(Downgrade {
            dir,
            open_files: OpenFiles::new(Arc::clone(&vfs), dir.to_owned(), limits, block_cache),
            env: JobEnv {
                vfs: Arc::clone(&vfs),
                clock: SteadyClock::new(Arc::clone(&options.db.clock)),
                dir: dir.to_owned(),
                counters: Arc::clone(versions.counters()),
                direct_io: options.db.tools_write_direct(),
                db_id: versions.db_id().to_owned(),
                session_id: session_id(&*options.db.clock),
            },
            vfs,
            needed,
            versions,
            options,
            _lock: lock,
        })
    }

    /// Settings for new tables of a family. No value is separated: each stays where it is.
    fn output_family(&self, id: ColumnFamilyId, family: &FamilyVersions) -> OutputFamily {
        let options = ColumnFamilyOptions {
            enable_blob_files: false,
            ..self.options.family(&family.name).clone()
        };
        OutputFamily {
            id,
            name: family.name.clone(),
            comparator: family.comparator.clone(),
            options: Arc::new(options),
        }
    }
}
