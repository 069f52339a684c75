//! Keys at which a large region is split.
//!
//! Rows of transactions and raw keys are counted one after the other: a region that has both is cut
//! by each of them. Boundaries decode as keys of transactions, so a raw key cuts only by its first
//! bytes.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use titan_mvcc::{Direction, KnownLocks, codec};

use super::shared::Shared;
use crate::error::Result;
use crate::options::RegionSizes;
use crate::regions::KeyForm;

/// The bytes of a raw key that a boundary can have.
const RAW_PREFIX: usize = 8;

/// The boundaries of a region that is too large, or `None` if it is not, or `is_stopping`. Cost:
/// reads all its keys.
///
/// # Errors
/// Those of the engine.
pub(super) fn boundaries(
    shared: &Shared,
    id: u64,
    is_stopping: &AtomicBool,
) -> Result<Option<Vec<Bytes>>> {
    let regions = &shared.regions;
    let (Some(rows), Some(raw)) = (
        regions.whole(id, KeyForm::Transactional),
        regions.whole(id, KeyForm::Raw),
    ) else {
        return Ok(None);
    };
    let mut cuts = Cuts::new(regions.sizes);
    let (from, to) = rows.bounds();
    // Locks stay as they are, and locked rows do not count.
    let snapshot = shared.store().snapshot();
    let snapshot = snapshot.reporting_locks(KnownLocks::default());
    for row in snapshot.scan(from.as_deref(), to.as_deref(), Direction::Forward)? {
        if is_stopping.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let row = match row {
            Err(titan_mvcc::Error::KeyIsLocked(_)) => continue,
            row => row?,
        };
        let len = row.value.len().unwrap_or_else(|| row.value.stored_len());
        let size = (row.key.len() as u64).saturating_add(len);
        cuts.add(size, || codec::encode_key(&row.key).into());
    }
    cuts.begin_raw();
    let (from, to) = raw.bounds();
    let (from, to) = (from.as_deref(), to.as_deref());
    let mut scan = shared.raw.scan(from, to, Direction::Forward, true)?;
    while let Some((key, len)) = scan.next_len()? {
        if is_stopping.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let size = (key.len() as u64).saturating_add(len);
        cuts.add(size, || {
            let prefix = &key[..key.len().min(RAW_PREFIX)];
            codec::encode_key(prefix).into()
        });
    }
    raw.written.wait_after(cuts.all_bytes, cuts.all_keys);
    let mut found = cuts.finish();
    // The boundary of a raw key may lie outside the region.
    found.retain(|cut| raw.region.has(cut));
    Ok((!found.is_empty()).then_some(found))
}

/// Cuts of a sequence of keys into pieces of the wanted size.
struct Cuts {
    sizes: RegionSizes,
    /// Since the last cut.
    bytes: u64,
    keys: u64,
    /// In all.
    all_bytes: u64,
    all_keys: u64,
    cuts: Vec<Bytes>,
    /// Cuts of an earlier sequence.
    rows: usize,
}

impl Cuts {
    fn new(sizes: RegionSizes) -> Self {
        Cuts {
            sizes,
            bytes: 0,
            keys: 0,
            all_bytes: 0,
            all_keys: 0,
            cuts: Vec::new(),
            rows: 0,
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
        self.all_bytes += size;
        self.all_keys += 1;
    }

    /// Begins the sequence of raw keys.
    fn begin_raw(&mut self) {
        self.drop_small_piece();
        (self.bytes, self.keys) = (0, 0);
        self.rows = self.cuts.len();
    }

    /// The cuts.
    fn finish(mut self) -> Vec<Bytes> {
        self.drop_small_piece();
        self.cuts
    }

    /// Joins a last piece below half of the size with the one before it.
    fn drop_small_piece(&mut self) {
        let is_small = self.bytes < self.sizes.bytes / 2 && self.keys < self.sizes.keys / 2;
        if is_small && self.cuts.len() > self.rows {
            self.cuts.pop();
        }
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
