//! The store beneath a volume: an ordered key-value store with transactions.
//!
//! The file system needs of a store only [`Kv`] and [`Transaction`], so that one machine's engine
//! and a cluster can both be one. There are four: [`EngineKv`] on Titan; `TikvKv` on a TiKV
//! cluster, with the feature `tikv`; `EtcdKv` on etcd and an object store, with the feature `etcd`;
//! and [`MemoryKv`] in memory, which keeps the contract honest in tests.
//!
//! # Contract
//!
//! - A transaction reads as of its begin, and its own writes.
//! - It commits completely or not at all. It conflicts if another transaction, after this one
//!   began, committed a write of a key that this one wrote or guarded. A key without a value that
//!   got one and lost it again need not be a conflict.
//! - A key that was only read is not guarded. Two transactions that read each other's written keys
//!   may both commit. A decision that depends on a read must guard its key.
//! - After [`Commit::Committed`], every later read sees the writes, and they survive the end of the
//!   process. They survive a power failure once a later [`Kv::sync`] has returned.
//! - Values are not empty. Keys are at most a kilobyte, values at most a few megabytes.

mod engine;
#[cfg(feature = "etcd")]
mod etcd;
mod log_damage;
mod memory;
mod opening;
mod pending;
mod remote;
mod resume;
#[cfg(test)]
mod tests;
#[cfg(feature = "tikv")]
mod tikv;

use bytes::Bytes;

use crate::error::{Error, Result};

pub use engine::{EngineKv, EngineOptions};
#[cfg(feature = "etcd")]
pub use etcd::EtcdKv;
pub use memory::MemoryKv;
pub use opening::{collect, connect_to_ask, open_remote, open_remote_read_only};
pub use remote::url::{ClientFiles, RemoteUrl, Scheme, TlsFiles};
pub use remote::{AskHolder, Budget, Holder, RemoteKv, Room, begin_making, undo_making};
#[cfg(feature = "tikv")]
pub use tikv::TikvKv;

/// The two key spaces of a volume. They are stored in ways that suit their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Small values that are read all the time: inodes, directory entries.
    Meta,
    /// Blocks of files.
    Data,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Commit {
    /// The writes are visible.
    Committed,
    /// Another transaction wrote a key of this one. Nothing was written.
    Conflict,
    /// The store does not know whether the writes took effect, and has tried to find out. An
    /// embedded store never says so.
    Undetermined,
}

/// The order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The smallest key first.
    Forward,
    /// The largest key first.
    Backward,
}

/// The keys of a scan, and whether it returns values.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The key space.
    pub space: Space,
    /// The first key that may be returned.
    pub begin: Vec<u8>,
    /// The first key after the range.
    pub end: Vec<u8>,
    /// The most keys to return.
    pub limit: usize,
    /// The order.
    pub direction: Direction,
    /// Return empty values, so that no value has to be read.
    pub keys_only: bool,
}

impl Scan {
    /// All keys of a space that begin with `prefix`, in order. The prefix ends in a byte below 255,
    /// as all prefixes of the schema do, or the scan goes on to the end of the space.
    pub fn prefix(space: Space, prefix: &[u8]) -> Self {
        Scan {
            space,
            begin: prefix.to_vec(),
            end: end_of_prefix(prefix),
            limit: usize::MAX,
            direction: Direction::Forward,
            keys_only: false,
        }
    }

    /// The same range without values.
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }

    /// The same range, but at most so many keys.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// The smallest key that is larger than every key with this prefix.
fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return end;
        }
        end.pop();
    }
    // Nothing but 255: no key of the schema is larger than this.
    vec![u8::MAX; 64]
}

/// The size of a store's log, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// The files of the log.
    pub files: u64,
    /// The part that the store has yet to write to its place, about. The rest waits for deletion.
    pub unmoved: u64,
}

/// A key and its value, as a scan returns them.
pub type Pair = (Bytes, Bytes);

