//! Reads of a volume as of a revision.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::client::EtcdClient;
use super::listing::Listing;
use super::moments::Moment;
use super::objects::{AT_ONCE, Object};
use super::shared::Shared;
use super::wire::{KeyValue, RangeRequest, Request, TransactionRequest};
use crate::error::{Error, Result};
use crate::kv::pending::Writes;
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::writes::{Page, scanned};
use crate::kv::{Direction, Pair, Scan, Space};

/// Keys of metadata that are read at once.
const ROWS: usize = 1000;
/// Blocks of files that are read at once.
const BLOCKS: usize = 32;
/// Operations of one request of reads: a server takes 128.
const OPERATIONS: usize = 120;

/// The store as of a revision.
pub(super) struct Reads<'a> {
    pub(super) store: &'a Shared,
    pub(super) at: Moment,
    /// The revisions of the last changes of keys that were read; 0 of those without values.
    pub(super) seen: RefCell<BTreeMap<(Space, Vec<u8>), i64>>,
    /// The deadline of the operation; `None` if it may last longer than a call.
    deadline: Option<Deadline>,
    /// The objects that are there, if somebody has asked.
    listing: OnceCell<Listing>,
}

impl<'a> Reads<'a> {
    pub(super) fn new(store: &'a Shared, at: Moment) -> Reads<'a> {
        Reads {
            store,
            at,
            seen: RefCell::default(),
            deadline: None,
            listing: OnceCell::new(),
        }
    }

    /// The same for an operation with a deadline.
    pub(super) fn until(mut self, deadline: Deadline) -> Reads<'a> {
        self.deadline = Some(deadline);
        self
    }

    /// The deadline of a call that begins now.
    pub(super) fn deadline(&self) -> Deadline {
        let of_call = || self.store.base.cluster.deadline();
        self.deadline.unwrap_or_else(of_call)
    }

