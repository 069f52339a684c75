//! `titan ime status`: the ranges in the last record of a range cache, and its faults.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, json};
use titan::vfs::{StdVfs, Vfs};
use titan::{Error, Result};
use titan_ime::{Faults, HeldRange, Remembered};

use crate::global::Global;
use crate::keys;
use crate::output::{Out, count, size};

/// Characters of the longest bar.
const BAR: u64 = 40;

/// List the ranges that a range cache held, with their memory and their savings
///
/// A line is a range, from its first key to the first key after it; a gap of dead rows begins after
/// the first key shown. A bar shows its memory beside that of the largest. Its savings are the
/// steps of an iterator through versions that its reads avoided in a pass of maintenance, minus 16
/// for each version written to it, as a decaying average: negative if it costs more than it saves.
/// A pass is a second, unless the program says otherwise. A last line has the faults of the cache:
/// a panic of its maintenance, or the reason why it is off. With --json a line is an object. The
/// list is as of its last writing: about each minute, after a fault, and when the store was closed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// Print keys in hexadecimal.
    #[arg(long)]
    hex: bool,
}

const EXAMPLES: &str = "Examples:
  titan ime status history.db
  titan ime status history.db --json | jq .bytes";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let vfs = StdVfs;
    // A directory that is none has no list either.
    vfs.read_dir(&args.db)?;
    let Remembered { held, faults, .. } = Remembered::read(&vfs, &args.db).ok_or_else(|| {
        let db = args.db.display();
        Error::invalid_argument(format!(
            "{db} has no list of held ranges: no range cache was open that chooses by itself, or the list is damaged"
        ))
    })?;
    let mut out = Out::new();
    let most = held.iter().map(|range| range.bytes).max().unwrap_or(0);
    for range in &held {
        match global.json {
            true => out.json_line(&object(range, args.hex))?,
            false => out.bytes(&line(range, most, args.hex))?,
        }
    }
    if !global.json {
        let bytes = held.iter().map(|range| range.bytes).sum();
        out.line(format!(
            "{} ranges, {}",
            count(held.len() as u64),
            size(bytes)
        ))?;
    }
    if faults != Faults::default() {
        match global.json {
            true => out.json_line(&faults_object(&faults))?,
            false => out.line(faults_line(&faults))?,
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn faults_line(faults: &Faults) -> String {
    let mut line = match faults.is_off {
        true => "the cache is off, and these were held before".to_owned(),
        false => "the cache is on".to_owned(),
    };
    if faults.panics > 0 {
        line += &format!("; its maintenance panicked {} times", count(faults.panics));
    }
    if let Some(what) = &faults.what {
        line += &format!(": {}", what.escape_debug());
    }
    line
}

fn faults_object(faults: &Faults) -> Map<String, serde_json::Value> {
    let mut object = Map::new();
    object.insert("off".into(), faults.is_off.into());
    object.insert("maintenance_panics".into(), faults.panics.into());
    object.insert("fault".into(), json!(faults.what));
    object
}

fn line(range: &HeldRange, most: u64, hex: bool) -> Vec<u8> {
    let push = match hex {
        true => keys::push_hex,
        false => keys::push_escaped,
    };
    let bar = (range.bytes * BAR).div_ceil(most.max(1)) as usize;
    let mut line = format!("{:40} ", "#".repeat(bar)).into_bytes();
    match &range.from {
        Some(key) => push(&mut line, key),
        None => line.extend_from_slice(b"the beginning"),
    }
    line.extend_from_slice(b" to ");
    match &range.to {
        Some(key) => push(&mut line, key),
        None => line.extend_from_slice(b"the end"),
    }
    let saves = match range.worth {
        0.. => format!("saves {}", count(range.worth.unsigned_abs())),
        _ => format!("costs {}", count(range.worth.unsigned_abs())),
    };
    let pinned = if range.is_pinned { ", pinned" } else { "" };
    let said = format!(": {}, {saves} steps a look{pinned}\n", size(range.bytes));
    line.extend_from_slice(said.as_bytes());
    line
}

fn object(range: &HeldRange, hex: bool) -> Map<String, serde_json::Value> {
    let mut object = Map::new();
    for (name, key) in [("from", &range.from), ("to", &range.to)] {
        match key {
            Some(key) => keys::insert_json(&mut object, name, key, hex),
            None => drop(object.insert(name.into(), json!(null))),
        }
    }
    object.insert("pinned".into(), range.is_pinned.into());
    object.insert("bytes".into(), range.bytes.into());
    object.insert("saved_steps".into(), range.worth.into());
    object
}