/// The readable begin of a range of keys.
#[derive(Clone, Debug, Default)]
pub struct Readable {
    /// The pairs before the damage.
    pub pairs: Vec<Pair>,
    /// The damage that ended it.
    pub damage: Option<Damage>,
}

/// Damage that keeps keys from being read.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The store's finding, and its place.
    pub error: Error,
    /// The last key that cannot be read because of it. If the store does not know, none that
    /// follows can be read.
    pub last: Option<Vec<u8>>,
}

/// An ordered key-value store with transactions. See the [module](self) for its promises.
pub trait Kv: Send + Sync + 'static {
    /// Begins a transaction that reads as of now.
    fn begin(&self) -> Result<Box<dyn Transaction + '_>>;

    /// The same, for an operation that has so much time for all its attempts: a store on a cluster
    /// ends it then. By default none is ended.
    ///
    /// # Errors
    /// `ETIMEDOUT` if the time is used up.
    fn begin_within(&self, budget: &Budget) -> Result<Box<dyn Transaction + '_>> {
        let _ = budget;
        self.begin()
    }

    /// The store as of now, for reading. Also a store that is open for reading only has it.
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>>;

    /// The value of `key` as of now. Cheaper than a snapshot where a store can do it.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.snapshot()?.get(space, key)
    }

    /// The values of many keys, as of one moment, in the order of the keys.
    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        self.snapshot()?.multi_get(space, keys)
    }

    /// A range of keys as of now.
    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        self.snapshot()?.scan(scan)
    }

    /// Makes everything that was committed before the call survive a power failure. Nothing, by
    /// default: each commit does.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// The size of the log. Nothing, by default.
    fn log_size(&self) -> Result<LogSize> {
        Ok(LogSize::default())
    }

    /// Writes everything in the log to its place, and frees the log and all else that can be freed
    /// now. On return the device has the space.
    ///
    /// Cost: may wait for all background work.
    fn move_log(&self) -> Result<()> {
        Ok(())
    }

    /// Frees space of overwritten and deleted values. Each further step takes more time. False if
    /// there is no such step: nothing more can be freed.
    fn free_garbage(&self, step: usize) -> Result<bool> {
        let _ = step;
        Ok(false)
    }

    /// The store's report on size and work, for users and monitoring. Nothing, by default.
    fn report(&self) -> Result<serde_json::Value> {
        Ok(serde_json::Value::Null)
    }

    /// Ends the store. Everything that was committed is durable afterwards; calls fail.
    fn close(&self) -> Result<()>;
}

/// Reads as of one moment.
pub trait Reader {
    /// The value of `key`.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>>;

    /// The values of many keys, in the order of the keys. A store reads them together where it can.
    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>>;

    /// The length of each key's value, in the order of the keys. Writes of a transaction do not
    /// count. A store that can tell lengths without reading the values does so.
    fn value_lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>>;

    /// The damage of values that are lost, in the order of the keys, as far as the store can tell
    /// without reading them. By default it cannot.
    ///
    /// Cost: the first call may list all that the store has.
    fn lost(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Error>>> {
        let _ = space;
        Ok(vec![None; keys.len()])
    }

    /// A range of keys.
    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>>;

    /// A range of keys in forward direction, up to the first damage. By default a store has none,
    /// or fails.
    fn scan_readable(&self, scan: &Scan) -> Result<Readable> {
        let pairs = self.scan(scan)?;
        Ok(Readable {
            pairs,
            damage: None,
        })
    }
}

/// Reads as of one moment, and writes that take effect together. Reads see the writes. Dropping it
/// abandons them.
pub trait Transaction: Reader {
    /// Sets `key` to `value`.
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes `key`, whether it has a value or not.
    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()>;

    /// Makes a write of `key` by others a conflict.
    fn guard(&mut self, space: Space, key: &[u8]) -> Result<()>;

    /// Tries to make the writes visible.
    fn commit(self: Box<Self>) -> Result<Commit>;
}
