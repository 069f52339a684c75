//! `titan families create`: makes an empty column family.

use std::path::PathBuf;
use std::process::ExitCode;

use titan::{Db, Error, ErrorKind, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::{config, owner};

/// Make an empty column family
///
/// It has the options that --config has for it, which the database keeps. It is durable when the
/// command ends. A store of versions and a volume of TiFS are refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The name of the family: a line of up to 255 bytes.
    #[arg(value_parser = open::new_name)]
    name: String,
    /// Change also a store of versions or a volume of TiFS, which that may damage.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "Example:
  titan families create photos.db thumbnails";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let name = &args.name;
    let there = Db::list_column_families(&args.db, &config::options(global)?)?;
    if there.contains(name) {
        let message = format!("column family {name}");
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    let db = open::open(&args.db, global, Access::WriteExisting)?;
    owner::refuse_owned(&db, args.force)?;
    open::family_or_new(&db, Some(name), global)?;
    db.close()?;
    Ok(ExitCode::SUCCESS)
}
