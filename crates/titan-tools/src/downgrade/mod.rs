//! Converts a database back to files that RocksDB reads.
//!
//! Garbage collection relocates blob records and leaves their pointers as they are. RocksDB does
//! not know relocation and refuses a MANIFEST that mentions it. A downgrade removes it: tables that
//! point to relocated records are rewritten with pointers to the new locations, and the files that
//! collections wrote become ordinary blob files. No value is read or written.
//!
//! | file | step |
//! |---|---|
//! | `state` | the database that is converted, and how new tables are written |
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
mod state;

use std::path::Path;

use titan::internals::db::refuse_unknown_pointers;
use titan::{Options, Result};

use crate::progress::Progress;
use state::Downgrade;

pub use install::DowngradeReport;
pub use plan::{DowngradePlan, RewrittenTable};

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