    pub(super) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let values = self.multi_get(space, &[key.to_vec()])?;
        Ok(values.into_iter().next().flatten())
    }

    /// The values of keys, in their order.
    pub(super) fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        let found = self.stored(space, keys, false)?;
        if space == Space::Meta {
            let value = |found: Option<KeyValue>| found.map(|found| found.value);
            return Ok(found.into_iter().map(value).collect());
        }
        let mut values = Vec::with_capacity(keys.len());
        for (keys, found) in keys.chunks(BLOCKS).zip(found.chunks(BLOCKS)) {
            values.extend(self.blocks(keys, found)?);
        }
        Ok(values)
    }

    /// The lengths of the values of keys, in their order.
    pub(super) fn lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        let length = |found: Option<KeyValue>| match (found, space) {
            (None, _) => Ok(None),
            (Some(found), Space::Meta) => Ok(Some(found.value.len())),
            (Some(found), Space::Data) => Ok(Some(Object::decode(&found.value)?.length as usize)),
        };
        { self.stored(space, keys, false)?.into_iter() }
            .map(length)
            .collect()
    }

    /// The damage of blocks whose objects are missing, in the order of the keys.
    pub(super) fn lost(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Error>>> {
        if space == Space::Meta {
            return Ok(vec![None; keys.len()]);
        }
        let found = self.stored(space, keys, false)?;
        self.find_identity_for(&found)?;
        let object = |(key, found): (&Vec<u8>, Option<KeyValue>)| {
            // What cannot be read names nothing, as others find out.
            let object = Object::decode(&found?.value).ok()?;
            Some((self.store.objects.path(key, &object).ok()?, object))
        };
        let objects: Vec<_> = keys.iter().zip(found).map(object).collect();
        let listing = match self.listing.get() {
            Some(listing) => listing,
            None => {
                let listing = Listing::make(self.store)?;
                self.listing.get_or_init(|| listing)
            }
        };
        let lost = listing.missing(self.store, &objects)?;
        // Others did not know that this still reads them.
        if lost.iter().any(Option::is_some) && self.store.has_lapsed() {
            return Err(Error::outdated());
        }
        Ok(lost)
    }

    /// Finds out where the objects are, if there are blocks.
    fn find_identity_for(&self, found: &[Option<KeyValue>]) -> Result<()> {
        if self.store.objects.identity().is_none() && found.iter().any(Option::is_some) {
            // The first block was written after the store was opened.
            self.store.find_identity()?;
        }
        Ok(())
    }

    /// The blocks of keys, of which the metadata were read.
    fn blocks(&self, keys: &[Vec<u8>], found: &[Option<KeyValue>]) -> Result<Vec<Option<Bytes>>> {
        let objects = &self.store.objects;
        self.find_identity_for(found)?;
        let block = async |(key, found): (&Vec<u8>, &Option<KeyValue>)| match found {
            Some(found) => {
                let object = Object::decode(&found.value)?;
                objects.get(key, &object).await.map(Some)
            }
            None => Ok(None),
        };
        let reads: Vec<_> = keys.iter().zip(found).map(block).collect();
        let all = stream::iter(reads).buffered(AT_ONCE).try_collect();
        let deadline = self.deadline();
        match self.store.with_objects(deadline, all) {
            // Others did not know that this still reads it.
            Err(error) if error.is_damage() && self.store.has_lapsed() => Err(Error::outdated()),
            read => read,
        }
    }

    /// The stored keys with their revisions, in the order of `keys`.
    pub(super) fn stored(
        &self,
        space: Space,
        keys: &[Vec<u8>],
        keys_only: bool,
    ) -> Result<Vec<Option<KeyValue>>> {
        self.store.check_process()?;
        let deadline = self.deadline();
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(OPERATIONS) {
            let ranges: Vec<RangeRequest> = { keys.iter() }
                .map(|key| RangeRequest {
                    key: self.store.base.keys.of(space, key),
                    revision: self.at.revision,
                    keys_only,
                    ..RangeRequest::default()
                })
                .collect();
            let found = self.noted(self.ranges(ranges, deadline))?;
            let mut found: BTreeMap<Vec<u8>, KeyValue> = { found.into_iter() }
                .map(|pair| (self.store.base.keys.own_part(&pair.key).to_vec(), pair))
                .collect();
            let mut seen = self.seen.borrow_mut();
            for key in keys {
                let revision = found.get(key).map_or(0, |pair| pair.mod_revision);
                seen.insert((space, key.clone()), revision);
            }
            drop(seen);
            // The same key may be asked for twice.
            let mut rest = keys.len();
            for key in keys {
                rest -= 1;
                let again = keys[keys.len() - rest..].contains(key);
                all.push(if again {
                    found.get(key).cloned()
                } else {
                    found.remove(key)
                });
            }
        }
        Ok(all)
    }

    /// The result of a read. If its revision was compacted, the next one begins at a later one.
    fn noted<T>(&self, read: Result<T>) -> Result<T> {
        if let Err(error) = &read
            && error.is_outdated()
        {
            self.store.base.ask()?;
        }
        read
    }

    fn ranges(&self, mut ranges: Vec<RangeRequest>, deadline: Deadline) -> Result<Vec<KeyValue>> {
        let cluster = &self.store.base.cluster;
        if ranges.len() == 1
            && let Some(range) = ranges.pop()
        {
            let found = cluster.call(deadline, async |client: EtcdClient| {
                client.range(range.clone()).await
            })?;
            return Ok(found.kvs);
        }
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let operations = ranges.into_iter().map(|range| Request::Range(range).into());
        let request = TransactionRequest {
            success: operations.collect(),
            ..TransactionRequest::default()
        };
        let found = cluster.call(deadline, async |client: EtcdClient| {
            client.transaction(request.clone()).await
        })?;
        Ok(found.into_pairs())
    }

    /// The pairs of a range, with `writes` on top.
    pub(super) fn scan(&self, scan: &Scan, writes: &Writes) -> Result<Vec<Pair>> {
        scanned(scan, writes, |range, wanted| self.page(scan, range, wanted))
    }

    /// The first rows of a range, in the direction of the scan.
    fn page(&self, scan: &Scan, range: &Range<Vec<u8>>, wanted: usize) -> Result<Page> {
        self.store.check_process()?;
        let (store, has_blocks) = (self.store, scan.space == Space::Data && !scan.keys_only);
        let rows = wanted.min(if has_blocks { BLOCKS } else { ROWS });
        let request = RangeRequest {
            key: store.base.keys.of(scan.space, &range.start),
            range_end: store.base.keys.of(scan.space, &range.end),
            limit: i64::try_from(rows).unwrap_or(i64::MAX),
            revision: self.at.revision,
            sort_order: match scan.direction {
                Direction::Forward => 0,
                Direction::Backward => 2,
            },
            keys_only: scan.keys_only,
            ..RangeRequest::default()
        };
        let deadline = self.deadline();
        let found = store
            .base
            .cluster
            .call(deadline, async |client: EtcdClient| {
                client.range(request.clone()).await
            });
        let found = self.noted(found)?;
        let mut keys = Vec::with_capacity(found.kvs.len());
        let mut seen = self.seen.borrow_mut();
        for pair in &found.kvs {
            let key = store.base.keys.own_part(&pair.key).to_vec();
            seen.insert((scan.space, key.clone()), pair.mod_revision);
            keys.push(key);
        }
        drop(seen);
        let are_all = !found.more;
        let values = if has_blocks {
            let found: Vec<Option<KeyValue>> = found.kvs.into_iter().map(Some).collect();
            self.blocks(&keys, &found)?
        } else {
            { found.kvs.into_iter() }
                .map(|pair| Some(pair.value))
                .collect()
        };
        let pairs = { keys.into_iter().zip(values) }
            .filter_map(|(key, value)| Some((Bytes::from(key), value?)))
            .collect();
        Ok(Page::new(pairs, range.clone(), scan.direction, are_all))
    }
}
