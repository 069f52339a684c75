//! Random operations, determined by one seed.

use super::legal::Legality;
use super::{Bounds, Durability, Op, Ops, Step, Value, Write};
use crate::model::DEFAULT;

/// Frequency of each operation, relative to the others; 0 means never.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named like the operations")]
pub struct Weights {
    pub put: u32,
    /// Families need the operator that appends: see
    /// [`merge_operator`](crate::apply::merge_operator).
    pub merge: u32,
    pub delete: u32,
    pub single_delete: u32,
    pub delete_range: u32,
    pub batch: u32,
    pub get: u32,
    pub multi_get: u32,
    pub scan: u32,
    pub iter: u32,
    pub move_iter: u32,
    pub drop_iter: u32,
    pub snapshot: u32,
    pub drop_snapshot: u32,
    pub flush: u32,
    /// A whole column family.
    pub compact: u32,
    /// With bounds, with the last level, or both.
    pub compact_some: u32,
    pub collect: u32,
    pub checkpoint: u32,
    pub reopen: u32,
    pub create_cf: u32,
    pub drop_cf: u32,
    /// The percentage of writes that are synced.
    pub synced_percent: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Weights {
            put: 300,
            merge: 0,
            delete: 60,
            single_delete: 20,
            delete_range: 15,
            batch: 60,
            get: 100,
            multi_get: 0,
            scan: 40,
            iter: 0,
            move_iter: 0,
            drop_iter: 0,
            snapshot: 10,
            drop_snapshot: 8,
            flush: 15,
            compact: 5,
            compact_some: 0,
            collect: 0,
            checkpoint: 0,
            reopen: 4,
            create_cf: 4,
            drop_cf: 2,
            synced_percent: 10,
        }
    }
}

impl Weights {
    /// All kinds of operations.
    pub fn everything() -> Self {
        Weights {
            multi_get: 20,
            iter: 15,
            move_iter: 60,
            drop_iter: 12,
            compact_some: 5,
            collect: 4,
            checkpoint: 2,
            ..Self::default()
        }
    }

    /// No operation.
    pub const fn nothing() -> Self {
        Weights {
            put: 0,
            merge: 0,
            delete: 0,
            single_delete: 0,
            delete_range: 0,
            batch: 0,
            get: 0,
            multi_get: 0,
            scan: 0,
            iter: 0,
            move_iter: 0,
            drop_iter: 0,
            snapshot: 0,
            drop_snapshot: 0,
            flush: 0,
            compact: 0,
            compact_some: 0,
            collect: 0,
            checkpoint: 0,
            reopen: 0,
            create_cf: 0,
            drop_cf: 0,
            synced_percent: 0,
        }
    }

