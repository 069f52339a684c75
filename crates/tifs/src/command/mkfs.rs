//! `tifs mkfs`: makes a volume.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use super::{Global, output, volumes};

/// Make a volume in a directory
///
/// The directory must be empty, or must not exist yet. One process at a time uses a volume, usually
/// tifs mount. The volume grows as files are written, up to the space of its device.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume.
    dir: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tifs mkfs /srv/volume
  tifs mkfs /srv/volume --json | jq -r .uuid";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let volume = volumes::make(&args.dir)?;
    let uuid = format!("{:032x}", volume.superblock().uuid);
    volume
        .close()
        .with_context(|| format!("cannot close the volume in {}", args.dir.display()))?;
    if global.json {
        // JSON has only UTF-8. Other bytes of the path are replaced.
        output::json(&json!({ "dir": args.dir.to_string_lossy(), "uuid": uuid }))?;
    } else {
        let dir = args.dir.display();
        output::print(format_args!("{dir} has a new volume, {uuid}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
