//! `titan families list`: prints the names of column families.

use std::path::PathBuf;
use std::process::ExitCode;

use titan::{Db, Result};

use crate::config;
use crate::global::Global;
use crate::output::Out;

/// Print the names of the column families, one a line
///
/// With --json, an array. Works also while another process has the database open. titan stats has
/// the files of each.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the database.
    db: PathBuf,
}

const EXAMPLES: &str = "Example:
  titan families list photos.db";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let names = Db::list_column_families(&args.db, &config::options(global)?)?;
    let mut out = Out::new();
    match global.json {
        true => out.json(&names)?,
        false => names.iter().try_for_each(|name| out.line(name))?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
