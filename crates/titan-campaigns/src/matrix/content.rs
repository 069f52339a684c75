//! The contents of a database according to RocksDB and according to Titan, and their
//! comparison.

use std::collections::BTreeMap;
use std::ops::RangeFull;
use std::path::Path;

use titan::{Db, ErrorKind, ReadOptions};
use titan_testkit::apply::named;
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::ledger::{Keys, Ledger};
use titan_testkit::model::{Model, Pairs};
use titan_testkit::reads::{contents, scan};

use super::cases::Expect;

/// Reads the output of `dump` of `RocksDbPeer.java`.
pub(super) fn dumped(file: &Path) -> Checked<Model> {
    let bytes = std::fs::read(file).doing(file.display())?;
    let parsed = parse(&bytes);
    parsed.ok_or_else(|| CheckFailure::wrong(format!("{} is cut off", file.display())))
}

fn parse(mut rest: &[u8]) -> Option<Model> {
    let rest = &mut rest;
    let mut families: BTreeMap<String, Pairs> = BTreeMap::new();
    let mut current = None;
    loop {
        match rest.split_off_first()? {
            b'F' => {
                let name = String::from_utf8(bytes(rest)?).ok()?;
                current = Some(families.entry(name).or_default());
            }
            b'E' => {
                let (key, value) = (bytes(rest)?, bytes(rest)?);
                current.as_mut()?.insert(key, value);
            }
            _ => break,
        }
    }
    let mut model = Model::without_families();
    for (name, pairs) in families {
        model.insert_family(&name, pairs);
    }
    rest.is_empty().then_some(model)
}

fn bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_be_bytes(rest.split_off(..4)?.try_into().ok()?);
    Some(rest.split_off(..length as usize)?.to_vec())
}

/// Checks that both are the same, family by family.
pub(super) fn same(found: &Model, expected: &Model) -> Checked<()> {
    let ledger = Ledger::starting_at(expected.clone(), Keys::Together)?;
    Ok(ledger.is_now(found)?)
}

/// Checks that Titan reads the expected contents, in every way.
pub(super) fn reads(db: &Db, expected: &Model, expect: Expect) -> Checked<()> {
    match expect {
        Expect::Unreadable { prefix, text } => reads_but(db, expected, prefix, text),
        _ => same(&contents(db)?, expected),
    }
}

/// The same if keys with a prefix give an error.
fn reads_but(db: &Db, expected: &Model, prefix: &str, text: &str) -> Checked<()> {
    let refused = |what: &str, e: titan::Error| match e.kind() {
        ErrorKind::Unsupported if e.to_string().contains(text) => Ok(()),
        _ => Err(CheckFailure::wrong(format!("{what}: {e}, not \"{text}\""))),
    };
    let bound = |bound: &str| Some(bound.as_bytes().to_vec());
    let mut readable = Model::without_families();
    let mut found = Model::without_families();
    for name in expected.families() {
        let family = named(db, name)?;
        let before = ReadOptions {
            upper_bound: bound(prefix),
            ..ReadOptions::default()
        };
        let after = ReadOptions {
            // No key consists of a letter and this.
            lower_bound: bound(&format!("{prefix}~")),
            ..ReadOptions::default()
        };
        let mut pairs = scan(&family, &before, false)?;
        pairs.extend(scan(&family, &after, true)?);
        found.insert_family(name, pairs);
        let (hidden, seen): (Pairs, Pairs) = expected
            .family(name)
            .into_iter()
            .flat_map(|pairs| pairs.range::<Vec<u8>, RangeFull>(..))
            .map(|(key, value)| (key.clone(), value.clone()))
            .partition(|(key, _)| key.starts_with(prefix.as_bytes()));
        for key in hidden.keys() {
            match family.get(key) {
                Err(e) => refused("get", e)?,
                Ok(_) => {
                    let key = key.escape_ascii();
                    return Err(CheckFailure::wrong(format!(
                        "\"{key}\" in {name} is readable"
                    )));
                }
            }
        }
        if !hidden.is_empty() {
            match scan(&family, &ReadOptions::default(), false) {
                Err(e) => refused("scan", e)?,
                Ok(_) => return Err(CheckFailure::wrong(format!("{name} can be scanned"))),
            }
        }
        readable.insert_family(name, seen);
    }
    ensure!(
        db.column_families().len() == expected.families().count(),
        "there are {} families",
        db.column_families().len()
    );
    same(&found, &readable)
}
