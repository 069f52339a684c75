//! All regions, on disk and in memory; splits.
//!
//! Promises that the regions cover all keys without overlaps, also after a crash: a split is one
//! batch of the engine.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use prost::Message;
use titan::{ColumnFamily, Db, ReadOptions, WriteBatch, WriteOptions, invariant};

use super::key_limit::KeyLimit;
use super::region::Region;
use crate::error::{Error, Result};
use crate::options::RegionSizes;
use crate::proto::metapb;
use crate::records::Ids;

/// A region that cannot be split is looked at after this part of it was written.
const SHARE: u64 = 4;

/// All regions of a node.
pub(crate) struct RegionMap {
    pub(crate) sizes: RegionSizes,
    pub(crate) key_limit: KeyLimit,
    db: Db,
    /// Regions by their numbers.
    family: ColumnFamily,
    ids: Arc<Ids>,
    /// Held by the one split that runs.
    splitting: Mutex<()>,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    by_start: BTreeMap<Bytes, Entry>,
    starts: HashMap<u64, Bytes>,
}

struct Entry {
    region: Region,
    written: Arc<Written>,
}

/// The writes to a region since its size was last checked.
#[derive(Default)]
pub(crate) struct Written {
    bytes: AtomicU64,
    keys: AtomicU64,
    /// A region that was looked at and not split is not due again before these.
    after: [AtomicU64; 2],
}

impl Written {
    /// Notes writes. Returns the sums.
    pub(crate) fn add(&self, bytes: u64, keys: u64) -> (u64, u64) {
        let add = |sum: &AtomicU64, more| sum.fetch_add(more, Ordering::Relaxed) + more;
        (add(&self.bytes, bytes), add(&self.keys, keys))
    }

    /// The bytes and keys that are to be written before the next look.
    pub(crate) fn due_after(&self) -> (u64, u64) {
        let [bytes, keys] = &self.after;
        (bytes.load(Ordering::Relaxed), keys.load(Ordering::Relaxed))
    }

    /// Waits with the next look for a share of the bytes and keys that a look has found.
    pub(crate) fn wait_after(&self, found_bytes: u64, found_keys: u64) {
        let [bytes, keys] = &self.after;
        bytes.store(found_bytes / SHARE, Ordering::Relaxed);
        keys.store(found_keys / SHARE, Ordering::Relaxed);
    }

    /// Forgets the writes, when a check begins.
    pub(crate) fn reset(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.keys.store(0, Ordering::Relaxed);
    }
}

impl State {
    fn insert(&mut self, region: Region) {
        self.starts.insert(region.id, region.start.clone());
        let written = Arc::default();
        let start = region.start.clone();
        self.by_start.insert(start, Entry { region, written });
    }

    fn by_id(&self, id: u64) -> Option<&Entry> {
        self.by_start.get(self.starts.get(&id)?)
    }
}

impl RegionMap {
    /// Loads the regions, or makes the first one.
    ///
    /// # Errors
    /// `NotANode` if the regions do not cover all keys; those of the engine.
    pub(crate) fn open(
        db: Db,
        family: ColumnFamily,
        ids: Arc<Ids>,
        sizes: RegionSizes,
        key_limit: KeyLimit,
    ) -> Result<Self> {
        let mut state = State::default();
        let mut stored = family.iter(&ReadOptions::default())?;
        stored.seek_to_first()?;
        while stored.valid() {
            let region = metapb::Region::decode(stored.value()?)
                .ok()
                .and_then(Region::of_message)
                .ok_or_else(|| titan::Error::new(titan::ErrorKind::Corruption, "a region"))?;
            state.insert(region);
            stored.next()?;
        }
        if state.starts.is_empty() {
            let region = Region {
                id: ids.next()?,
                start: Bytes::new(),
                end: Bytes::new(),
                version: 1,
                peer: ids.next()?,
            };
            family_put(&db, &family, std::slice::from_ref(&region))?;
            state.insert(region);
        }
        if !covers_all(state.by_start.values().map(|entry| &entry.region)) {
            let what = "its regions do not cover all keys";
            return Err(Error::from(titan::Error::new(
                titan::ErrorKind::Corruption,
                what,
            )));
        }
        Ok(RegionMap {
            sizes,
            key_limit,
            db,
            family,
            ids,
            splitting: Mutex::default(),
            state: RwLock::new(state),
        })
    }

