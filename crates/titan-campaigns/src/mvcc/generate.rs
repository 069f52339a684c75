//! Random operations for a configuration.

use titan_testkit::ops::Value;
use titan_testkit::sim::Loss;
use titan_testkit::versions::{At, Change, Kind, Op, Range, Verb, Whole};

use super::configurations::{Configuration, Phases};

/// Writes of a transaction that are more than a read applies.
const BURST: usize = 700;

/// A transaction that may still be open.
struct Open {
    id: u32,
    kind: Kind,
    keys: Vec<Vec<u8>>,
    /// Number of keys that its client has prewritten, in pieces.
    prewritten: usize,
}

/// Draws operations. It does not know their outcomes.
pub(super) struct Generator {
    of: &'static Configuration,
    rng: fastrand::Rng,
    last_id: u32,
    open: Vec<Open>,
    /// Transactions that have been told to commit.
    ended: Vec<u32>,
    snapshots: Vec<u32>,
    iters: Vec<u32>,
    loads: Vec<u32>,
}

impl Generator {
    pub(super) fn new(of: &'static Configuration, seed: u64) -> Self {
        Generator {
            of,
            rng: fastrand::Rng::with_seed(seed ^ u64::from(of.keys)),
            last_id: 0,
            open: Vec::new(),
            ended: Vec::new(),
            snapshots: Vec::new(),
            iters: Vec::new(),
            loads: Vec::new(),
        }
    }

    pub(super) fn list(mut self, operations: usize) -> Vec<Op> {
        let mut ops = Vec::with_capacity(operations + 4);
        while ops.len() < operations {
            self.draw(&mut ops);
        }
        ops
    }

    fn draw(&mut self, ops: &mut Vec<Op>) {
        if self.of.cache.is_some() && self.rng.u32(..10) == 0 {
            return match self.rng.u32(..300) {
                0 => self.burst(ops),
                _ => ops.extend(self.cache_op()),
            };
        }
        if self.of.has_clients() && self.rng.u32(..5) == 0 {
            match self.rng.u32(..3) {
                0 => self.late_reader(ops),
                _ => ops.extend(self.other_actor()),
            }
            return;
        }
        let restarts = match self.of.crashes {
            true => 20,
            false => 4,
        };
        let op = match self.rng.u32(..10_000) {
            0..1_200 => self.begin(),
            1_200..4_600 => self.change(),
            4_600..5_700 => {
                let (key, at) = (self.key(), self.in_transaction());
                Op::Get { key, at }
            }
            5_700..6_200 => {
                let at = self.in_transaction();
                self.scan(at)
            }
            6_200..7_400 => return self.end(ops),
            7_400..8_600 => {
                let at = self.at();
                match self.rng.u32(..3) {
                    0 => self.scan(at),
                    _ => Op::Get {
                        key: self.key(),
                        at,
                    },
                }
            }
            8_600..8_900 => self.iterate(),
            8_900..9_100 => self.tick(),
            9_100..9_200 => match self.safe_point() {
                Some(op) => op,
                None => return,
            },
            9_200..9_300 => self.keep(),
            9_300..9_400 => match self.snapshots.pop() {
                Some(id) => Op::On {
                    verb: Verb::Release,
                    id,
                },
                None => return,
            },
            9_400..9_520 => Op::Whole(Whole::Flush),
            9_520..9_580 => Op::Compact {
                key: self.key(),
                bottommost: self.rng.bool(),
            },
            9_580..9_600 => Op::Whole(Whole::Gc),
            9_600..9_605 => Op::Whole(Whole::Check),
            9_605..9_610 => Op::Whole(Whole::DropOld),
            9_610..9_625 => Op::Whole(Whole::Collect),
            n if n >= 10_000 - restarts => self.restart(),
            _ => return,
        };
        ops.push(op);
    }

    fn new_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// Some key: its number in three bytes, and a tail, so that some begin others and their lengths
    /// are around a group of eight.
    fn key(&mut self) -> Vec<u8> {
        let keys = self.of.keys;
        let mut number = self.rng.u32(..keys);
        if self.of.skewed {
            number = (u64::from(number).pow(3) / u64::from(keys).pow(2)) as u32;
        }
        let tails: [&[u8]; 7] = [
            b"",
            b"\0",
            b"\xff",
            b"\0\0\0\0\0",
            b"\0\0\0\0\0\0",
            b"aaaaaaaaaaaaa",
            b"\xff\xff\xff\xff\xff",
        ];
        match number {
            0 => Vec::new(),
            _ => {
                let tail = tails[number as usize % tails.len()];
                [&number.to_be_bytes()[1..], tail].concat()
            }
        }
    }

