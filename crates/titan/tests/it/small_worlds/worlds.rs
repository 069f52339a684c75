//! Every short history of a few keys, each under a prefix of its own.

use std::collections::BTreeMap;

use titan::{ColumnFamilyId, WriteBatch};

use super::histories::{Op, every_list, is_legal};
use crate::support::value;

/// Bytes of an inline value and of a separated one.
const LENS: [usize; 2] = [20, 150];

/// Contents for a reader.
pub(super) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Worlds of equally many keys and operations.
pub(super) struct Worlds {
    keys: usize,
    histories: Vec<Vec<Op>>,
}

impl Worlds {
    /// Every legal history of so many keys and operations.
    pub(super) fn every(keys: usize, ops: u32) -> Self {
        let menu = Op::all(keys);
        let legal = every_list(&menu, ops).filter(|history| is_legal(history, keys));
        Worlds {
            keys,
            histories: legal.collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.histories.len()
    }

    pub(super) fn history(&self, world: usize) -> &[Op] {
        &self.histories[world]
    }

    pub(super) fn key(world: usize, key: usize) -> Vec<u8> {
        format!("{world:05}{}", char::from(b"abcd"[key])).into_bytes()
    }

    /// The world that has a key.
    pub(super) fn of_key(key: &[u8]) -> usize {
        std::str::from_utf8(&key[..5]).unwrap().parse().unwrap()
    }

    /// Every key that a world may have.
    pub(super) fn all_keys(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..self.len()).flat_map(|world| (0..self.keys).map(move |key| Self::key(world, key)))
    }

    fn value(world: usize, step: usize, separated: bool) -> Vec<u8> {
        value(10 * world + step, LENS[usize::from(separated)])
    }

    /// One operation of each world whose number has this remainder by two.
    pub(super) fn step(&self, step: usize, remainder: usize) -> WriteBatch {
        let mut batch = WriteBatch::new();
        let family = ColumnFamilyId::DEFAULT;
        let worlds = self.histories.iter().enumerate();
        for (world, history) in worlds.skip(remainder).step_by(2) {
            let key = |key| Self::key(world, key);
            match history[step] {
                Op::Put(at) => batch.put(family, key(at), Self::value(world, step, false)),
                Op::Separated(at) => batch.put(family, key(at), Self::value(world, step, true)),
                Op::Delete(at) => batch.delete(family, key(at)),
                Op::Single(at) => batch.single_delete(family, key(at)),
                Op::Range(from, to) => batch.delete_range(family, key(from), key(to)),
            }
            .unwrap();
        }
        batch
    }

    /// Contents for a reader after so many operations of each world.
    pub(super) fn pairs(&self, steps: usize) -> Pairs {
        let mut pairs = Pairs::new();
        for (world, history) in self.histories.iter().enumerate() {
            for (step, op) in history.iter().take(steps).enumerate() {
                for at in (0..self.keys).filter(|at| op.concerns(*at)) {
                    let key = Self::key(world, at);
                    match op {
                        Op::Put(_) => pairs.insert(key, Self::value(world, step, false)),
                        Op::Separated(_) => pairs.insert(key, Self::value(world, step, true)),
                        _ => pairs.remove(&key),
                    };
                }
            }
        }
        pairs
    }
}
