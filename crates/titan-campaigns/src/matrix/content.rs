//! The contents of a database according to RocksDB and according to Titan, and their
//! comparison.

use std::collections::BTreeMap;
use std::path::Path;

use titan::Db;
use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::ledger::{Keys, Ledger};
use titan_testkit::model::{Model, Pairs};
use titan_testkit::reads::contents;

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
pub(super) fn reads(db: &Db, expected: &Model) -> Checked<()> {
    same(&contents(db)?, expected)
}
