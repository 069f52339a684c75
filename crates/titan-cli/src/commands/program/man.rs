//! `titan man`: writes the help as man pages.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use titan::{Error, Result};

/// Write the help of every command as a man page
///
/// The pages are titan.1, titan-get.1 and so on. Files of these names are replaced.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory of the pages, made if it does not exist.
    dir: PathBuf,
}

const EXAMPLES: &str = "Example:
  titan man share/man/man1                   # then: man -M share/man titan-get";

/// Writes the pages of the whole `command`.
pub(crate) fn run(args: &Args, command: clap::Command) -> Result<ExitCode> {
    let failed = |e| Error::io(e, "write man pages", &args.dir);
    fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(command, &args.dir).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
