//! Reads beside a process that writes: each view must be one moment of the history.
//!
//! This process writes to a database as fast as it can, while the `titan` command, another process,
//! repeatedly runs `check`, `scan` and `space` on it. The contents that a command shows must have
//! been the state at one moment, no earlier than the last batch acknowledged before the command
//! started.

mod commands;
mod history;

use std::path::Path;

use titan::{Db, ReadOptions};
use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::model::Pairs;
use titan_testkit::reads::scan;

pub use commands::look;
pub use history::{Writer, options};

use crate::Run;
use history::{FAMILIES, LAST};

/// Views a database under full load `views` times with each command of the program `titan`.
pub fn beside(run: &Run, titan: &Path, views: u64) {
    let outcome = (|| -> Checked<()> {
        let place = tempfile::tempdir().map_err(|e| CheckFailure::wrong(e.to_string()))?;
        let path = place.path().join("db");
        let mut writer = Writer::start(&path)?;
        let mut view = 0;
        while run.goes_on() && (run.time().is_some() || view < views) {
            view += 1;
            run.phase(format!("view {view}, batch {}", writer.acknowledged()));
            match look(titan, &path, &writer) {
                Ok(looks) => run.pass(looks),
                Err(e) => run.fail(format!("view {view}: {e}")),
            }
        }
        let batches = writer.stop()?;
        run.note(format!("{view} views of {batches} batches"));
        Ok(())
    })();
    if let Err(e) = outcome {
        run.fail(e);
    }
}

/// The batch at whose moment a view was taken, for all families together.
///
/// # Errors
/// `Wrong` if it is not one moment; failures to read.
pub fn moment_of(view: &Db) -> Checked<u64> {
    let mut moment = None;
    for (index, name) in FAMILIES.iter().enumerate() {
        let rows = match view.column_family(name) {
            Some(family) => scan(&family, &ReadOptions::default(), false)?,
            None => return Err(CheckFailure::wrong(format!("family {name} is missing"))),
        };
        let n = judge(&rows, index)?;
        if *moment.get_or_insert(n) != n {
            return Err(CheckFailure::wrong(format!(
                "batch {n} in {name}, {moment:?} before"
            )));
        }
    }
    let n = moment.unwrap_or_default();
    for family in view.column_families() {
        if FAMILIES.contains(&family.name()) {
            continue;
        }
        // It was created before its first batch, and dropped after the next one was created.
        let last = family.get(LAST)?;
        if last.is_some_and(|last| last != n.to_string().as_bytes()) {
            let text = format!("{} is not of batch {n}", family.name());
            return Err(CheckFailure::wrong(text));
        }
    }
    Ok(n)
}

/// The batch that a family names as the last, if all of it is as that batch left it.
fn judge(rows: &Pairs, family: usize) -> Checked<u64> {
    let wrong = |text: String| CheckFailure::wrong(format!("{}: {text}", FAMILIES[family]));
    let last = rows.get(LAST).map(|n| String::from_utf8_lossy(n));
    let n: u64 = match last.as_deref().map(str::parse) {
        None => 0,
        Some(Ok(n)) => n,
        Some(Err(_)) => return Err(wrong(format!("the last batch is {last:?}"))),
    };
    let expected = history::contents(n, family);
    let keys = rows.keys().chain(expected.keys());
    let mut differs = keys.filter(|key| rows.get(*key) != expected.get(*key));
    match differs.next() {
        None => Ok(n),
        Some(key) => Err(wrong(format!(
            "after batch {n}, {} has {:?} bytes, expected are {:?}, and {} more keys differ",
            String::from_utf8_lossy(key),
            rows.get(key).map(Vec::len),
            expected.get(key).map(Vec::len),
            differs.count()
        ))),
    }
}
