//! The checks of every recovered database: contents, files, the engine's own checks.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

use titan::{Db, Error, ErrorKind, Metrics, Options};
use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::ledger::{End, Ledger};
use titan_testkit::model::Model;
use titan_testkit::reads::{absent, contents, look};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use crate::settings::Settings;
use crate::store::{DIR, file};

/// Opens the files that a crash left. The ledger must allow the contents after this end at this
/// moment, and there must be no file too many or too few; opening it read-only before must have
/// shown the same contents and changed nothing. Returns the contents.
pub fn recover(
    image: &SimVfs,
    settings: &Settings,
    ledger: &Ledger,
    end: End,
    moment: u64,
) -> Checked<Model> {
    let seen = look_idly(image, settings).doing("looking")?;
    let db = Db::open(DIR, &settings.options(image)).doing("opening")?;
    let found = contents(&db).doing("reading")?;
    if seen.is_some_and(|seen| seen != found) {
        return Err(CheckFailure::wrong(
            "opening to read only shows something else",
        ));
    }
    ledger.allows(&found, end, moment)?;
    absent(&db, ledger.written(), &found).doing("reading")?;
    let wrong = misplaced_files(&db, image).doing("settling")?;
    if !wrong.is_empty() {
        return Err(CheckFailure::wrong(wrong.join("\n")));
    }
    db.close().doing("closing")?;
    Ok(found)
}

/// The contents of a database opened read-only, which must leave no trace; `None` if there is no
/// database yet.
fn look_idly(image: &SimVfs, settings: &Settings) -> Checked<Option<Model>> {
    let before = image.journal().len();
    let seen = match look(Path::new(DIR), &settings.options(image)) {
        Err(CheckFailure::Failed(e)) if e.is_not_found() => return Ok(None),
        seen => seen?,
    };
    match image.journal().len() - before {
        0 => Ok(Some(seen)),
        n => Err(CheckFailure::wrong(format!(
            "{n} operations when only reading"
        ))),
    }
}

/// Checks that the engine's own check of a closed database finds no problems.
pub fn is_sound(vfs: &SimVfs, settings: &Settings) -> Checked<()> {
    sound(Path::new(DIR), &settings.options(vfs)).map(drop)
}

/// The same, ignoring problems in WAL files.
pub(crate) fn is_sound_but_for_wals(vfs: &SimVfs, settings: &Settings) -> Checked<()> {
    let elsewhere = |problem: &Error| {
        let file = problem.path().and_then(Path::extension);
        file.is_none_or(|extension| extension != "log")
    };
    sound_as_to(Path::new(DIR), &settings.options(vfs), elsewhere).map(drop)
}

/// The same for a database in any directory. Returns the notes of the check.
pub(crate) fn sound(dir: &Path, options: &Options) -> Checked<Vec<String>> {
    sound_as_to(dir, options, |_| true)
}

/// Checks the database in `dir`, which is open and may be writing files. One that changes too fast
/// to be read is not checked.
pub(crate) fn sound_while_open(dir: &Path, options: &Options) -> Checked<()> {
    match check(dir, options, &mut |_| {}) {
        Err(e) if e.kind() == ErrorKind::Busy => Ok(()),
        Err(e) => Err(e).doing("checking while it is open"),
        Ok(report) => match report.problems.first() {
            None => Ok(()),
            Some(problem) => Err(CheckFailure::wrong(format!(
                "the check of the open database finds {} problems, among them: {problem}",
                report.problems.len()
            ))),
        },
    }
}

fn sound_as_to(
    dir: &Path,
    options: &Options,
    counts: impl Fn(&Error) -> bool,
) -> Checked<Vec<String>> {
    let report = check(dir, options, &mut |_| {}).doing("checking")?;
    match report.problems.iter().find(|problem| counts(problem)) {
        None => Ok(report.notes),
        Some(problem) => Err(CheckFailure::wrong(format!(
            "the check finds {} problems, among them: {problem}",
            report.problems.len()
        ))),
    }
}

/// Files of the database that it does not need, and files that it needs and are missing. Waits for
/// background jobs, which may be about to delete some.
pub fn misplaced_files(db: &Db, vfs: &SimVfs) -> Checked<Vec<String>> {
    db.wait_idle()?;
    let names: BTreeSet<String> = vfs.list(DIR)?.into_iter().collect();
    let count = |suffix: &str| names.iter().filter(|n| n.ends_with(suffix)).count();
    let current = String::from_utf8_lossy(&vfs.read_all(file("CURRENT"))?).into_owned();
    let mut wrong = misplaced_data(&db.metrics(), &names);
    let mut expect = |what: &str, found: usize, allowed: RangeInclusive<usize>| {
        if !allowed.contains(&found) {
            wrong.push(format!("{found} {what}, not {allowed:?}"));
        }
    };
    expect("WAL files", count(".log"), 1..=1);
    expect("temporary files", count(".dbtmp"), 0..=0);
    let starting = |prefix: &str| names.iter().filter(|n| n.starts_with(prefix)).count();
    expect("MANIFEST files", starting("MANIFEST-"), 1..=1);
    expect("OPTIONS files", starting("OPTIONS-"), 1..=2);
    if !names.contains(current.trim_end()) {
        wrong.push(format!("CURRENT names {current}"));
    }
    if !wrong.is_empty() {
        wrong.push(format!("{names:?}"));
    }
    Ok(wrong)
}

/// Checks that the directory has as many tables and blob files as the families, and that no others
/// are open.
pub(crate) fn misplaced_data(metrics: &Metrics, names: &BTreeSet<String>) -> Vec<String> {
    let tables = metrics.families.iter().flat_map(|f| &f.levels);
    let tables: usize = tables.map(|level| level.files).sum();
    let blob_files: usize = metrics.families.iter().map(|f| f.blob_files).sum();
    let mut wrong = Vec::new();
    let found = |suffix: &'static str| -> Vec<&String> {
        names.iter().filter(|n| n.ends_with(suffix)).collect()
    };
    let there: usize = [".sst", ".blob", ".blobmap"]
        .map(|suffix| found(suffix).len())
        .iter()
        .sum();
    if metrics.open_files > there {
        wrong.push(format!("{} files are open, of {there}", metrics.open_files));
    }
    for (suffix, live) in [(".sst", tables), (".blob", blob_files)] {
        let found = found(suffix);
        if found.len() != live {
            wrong.push(format!(
                "{live} files {suffix} are live, but there are {found:?}"
            ));
        }
    }
    wrong
}
