//! Loads the options that a database has recorded.

use std::path::Path;
use std::sync::Arc;

use super::directory::require_database;
use crate::error::Result;
use crate::options::{DbOptions, LoadedOptions, Options};
use crate::version::RecoveredState;
use crate::vfs::{StdVfs, Vfs};

impl Options {
    /// The options that the database in `path` has recorded: those it was last opened with, except
    /// for those named below, and those its families were created with. If RocksDB had the
    /// directory last, those of its OPTIONS file, without settings for which Titan has no option.
    /// Every field is stated, so that every change of them takes effect:
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path();
    /// # titan::Db::open(path, &titan::Options::default())?.close()?;
    /// use titan::{CompressionType, Db, Options};
    ///
    /// let mut options = Options::load(path)?;
    /// options.default.compression = CompressionType::Lz4;
    /// let db = Db::open(path, &options)?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// Families have their options in `families`, `default` in `default`. The comparators are
    /// built-in ones: others must be set. `wal_dir` and `comparator_aliases` are not recorded, but
    /// stated at each opening: state them again. Nothing is locked; for a database in use, these
    /// are the options recorded at some moment.
    ///
    /// Cost: reads the MANIFEST.
    ///
    /// # Errors
    /// `NotFound` if there is no database; `Corruption`, `Unsupported` and `Io` as for
    /// [`Db::open`](crate::Db::open).
    pub fn load(path: impl AsRef<Path>) -> Result<Options> {
        Ok(LoadedOptions::load(Arc::new(StdVfs), path)?.options)
    }
}

impl LoadedOptions {
    /// Reads the options that the database in `path` has recorded, in the file system `vfs`, which
    /// the options then name; see [`Options::load`].
    ///
    /// # Errors
    /// Those of [`Options::load`].
    pub fn load(vfs: Arc<dyn Vfs>, path: impl AsRef<Path>) -> Result<Self> {
        let dir = path.as_ref();
        let mut given = Options {
            db: DbOptions {
                vfs: Arc::clone(&vfs),
                ..DbOptions::default()
            },
            ..Options::default()
        };
        require_database(&*vfs, dir)?;
        let state = RecoveredState::read(&*vfs, dir, &given)?;
        let kept = state.kept_options(&*vfs, dir)?;
        kept.db().put_into(&mut given.db);
        let names = state.family_names();
        let resolved = kept.resolve(&given, &names)?;
        Ok(LoadedOptions {
            options: resolved.options.without_placeholders(),
            taken: resolved.taken,
            recorded: kept.recorded(),
        })
    }
}
