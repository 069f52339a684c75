//! The lists of operations with which campaigns compare databases.

use std::collections::BTreeSet;

use titan_testkit::model::DEFAULT;
use titan_testkit::ops::{Generator, Op, Ops, Weights, Write, legal};

/// The families that may exist.
const FAMILIES: [&str; 3] = [DEFAULT, "cf1", "cf2"];

/// About `n` operations of every kind, determined by `seed`. After each range deletion its
/// bounds are read; after files were rewritten, everything is read in all snapshots; and so it
/// is at the end, after a last reopening. Of 900 operations about `reopenings` close and open
/// the database.
pub fn list(seed: u64, n: usize, reopenings: u32) -> Ops {
    let mut generator = Generator::with_seed(seed);
    generator.keys = [60, 400, 150][(seed % 3) as usize];
    generator.value_sizes = vec![0, 1, 30, 99, 100, 101, 1000];
    if seed.is_multiple_of(2) {
        generator
            .value_sizes
            .extend([1, 30, 30, 100, 4095, 4096, 4097]);
    }
    if seed.is_multiple_of(16) {
        // Rarely, because they dominate the total time.
        let small = generator.value_sizes.repeat(20);
        generator.value_sizes.extend(small);
        generator
            .value_sizes
            .extend([65535, 65536, (1 << 20) - 1, 1 << 20]);
    }
    generator.weights = Weights {
        flush: 30,
        compact: 5,
        compact_some: 5,
        reopen: reopenings,
        merge: [0, 100][(seed % 2) as usize],
        ..Weights::everything()
    };
    let mut ops = Vec::with_capacity(n + n / 4);
    let mut snapshots = BTreeSet::new();
    for _ in 0..n {
        let op = generator.op();
        ops.push(op.clone());
        match &op {
            Op::Snapshot { id } => drop(snapshots.insert(*id)),
            Op::DropSnapshot { id } => drop(snapshots.remove(id)),
            Op::Write { writes, .. } => ops.extend(writes.iter().filter_map(bounds)),
            Op::Flush { family } => ops.push(everything(family, None)),
            Op::Compact { family, .. } | Op::Collect { family } => {
                let now_and_then = snapshots.iter().copied().map(Some).chain([None]);
                ops.extend(now_and_then.map(|at| everything(family, at)));
            }
            Op::Reopen => {
                snapshots.clear();
                ops.extend(FAMILIES.map(|family| everything(family, None)));
            }
            _ => {}
        }
    }
    ops.push(Op::Reopen);
    ops.extend(FAMILIES.map(|family| everything(family, None)));
    // Not all families exist, and some were created after a snapshot.
    Ops(legal(&ops))
}

/// Reads the bounds of a deleted range, where bugs are likely.
fn bounds(write: &Write) -> Option<Op> {
    let Write::DeleteRange { family, from, to } = write else {
        return None;
    };
    Some(Op::MultiGet {
        family: family.clone(),
        keys: vec![from.clone(), to.clone()],
        at: None,
    })
}

fn everything(family: &str, at: Option<u32>) -> Op {
    Op::Scan {
        family: family.to_owned(),
        from: None,
        to: None,
        reverse: false,
        at,
    }
}
