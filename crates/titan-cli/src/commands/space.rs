//! `titan space`: shows what occupies disk space.

mod advice;
mod html;
mod parts;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use titan::{Error, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::output::Out;

/// Show what occupies disk space, and the live share of each blob file
///
/// Nothing in the directory is changed. Entries that are only in the log are counted with the log:
/// what they overwrite counts as live until a flush. Whether a blob file is due for collection
/// follows from the options that the database keeps, and from those of --config. If an action is
/// worthwhile, a line recommends it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Also write the report to an HTML page, for browsers and printers.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Number of blob files of each family to list, those with the most garbage first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    worst: usize,
}

const EXAMPLES: &str = "Examples:
  titan space photos.db
  titan space photos.db --html space.html
  titan space photos.db --json | jq '.families[].blob_files[] | select(.status == \"next\")'";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let db = open::open(&args.db, global, Access::Read)?;
    let report = db.space_report()?;
    db.close()?;
    if let Some(path) = &args.html {
        let page = html::page(&report, &args.db.to_string_lossy());
        std::fs::write(path, page).map_err(|e| Error::io(e, "write", path))?;
    }
    let mut out = Out::new();
    if global.json {
        out.json(&report)?;
    } else {
        text::print(&report, args.worst, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
