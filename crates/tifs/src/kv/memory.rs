//! A store in memory, for tests and for volumes that need not last.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::pending::{Key, Pending, Writes};
use super::{Commit, Direction, Kv, Pair, Reader, Scan, Space, Transaction};
use crate::error::Result;

type Contents = BTreeMap<Key, Bytes>;

/// A store in memory. A snapshot is a reference to the contents, and a commit copies the contents
/// if anybody has one: simple, exact, and slow for large volumes.
#[derive(Default)]
pub struct MemoryKv {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    contents: Arc<Contents>,
    /// The number of the last commit.
    commits: u64,
    /// Which commit wrote a key last.
    written: BTreeMap<Key, u64>,
}

impl MemoryKv {
    /// A store without keys.
    pub fn new() -> Self {
        MemoryKv::default()
    }

    fn transaction(&self) -> MemoryTransaction<'_> {
        let state = self.state.lock();
        MemoryTransaction {
            store: self,
            began: state.commits,
            contents: Arc::clone(&state.contents),
            pending: Pending::default(),
        }
    }
}

impl Kv for MemoryKv {
    fn begin(&self) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(self.transaction()))
    }

    fn snapshot(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(self.transaction()))
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

struct MemoryTransaction<'a> {
    store: &'a MemoryKv,
    began: u64,
    contents: Arc<Contents>,
    pending: Pending,
}

impl Reader for MemoryTransaction<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let key = (space, key.to_vec());
        Ok(match self.pending.writes.get(&key) {
            Some(own) => own.clone(),
            None => self.contents.get(&key).cloned(),
        })
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(space, key)).collect()
    }

    fn value_lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        let length = |key: &Vec<u8>| self.contents.get(&(space, key.clone())).map(Bytes::len);
        Ok(keys.iter().map(length).collect())
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        Ok(range(&self.contents, &self.pending.writes, scan))
    }
}

impl Transaction for MemoryTransaction<'_> {
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
        let MemoryTransaction {
            store,
            began,
            contents,
            pending,
        } = *self;
        // Or the commit would copy the contents because of this transaction's own snapshot.
        drop(contents);
        let mut state = store.state.lock();
        let newer = |key| state.written.get(key).is_some_and(|commit| *commit > began);
        if pending.keys().any(newer) {
            return Ok(Commit::Conflict);
        }
        let state = &mut *state;
        state.commits += 1;
        let contents = Arc::make_mut(&mut state.contents);
        for (key, value) in pending.writes {
            state.written.insert(key.clone(), state.commits);
            match value {
                Some(value) => contents.insert(key, value),
                None => contents.remove(&key),
            };
        }
        Ok(Commit::Committed)
    }
}

/// The keys of a range, with `writes` on top of `contents`.
fn range(contents: &Contents, writes: &Writes, scan: &Scan) -> Vec<Pair> {
    if scan.begin >= scan.end {
        return Vec::new();
    }
    let begin = Bound::Included((scan.space, scan.begin.clone()));
    let end = Bound::Excluded((scan.space, scan.end.clone()));
    let mut found: BTreeMap<&[u8], &Bytes> = contents
        .range((begin.clone(), end.clone()))
        .map(|((_, key), value)| (key.as_slice(), value))
        .collect();
    for ((_, key), value) in writes.range((begin, end)) {
        match value {
            Some(value) => found.insert(key, value),
            None => found.remove(key.as_slice()),
        };
    }
    let pair = |(key, value): (&[u8], &Bytes)| {
        let value = if scan.keys_only {
            Bytes::new()
        } else {
            value.clone()
        };
        (Bytes::copy_from_slice(key), value)
    };
    match scan.direction {
        Direction::Forward => found.into_iter().take(scan.limit).map(pair).collect(),
        Direction::Backward => found.into_iter().rev().take(scan.limit).map(pair).collect(),
    }
}