    fn range(&mut self) -> Range {
        let mut bound = || (self.rng.u32(..3) > 0).then(|| self.key());
        Range {
            from: bound(),
            to: bound(),
        }
    }

    fn begin(&mut self) -> Op {
        if self.open.len() >= 4 {
            return self.change();
        }
        let kinds = self.of.kinds;
        let (id, kind) = (self.new_id(), kinds[self.rng.usize(..kinds.len())]);
        self.open.push(Open {
            id,
            kind,
            keys: Vec::new(),
            prewritten: 0,
        });
        Op::Begin { id, kind }
    }

    fn change(&mut self) -> Op {
        if self.open.is_empty() {
            return self.begin();
        }
        let (key, what) = (self.key(), self.rng.u32(..10));
        let n = self.rng.usize(..self.open.len());
        let len = self.rng.usize(..=self.of.value_size);
        let open = &mut self.open[n];
        if open.prewritten == 0 && !open.keys.contains(&key) {
            open.keys.push(key.clone());
        }
        // A change that is no lock is a put in seven of nine.
        let changes = 10 - self.of.locks_of_ten;
        let change = match what >= changes {
            false if what < (changes * 7).div_ceil(9) => Change::Put(Value {
                seed: u64::from(self.rng.u32(..)),
                len,
            }),
            false => Change::Delete,
            true if open.kind == Kind::Pessimistic && self.rng.bool() => Change::GetForUpdate,
            true => Change::Lock,
        };
        let id = open.id;
        Op::Change { id, key, change }
    }

    fn in_transaction(&mut self) -> At {
        match self.rng.choice(&self.open) {
            Some(open) => At::In(open.id),
            None => At::Present,
        }
    }

    /// The present, a snapshot, a commit or the timestamp before it.
    fn at(&mut self) -> At {
        match (self.rng.u32(..6), self.ended.len()) {
            (0, _) | (_, 0) => At::Present,
            (1, _) if !self.snapshots.is_empty() => {
                At::Of(self.snapshots[self.rng.usize(..self.snapshots.len())])
            }
            (_, n) => {
                // Recent ones more often.
                let back = self.rng.usize(..n).min(self.rng.usize(..n));
                let id = self.ended[n - 1 - back];
                if self.rng.bool() {
                    At::Of(id)
                } else {
                    At::Before(id)
                }
            }
        }
    }

    fn scan(&mut self, at: At) -> Op {
        Op::Scan {
            range: self.range(),
            at,
            reverse: self.rng.bool(),
            first: Some(self.rng.u32(1..10)),
        }
    }

    fn iterate(&mut self) -> Op {
        if !self.iters.is_empty() && self.rng.u32(..4) > 0 {
            let n = self.rng.u32(..20);
            let id = self.iters[self.rng.usize(..self.iters.len())];
            return Op::Next { id, n };
        }
        if self.iters.len() > 2 {
            let id = self.iters.remove(0);
            let verb = Verb::Release;
            return Op::On { verb, id };
        }
        let id = self.new_id();
        self.iters.push(id);
        Op::Iter {
            id,
            range: self.range(),
            at: self.at(),
            reverse: self.rng.bool(),
        }
    }

