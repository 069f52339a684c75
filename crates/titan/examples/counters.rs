//! Counters and records by merge operators: a write says how a value changes, and reads nothing.
//!
//! `hits` has an operator that RocksDB has too. `slowest` has one of this program.
//!
//! `cargo run -p titandb --example counters`

use std::sync::Arc;

use titan::merge::{Associative, AssociativeMergeOperator, MergeOperator, builtin};
use titan::{ColumnFamilyOptions, Db, ErrorKind, Options, Result, WriteBatch, WriteOptions};

/// Keeps the larger number.
struct Largest;

impl AssociativeMergeOperator for Largest {
    fn name(&self) -> &str {
        "example.Largest"
    }

    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let existing = existing.map_or(Some(0), number)?;
        let larger = existing.max(number(operand)?);
        Some(larger.to_le_bytes().to_vec())
    }
}

/// A number of 8 bytes; `None` if the bytes are none.
fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Options that an opening states each time, since the database keeps the name of an operator and
/// not its code.
fn options() -> Options {
    let with = |merge_operator: Option<Arc<dyn MergeOperator>>| ColumnFamilyOptions {
        merge_operator,
        ..ColumnFamilyOptions::default()
    };
    let slowest = Arc::new(Associative(Largest));
    let mut options = Options::default();
    options
        .families
        .insert("hits".into(), with(builtin::by_name("uint64add")));
    options
        .families
        .insert("slowest".into(), with(Some(slowest)));
    options
}

/// Notes that a page was shown, and how long that took. One batch: both, or neither.
fn note(db: &Db, page: &str, micros: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    for (name, operand) in [("hits", 1), ("slowest", micros)] {
        let family = db.column_family(name);
        let family = family.ok_or_else(|| titan::Error::new(ErrorKind::NotFound, name))?;
        batch.merge(&family, page, operand.to_le_bytes())?;
    }
    db.write(batch, &WriteOptions::default())
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &options())?;

    // No thread waits for another one's counter, and no hit is lost.
    std::thread::scope(|scope| {
        let show = |thread: u64| (1..=100).try_for_each(|n| note(&db, "/home", thread * n));
        let threads = [1, 2, 3].map(|thread| scope.spawn(move || show(thread)));
        let shown = threads.map(|thread| thread.join().map_err(|_| "a thread panicked"));
        shown
            .into_iter()
            .try_for_each(|shown| Ok::<_, Box<dyn std::error::Error>>(shown??))
    })?;
    db.close()?;
    drop(db);

    let db = Db::open(dir.path(), &options())?;
    let read = |family: &str| -> Result<Option<u64>> {
        let family = db.column_family(family);
        let value = family.map(|family| family.get("/home")).transpose()?;
        Ok(value.flatten().and_then(|value| number(&value)))
    };
    assert_eq!(read("hits")?, Some(300));
    assert_eq!(read("slowest")?, Some(300));
    db.close()?;
    drop(db);

    // A family that is opened without its operator refuses merges. An operator that RocksDB has
    // too is known by its name.
    let db = Db::open(dir.path(), &Options::default())?;
    let hits = db.column_family("hits").ok_or("no hits")?;
    assert_eq!(
        hits.get("/home")?.and_then(|value| number(&value)),
        Some(300)
    ); // built in
    let slowest = db.column_family("slowest").ok_or("no records")?;
    let refused = slowest.merge("/home", 1_u64.to_le_bytes());
    assert_eq!(
        refused.map_err(|e| e.kind()),
        Err(ErrorKind::InvalidArgument)
    );
    db.close()?;
    Ok(())
}
