//! Requests for locks, and their results.

use std::cmp::Ordering;
#[cfg(not(shuttle))]
use std::hash::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
#[cfg(shuttle)]
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
#[cfg(not(shuttle))]
use std::sync::LazyLock;
use std::time::Duration;

use crate::format::ColumnFamilyId;

/// Owner of locks: a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId(pub(crate) u64);

/// Key that is locked. It is hashed once, when it is made; copies share the key.
#[derive(Clone, Debug)]
pub(crate) struct LockKey {
    family: ColumnFamilyId,
    key: Arc<[u8]>,
    hash: u64,
}

/// Users' keys may be chosen by others, who must not know which ones collide.
#[cfg(not(shuttle))]
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
/// The same in every run, so that a seed determines the schedule.
#[cfg(shuttle)]
static HASHER: BuildHasherDefault<DefaultHasher> = BuildHasherDefault::new();

impl LockKey {
    /// A copy of `key`, in a family.
    pub(crate) fn new(family: ColumnFamilyId, key: &[u8]) -> Self {
        LockKey {
            family,
            key: key.into(),
            hash: HASHER.hash_one((family, key)),
        }
    }

    pub(crate) fn family(&self) -> ColumnFamilyId {
        self.family
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The same for equal keys, and otherwise probably not.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for LockKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.cmp(other).is_eq()
    }
}

impl Eq for LockKey {}

impl PartialOrd for LockKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LockKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.family, &self.key).cmp(&(other.family, &other.key))
    }
}

impl Hash for LockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Takes the hash of a [`LockKey`] as it is.
#[derive(Default)]
pub(super) struct HashOfKey(u64);

impl Hasher for HashOfKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// Change by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The owner had no lock on the key before.
    New,
    /// The owner had a shared lock, which is exclusive now.
    Upgraded,
    /// The owner had the lock already.
    Had,
}

/// A request for a lock.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) owner: OwnerId,
    pub(crate) key: &'a LockKey,
    /// The name of the key's family, for messages.
    pub(crate) family: &'a str,
    pub(crate) mode: Mode,
    /// Longest wait; `None` for ever.
    pub(crate) timeout: Option<Duration>,
    /// Whether to fail if the request closes a circle.
    pub(crate) detect_deadlocks: bool,
}
