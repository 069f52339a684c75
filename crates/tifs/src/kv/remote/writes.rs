//! The writes of a transaction, on top of the content of a cluster.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use crate::error::Result;
use crate::kv::pending::Writes;
use crate::kv::{Direction, Pair, Scan, Space};

/// The values of keys, with `writes` on top of the values that `read` finds.
pub(in crate::kv) fn values(
    space: Space,
    keys: &[Vec<u8>],
    writes: &Writes,
    read: impl FnOnce(&[Vec<u8>]) -> Result<Vec<Option<Bytes>>>,
) -> Result<Vec<Option<Bytes>>> {
    let own = |key: &Vec<u8>| writes.get(&(space, key.clone()));
    let others: Vec<Vec<u8>> = { keys.iter() }
        .filter(|key| own(key).is_none())
        .cloned()
        .collect();
    let mut others = read(&others)?.into_iter();
    let value = |key: &Vec<u8>| match own(key) {
        Some(own) => own.clone(),
        None => others.next().flatten(),
    };
    Ok(keys.iter().map(value).collect())
}

/// Rows of a range.
pub(in crate::kv) struct Page {
    pairs: Vec<Pair>,
    /// The part of the range of which they are all.
    shown: Range<Vec<u8>>,
}

impl Page {
    /// The first rows of a range in a direction, after which there may be others: unless they are
    /// all.
    pub(in crate::kv) fn new(
        pairs: Vec<Pair>,
        range: Range<Vec<u8>>,
        direction: Direction,
        are_all: bool,
    ) -> Page {
        let shown = match (pairs.last(), direction) {
            (Some((last, _)), Direction::Forward) if !are_all => {
                range.start..[last, &[0][..]].concat()
            }
            (Some((last, _)), Direction::Backward) if !are_all => last.to_vec()..range.end,
            _ => range,
        };
        Page { pairs, shown }
    }
}

/// The pairs of a scan, with `writes` on top of the pages that `page` reads: the first ones of a
/// range in the direction of the scan, about as many as wanted.
pub(in crate::kv) fn scanned(
    scan: &Scan,
    writes: &Writes,
    mut page: impl FnMut(&Range<Vec<u8>>, usize) -> Result<Page>,
) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    let mut rest = scan.begin.clone()..scan.end.clone();
    while rest.start < rest.end && pairs.len() < scan.limit {
        let page = page(&rest, scan.limit - pairs.len())?;
        rest = match scan.direction {
            Direction::Forward => page.shown.end.clone()..rest.end,
            Direction::Backward => rest.start..page.shown.start.clone(),
        };
        pairs.extend(merged(page.pairs, writes, scan, page.shown));
    }
    pairs.truncate(scan.limit);
    Ok(pairs)
}

/// The pairs of a range, from those that are stored and the writes on top of them.
fn merged(
    stored: Vec<Pair>,
    writes: &Writes,
    scan: &Scan,
    range: Range<Vec<u8>>,
) -> impl Iterator<Item = Pair> {
    let mut pairs: BTreeMap<Bytes, Bytes> = stored.into_iter().collect();
    for ((_, key), value) in writes.range((scan.space, range.start)..(scan.space, range.end)) {
        let key = Bytes::copy_from_slice(key);
        match value {
            Some(_) if scan.keys_only => pairs.insert(key, Bytes::new()),
            Some(value) => pairs.insert(key, value.clone()),
            None => pairs.remove(&key),
        };
    }
    let mut pairs: Vec<Pair> = pairs.into_iter().collect();
    if scan.direction == Direction::Backward {
        pairs.reverse();
    }
    pairs.into_iter()
}