    /// Only operations that change contents, and flushes: for crash tests.
    pub fn writes_only() -> Self {
        Weights {
            get: 0,
            scan: 0,
            snapshot: 0,
            drop_snapshot: 0,
            reopen: 0,
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Put,
    Merge,
    Delete,
    SingleDelete,
    DeleteRange,
    Batch,
    Get,
    Scan,
    Snapshot,
    DropSnapshot,
    Flush,
    Compact,
    Reopen,
    CreateCf,
    DropCf,
    MultiGet,
    Iter,
    Move,
    DropIter,
    CompactSome,
    Collect,
    Checkpoint,
}

/// Draws legal operations. Equal seeds and settings produce equal lists.
#[derive(Clone)]
pub struct Generator {
    rng: fastrand::Rng,
    legality: Legality,
    next_snapshot: u32,
    next_iterator: u32,
    /// Frequency of each operation.
    pub weights: Weights,
    /// The number of different keys; few make overwrites and collisions likely.
    pub keys: usize,
    /// The sizes of values; all are equally likely.
    pub value_sizes: Vec<usize>,
    /// The column families that may exist besides the default one.
    pub families: Vec<String>,
    /// The maximum number of writes in a batch.
    pub batch_size: usize,
}

impl Generator {
    /// A generator with settings for a short test: 60 keys, sizes around the usual thresholds,
    /// two additional families.
    pub fn with_seed(seed: u64) -> Self {
        Generator {
            rng: fastrand::Rng::with_seed(seed),
            legality: Legality::new(),
            next_snapshot: 1,
            next_iterator: 1,
            weights: Weights::default(),
            keys: 60,
            // Small ones several times, so that large ones do not dominate the run's time.
            value_sizes: vec![0, 1, 1, 100, 100, 100, 1000, 4095, 4096, 4097, 65536],
            families: vec!["cf1".to_owned(), "cf2".to_owned()],
            batch_size: 8,
        }
    }

    /// The next `n` operations.
    pub fn ops(&mut self, n: usize) -> Ops {
        Ops((0..n).map(|_| self.op()).collect())
    }

    /// The next operation. If no wanted operation is possible, a read.
    pub fn op(&mut self) -> Op {
        // Some draws produce nothing, such as a deletion where nothing was put.
        for _ in 0..100 {
            let Some(kind) = self.kind() else { break };
            if let Some(op) = self.draw(kind).and_then(|op| self.legality.admit(&op)) {
                return op;
            }
        }
        Op::Get {
            family: DEFAULT.to_owned(),
            key: self.key(),
            at: None,
        }
    }

    fn kind(&mut self) -> Option<Kind> {
        let w = self.weights;
        let table = [
            (Kind::Put, w.put),
            (Kind::Delete, w.delete),
            (Kind::SingleDelete, w.single_delete),
            (Kind::DeleteRange, w.delete_range),
            (Kind::Batch, w.batch),
            (Kind::Get, w.get),
            (Kind::Scan, w.scan),
            (Kind::Snapshot, w.snapshot),
            (Kind::DropSnapshot, w.drop_snapshot),
            (Kind::Flush, w.flush),
            (Kind::Compact, w.compact),
            (Kind::Reopen, w.reopen),
            (Kind::CreateCf, w.create_cf),
            (Kind::DropCf, w.drop_cf),
            (Kind::MultiGet, w.multi_get),
            (Kind::Iter, w.iter),
            (Kind::Move, w.move_iter),
            (Kind::DropIter, w.drop_iter),
            (Kind::CompactSome, w.compact_some),
            (Kind::Collect, w.collect),
            (Kind::Checkpoint, w.checkpoint),
            (Kind::Merge, w.merge),
        ];
        let total = table.iter().map(|(_, weight)| weight).sum::<u32>();
        let mut at = if total == 0 { 0 } else { self.rng.u32(..total) };
        table.into_iter().find_map(|(kind, weight)| {
            let hit = at < weight;
            at = at.wrapping_sub(weight);
            hit.then_some(kind)
        })
    }

    fn draw(&mut self, kind: Kind) -> Option<Op> {
        let family = self.family();
        Some(match kind {
            Kind::Put | Kind::Merge | Kind::Delete | Kind::SingleDelete | Kind::DeleteRange => {
                Op::Write {
                    writes: vec![self.write(kind)?],
                    durability: self.durability(),
                }
            }
            Kind::Batch => {
                let n = self.rng.usize(1..=self.batch_size.max(1));
                let writes = (0..n).filter_map(|_| {
                    let kind = match self.rng.u8(..10) {
                        0 => Kind::DeleteRange,
                        1 => Kind::SingleDelete,
                        2 | 3 => Kind::Delete,
                        4 | 5 if self.weights.merge > 0 => Kind::Merge,
                        _ => Kind::Put,
                    };
                    self.write(kind).filter(|_| self.wanted(kind))
                });
                Op::Write {
                    writes: writes.collect(),
                    durability: self.durability(),
                }
            }
            Kind::Get => Op::Get {
                family,
                key: self.key(),
                at: self.snapshot(),
            },
            Kind::Scan => {
                let (from, to) = self.range();
                let (bounded, reverse) = (self.rng.u8(..4), self.rng.bool());
                Op::Scan {
                    family,
                    from: (bounded & 1 == 0).then_some(from),
                    to: (bounded & 2 == 0).then_some(to),
                    reverse,
                    at: self.snapshot(),
                }
            }
            Kind::MultiGet => {
                let n = self.rng.usize(1..=12);
                Op::MultiGet {
                    family,
                    keys: (0..n).map(|_| self.key()).collect(),
                    at: self.snapshot(),
                }
            }
            Kind::Iter => {
                // Each pins files and memory.
                if self.legality.iterators().len() >= 6 {
                    return None;
                }
                self.next_iterator += 1;
                Op::Iter {
                    id: self.next_iterator - 1,
                    family,
                    bounds: self.bounds(),
                    at: self.snapshot(),
                }
            }
            Kind::Move => Op::Move {
                id: self.iterator()?,
                step: match self.rng.u8(..12) {
                    0 => Step::First,
                    1 => Step::Last,
                    2 | 3 => Step::Seek(self.key()),
                    4 | 5 => Step::SeekForPrev(self.key()),
                    6..9 => Step::Next(self.rng.u32(1..20)),
                    _ => Step::Prev(self.rng.u32(1..20)),
                },
            },
            Kind::DropIter => Op::DropIter {
                id: self.iterator()?,
            },
            Kind::Snapshot => {
                self.next_snapshot += 1;
                Op::Snapshot {
                    id: self.next_snapshot - 1,
                }
            }
            Kind::DropSnapshot => {
                let open: Vec<u32> = self.legality.snapshots().collect();
                Op::DropSnapshot {
                    id: self.rng.choice(open)?,
                }
            }
            Kind::Flush => Op::Flush { family },
            Kind::Compact => Op::Compact {
                family,
                from: None,
                to: None,
                bottommost: false,
            },
            Kind::CompactSome => {
                let Bounds { from, to, .. } = self.bounds();
                Op::Compact {
                    family,
                    from,
                    to,
                    bottommost: self.rng.bool(),
                }
            }
            Kind::Collect => Op::Collect { family },
            Kind::Checkpoint => Op::Checkpoint,
            Kind::Reopen => Op::Reopen,
            Kind::CreateCf => Op::CreateCf {
                family: self.rng.choice(&self.families)?.clone(),
            },
            Kind::DropCf => Op::DropCf {
                family: self.rng.choice(&self.families)?.clone(),
            },
        })
    }

    /// Whether a kind of write may appear in a batch: only if it may be drawn alone.
    fn wanted(&self, kind: Kind) -> bool {
        match kind {
            Kind::Delete => self.weights.delete > 0,
            Kind::SingleDelete => self.weights.single_delete > 0,
            Kind::DeleteRange => self.weights.delete_range > 0,
            _ => true,
        }
    }

    fn write(&mut self, kind: Kind) -> Option<Write> {
        let family = self.family();
        Some(match kind {
            Kind::Delete => {
                let key = self.key();
                if is_single(&key) {
                    return None;
                }
                Write::Delete { family, key }
            }
            Kind::SingleDelete => {
                let once = self.legality.put_once(&family);
                let once: Vec<&Vec<u8>> = once.filter(|key| is_single(key)).collect();
                let key = (*self.rng.choice(&once)?).clone();
                Write::SingleDelete { family, key }
            }
            Kind::DeleteRange => {
                let (from, to) = self.deleted_range();
                Write::DeleteRange { family, from, to }
            }
            Kind::Merge => {
                let key = self.key();
                if is_single(&key) {
                    return None;
                }
                // A key that is merged again and again must not become too large.
                let len = self.rng.choice(&self.value_sizes).copied().unwrap_or(1);
                let len = len.min(300);
                let value = Value {
                    seed: self.rng.u64(..1_000_000),
                    len,
                };
                Write::Merge { family, key, value }
            }
            _ => {
                let key = self.key();
                if is_single(&key) && self.legality.is_present(&family, &key) {
                    return None;
                }
                let len = self.rng.choice(&self.value_sizes).copied().unwrap_or(0);
                let value = Value {
                    seed: self.rng.u64(..1_000_000),
                    len,
                };
                Write::Put { family, key, value }
            }
        })
    }

    fn durability(&mut self) -> Durability {
        match self.rng.u32(..100) < self.weights.synced_percent {
            true => Durability::Synced,
            false => Durability::Logged,
        }
    }

    fn family(&mut self) -> String {
        // The default family, so that it is drawn more often than the others.
        let chosen = if self.rng.bool() {
            None
        } else {
            self.rng.choice(self.legality.families())
        };
        chosen.map_or_else(|| DEFAULT.to_owned(), String::clone)
    }

    fn snapshot(&mut self) -> Option<u32> {
        let open: Vec<u32> = self.legality.snapshots().collect();
        if self.rng.bool() {
            self.rng.choice(open)
        } else {
            None
        }
    }

    fn iterator(&mut self) -> Option<u32> {
        let open: Vec<u32> = self.legality.iterators().collect();
        self.rng.choice(open)
    }

    /// One bound, both or none, with or without a prefix.
    fn bounds(&mut self) -> Bounds {
        let (from, to) = self.range();
        let key = self.key();
        let prefix = key[..self.rng.usize(..=key.len())].to_vec();
        let limits = self.rng.u8(..16);
        Bounds {
            from: (limits & 1 == 0).then_some(from),
            to: (limits & 2 == 0).then_some(to),
            prefix: (limits >= 12).then_some(prefix),
        }
    }

    /// Mostly plain keys; one in ten is of a kind that tends to reveal bugs.
    fn key(&mut self) -> Vec<u8> {
        let n = self.rng.usize(..self.keys.max(1));
        match n % 50 {
            9 => vec![0; n / 50 + 1],
            19 => vec![0xff; n / 50 + 1],
            29 => [&b"k"[..], &[b'p'; 300], n.to_string().as_bytes()].concat(),
            39 => format!("k{n:04}\0").into_bytes(),
            49 => Vec::new(),
            7 | 17 | 27 | 37 | 47 => format!("s{n:04}").into_bytes(),
            _ => format!("k{n:04}").into_bytes(),
        }
    }

    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (a, b) = (self.key(), self.key());
        if a <= b { (a, b) } else { (b, a) }
    }

    /// Any range without keys that are single-deleted; also empty and very large ranges.
    fn deleted_range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (from, to) = match self.rng.u8(..20) {
            0 => return (Vec::new(), SINGLE.to_vec()),
            1 => return (AFTER_SINGLE.to_vec(), vec![0xff; 20]),
            2 => {
                let key = self.key();
                (key.clone(), key)
            }
            _ => self.range(),
        };
        let outside = |key: &[u8]| key <= SINGLE || key >= AFTER_SINGLE;
        match (outside(&from), outside(&to)) {
            (true, true) if from.as_slice() <= SINGLE && to.as_slice() >= AFTER_SINGLE => {
                (from, SINGLE.to_vec())
            }
            (true, true) => (from, to),
            (true, false) => (from, SINGLE.to_vec()),
            (false, true) => (AFTER_SINGLE.to_vec(), to),
            (false, false) => (from.clone(), from),
        }
    }
}

