//! `tifs mkfs`: makes a volume.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use super::{Global, output, volumes};

/// Make a volume in a directory, on TiKV or on etcd
///
/// The directory must be empty, or must not exist yet; the cluster must have none of that name. One
/// process at a time uses a volume, usually tifs mount. The volume grows as files are written, up
/// to the space of its device.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume, or its address on a cluster: see tifs mount.
    dir: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tifs mkfs /srv/volume
  tifs mkfs tikv://pd1:2379,pd2:2379/files
  tifs mkfs 'etcd://e1:2379,e2:2379,e3:2379/files?blocks=s3://bucket/blocks'
  tifs mkfs /srv/volume --json | jq -r .uuid";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let volume = volumes::make(&args.dir)?;
    let uuid = format!("{:032x}", volume.superblock().uuid);
    volume
        .close()
        .with_context(|| format!("cannot close the volume {}", args.dir.display()))?;
    if global.json {
        // JSON has only UTF-8. Other bytes of the path are replaced.
        output::json(&json!({ "dir": args.dir.to_string_lossy(), "uuid": uuid }))?;
    } else {
        let dir = args.dir.display();
        output::print(format_args!("{dir} has a new volume, {uuid}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
