//! Reads a database and compares what is found with what is expected.

use std::cmp::Ordering;
use std::path::Path;

use titan::{ColumnFamily, Db, Options, ReadOptions, Result};

use crate::failure::{CheckFailure, Checked};
use crate::ledger::Written;
use crate::model::{Model, Pairs};

/// Everything in the database, read by scans in both directions and again by gets; all must agree.
pub fn contents(db: &Db) -> Checked<Model> {
    let mut found = Model::without_families();
    for family in db.column_families() {
        let options = ReadOptions::default();
        let pairs = scan_in_order(&family, &options, false)?;
        if scan_in_order(&family, &options, true)? != pairs {
            return Err(CheckFailure::wrong(format!(
                "scans of {} forward and backward disagree",
                family.name()
            )));
        }
        for (key, value) in &pairs {
            let got = family.get(key)?;
            if got.as_deref() != Some(&**value) {
                return Err(CheckFailure::wrong(format!(
                    "get and scan of \"{}\" in {} disagree",
                    key.escape_ascii(),
                    family.name()
                )));
            }
        }
        found.insert_family(family.name(), pairs);
    }
    Ok(found)
}

/// The contents of a database that is opened read-only.
pub fn look(dir: &Path, options: &Options) -> Checked<Model> {
    let db = Db::open_read_only(dir, options)?;
    let found = contents(&db)?;
    db.close()?;
    Ok(found)
}

/// The pairs of one family, found forward or backward in any order.
pub fn scan(family: &ColumnFamily, options: &ReadOptions, reverse: bool) -> Result<Pairs> {
    let mut pairs = Pairs::new();
    walk(family, options, reverse, |key, value| {
        pairs.insert(key.to_vec(), value.to_vec());
    })?;
    Ok(pairs)
}

/// The same in strict order: anything else is wrong.
fn scan_in_order(family: &ColumnFamily, options: &ReadOptions, reverse: bool) -> Checked<Pairs> {
    let comparator = &family.options().comparator;
    let mut pairs = Pairs::new();
    let mut last: Option<Vec<u8>> = None;
    let mut misplaced = None;
    walk(family, options, reverse, |key, value| {
        let order = last.as_deref().map(|last| match reverse {
            true => comparator.compare(key, last),
            false => comparator.compare(last, key),
        });
        if order.is_some_and(|order| order != Ordering::Less) {
            misplaced.get_or_insert_with(|| key.to_vec());
        }
        last = Some(key.to_vec());
        pairs.insert(key.to_vec(), value.to_vec());
    })?;
    match misplaced {
        None => Ok(pairs),
        Some(key) => Err(CheckFailure::wrong(format!(
            "scan of {} meets \"{}\" out of order, or twice",
            family.name(),
            key.escape_ascii()
        ))),
    }
}

fn walk(
    family: &ColumnFamily,
    options: &ReadOptions,
    reverse: bool,
    mut meet: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    let mut it = family.iter(options)?;
    match reverse {
        true => it.seek_to_last()?,
        false => it.seek_to_first()?,
    }
    while it.valid() {
        let value = it.value()?.to_vec();
        meet(it.key(), &value);
        match reverse {
            true => it.prev()?,
            false => it.next()?,
        }
    }
    Ok(())
}

/// Checks that keys once written that a scan did not find are not found by a get either.
pub fn absent(db: &Db, written: &Written, found: &Model) -> Checked<()> {
    for family in db.column_families() {
        for key in written.get(family.name()).into_iter().flatten() {
            if found.get(family.name(), key).is_none() && family.get(key)?.is_some() {
                return Err(CheckFailure::wrong(format!(
                    "get of \"{}\" in {} finds a value that no scan meets",
                    key.escape_ascii(),
                    family.name()
                )));
            }
        }
    }
    Ok(())
}
