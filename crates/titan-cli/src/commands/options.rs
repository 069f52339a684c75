//! `titan options`: prints every option, in the format of `--config`.

use std::borrow::Cow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use titan::vfs::StdVfs;
use titan::{Error, LoadedOptions, Options, Result, TakenOptions};

use crate::output::Out;
use crate::{Global, config, option_table};

/// Print every option with its meaning and default, or those that a database keeps, as TOML
///
/// With --json and without a database, prints the defaults and what --config changes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of a database: print the options that it keeps, as a file for --config, and the
    /// names that --comparator sets. Nothing is changed. Cannot be combined with --config.
    pub(crate) db: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  titan options > titan.toml
  titan stats photos.db --config titan.toml
  titan options photos.db

A file needs only the options that differ. A family's table overrides [default]:
  [default]
  compression = \"zstd\"
  [families.thumbnails]           # compressed too
  enable_blob_files = false";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let mut out = Out::new();
    if let Some(db) = &args.db {
        let LoadedOptions { mut options, taken } = LoadedOptions::load(Arc::new(StdVfs), db)?;
        // A database does not keep them.
        let aliases = global.comparators.iter().cloned();
        options.db.comparator_aliases.extend(aliases);
        match global.json {
            true => out.json(&json!({ "options": options, "taken_options": taken }))?,
            false => print_kept(&options, &taken, &mut out)?,
        }
    } else if global.json {
        out.json(&config::options(global)?)?;
    } else {
        out.bytes(option_table::document()?.as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The options as TOML, preceded by comments on what Titan does differently.
fn print_kept(options: &Options, taken: &[TakenOptions], out: &mut Out) -> Result<()> {
    for TakenOptions {
        family,
        file,
        notes,
        ..
    } in taken
    {
        out.line(format_args!("# {family}: from {file}"))?;
        for note in notes {
            out.line(format_args!("#   {note}"))?;
        }
    }
    let text = toml::to_string(options).map_err(|e| Error::invalid_option(e.to_string()))?;
    for line in text.lines() {
        out.line(readable(line))?;
    }
    Ok(())
}

/// TOML numbers end at `i64::MAX`. Larger option values mean that there is no limit.
fn readable(line: &str) -> Cow<'_, str> {
    match line.split_once(" = ") {
        Some((key, number)) if number.parse().is_ok_and(|n: u64| i64::try_from(n).is_err()) => {
            format!("{key} = {}", i64::MAX).into()
        }
        _ => line.into(),
    }
}
