//! A volume that is being made: until it is complete, the record of the session says so.

use rustix::io::Errno;

use super::TikvKv;
use crate::error::{Error, Result};
use crate::kv::{Commit, Kv, Scan, Space};

/// Keys that one transaction removes.
const PIECE: usize = 1024;

/// Attempts to remove keys. Nobody else writes them.
const ATTEMPTS: usize = 10;

impl TikvKv {
    /// Begins to make a volume. What an attempt left that did not come to its end is removed. A
    /// complete volume has the key `last` of its metadata, which is stored last.
    ///
    /// # Errors
    /// `EEXIST` if there is a volume, or one that has lost that key. Those of the cluster.
    pub fn begin_making(&self, last: &[u8]) -> Result<()> {
        let shared = &*self.shared;
        if self.get(Space::Meta, last)?.is_some() {
            let what = format!("the cluster has a volume {} already", shared.url.name);
            return Err(Error::new(Errno::EXIST, what));
        }
        if shared.is_making() {
            self.remove_all()?;
        }
        for space in [Space::Meta, Space::Data] {
            let any = Scan::prefix(space, b"").keys_only().limit(1);
            if !self.scan(&any)?.is_empty() {
                let what = format!(
                    "the cluster has a damaged volume {}, without a superblock: take another name",
                    shared.url.name
                );
                return Err(Error::new(Errno::EXIST, what));
            }
        }
        shared.set_making(true)
    }

    /// Ends the making of a volume, which is complete. Does nothing if it has ended already.
    ///
    /// # Errors
    /// Those of the cluster.
    pub fn finish_making(&self) -> Result<()> {
        match self.shared.is_making() {
            true => self.shared.set_making(false),
            false => Ok(()),
        }
    }

    /// Removes everything of a volume that is not complete, or that is not to be. `last` as before.
    ///
    /// # Errors
    /// Those of the cluster. The rest is removed when the volume is made again.
    pub fn undo_making(&self, last: &[u8]) -> Result<()> {
        // ORDER: first what a complete volume has, so that no part of one looks whole.
        if !self.shared.is_making() {
            self.shared.set_making(true)?;
        }
        self.remove(Space::Meta, &[last])?;
        self.remove_all()?;
        self.finish_making()
    }

    /// Removes all keys in both spaces.
    fn remove_all(&self) -> Result<()> {
        for space in [Space::Meta, Space::Data] {
            loop {
                let some = Scan::prefix(space, b"").keys_only().limit(PIECE);
                let found = self.scan(&some)?;
                if found.is_empty() {
                    break;
                }
                let keys: Vec<&[u8]> = found.iter().map(|(key, _)| &key[..]).collect();
                self.remove(space, &keys)?;
            }
        }
        Ok(())
    }

    fn remove(&self, space: Space, keys: &[&[u8]]) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let mut transaction = self.begin()?;
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
}
