//! Reads a database and compares what is found with what is expected.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use titan::{ColumnFamily, ColumnFamilyId, Db, Options, ReadOptions, Result, Snapshot};
use titan_testkit::model::{Model, Pairs};

use crate::failure::{CheckFailure, Checked};
use crate::record::Written;

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
pub(crate) fn look(dir: &Path, options: &Options) -> Checked<Model> {
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
pub(crate) fn absent(db: &Db, written: &Written, found: &Model) -> Checked<()> {
    for family in db.column_families() {
        for key in written.get(family.name()).into_iter().flatten() {
            if found.get(family.name(), key).is_none() && family.get(key)?.is_some() {
                return Err(CheckFailure::wrong(format!(
                    "get of \"{}\" in {} finds what no scan meets",
                    key.escape_ascii(),
                    family.name()
                )));
            }
        }
    }
    Ok(())
}

/// Checks that a key has the value in the model.
pub(crate) fn compare_get(
    family: &ColumnFamily,
    key: &[u8],
    options: &ReadOptions,
    model: &Model,
) -> Checked<()> {
    let found = family.get_with(key, options)?;
    if found.as_deref() == model.get(family.name(), key) {
        return Ok(());
    }
    let bytes = found.map(|value| value.len());
    Err(CheckFailure::wrong(format!(
        "get of \"{}\" in {} found {bytes:?} bytes that are not what was written last",
        key.escape_ascii(),
        family.name()
    )))
}

/// Checks that a scan within the bounds of `options` finds the pairs of the model in order.
pub(crate) fn compare_scan(
    family: &ColumnFamily,
    reverse: bool,
    options: &ReadOptions,
    model: &Model,
) -> Checked<()> {
    let (from, to) = (
        options.lower_bound.as_deref(),
        options.upper_bound.as_deref(),
    );
    let mut expected: Vec<_> = model.scan(family.name(), from, to).collect();
    if reverse {
        expected.reverse();
    }
    let mut expected = expected.into_iter();
    let mut it = family.iter(options)?;
    match reverse {
        true => it.seek_to_last()?,
        false => it.seek_to_first()?,
    }
    loop {
        let next = expected.next();
        let agrees = match next {
            Some((key, value)) => it.valid() && it.key() == key && it.value()? == value,
            None => !it.valid(),
        };
        if !agrees {
            let found = it.valid().then(|| it.key().escape_ascii().to_string());
            let expected = next.map(|(key, _)| key.escape_ascii().to_string());
            return Err(CheckFailure::wrong(format!(
                "scan of {} is at {found:?}, expected is {expected:?}",
                family.name()
            )));
        }
        match (next, reverse) {
            (None, _) => return Ok(()),
            (Some(_), true) => it.prev()?,
            (Some(_), false) => it.next()?,
        }
    }
}

/// A snapshot, and its expected contents.
pub(crate) struct View {
    snapshot: Snapshot,
    model: Model,
    families: BTreeMap<String, ColumnFamilyId>,
}

impl View {
    /// A snapshot of `db`, whose contents are `model`.
    pub(crate) fn of_now(db: &Db, model: &Model) -> View {
        let families = db.column_families().into_iter();
        View {
            snapshot: db.snapshot(),
            model: model.clone(),
            families: families.map(|f| (f.name().to_owned(), f.id())).collect(),
        }
    }

    /// The expected contents of a family; `None` if it was created since, or created again.
    pub(crate) fn of(&self, family: &ColumnFamily) -> Option<(&Model, ReadOptions)> {
        let options = ReadOptions {
            snapshot: Some(self.snapshot.clone()),
            ..ReadOptions::default()
        };
        let was_there = self.families.get(family.name()) == Some(&family.id());
        was_there.then_some((&self.model, options))
    }

    /// Checks that every family that still exists is unchanged in the snapshot.
    pub(crate) fn verify(&self, db: &Db) -> Checked<()> {
        for family in db.column_families() {
            if let Some((model, options)) = self.of(&family) {
                compare_scan(&family, false, &options, model)?;
            }
        }
        Ok(())
    }
}
