//! Drops data that nothing reads any more: replaced revisions, and objects that nothing names.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::path::Path;
use tonic::Status;

use super::client::EtcdClient;
use super::failures;
use super::objects::{Listed, Object};
use super::readers;
use super::reads::Reads;
use super::shared::Shared;
use crate::error::Result;
use crate::kv::Space;

/// The age of replaced blocks that are deleted, if the address does not say when other replaced
/// values may be dropped.
const AGE: Duration = Duration::from_secs(300);
/// The longest time that a compaction may take.
const AT_MOST: Duration = Duration::from_secs(3600);
/// Revisions that are worth a compaction before its time.
const WORTHWHILE: i64 = 100;
/// Objects that are deleted, or looked up, at once.
const PIECE: usize = 500;

/// Drops revisions and objects that were replaced before a time and are not read.
pub(super) fn drop_replaced(shared: &Shared) -> Result<()> {
    let age = shared.base.url.gc.unwrap_or(AGE);
    let revision = shared
        .base
        .moments
        .droppable(age)
        .min(readers::oldest(&shared.base)?);
    if revision == 0 {
        return Ok(());
    }
    if shared.base.url.gc.is_some() {
        let cluster = &shared.base.cluster;
        let compacted = cluster.long(AT_MOST, async |client: EtcdClient| {
            compact(&client, revision).await
        });
        if compacted?.is_none() {
            return Ok(());
        }
        shared.compacted.fetch_max(revision, Ordering::Relaxed);
    }
    delete_all(shared, revision)
}

/// Drops all replaced revisions that nothing reads, of any age. False if there are few since the
/// last time, or if this process is to drop none.
pub(super) fn drop_all_replaced(shared: &Shared) -> Result<bool> {
    let base = &shared.base;
    if shared.session.is_none() || base.url.gc.is_none() {
        return Ok(false);
    }
    let oldest = base.moments.oldest().min(readers::oldest(base)?);
    if oldest < shared.compacted.load(Ordering::Relaxed) + WORTHWHILE {
        return Ok(false);
    }
    let at_most = base.cluster.deadline().rest();
    base.cluster.once(at_most, async |client: EtcdClient| {
        compact(&client, oldest).await
    })?;
    shared.compacted.fetch_max(oldest, Ordering::Relaxed);
    Ok(true)
}

/// Lets etcd drop values that were replaced before a revision.
async fn compact(client: &EtcdClient, revision: i64) -> Result<(), Status> {
    match client.compact(revision).await {
        // Another mount has gone further.
        Err(error) if failures::is_compacted(&error) => Ok(()),
        done => done,
    }
}

/// Deletes objects that nothing at or after a revision names, until the store ends.
pub(super) fn delete_all(shared: &Shared, revision: i64) -> Result<()> {
    delete_while(shared, revision, || !shared.ends.load(Ordering::Relaxed))
}

/// Deletes objects that nothing at or after a revision names, as long as an operation may take. A
/// later mount finds the rest.
pub(super) fn delete_some(shared: &Shared, revision: i64) -> Result<()> {
    let deadline = shared.base.cluster.deadline();
    delete_while(shared, revision, || !deadline.rest().is_zero())
}

fn delete_while(shared: &Shared, revision: i64, goes_on: impl Fn() -> bool) -> Result<()> {
    while goes_on() {
        let taken = shared.garbage.take(revision, PIECE);
        if taken.is_empty() {
            return Ok(());
        }
        let paths: Vec<Path> = taken.iter().map(|(_, path)| path.clone()).collect();
        let deleted = shared.with_objects_behind(shared.objects.delete(&paths));
        if deleted.is_err() {
            shared.garbage.give_back(taken);
            return deleted;
        }
    }
    Ok(())
}

/// Deletes objects that earlier sessions left and nothing names. Returns their number.
///
/// An object of an earlier session cannot be named any more if nothing names it now: that session
/// is over. One of a later session may be named soon, so it stays.
pub(super) fn collect(shared: &Shared) -> Result<u64> {
    let own = shared.objects_of();
    let mut pages = shared.objects.list(PIECE);
    let mut count = 0;
    while !shared.ends.load(Ordering::Relaxed) {
        let page = shared.with_objects_behind(async { Ok(pages.next().await) })?;
        let Some(page) = page else {
            return Ok(count);
        };
        let page: Vec<Listed> = page.into_iter().collect::<Result<_>>()?;
        let is_old = |listed: &Listed| listed.session < own;
        let old: Vec<Listed> = page.into_iter().filter(is_old).collect();
        let unnamed = unnamed(shared, old)?;
        count += unnamed.len() as u64;
        // Another process may read an older revision.
        let revision = shared.base.moments.open().revision;
        shared.garbage.add(revision, unnamed);
    }
    Ok(count)
}

/// The paths that nothing names, of objects that nothing will name.
fn unnamed(shared: &Shared, listed: Vec<Listed>) -> Result<Vec<Path>> {
    let keys: Vec<Vec<u8>> = listed.iter().map(|listed| listed.key.clone()).collect();
    let named = shared.at_present(|at| Reads::new(shared, at).stored(Space::Data, &keys, false))?;
    let mut unnamed = Vec::new();
    for (Listed { path, key, .. }, named) in listed.into_iter().zip(named) {
        let is_named = match named {
            Some(named) => match Object::decode(&named.value) {
                Ok(object) => shared.objects.path(&key, &object)? == path,
                // It may be the one that a damaged value named.
                Err(_) => true,
            },
            None => false,
        };
        if !is_named {
            unnamed.push(path);
        }
    }
    Ok(unnamed)
}
