//! Reduces a failing list of operations.

use super::{Durability, Op, Operation, Write};

/// A smaller list that still fails, by delta debugging: removes ever smaller pieces, then puts
/// [simpler](Operation::simpler) operations in place of others. Only legal lists are tried; `fails`
/// must be deterministic.
///
/// Calls `fails` about `n log n` times for lists of `n` operations of which few matter.
pub fn reduce<O: Operation>(ops: Vec<O>, mut fails: impl FnMut(&[O]) -> bool) -> Vec<O> {
    let mut ops = ops;
    loop {
        let before = ops.clone();
        ops = remove_pieces(ops, &mut fails);
        ops = simplify(ops, &mut fails);
        if ops == before {
            return ops;
        }
    }
}

fn remove_pieces<O: Operation>(mut ops: Vec<O>, fails: &mut impl FnMut(&[O]) -> bool) -> Vec<O> {
    let mut piece = ops.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < ops.len() {
            let end = (at + piece).min(ops.len());
            let rest = O::legal(&[&ops[..at], &ops[end..]].concat());
            if fails(&rest) {
                // Making the rest legal may have removed more, so `at` may be the end now.
                ops = rest;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    ops
}

fn simplify<O: Operation>(mut ops: Vec<O>, fails: &mut impl FnMut(&[O]) -> bool) -> Vec<O> {
    let mut at = 0;
    while at < ops.len() {
        let simpler = ops[at].simpler().into_iter().find_map(|op| {
            let mut list = ops.clone();
            list[at] = op;
            let list = O::legal(&list);
            (list != ops && fails(&list)).then_some(list)
        });
        match simpler {
            Some(list) => ops = list,
            None => at += 1,
        }
    }
    ops
}

/// Takes writes out of batches, shortens values and drops `sync`.
pub(super) fn simpler(op: &Op) -> Vec<Op> {
    let Op::Write { writes, durability } = op else {
        return Vec::new();
    };
    let write = |writes, durability| Op::Write { writes, durability };
    let mut found = Vec::new();
    if *durability == Durability::Synced {
        found.push(write(writes.clone(), Durability::Logged));
    }
    for i in 0..writes.len() {
        if writes.len() > 1 {
            let mut fewer = writes.clone();
            fewer.remove(i);
            found.push(write(fewer, *durability));
        }
        if let Write::Put { value, .. } | Write::Merge { value, .. } = &writes[i] {
            for len in [0, 1, value.len / 2, value.len.saturating_sub(1)] {
                let mut shorter = writes.clone();
                if let Write::Put { value, .. } | Write::Merge { value, .. } = &mut shorter[i]
                    && len < value.len
                {
                    value.len = len;
                    found.push(write(shorter, *durability));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Generator, Ops, legal};

    /// Simulates an engine that fails on a value of at least 4096 bytes flushed after a reopening.
    fn fails(ops: &[Op]) -> bool {
        let reopened = ops.iter().position(|op| *op == Op::Reopen);
        let large = |op: &Op| match op {
            Op::Write { writes, .. } => writes
                .iter()
                .any(|write| matches!(write, Write::Put { value, .. } if value.len >= 4096)),
            _ => false,
        };
        let Some(reopened) = reopened else {
            return false;
        };
        let Some(put) = ops.iter().skip(reopened).position(large) else {
            return false;
        };
        ops.iter()
            .skip(reopened + put)
            .any(|op| matches!(op, Op::Flush { .. }))
    }

    #[test]
    fn little_more_than_the_cause_is_left() {
        for seed in 0..5 {
            let ops = Generator::with_seed(seed).ops(1500).0;
            assert!(fails(&ops), "seed {seed}");
            let mut asked = 0;
            let small = reduce(ops, |ops| {
                asked += 1;
                assert!(legal(ops) == ops, "seed {seed}: an illegal list was tried");
                fails(ops)
            });
            let text = Ops(small.clone()).to_string();
            let verbs: Vec<&str> = text.lines().filter_map(|l| l.split(' ').next()).collect();
            let without_family: Vec<&&str> = verbs.iter().filter(|v| **v != "create-cf").collect();
            assert_eq!(
                without_family,
                [&"reopen", &"put", &"flush"],
                "seed {seed}:\n{text}"
            );
            assert!(
                text.contains("*4096"),
                "seed {seed}: the value is as short as it can be"
            );
            assert!(asked < 2000, "seed {seed}: asked {asked} times");
        }
    }
}
