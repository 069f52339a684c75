//! `titan options`: every option, for a file to give to `--config`.

use std::process::ExitCode;

use titan::Result;

use crate::output::Out;
use crate::{Global, config, option_table};

/// Print every option with its meaning and default, as TOML
///
/// With --json, prints the options in force instead: the defaults and what --config changes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

const EXAMPLES: &str = "Examples:
  titan options > titan.toml
  titan stats photos.db --config titan.toml

A file needs only what is to differ. A family's table is laid upon [default]:
  [default]
  compression = \"zstd\"
  [families.thumbnails]           # compressed, too
  enable_blob_files = false";

pub(crate) fn run(_: &Args, global: &Global) -> Result<ExitCode> {
    let mut out = Out::new();
    if global.json {
        out.json(&config::options(global)?)?;
    } else {
        out.bytes(option_table::document()?.as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
