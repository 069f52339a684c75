//! A transaction: its writes, and the state that its commit needs.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::path::Path;
use parking_lot::Mutex;

use super::commit::{Known, Prepared, commit};
use super::objects::AT_ONCE;
use super::objects::Object;
use super::reads::Reads;
use super::wire::{DeleteRequest, Operation, PutRequest, Request};
use crate::error::Result;
use crate::kv::pending::Pending;
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::slots::Slot;
use crate::kv::remote::writes::values;
use crate::kv::{Commit, Pair, Reader, Scan, Space, Transaction};

/// A transaction of a mount.
pub(super) struct EtcdTransaction<'a> {
    pub(super) reads: Reads<'a>,
    pub(super) slot: Slot<'a>,
    pub(super) pending: Pending,
}

impl Reader for EtcdTransaction<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        match self.pending.writes.get(&(space, key.to_vec())) {
            Some(own) => Ok(own.clone()),
            None => self.reads.get(space, key),
        }
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        values(space, keys, &self.pending.writes, |others| {
            self.reads.multi_get(space, others)
        })
    }

    fn value_lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        self.reads.lengths(space, keys)
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        self.reads.scan(scan, &self.pending.writes)
    }
}

impl Transaction for EtcdTransaction<'_> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.pending.put(space, key, value);
        Ok(())
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.pending.delete(space, key);
        Ok(())
    }

    fn guard(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.pending.guard(space, key);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<Commit> {
        if self.pending.is_empty() {
            return Ok(Commit::Committed);
        }
        let store = self.reads.store;
        store.check_process()?;
        let known = self.known()?;
        // ORDER: blocks are durable before the commit that names them.
        let deadline = self.reads.deadline();
        let blocks = self.write_blocks(deadline)?;
        let new: Vec<Path> = { blocks.iter() }
            .map(|(key, object)| store.objects.path(key, object))
            .collect::<Result<_>>()?;
        let prepared = Prepared {
            known,
            operations: self.operations(&blocks),
            at: self.reads.at.revision,
        };
        let committed = commit(store, &self.slot, prepared, deadline);
        match &committed {
            // It may have happened.
            Ok(Commit::Committed | Commit::Undetermined) => {}
            Ok(Commit::Conflict) | Err(_) => store.garbage.add(0, new),
        }
        committed
    }
}

impl EtcdTransaction<'_> {
    /// The keys that others must not write, as of the begin.
    fn known(&self) -> Result<Known> {
        let all: BTreeSet<&(Space, Vec<u8>)> = self.pending.keys().collect();
        for space in [Space::Meta, Space::Data] {
            let seen = self.reads.seen.borrow();
            let unknown = all
                .iter()
                .filter(|key| key.0 == space && !seen.contains_key(*key));
            let unknown: Vec<Vec<u8>> = unknown.map(|key| key.1.clone()).collect();
            drop(seen);
            self.reads.stored(space, &unknown, true)?;
        }
        let seen = self.reads.seen.borrow();
        let revision = |key: &(Space, Vec<u8>)| seen.get(key).copied().unwrap_or(0);
        Ok(all
            .into_iter()
            .map(|key| (key.clone(), revision(key)))
            .collect())
    }

    /// Writes the content of blocks as new objects.
    fn write_blocks(&self, deadline: Deadline) -> Result<Vec<(Vec<u8>, Object)>> {
        let store = self.reads.store;
        let of_blocks =
            { self.pending.writes.iter() }.filter(|((space, _), _)| *space == Space::Data);
        let blocks: Vec<(&Vec<u8>, &Bytes)> = of_blocks
            .filter_map(|((_, key), value)| Some((key, value.as_ref()?)))
            .collect();
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        store.identify(deadline)?;
        let session = store.objects_of();
        let written = Mutex::new(Vec::with_capacity(blocks.len()));
        let put = async |(key, value): (&Vec<u8>, &Bytes)| {
            let object = store.objects.put(session, key, value.clone()).await?;
            written.lock().push((key.clone(), object));
            Ok(())
        };
        let puts: Vec<_> = blocks.into_iter().map(put).collect();
        let mut all = stream::iter(puts).buffer_unordered(AT_ONCE);
        let done: Result<()> = store.with_objects(deadline, async {
            // All, so that none is written after this.
            let mut first = Ok(());
            while let Some(done) = all.next().await {
                first = first.and(done);
            }
            first
        });
        drop(all);
        let written = written.into_inner();
        let Err(error) = done else {
            return Ok(written);
        };
        let paths = written
            .iter()
            .filter_map(|(key, object)| store.objects.path(key, object).ok());
        store.garbage.add(0, paths);
        Err(error)
    }

    /// The operations of the commit, but that of the slot.
    fn operations(&self, blocks: &[(Vec<u8>, Object)]) -> Vec<Operation> {
        let keys = &self.reads.store.base.keys;
        let delete = |(space, key): &(Space, Vec<u8>)| {
            Request::Delete(DeleteRequest {
                key: keys.of(*space, key),
                // To delete the objects.
                prev_kv: *space == Space::Data,
            })
        };
        let put = |space: Space, key: &[u8], value: Bytes| {
            Request::Put(PutRequest {
                key: keys.of(space, key),
                value,
                lease: 0,
                prev_kv: space == Space::Data,
            })
        };
        let of_blocks =
            { blocks.iter() }.map(|(key, object)| put(Space::Data, key, object.encode()));
        let others = self
            .pending
            .writes
            .iter()
            .filter_map(|(key, value)| match value {
                None => Some(delete(key)),
                Some(value) if key.0 == Space::Meta => Some(put(key.0, &key.1, value.clone())),
                Some(_) => None,
            });
        others.chain(of_blocks).map(Into::into).collect()
    }
}