    /// The region of a key.
    pub(crate) fn of_key(&self, key: &[u8]) -> Option<Region> {
        let state = self.state.read();
        let (_, entry) = state.by_start.range::<[u8], _>(until(key)).next_back()?;
        Some(entry.region.clone())
    }

    /// The region before the region of a key.
    pub(crate) fn before_key(&self, key: &[u8]) -> Option<Region> {
        let state = self.state.read();
        let mut backward = state.by_start.range::<[u8], _>(until(key)).rev();
        backward.next()?;
        backward.next().map(|(_, entry)| entry.region.clone())
    }

    /// The region of a number, and the record of its writes.
    pub(crate) fn of_id(&self, id: u64) -> Option<(Region, Arc<Written>)> {
        let state = self.state.read();
        let entry = state.by_id(id)?;
        Some((entry.region.clone(), Arc::clone(&entry.written)))
    }

    /// The first `limit` regions with keys from `from` to before `to`; an empty `to` is no bound.
    pub(crate) fn list(&self, from: &[u8], to: &[u8], limit: usize) -> Vec<Region> {
        let Some(first) = self.of_key(from) else {
            return Vec::new();
        };
        let state = self.state.read();
        let rest = state.by_start.range(first.start..);
        let regions = rest.map(|(_, entry)| &entry.region);
        let before_end = |region: &&Region| to.is_empty() || &*region.start < to;
        regions
            .take_while(before_end)
            .take(limit)
            .cloned()
            .collect()
    }

    /// The number of regions.
    pub(crate) fn len(&self) -> usize {
        self.state.read().starts.len()
    }

    /// Splits a region at keys, which need no order. Keys outside it and its own start are left
    /// out. Returns the parts in order; the last one keeps the number. Cost: a synced write.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn split(&self, id: u64, at: &[Bytes]) -> Result<Option<Vec<Region>>> {
        let _splitting = self.splitting.lock();
        let Some((region, _)) = self.of_id(id) else {
            return Ok(None);
        };
        let mut at: Vec<&Bytes> = at
            .iter()
            .filter(|key| region.has(key) && **key != region.start)
            .collect();
        at.sort();
        at.dedup();
        if at.is_empty() {
            return Ok(Some(vec![region]));
        }
        let version = region.version + at.len() as u64;
        let mut parts = Vec::with_capacity(at.len() + 1);
        let mut start = region.start.clone();
        for end in at {
            parts.push(Region {
                id: self.ids.next()?,
                start,
                end: end.clone(),
                version,
                peer: self.ids.next()?,
            });
            start = end.clone();
        }
        parts.push(Region {
            start,
            version,
            ..region.clone()
        });
        invariant!(
            durable: is_whole(&region, &parts),
            "the parts of region {id} are not the region"
        )?;
        // ORDER: on disk before any client can learn of the parts.
        family_put(&self.db, &self.family, &parts)?;
        let mut state = self.state.write();
        state.by_start.remove(&region.start);
        for part in &parts {
            state.insert(part.clone());
        }
        invariant!(
            covers_all(state.by_start.values().map(|entry| &entry.region)),
            "the regions do not cover all keys"
        );
        invariant!(
            state.starts.len() == state.by_start.len(),
            "{} regions have numbers, and {} have keys",
            state.starts.len(),
            state.by_start.len()
        );
        Ok(Some(parts))
    }
}

/// Starts up to a key.
fn until(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Included(key))
}

/// Puts regions durably, all or none.
fn family_put(db: &Db, family: &ColumnFamily, regions: &[Region]) -> Result<()> {
    let mut batch = WriteBatch::new();
    for region in regions {
        let value = region.message().encode_to_vec();
        batch.put(family, region.id.to_be_bytes(), value)?;
    }
    Ok(db.write(batch, &WriteOptions::synced())?)
}

/// Returns true if `parts`, in the order of their keys, are the region without gaps or overlaps.
fn is_whole(region: &Region, parts: &[Region]) -> bool {
    let ends_are_same = parts.first().map(|part| &part.start) == Some(&region.start)
        && parts.last().map(|part| &part.end) == Some(&region.end);
    ends_are_same
        && parts.is_sorted_by(|part, next| part.end == next.start && !next.start.is_empty())
}

/// Returns true if regions in the order of their keys cover all keys without overlaps.
fn covers_all<'a>(regions: impl Iterator<Item = &'a Region>) -> bool {
    let mut next = Some(Bytes::new());
    for region in regions {
        if next.as_ref() != Some(&region.start) {
            return false;
        }
        next = (!region.end.is_empty()).then(|| region.end.clone());
    }
    next.is_none()
}
