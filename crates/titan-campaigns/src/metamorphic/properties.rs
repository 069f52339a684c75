//! Properties that must hold for a database after any operations.

use std::path::Path;

use titan::{Options, ReadOptions};
use titan_testkit::failure::{Checked, ensure};

use crate::recovery::{misplaced_data, sound};
use crate::session::Session;

/// Bytes of a blob record before key and value.
const RECORD_HEADER: u64 = 32;

/// The MANIFEST's counts for a family.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Account {
    family: String,
    blob_files: usize,
    live_blob_bytes: u64,
    garbage_blob_bytes: u64,
}

/// The MANIFEST's counts, once the database is idle. Also checks that there are no other tables
/// and blob files in the directory, and that the tables' pointers agree with the live counts of
/// blob files (BLOB-3).
pub(super) fn accounts(session: &Session, dir: &Path) -> Checked<Vec<Account>> {
    session.db().wait_idle()?;
    let metrics = session.db().metrics();
    let names = session.options().db.vfs.read_dir(dir)?;
    let wrong = misplaced_data(&metrics, &names.into_iter().collect());
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let account = |f: titan::FamilyMetrics| {
        let referenced: u64 = f.levels.iter().map(|l| l.referenced_blob_bytes).sum();
        ensure!(
            referenced == f.live_blob_bytes,
            "tables refer to {referenced} bytes, blob files count {} as live (BLOB-3)",
            f.live_blob_bytes
        );
        Ok(Account {
            family: f.name,
            blob_files: f.blob_files,
            live_blob_bytes: f.live_blob_bytes,
            garbage_blob_bytes: f.garbage_blob_bytes,
        })
    };
    metrics.families.into_iter().map(account).collect()
}

/// After everything was merged, exactly the records of the existing values are live.
pub(super) fn only_what_is_visible_is_referenced(session: &Session, family: &str) -> Checked<()> {
    let family = session.family(family)?;
    let options = family.options();
    let mut visible = 0;
    if options.enable_blob_files {
        let read = ReadOptions::default();
        let mut iterator = family.iter(&read)?;
        iterator.seek_to_first()?;
        while iterator.valid() {
            let len = iterator.value()?.len() as u64;
            if len >= options.min_blob_size {
                let stored = iterator.lazy_value()?.stored_len();
                visible += RECORD_HEADER + iterator.key().len() as u64 + stored;
            }
            iterator.next()?;
        }
    }
    let metrics = family.metrics();
    let (live, garbage) = (metrics.live_blob_bytes, metrics.garbage_blob_bytes);
    ensure!(
        live == visible,
        "{live} blob bytes are live, {visible} visible"
    );
    ensure!(
        live + garbage == metrics.blob_bytes,
        "live and garbage are not all: {metrics:?}"
    );
    Ok(())
}

/// A closed database has no damaged files and no unlisted ones.
pub(super) fn clean(dir: &Path, options: &Options) -> Checked<()> {
    let notes = sound(dir, options)?;
    ensure!(notes.is_empty(), "check: {}", notes.join("; "));
    Ok(())
}
