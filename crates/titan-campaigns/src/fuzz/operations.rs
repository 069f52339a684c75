//! Compares operations with the model, then crashes.

use titan_testkit::model::DEFAULT;
use titan_testkit::ops::{Durability, Op, Value, Write, legal};
use titan_testkit::sim::Loss;

use super::input::Input;
use crate::crash::{Cut, Policy, crash_once};
use crate::regression::Regression;
use crate::settings::{COMPRESSIONS, Settings};

/// The maximum number of operations in a list.
const MOST: usize = 40;
const KEYS: u8 = 12;
const LENGTHS: [usize; 8] = [0, 1, 30, 99, 100, 300, 1000, 5000];
const FAMILIES: [&str; 4] = [DEFAULT, DEFAULT, "cf1", "cf2"];

/// Performs the operations encoded in the bytes on a database and on the model; then stops the
/// process or the machine at one of the file operations, checks the files that are left, and
/// continues with them.
///
/// # Panics
/// If a read differs from the model, an operation fails, or the crash violates a promise. The
/// message ends with the text that `cargo xtask crash --replay` reads.
#[expect(clippy::panic, reason = "it is how a property fails")]
pub fn operations(data: &[u8]) {
    let plan = Plan::read(&mut Input::new(data));
    let regression = plan.regression();
    let policy = Policy::Lose(plan.loss);
    if let Err(failure) = crash_once(&regression.workload(), plan.crash_at, policy) {
        panic!("{failure}\n{regression}");
    }
}

/// The decoded input.
struct Plan {
    settings: Settings,
    /// Where in the journal the machine stops, of 65536.
    crash_at: usize,
    loss: Loss,
    ops: Vec<Op>,
}

impl Plan {
    fn read(input: &mut Input<'_>) -> Plan {
        let settings = settings(input.byte());
        let crash_at = input.below(1 << 16);
        let loss = match input.byte() {
            0..0x40 => Loss::None,
            0x40..0x80 => Loss::All,
            seed => Loss::Random(seed.into()),
        };
        let mut ops = Vec::new();
        while !input.is_empty() && ops.len() < MOST {
            ops.push(op(input));
        }
        Plan {
            settings,
            crash_at,
            loss,
            ops: legal(&ops),
        }
    }

    fn regression(&self) -> Regression<Cut> {
        Regression {
            settings: self.settings,
            trials: vec![Cut {
                point: None,
                policy: Policy::Lose(self.loss),
            }],
            ops: self.ops.clone(),
        }
    }
}

/// Settings under which equal bytes cause equal runs: no concurrent background jobs.
fn settings(bits: u8) -> Settings {
    let two = |from: u32| usize::from(bits >> from) % 4;
    let usual = Settings {
        jobs: 1,
        min_blob: [None, Some(1), Some(100), Some(1000)][two(0)],
        compression: COMPRESSIONS[two(2)].1,
        levels: [7, 2][two(4) % 2],
        table: [1 << 10, 4 << 10][two(5) % 2],
        settled: true,
        ..Settings::default()
    };
    let odd = two(6);
    Settings {
        toggles: odd == 1,
        cold: odd == 2,
        unlogged: odd == 3,
        ..usual
    }
}

/// One operation.
fn op(input: &mut Input<'_>) -> Op {
    let code = input.byte();
    let family = FAMILIES[usize::from(code >> 4) % 4].to_owned();
    let sync = code >= 0x80;
    let durability = match sync {
        true => Durability::Synced,
        false => Durability::Logged,
    };
    let bound = |input: &mut Input<'_>| input.byte().checked_sub(0x40).map(key);
    match code % 16 {
        0..=6 => {
            let writes = vec![write(code % 16, &family, input)];
            Op::Write { writes, durability }
        }
        7 => {
            let n = 1 + input.byte() % 5;
            let one = |_| {
                let kind = input.byte();
                write(kind % 8, FAMILIES[usize::from(kind >> 4) % 4], input)
            };
            let writes = (0..n).map(one).collect();
            Op::Write { writes, durability }
        }
        8 => Op::Get {
            family,
            key: key(input.byte()),
            at: snapshot(input),
        },
        9 => Op::Scan {
            family,
            from: bound(input),
            to: bound(input),
            reverse: sync,
            at: snapshot(input),
        },
        10 => Op::Snapshot {
            id: u32::from(input.byte() % 4),
        },
        11 => Op::DropSnapshot {
            id: u32::from(input.byte() % 4),
        },
        12 => Op::Flush { family },
        13 => Op::Compact {
            family,
            from: None,
            to: None,
            bottommost: sync,
        },
        14 => Op::Reopen,
        _ if sync => Op::DropCf { family },
        _ => Op::CreateCf { family },
    }
}

fn write(kind: u8, family: &str, input: &mut Input<'_>) -> Write {
    let family = family.to_owned();
    let key = key(input.byte());
    match kind {
        4 => Write::Delete { family, key },
        5 => Write::SingleDelete { family, key },
        6 => {
            let other = self::key(input.byte());
            Write::DeleteRange {
                family,
                from: key.clone().min(other.clone()),
                to: key.max(other),
            }
        }
        _ => {
            let byte = input.byte();
            let value = Value {
                seed: u64::from(byte >> 3),
                len: LENGTHS[usize::from(byte % 8)],
            };
            Write::Put { family, key, value }
        }
    }
}

fn key(n: u8) -> Vec<u8> {
    format!("k{:02}", n % KEYS).into_bytes()
}

fn snapshot(input: &mut Input<'_>) -> Option<u32> {
    let n = input.byte();
    (n >= 0x80).then(|| u32::from(n % 4))
}
