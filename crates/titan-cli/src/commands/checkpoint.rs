//! `titan checkpoint`: copies the database as it is now into another directory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use titan::Result;

use crate::global::Global;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::progress::Looking;
use crate::usage;

/// Copy the database, as it is now, into another directory
///
/// The copy is an independent database. It shares its large files with the original by hard links,
/// so it takes no further space until one of the two changes; on another file system they are
/// copied. An interrupted checkpoint leaves no directory of this name and can be repeated. If a
/// program has the database open, make the checkpoint in that program: Db::checkpoint.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Directory of the copy; must not exist, and must not be inside the directory of a database.
    dir: PathBuf,
}

const EXAMPLES: &str = "Examples:
  titan checkpoint photos.db backups/photos-monday.db
  titan checkpoint photos.db copy.db --json | jq '.linked_bytes'";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let db = open::open(&args.db, global, Access::Copy)?;
    let made = args.dir.clone();
    let total = usage::disk_usage(&args.db)?.data_bytes();
    let progress = Looking::new("checkpoint", Some(total), move || bytes_made(&made));
    let summary = db.checkpoint(&args.dir);
    drop(progress);
    let summary = summary?;
    db.close()?;
    let mut out = Out::new();
    if global.json {
        out.json(&summary)?;
    } else {
        let files = output::count(summary.files as u64);
        let (linked, copied) = (summary.linked_bytes, summary.copied_bytes);
        out.line(format_args!(
            "{} has {files} data files: {} shared by hard links, {} copied",
            args.dir.display(),
            output::size(linked),
            output::size(copied)
        ))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The bytes of a checkpoint that has its name, or is made under a temporary one.
fn bytes_made(dir: &Path) -> u64 {
    let mut temporary = dir.as_os_str().to_owned();
    temporary.push(".tmp");
    let made = [dir, Path::new(&temporary)].map(usage::disk_usage);
    let made = made.into_iter().filter_map(|usage| usage.ok());
    made.map(|usage| usage.data_bytes()).sum()
}
