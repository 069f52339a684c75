//! `titan bench --verify`: after an interrupted run, checks that every entry is one that a
//! step can have written.

use std::process::ExitCode;

use serde_json::json;
use titan::{Db, Error, Options, ReadOptions, Result};
use titan_workload::step::ValueSizes;
use titan_workload::values::{Contents, Values};

use super::args::Args;
use super::opened;
use crate::keys;
use crate::output::{self, Out};
use crate::progress;

/// Checks all entries; an error names the first that is wrong.
pub(super) fn run(args: &Args, options: &Options, json: bool) -> Result<ExitCode> {
    let db = Db::open_read_only(&args.db, options)?;
    let entries = verify(&db, args)?;
    db.close()?;
    let mut out = Out::new();
    if json {
        out.json(&json!({ "verified": entries }))?;
    } else {
        out.line(format_args!(
            "{} entries, all as written",
            output::count(entries)
        ))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn verify(db: &Db, args: &Args) -> Result<u64> {
    let values = Values::new(ValueSizes::Fixed(args.value_size), Contents::Checked, 0);
    let options = ReadOptions {
        fill_cache: false,
        ..ReadOptions::default()
    };
    let progress = progress::operations("verify", None);
    let mut entries = 0;
    let mut previous = None;
    let mut iterator = db.iter(&options)?;
    iterator.seek_to_first()?;
    while iterator.valid() {
        let value = iterator.value()?;
        let key = iterator.key();
        let wrong = |why: &str| {
            let key = keys::hex(key);
            Error::corruption(format!("entry {key}, after {entries} correct ones: {why}"))
        };
        let number = opened::number(key)
            .filter(|&number| number < args.num)
            .ok_or_else(|| wrong("no step writes this key"))?;
        if previous.is_some_and(|previous| previous >= number) {
            return Err(wrong("the key before is not smaller"));
        }
        values
            .check(number, &value)
            .map_err(|why| wrong(&format!("its value: {why}")))?;
        previous = Some(number);
        entries += 1;
        progress.inc(1);
        iterator.next()?;
    }
    progress.finish_and_clear();
    Ok(entries)
}
