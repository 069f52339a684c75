//! `titan families drop`: deletes a column family with all its keys.

use std::path::PathBuf;
use std::process::ExitCode;

use titan::Result;

use crate::confirm::Consent;
use crate::global::Global;
use crate::open::{self, Access};
use crate::owner;

/// Delete a column family with all its keys, after a question
///
/// This is durable when the command ends. The database is open while the question waits. A store of
/// versions and a volume of TiFS are refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The name of the family.
    name: String,
    #[command(flatten)]
    consent: Consent,
    /// Change also a store of versions or a volume of TiFS, which that may damage.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "Examples:
  titan families create photos.db thumbnails
  titan families drop photos.db thumbnails --yes";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let name = &args.name;
    let db = open::open(&args.db, global, Access::WriteExisting)?;
    owner::refuse_owned(&db, args.force)?;
    let family = open::family(&db, Some(name))?;
    args.consent
        .ask(&format!("drop column family {name} with all its keys"))?;
    db.drop_column_family(&family)?;
    db.close()?;
    Ok(ExitCode::SUCCESS)
}
