//! A transaction: its writes, its commit, and the fate of a commit without an answer.

use bytes::Bytes;
use tikv_client::{Error as ClientError, TimestampExt, Transaction as Begun, TransactionClient};

use super::client::options;
use super::failures::{fails_for_good, has_surely_failed, translated};
use super::reads::Reads;
use super::shared::Shared;
use crate::error::Result;
use crate::kv::pending::Pending;
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::slots::{Fate, Mark, Slot};
use crate::kv::remote::writes::values;
use crate::kv::{Commit, Pair, Reader, Scan, Space, Transaction};

/// A transaction of a mount.
pub(super) struct TikvTransaction<'a> {
    pub(super) reads: Reads<'a>,
    pub(super) begun: Begun,
    pub(super) slot: Slot<'a>,
    pub(super) pending: Pending,
}

impl Reader for TikvTransaction<'_> {
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
        let values = self.reads.multi_get(space, keys)?.into_iter();
        Ok(values.map(|value| value.map(|value| value.len())).collect())
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        self.reads.scan(scan, &self.pending.writes)
    }
}

impl Transaction for TikvTransaction<'_> {
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
        let deadline = self.reads.deadline();
        let TikvTransaction {
            reads: Reads { store, at, .. },
            mut begun,
            slot,
            pending: Pending { writes, guards },
        } = *self;
        let committed = store.cluster.until(deadline, async {
            // The first key is the primary one, whose fate is that of the others.
            let mark = slot.mark.encode();
            begun.put(store.keys.slot(slot.number), mark).await?;
            for ((space, key), value) in writes {
                let key = store.keys.of(space, &key);
                match value {
                    Some(value) => begun.put(key, Vec::from(value)).await?,
                    None => begun.delete(key).await?,
                }
            }
            let guards = { guards.iter() }.map(|(space, key)| store.keys.of(*space, key));
            begun.lock_keys(guards).await?;
            begun.commit().await
        });
        let error = match committed {
            Some(Ok(_)) => return Ok(Commit::Committed),
            Some(Err(error)) if has_surely_failed(&error, at.version()) => {
                // Its locks would make the next attempt wait. If it fails, they expire.
                let _ = store.cluster.until(deadline, begun.rollback());
                return Ok(Commit::Conflict);
            }
            Some(Err(error)) => Some(error),
            None => None,
        };
        // Requests of it may still be on their way.
        drop(begun);
        let refused = error.filter(fails_for_good);
        let refused = refused.map(|error| translated(&error, &store.cluster.place()));
        match (fate(store, &slot, store.cluster.far_deadline()), refused) {
            (Fate::Committed, _) => Ok(Commit::Committed),
            (Fate::Nothing, Some(refused)) => Err(refused),
            (Fate::Nothing, None) => store.cluster.unanswered(deadline),
            // A refusal may be that of a repetition, after a first request without an answer.
            (Fate::Unknown, _) => Ok(Commit::Undetermined),
        }
    }
}

/// Finds out the fate of a commit that had no answer, by its slot.
///
/// If the slot has its mark, it has committed. If not, this writes the slot again, by a transaction
/// that began later. Once that has committed, the first one meets a newer write wherever its
/// requests still are. Attempts of this may fail and be repeated at any point, because they leave
/// the mark that they found.
pub(super) fn fate(store: &Shared, slot: &Slot<'_>, deadline: Deadline) -> Fate {
    let key = store.keys.slot(slot.number);
    loop {
        let found = store
            .cluster
            .call(deadline, async |client: TransactionClient| {
                settled(&client, &key, slot.mark).await
            });
        match found {
            Ok(Some(fate)) => return fate,
            Ok(None) if store.cluster.wait_before_repetition(deadline).is_ok() => {}
            Ok(None) | Err(_) => return Fate::Unknown,
        }
    }
}

/// One attempt; `None` if it has to be repeated.
async fn settled(
    client: &TransactionClient,
    key: &[u8],
    mark: Mark,
) -> Result<Option<Fate>, ClientError> {
    let mut transaction = client.begin_with_options(options()).await?;
    let start = transaction.start_timestamp().version();
    let found = transaction.get(key.to_vec()).await?.unwrap_or_default();
    match Mark::decode(&found) {
        Some(found) if found == mark => return Ok(Some(Fate::Committed)),
        Some(found) if found.session == mark.session => {}
        // Another mount has the volume, and its mark has replaced any mark in the slot.
        _ => return Ok(Some(Fate::Unknown)),
    }
    if mutant!(fate_not_fixed) {
        return Ok(Some(Fate::Nothing));
    }
    transaction.put(key.to_vec(), found).await?;
    match transaction.commit().await {
        Ok(_) => Ok(Some(Fate::Nothing)),
        Err(error) if fails_for_good(&error) => Err(error),
        Err(error) => {
            if has_surely_failed(&error, start) {
                let _ = transaction.rollback().await;
            }
            Ok(None)
        }
    }
}
