//! `titan inspect`: shows the contents of one file.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Serialize, Serializer};
use titan::{Error, Result};
use titan_tools::{FileSummary, InspectItem};

use crate::global::Global;
use crate::output::{self, Out};
use crate::status;

/// Show what a file of a database contains
///
/// Understands SST, blob, WAL, MANIFEST, OPTIONS, CURRENT and IDENTITY files, recognised by name
/// and contents. Prints a line for each block, record, edit, entry and property: its offset, its
/// kind, its fields. Damage has a line of its own; the exit status is then 6.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file.
    file: PathBuf,
}

const EXAMPLES: &str = "Examples:
  titan inspect photos.db/CURRENT
  titan inspect photos.db/$(cat photos.db/CURRENT) --json      # the MANIFEST
  for table in photos.db/*.sst; do titan inspect $table; done";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    if args.file.is_dir() {
        let message = "a directory; inspect takes one of its files, stats and check take all";
        return Err(Error::invalid_argument(message).in_file(&args.file));
    }
    let file = std::fs::metadata(&args.file);
    if file.is_ok_and(|file| !file.is_file()) {
        // A device or a pipe may never end, and has no places that can be read again.
        let message = "no regular file; inspect takes a file of a database";
        return Err(Error::invalid_argument(message).in_file(&args.file));
    }
    let mut out = Out::new();
    let mut printed = Ok(());
    let summary = titan_tools::inspect(&args.file, &mut |item: InspectItem| {
        printed = if global.json {
            out.json_line(&Line::of(&item))
        } else {
            line(&item, &mut out)
        };
        printed.is_ok()
    });
    printed?;
    let summary = summary?;
    if !global.json {
        conclude(&summary, &mut out)?;
    }
    out.flush()?;
    Ok(if summary.damaged == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(status::DAMAGED)
    })
}

/// An item as JSON, its fields an object.
#[derive(Serialize)]
struct Line<'a> {
    offset: u64,
    kind: &'a str,
    #[serde(serialize_with = "as_object")]
    fields: &'a [(String, String)],
}

impl<'a> Line<'a> {
    fn of(item: &'a InspectItem) -> Self {
        Line {
            offset: item.offset,
            kind: &item.kind,
            fields: &item.fields,
        }
    }
}

fn as_object<S: Serializer>(fields: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
}

fn line(item: &InspectItem, out: &mut Out) -> Result<()> {
    let fields: Vec<String> = item
        .fields
        .iter()
        .map(|(name, v)| format!("{name}={v}"))
        .collect();
    out.line(format_args!(
        "{:>10}  {:<18} {}",
        item.offset,
        item.kind,
        fields.join(" ")
    ))
}

fn conclude(summary: &FileSummary, out: &mut Out) -> Result<()> {
    let FileSummary {
        kind,
        size,
        items,
        damaged,
    } = summary;
    let (size, items) = (output::size(*size), output::count(*items));
    match damaged {
        0 => out.line(format_args!("{kind}, {size}, {items} items")),
        n => out.line(format_args!(
            "{kind}, {size}, {items} items, {} damaged",
            output::count(*n)
        )),
    }
}
