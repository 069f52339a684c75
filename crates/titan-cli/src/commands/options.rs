//! `titan options`: prints every option, in the format of `--config`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use titan::vfs::StdVfs;
use titan::{Error, LoadedOptions, Options, Result, TakenOptions};

use crate::global::Global;
use crate::output::Out;
use crate::{config, option_table};

/// Print every option with its meaning and default, or those that a database keeps, as TOML
///
/// With --json and without a database, prints the defaults and what --config changes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of a database: print the options that it keeps, as a file for --config, the
    /// names that --comparator sets, and those of merge operators and prefix extractors. Nothing is
    /// changed. Cannot be combined with --config.
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

/// Families, their fields, and the names in these.
type Names = BTreeMap<String, BTreeMap<&'static str, String>>;

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let mut out = Out::new();
    if let Some(db) = &args.db {
        let loaded = LoadedOptions::load(Arc::new(StdVfs), db)?;
        let LoadedOptions {
            mut options,
            taken,
            recorded,
        } = loaded;
        // A database does not keep them.
        let aliases = global.comparators.iter().cloned();
        options.db.comparator_aliases.extend(aliases);
        match global.json {
            true => out.json(&json!({
                "options": options, "taken_options": taken, "recorded_names": recorded,
            }))?,
            false => {
                print_names(&recorded, &mut out)?;
                print_kept(&options, &taken, &mut out)?;
            }
        }
    } else if global.json {
        out.json(&config::options(global)?)?;
    } else {
        out.bytes(option_table::document()?.as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints as comments the objects that programs give and the database records by name.
fn print_names(names: &Names, out: &mut Out) -> Result<()> {
    for (family, fields) in names {
        for (field, name) in fields {
            out.line(format_args!("# {family}: {field} {name}"))?;
        }
    }
    Ok(())
}

/// The options as TOML, preceded by comments on options that Titan treats differently.
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
