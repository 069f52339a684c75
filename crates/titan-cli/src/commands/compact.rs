//! `titan compact`: merges the tables into as few files as possible.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use titan::{CompactRangeOptions, Result};

use crate::global::Global;
use crate::keys;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::usage;

/// Compact a range of keys, or everything
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The first key: text, or hexadecimal after 0x.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// The last key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Column family; without it, all families.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
    /// Rewrite the last level too: applies changed options to all data.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "Examples:
  titan compact photos.db
  titan compact photos.db --from Pictures/2025 --to Pictures/2026";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let (from, to) = (
        keys::parse_if_given(&args.from)?,
        keys::parse_if_given(&args.to)?,
    );
    let options = CompactRangeOptions {
        force_bottommost: args.force,
    };
    let db = open::open(&args.db, global, Access::Write)?;
    let before = usage::disk_usage(&args.db)?;
    let started = Instant::now();
    let families = open::family_or_all(&db, args.cf.as_deref())?;
    for family in families {
        family.compact_range(from.as_deref(), to.as_deref(), &options)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    db.close()?;
    let after = usage::disk_usage(&args.db)?;
    let mut out = Out::new();
    if global.json {
        out.json(&json!({ "seconds": seconds, "before": before, "after": after }))?;
    } else {
        out.line(usage::before_and_after(&before, &after))?;
        out.line(output::seconds(seconds))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
