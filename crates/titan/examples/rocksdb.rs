//! A database of RocksDB, opened in place: a look without a change, the move, and the way back.
//!
//! `cargo run -p titandb --example rocksdb -- DIR`, where `DIR` is a copy of the database, since
//! the move changes it.

use std::collections::BTreeMap;
use std::path::Path;

use titan::{Db, DiskUsage, Error, Options, Result};
use titan_tools::downgrade;

/// Shows what is there. Nothing in the directory is changed, and RocksDB may open it again.
fn look(path: &Path) -> Result<BTreeMap<String, usize>> {
    let db = Db::open_read_only(path, &Options::default())?;
    let mut keys = BTreeMap::new();
    for family in db.column_families() {
        let count = family
            .keys(..)
            .try_fold(0, |count, key| key.map(|_| count + 1))?;
        keys.insert(family.name().to_owned(), count);
    }
    Ok(keys)
}

/// Opens the database for writing. Its options are RocksDB's, from the OPTIONS file: without blob
/// files, if it had none. So the ones that are to change are stated.
fn take_over(path: &Path) -> Result<DiskUsage> {
    let mut options = Options::load(path)?;
    let families = options.families.values_mut();
    for family in families.chain([&mut options.default]) {
        family.enable_blob_files = true;
        family.min_blob_size = 4096;
        family.enable_blob_garbage_collection = true; // with a bound on space
    }
    let db = Db::open(path, &options)?;
    for taken in db.taken_options() {
        println!("{}: {:?}", taken.family, taken.options);
        taken.notes.iter().for_each(|note| println!("  {note}"));
    }
    // New values go to blob files from now on. This brings the old ones there at once.
    for family in db.column_families() {
        let everything = titan::CompactRangeOptions {
            force_bottommost: true,
        };
        family.compact_range(None, None, &everything)?;
    }
    let disk = db.space_report()?.disk;
    db.close()?;
    Ok(disk)
}

/// There and back. Returns what the database took on the disk in between.
pub(crate) fn move_and_return(path: &Path) -> Result<DiskUsage> {
    let before = look(path)?;
    println!("keys: {before:?}");
    let disk = take_over(path)?;
    println!(
        "{} bytes in tables, {} in blob files",
        disk.sst_bytes, disk.blob_bytes
    );
    assert_eq!(look(path)?, before);

    // The way back. Only garbage collection makes files that RocksDB cannot read.
    let report = downgrade(path, &Options::load(path)?, &mut |_| ())?;
    println!("{} bytes written for RocksDB", report.written_bytes);
    assert_eq!(look(path)?, before);
    Ok(disk)
}

pub(crate) fn main() -> Result<()> {
    let path = std::env::args_os().nth(1);
    let path = path.ok_or_else(|| Error::invalid_argument("name the directory of a database"))?;
    move_and_return(Path::new(&path)).map(drop)
}
