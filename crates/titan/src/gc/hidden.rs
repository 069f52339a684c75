//! How much garbage compactions have yet to find.

use crate::version::{TableFile, Version};

/// An estimate, from above, of the blob bytes that are referred to by entries which newer entries
/// of the same keys hide. Only compaction learns which those are; until then a table may hide as
/// much as it refers to itself, of what tables deeper in its range refer to. Tables that RocksDB
/// wrote tell nothing and count nothing. Cost: O(tables x levels).
pub(crate) fn hidden_bytes(version: &Version) -> u64 {
    let hidden = version.tables().map(|(level, table)| {
        let beneath = beneath(version, level, table);
        let shadowed: u64 = beneath.map(TableFile::referenced_blob_bytes).sum();
        shadowed.min(table.referenced_blob_bytes())
    });
    hidden.sum()
}

/// The tables with older entries in a table's range.
fn beneath<'v>(
    version: &'v Version,
    level: usize,
    table: &'v TableFile,
) -> impl Iterator<Item = &'v TableFile> {
    let (begin, end) = (Some(table.smallest_user_key()), table.end());
    let younger = version.level(0).iter();
    let younger = younger.take_while(|other| other.number() != table.number());
    let older_at_0 = match level {
        0 => version.level(0).get(younger.count() + 1..),
        _ => None,
    };
    let at_0 = older_at_0.unwrap_or_default().iter();
    let at_0 = at_0.filter(move |other| version.overlaps(other, begin, end));
    let deeper = level + 1..version.num_levels();
    let deeper = deeper.flat_map(move |level| version.overlapping(level, begin, end));
    at_0.chain(deeper).map(|table| &**table)
}
