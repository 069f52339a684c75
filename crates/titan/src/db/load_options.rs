//! The options that a database keeps, for programs.

use std::path::Path;
use std::sync::Arc;

use super::directory::require_database;
use crate::error::Result;
use crate::options::{DbOptions, LoadedOptions, Options};
use crate::version::RecoveredState;
use crate::vfs::{StdVfs, Vfs};

impl Options {
    /// The options that the database in `path` keeps: those it was last opened with, but for
    /// those named below, and those its families were created with. Of a directory that RocksDB had
    /// last, those of its OPTIONS file; what Titan has no option for is left out. Every field is
    /// stated, so that whatever is changed in them holds:
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
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
    /// Families have their options in `families`, `default` in `default`. The comparators are those
    /// that are built in: others must be set. `wal_dir` and `comparator_aliases` are not kept, but
    /// stated at each opening: state them again. Nothing is locked; of a database in use, it is what
    /// was kept at some moment.
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
    /// Reads what the database in `path` keeps, in the file system `vfs`, which the options then
    /// name; see [`Options::load`].
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
            options: resolved.options,
            taken: resolved.taken,
        })
    }
}
