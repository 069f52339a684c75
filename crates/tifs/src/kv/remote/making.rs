//! A volume that is being made: until it is complete, the cluster says so.

use rustix::io::Errno;

use super::RemoteKv;
use crate::error::{Error, Result};
use crate::kv::{Commit, Scan, Space};

/// Keys that one transaction removes.
const PIECE: usize = 1024;

/// Attempts to remove keys. Nobody else writes them.
const ATTEMPTS: usize = 10;

/// See [`RemoteKv::begin_making`].
pub(super) fn begin<S: RemoteKv + ?Sized>(store: &S, last: &[u8]) -> Result<()> {
    let name = &store.url().name;
    if store.get(Space::Meta, last)?.is_some() {
        let what = format!("the cluster has a volume {name} already");
        return Err(Error::new(Errno::EXIST, what));
    }
    if store.is_making()? {
        remove_all(store)?;
    }
    for space in [Space::Meta, Space::Data] {
        let any = Scan::prefix(space, b"").keys_only().limit(1);
        if !store.scan(&any)?.is_empty() {
            let what = format!(
                "the cluster has a damaged volume {name}, without a superblock: take another name"
            );
            return Err(Error::new(Errno::EXIST, what));
        }
    }
    store.set_making(true)
}

/// See [`RemoteKv::undo_making`].
pub(super) fn undo<S: RemoteKv + ?Sized>(store: &S, last: &[u8]) -> Result<()> {
    // ORDER: first what a complete volume has, so that no part of one looks whole.
    if !store.is_making()? {
        store.set_making(true)?;
    }
    remove(store, Space::Meta, &[last])?;
    remove_all(store)?;
    store.finish_making()
}

/// Removes all keys in both spaces.
fn remove_all<S: RemoteKv + ?Sized>(store: &S) -> Result<()> {
    for space in [Space::Meta, Space::Data] {
        loop {
            let some = Scan::prefix(space, b"").keys_only().limit(PIECE);
            let found = store.scan(&some)?;
            if found.is_empty() {
                break;
            }
            let keys: Vec<&[u8]> = found.iter().map(|(key, _)| &key[..]).collect();
            remove(store, space, &keys)?;
        }
    }
    Ok(())
}

fn remove<S: RemoteKv + ?Sized>(store: &S, space: Space, keys: &[&[u8]]) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut transaction = store.begin()?;
        for key in keys {
            transaction.delete(space, key)?;
        }
        if transaction.commit()? == Commit::Committed {
            return Ok(());
        }
    }
    let what = "the parts of a volume could not be removed";
    Err(Error::new(Errno::AGAIN, what))
}
