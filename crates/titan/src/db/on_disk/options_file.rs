//! Writes OPTIONS, for programs that read it and for the next opening.

use std::path::Path;
use std::sync::Arc;

use super::wal_dir::record_wal_dir;
use crate::error::Result;
use crate::filter::CompactionFilterFactory;
use crate::options::DbOptions;
use crate::options::file::{CF_OPTIONS, COMPACTION_FILTER};
use crate::panics::name_of;
use crate::version::VersionSet;

/// Writes an OPTIONS file with the options that the MANIFEST keeps, and with those that only
/// OPTIONS has: the directory of WAL files, and the names of compaction filters.
pub(crate) fn write_options_file(
    versions: &VersionSet,
    dir: &Path,
    db: &DbOptions,
    filter_of: impl Fn(&str) -> Option<Arc<dyn CompactionFilterFactory>>,
) -> Result<()> {
    let mut file = versions.options_file();
    record_wal_dir(dir, db, &mut file)?;
    for family in versions.families().values() {
        if let Some(factory) = filter_of(&family.name) {
            file.set(
                CF_OPTIONS,
                &family.name,
                COMPACTION_FILTER,
                name_of(|| factory.name()),
            );
        }
    }
    file.write(&*db.vfs, dir, versions.counters().new_file_number())
}