    fn end(&mut self, ops: &mut Vec<Op>) {
        if self.open.is_empty() {
            return;
        }
        let n = self.rng.usize(..self.open.len());
        let (id, kind) = (self.open[n].id, self.open[n].kind);
        let mut on = |verb| ops.push(Op::On { verb, id });
        if kind.is_of_client() {
            match self.rng.u32(..12) {
                0 => on(Verb::Rollback),
                1 => on(Verb::Abandon),
                2 => {
                    on(Verb::CommitPrimary);
                    on(Verb::Abandon);
                }
                _ => {
                    ops.extend(self.prewrite_piece(n));
                    let open = &self.open[n];
                    if open.prewritten < open.keys.len() || self.rng.bool() {
                        return;
                    }
                    ops.push(Op::On {
                        verb: Verb::Commit,
                        id,
                    });
                }
            }
        } else {
            let is_killed = match self.of.phases {
                Phases::TwoAndKilled { .. } => self.rng.u32(..6) == 0,
                _ => kind == Kind::Pessimistic && self.rng.u32(..20) == 0,
            };
            match self.rng.u32(..10) {
                0 => on(Verb::Rollback),
                _ if !is_killed => on(Verb::Commit),
                _ if kind == Kind::Pessimistic => on(Verb::Abandon),
                n => {
                    ops.push(Op::Prewrite {
                        id,
                        keys: Vec::new(),
                    });
                    let mut on = |verb| ops.push(Op::On { verb, id });
                    match n {
                        1..4 => {}
                        4..8 => on(Verb::CommitPrimary),
                        8 => on(Verb::Rollback),
                        _ => on(Verb::Commit),
                    }
                    on(Verb::Abandon);
                }
            }
        }
        // Now and then the locks of abandoned transactions expire.
        if self.rng.u32(..12) == 0 && self.of.phases != Phases::One {
            ops.push(Op::Tick { ms: 11_000 });
        }
        self.ended.push(self.open.swap_remove(n).id);
    }

    /// The next piece of a client's prewrites, in any order of keys.
    fn prewrite_piece(&mut self, n: usize) -> Option<Op> {
        let open = &mut self.open[n];
        if open.prewritten == 0 {
            // The first key stays the primary one.
            self.rng.shuffle(&mut open.keys);
        }
        let left = open.keys.len() - open.prewritten;
        if left == 0 {
            return None;
        }
        let piece = self.rng.usize(1..=left);
        let keys = open.keys[open.prewritten..][..piece].to_vec();
        open.prewritten += piece;
        Some(Op::Prewrite { id: open.id, keys })
    }

    /// A reader at a timestamp that is taken now reads a key of a client, whose commit timestamp
    /// may be earlier.
    fn late_reader(&mut self, ops: &mut Vec<Op>) {
        let of_clients = self.open.iter().filter(|open| open.prewritten > 0);
        let open: Vec<&Open> = of_clients.collect();
        let Some(open) = self.rng.choice(open) else {
            return;
        };
        let (client, key) = (open.id, self.rng.choice(&open.keys).cloned());
        let id = self.new_id();
        if self.rng.bool() {
            ops.push(Op::On {
                verb: Verb::CommitTs,
                id: client,
            });
        }
        ops.push(Op::On {
            verb: Verb::Timestamp,
            id,
        });
        let at = At::Of(id);
        ops.push(match (self.rng.u32(..4), key) {
            (0, _) => self.scan(at),
            (1, _) | (_, None) => Op::CheckStatus {
                id: client,
                at,
                expired: false,
            },
            (_, Some(key)) => Op::Get { key, at },
        });
    }

    /// A step of a client, or of another actor that meets its transaction.
    fn other_actor(&mut self) -> Option<Op> {
        let clients: Vec<usize> = (0..self.open.len())
            .filter(|n| self.open[*n].kind.is_of_client())
            .collect();
        let old = self.ended.len().saturating_sub(6);
        let id = match self.rng.choice(&clients) {
            Some(n) if self.rng.u32(..3) > 0 => {
                let (n, id) = (*n, self.open[*n].id);
                if self.rng.bool() {
                    return self.prewrite_piece(n);
                }
                id
            }
            _ => *self.rng.choice(&self.ended[old..])?,
        };
        let on = |verb| Some(Op::On { verb, id });
        match self.rng.u32(..13) {
            0..3 => on(Verb::CommitTs),
            3 => on(Verb::Heartbeat),
            4 => on(Verb::CheckSecondaries),
            5 => on(Verb::Resolve),
            6..8 => on(Verb::Commit),
            // Its client comes back, perhaps after it has ended.
            8..10 => Some(Op::Prewrite {
                id,
                keys: Vec::new(),
            }),
            10..12 => Some(Op::CheckStatus {
                id,
                at: self.at(),
                expired: self.rng.u32(..4) == 0,
            }),
            _ => Some(Op::Tick {
                ms: [1_000, 6_000][self.rng.usize(..2)],
            }),
        }
    }

    fn tick(&mut self) -> Op {
        match self.of.clock_jumps {
            true => Op::Clock {
                ms: [1, 50, -20, 3_600_000, -3_600_000][self.rng.usize(..5)],
            },
            false => Op::Tick {
                ms: self.rng.u64(..20),
            },
        }
    }

