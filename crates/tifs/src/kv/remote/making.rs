//! A volume that is being made: until it is complete, the cluster says so.

use rustix::io::Errno;

use super::store::RemoteKv;
use crate::error::{Error, Result};
use crate::kv::{Commit, Scan, Space};

/// Keys that one transaction removes.
const PIECE: usize = 1024;

/// Attempts to remove keys. Nobody else writes them.
const ATTEMPTS: usize = 10;

/// Begins to make a volume. The keys that an unfinished attempt left are removed. A complete volume
/// has the key `last` of its metadata, which is stored last.
///
/// # Errors
/// `EEXIST` if there is a volume, or one that has lost that key. Those of the cluster.
pub fn begin_making(store: &dyn RemoteKv, last: &[u8]) -> Result<()> {
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

/// Removes everything of a volume that is not complete, or that is not to be. `last` as before.
///
/// # Errors
/// Those of the cluster. The rest is removed when the volume is made again.
pub fn undo_making(store: &dyn RemoteKv, last: &[u8]) -> Result<()> {
    // ORDER: first the key that only a complete volume has, so that no part of one looks whole.
    store.set_making(true)?;
    remove(store, Space::Meta, &[last])?;
    remove_all(store)?;
    store.finish_making()
}

/// Removes all keys in both spaces.
fn remove_all(store: &dyn RemoteKv) -> Result<()> {
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

fn remove(store: &dyn RemoteKv, space: Space, keys: &[&[u8]]) -> Result<()> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::kv::{Holder, Kv, MemoryKv, Pair, Reader, RemoteUrl, Transaction};

    /// A store that heard no answer when it noted that the volume is complete, which the cluster
    /// has.
    struct Unheard {
        kv: MemoryKv,
        url: RemoteUrl,
        cluster_is_making: AtomicBool,
    }

    impl Kv for Unheard {
        fn begin(&self) -> Result<Box<dyn Transaction + '_>> {
            self.kv.begin()
        }

        fn snapshot(&self) -> Result<Box<dyn Reader + '_>> {
            self.kv.snapshot()
        }

        fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
            let is_making = self.cluster_is_making.load(Ordering::Relaxed);
            assert!(
                is_making,
                "a part of a volume may stay that looks like damage"
            );
            self.kv.scan(scan)
        }

        fn close(&self) -> Result<()> {
            self.kv.close()
        }
    }

    impl RemoteKv for Unheard {
        fn url(&self) -> &RemoteUrl {
            &self.url
        }

        fn holder(&self) -> Result<Option<Holder>> {
            Ok(None)
        }

        fn is_making(&self) -> Result<bool> {
            Ok(true)
        }

        fn set_making(&self, is_making: bool) -> Result<()> {
            self.cluster_is_making.store(is_making, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn what_is_undone_is_being_made_as_the_cluster_knows() {
        let store = Unheard {
            kv: MemoryKv::new(),
            url: RemoteUrl::parse("tikv://h:1/v").unwrap(),
            cluster_is_making: AtomicBool::new(false),
        };
        let mut transaction = store.begin().unwrap();
        for key in [b"S", b"r"] {
            transaction.put(Space::Meta, key, b"v").unwrap();
        }
        assert_eq!(transaction.commit().unwrap(), Commit::Committed);
        undo_making(&store, b"S").unwrap();
        assert_eq!(store.get(Space::Meta, b"r").unwrap(), None);
        assert!(!store.cluster_is_making.load(Ordering::Relaxed));
    }
}
