//! A downgrade in progress: the locked database, and the settings of new tables.

use std::path::Path;
use std::sync::Arc;

use titan::internals::block_cache::BlockCache;
use titan::internals::clock::{SteadyClock, session_id};
use titan::internals::compaction::{JobEnv, OutputFamily};
use titan::internals::db::{check_files_exist, files_of, require_database, with_layout};
use titan::internals::format::FileKind;
use titan::internals::open_files::{OpenFiles, OpenFilesLimits};
use titan::internals::version::{FamilyVersions, RecoveredState, VersionSet};
use titan::internals::vfs::{in_locked, lock_to_read};
use titan::vfs::{FileLock, Vfs};
use titan::{ColumnFamilyId, ColumnFamilyOptions, Options, Result, Statistics};

/// Bytes of relocation maps kept in memory.
const MAP_CACHE: usize = 8 << 20;

/// A downgrade in progress.
pub(super) struct Downgrade<'d> {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) dir: &'d Path,
    pub(super) options: Options,
    /// Whether RocksDB refuses the MANIFEST.
    pub(super) needed: bool,
    pub(super) versions: VersionSet,
    pub(super) open_files: OpenFiles,
    pub(super) env: JobEnv,
    _lock: Box<dyn FileLock>,
}

impl<'d> Downgrade<'d> {
    /// `looking`: nothing will be changed.
    pub(super) fn of(dir: &'d Path, options: &Options, looking: bool) -> Result<Self> {
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
        // No existing file name is used again, also of a file that another program left.
        let files = files_of(&*vfs, dir)?;
        versions.counters().mark_names_used(dir, &files)?;
        let block_cache = Arc::new(BlockCache::new(MAP_CACHE));
        let limits = OpenFilesLimits::of_database(&options.db);
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
    pub(super) fn output_family(
        &self,
        id: ColumnFamilyId,
        family: &FamilyVersions,
    ) -> OutputFamily {
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