    fn safe_point(&mut self) -> Option<Op> {
        let lag = self.of.safe_point_lag?;
        let at = match self.ended.len().checked_sub(lag + 1) {
            _ if lag == 0 => At::Present,
            Some(n) => At::Of(self.ended[n]),
            None => return None,
        };
        Some(Op::SafePoint { at })
    }

    fn keep(&mut self) -> Op {
        if self.snapshots.len() >= 5 {
            let id = self.snapshots.remove(0);
            let verb = Verb::Release;
            return Op::On { verb, id };
        }
        let (id, at) = (self.new_id(), self.at());
        self.snapshots.push(id);
        match self.rng.u32(..4) {
            0 => Op::Hold { id, at },
            1 => Op::On {
                verb: Verb::Timestamp,
                id,
            },
            _ => Op::Snapshot { id, at },
        }
    }

    fn restart(&mut self) -> Op {
        self.snapshots.clear();
        self.iters.clear();
        self.loads.clear();
        self.open.retain(|open| open.kind.is_of_client());
        if !self.of.crashes {
            return Op::Whole(Whole::Reopen);
        }
        let loss = match self.rng.u32(..3) {
            0 => Loss::None,
            1 => Loss::All,
            _ => Loss::Random(u64::from(self.rng.u32(..))),
        };
        // In half of them in the middle of an operation.
        let back = match self.rng.bool() {
            true => self.rng.usize(1..60),
            false => 0,
        };
        Op::Crash { loss, back }
    }

    /// A commit of so many writes that a read does not apply them, and reads at once: they wait for
    /// the thread that applies, or ask the engine. The scans cross all ranges and gaps.
    fn burst(&mut self, ops: &mut Vec<Op>) {
        let (id, kind) = (self.new_id(), Kind::Optimistic);
        ops.push(Op::Begin { id, kind });
        for _ in 0..BURST {
            let value = Value {
                seed: u64::from(self.rng.u32(..)),
                len: self.rng.usize(60..200),
            };
            let change = match self.rng.u32(..8) {
                0 => Change::Delete,
                _ => Change::Put(value),
            };
            let key = self.key();
            ops.push(Op::Change { id, key, change });
        }
        let read = self.key();
        ops.push(Op::On {
            verb: Verb::Commit,
            id,
        });
        ops.push(Op::Get {
            key: read,
            at: At::Present,
        });
        for reverse in [false, true] {
            ops.push(Op::Scan {
                range: Range::default(),
                at: At::Present,
                reverse,
                first: None,
            });
        }
        self.ended.push(id);
    }

    /// Changes the ranges held in memory.
    fn cache_op(&mut self) -> Option<Op> {
        Some(match self.rng.u32(..100) {
            0..8 => {
                let id = (self.rng.u32(..4) > 0).then(|| self.new_id());
                self.loads.extend(id);
                Op::Load {
                    id,
                    range: self.range(),
                    pinned: self.rng.u32(..8) == 0,
                }
            }
            8..82 if self.loads.is_empty() => return None,
            8..82 => Op::LoadStep {
                id: self.loads[self
                    .rng
                    .usize(self.loads.len().saturating_sub(3)..self.loads.len())],
                n: self.rng.u32(1..4),
            },
            82..88 => Op::Whole(Whole::Maintain),
            // A slow scan goes on while ranges come and go.
            88..92 => self.iterate(),
            92..96 => Op::Evict {
                range: self.range(),
            },
            96 => Op::On {
                verb: Verb::DropLoad,
                id: self.loads.pop()?,
            },
            97 => {
                let cache = self.of.cache.filter(|cache| cache.limit_changes)?;
                let most = cache.memory_limit;
                let limits = [0, 1_000, 30_000, most / 4, most, most];
                Op::Limit {
                    bytes: limits[self.rng.usize(..limits.len())],
                }
            }
            _ if self.rng.u32(..10) == 0 => Op::Whole(Whole::Audit),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use titan_testkit::ops::{Operation, Ops};

    use super::*;
    use crate::case::Judge;

    #[test]
    fn what_is_drawn_is_legal_and_read_back() {
        for configuration in Configuration::all() {
            let ops = Generator::new(configuration, 3).list(3_000);
            assert!(Op::legal(&ops) == ops, "{}", configuration.name);
            let ops = Ops(ops);
            assert!(ops.to_string().parse::<Ops<Op>>().unwrap() == ops);
        }
    }
}
