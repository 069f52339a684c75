//! Destroying a range: all its versions and locks, at any timestamp.

use titan::{ColumnFamily, ReadOptions, WriteBatch};

use crate::core::Core;
use crate::error::Result;
use crate::format::encode_key;

/// See [`Percolator::destroy_range`](super::Percolator::destroy_range).
pub(super) fn destroy_range(core: &Core, from: &[u8], to: Option<&[u8]>) -> Result<()> {
    if to.is_some_and(|to| to <= from) {
        return Ok(());
    }
    // Every lock in memory is written, and none is added or ended meanwhile.
    let latches = core.latches.take_all();
    let keys = core.locks.keys_between(from, to);
    let lower = encode_key(from);
    let mut batch = WriteBatch::new();
    for family in [&core.versions, core.locks.family()] {
        let upper = match to {
            Some(to) => encode_key(to),
            None => match after_last(family)? {
                Some(upper) if upper > lower => upper,
                _ => continue,
            },
        };
        batch.delete_range(family, &lower, upper)?;
    }
    core.db.write(batch, &core.config.write)?;
    // ORDER: after the range is gone, so that no reader without a lock finds its versions.
    core.locks.remove(keys.iter().map(|key| &**key));
    drop(latches);
    Ok(())
}

/// A key after all entries of a family; `None` if it is empty.
fn after_last(family: &ColumnFamily) -> Result<Option<Vec<u8>>> {
    let mut entries = family.iter(&ReadOptions {
        prefetch_values: 0,
        ..ReadOptions::default()
    })?;
    entries.seek_to_last()?;
    Ok(entries.valid().then(|| [entries.key(), &[0]].concat()))
}
