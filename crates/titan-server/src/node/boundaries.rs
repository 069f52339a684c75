//! Keys at which a large region is split.
//!
//! Rows of transactions and raw keys are counted one after the other: a region that has both is cut
//! by each of them. Boundaries decode as keys of transactions, so a raw key cuts only by its first
//! bytes.

use bytes::Bytes;
use titan_mvcc::{Direction, codec};

use super::shared::Shared;
use crate::error::Result;
use crate::options::RegionSizes;
use crate::regions::{KeyForm, Within};

/// The bytes of a raw key that a boundary can have.
const RAW_PREFIX: usize = 8;

/// The boundaries of a region that is too large, or `None` if it is not. Cost: reads all its keys.
///
/// # Errors
/// Those of the engine.
pub(super) fn boundaries(shared: &Shared, id: u64) -> Result<Option<Vec<Bytes>>> {
    let Some(within) = shared.regions.whole(id, KeyForm::Transactional) else {
        return Ok(None);
    };
    let mut cuts = Cuts::new(shared.sizes);
    for row in rows(shared, &within)? {
        let (key, len) = row?;
        let size = (key.len() as u64).saturating_add(len);
        cuts.add(size, || codec::encode_key(&key).into());
    }
    let mut found = cuts.finish();
    let mut cuts = Cuts::new(shared.sizes);
    if let Some(within) = shared.regions.whole(id, KeyForm::Raw) {
        let (from, to) = within.bounds();
        let (from, to) = (from.as_deref(), to.as_deref());
        let mut scan = shared.raw.scan(from, to, Direction::Forward, true)?;
        while let Some((key, len)) = scan.next_len()? {
            let size = (key.len() as u64).saturating_add(len);
            cuts.add(size, || {
                let prefix = &key[..key.len().min(RAW_PREFIX)];
                codec::encode_key(prefix).into()
            });
        }
    }
    found.extend(cuts.finish());
    Ok((!found.is_empty()).then_some(found))
}

type Rows<'a> = Box<dyn Iterator<Item = Result<(Vec<u8>, u64)>> + 'a>;

/// The keys of a region with the lengths of their values.
fn rows<'a>(shared: &Shared, within: &Within) -> Result<Rows<'a>> {
    let (from, to) = within.bounds();
    let snapshot = shared.store().snapshot();
    let scan = snapshot.scan(from.as_deref(), to.as_deref(), Direction::Forward)?;
    Ok(Box::new(scan.map(|row| {
        let row = row?;
        let len = row.value.len().unwrap_or_else(|| row.value.stored_len());
        Ok((row.key, len))
    })))
}

/// Cuts of a sequence of keys into pieces of the wanted size.
struct Cuts {
    sizes: RegionSizes,
    /// Since the last cut.
    bytes: u64,
    keys: u64,
    cuts: Vec<Bytes>,
}

impl Cuts {
    fn new(sizes: RegionSizes) -> Self {
        Cuts {
            sizes,
            bytes: 0,
            keys: 0,
            cuts: Vec::new(),
        }
    }

    /// Counts a key, and cuts before it if the piece is large enough.
    fn add(&mut self, size: u64, boundary: impl FnOnce() -> Bytes) {
        if self.bytes >= self.sizes.bytes || self.keys >= self.sizes.keys {
            let cut = boundary();
            if self.cuts.last() != Some(&cut) {
                self.cuts.push(cut);
            }
            (self.bytes, self.keys) = (0, 0);
        }
        self.bytes += size;
        self.keys += 1;
    }

    /// The cuts, without a last piece below half of the size.
    fn finish(mut self) -> Vec<Bytes> {
        if self.bytes < self.sizes.bytes / 2 && self.keys < self.sizes.keys / 2 {
            self.cuts.pop();
        }
        self.cuts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_the_size_and_the_last_one_at_least_half() {
        let cut = |keys: u8, bytes| {
            let sizes = RegionSizes { bytes, keys: 4 };
            let mut cuts = Cuts::new(sizes);
            for key in 0..keys {
                cuts.add(10, || Bytes::copy_from_slice(&[key]));
            }
            cuts.finish().iter().map(|cut| cut[0]).collect::<Vec<u8>>()
        };
        assert_eq!(cut(5, 1000), []);
        assert_eq!(cut(6, 1000), [4]);
        assert_eq!(cut(10, 1000), [4, 8]);
        assert_eq!(cut(9, 20), [2, 4, 6, 8]);
    }
}