/// The prefix of the keys that are put once and then single-deleted, repeatedly. They are
/// adjacent, so that ranges of the other keys can be deleted.
const SINGLE: &[u8] = b"s";
const AFTER_SINGLE: &[u8] = b"t";

fn is_single(key: &[u8]) -> bool {
    key.starts_with(SINGLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::legal;

    #[test]
    fn lists_are_legal_and_follow_from_the_seed() {
        for seed in 0..20 {
            let ops = Generator::with_seed(seed).ops(1000);
            assert!(legal(&ops.0) == ops.0, "seed {seed}");
            assert!(Generator::with_seed(seed).ops(1000) == ops, "seed {seed}");
        }
        assert!(Generator::with_seed(1).ops(50) != Generator::with_seed(2).ops(50));
    }

    #[test]
    fn every_operation_comes_unless_its_weight_is_zero() {
        let mut everything = Generator::with_seed(7);
        everything.weights = Weights::everything();
        let text = everything.ops(5000).to_string();
        let verbs = [
            "put ",
            "delete ",
            "single-delete ",
            "delete-range ",
            "batch ",
            "sync ",
            "get ",
            "multi-get ",
            "scan ",
            "iter ",
            "first ",
            "last ",
            "seek ",
            "seek-for-prev ",
            "next ",
            "prev ",
            "prefix ",
            "drop-iter ",
            "snapshot ",
            "drop-snapshot ",
            "flush ",
            "compact ",
            "reopen",
            "create-cf ",
            "drop-cf ",
            "reverse",
            "bottommost",
            "@",
        ];
        for verb in verbs {
            assert!(text.contains(verb), "{verb} never came");
        }
        let mut writes = Generator::with_seed(7);
        writes.weights = Weights {
            single_delete: 0,
            delete_range: 0,
            ..Weights::writes_only()
        };
        let text = writes.ops(5000).to_string();
        for verb in [
            "single-delete ",
            "delete-range ",
            "get ",
            "scan ",
            "snapshot ",
            "reopen",
        ] {
            assert!(!text.contains(verb), "{verb} came");
        }
    }
}
