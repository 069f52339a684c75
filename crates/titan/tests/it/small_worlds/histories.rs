//! Every short history of a few keys, each under a prefix of its own.

use std::collections::BTreeMap;

use titan::{ColumnFamilyId, WriteBatch};

use crate::support::value;

/// Bytes of an inline value and of a separated one.
const LENS: [usize; 2] = [20, 150];

/// Contents for a reader.
pub(super) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// An operation on the keys of a world, which are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Put(usize),
    Separated(usize),
    Delete(usize),
    Single(usize),
    Range(usize, usize),
}

impl Op {
    fn all(keys: usize) -> Vec<Op> {
        let points = [Op::Put, Op::Separated, Op::Delete, Op::Single];
        let points = points.iter().flat_map(|op| (0..keys).map(op));
        let ranges =
            (0..keys).flat_map(|from| (from + 1..=keys).map(move |to| Op::Range(from, to)));
        points.chain(ranges).collect()
    }

    fn concerns(self, at: usize) -> bool {
        match self {
            Op::Put(key) | Op::Separated(key) | Op::Delete(key) | Op::Single(key) => key == at,
            Op::Range(from, to) => (from..to).contains(&at),
        }
    }

    fn is_value(self) -> bool {
        matches!(self, Op::Put(_) | Op::Separated(_))
    }
}

/// Whether each single deletion deletes a value that was put once, and no key with single deletions
/// is deleted otherwise.
fn is_legal(history: &[Op], keys: usize) -> bool {
    let is_single = |op: &Op| matches!(op, Op::Single(_));
    (0..keys).all(|key| {
        let of_key: Vec<Op> = history
            .iter()
            .copied()
            .filter(|op| op.concerns(key))
            .collect();
        let in_turn = |(at, op): (usize, &Op)| match at.is_multiple_of(2) {
            true => op.is_value(),
            false => is_single(op),
        };
        !of_key.iter().any(is_single) || of_key.iter().enumerate().all(in_turn)
    })
}

/// Worlds of equally many keys and operations.
pub(super) struct Worlds {
    keys: usize,
    histories: Vec<Vec<Op>>,
}

impl Worlds {
    /// Every legal history of so many keys and operations.
    pub(super) fn every(keys: usize, ops: u32) -> Self {
        let menu = Op::all(keys);
        let histories = (0..menu.len().pow(ops)).map(|index| {
            let digit = |at| index / menu.len().pow(at) % menu.len();
            (0..ops).map(|at| menu[digit(at)]).collect()
        });
        let legal = histories.filter(|history: &Vec<Op>| is_legal(history, keys));
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
