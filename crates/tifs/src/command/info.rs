//! `tifs info`: shows how a file is stored.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use tifs::volume::DESCRIPTION;

use super::{Global, attribute, progress};

/// Show how a file of a mounted volume is stored
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A file or directory in a mounted volume.
    path: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tifs info /mnt/files/database.db
  tifs info /mnt/files/database.db --json | jq .block_size";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let text = attribute::read(&args.path, DESCRIPTION)?;
    if global.json {
        println!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let value: serde_json::Value = serde_json::from_str(&text)?;
    let number = |name: &str| value[name].as_u64().unwrap_or_default();
    let stored = match value["inline"].as_bool() {
        Some(true) => "beside the attributes".to_owned(),
        _ => format!("in blocks of {}", progress::bytes(number("block_size"))),
    };
    println!("inode      {}", number("inode"));
    println!("kind       {}", value["kind"].as_str().unwrap_or_default());
    println!("size       {} bytes", number("size"));
    println!("takes      {}", progress::bytes(number("allocated")));
    println!("stored     {stored}");
    println!("names      {}", number("links"));
    println!("parent     inode {}", number("parent"));
    Ok(ExitCode::SUCCESS)
}
