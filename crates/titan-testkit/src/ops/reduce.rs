//! Reduces a failing list of operations.

use super::legal::legal;
use super::{Durability, Op, Write};

/// A smaller list that still fails, by delta debugging: removes ever smaller pieces, then writes
/// out of batches, then shortens values and drops `sync`. Only legal lists are tried; `fails` must
/// be deterministic.
///
/// Calls `fails` about `n log n` times for lists of `n` operations of which few matter.
pub fn reduce(ops: Vec<Op>, fails: impl FnMut(&[Op]) -> bool) -> Vec<Op> {
    reduce_list(ops, legal, simpler, fails)
}

/// The same for operations of any language. `legal` makes a list one that may be tried: it removes
/// what depended on removed operations. `simpler` gives strictly simpler forms of an operation, the
/// simplest first.
pub fn reduce_list<T: Clone + PartialEq>(
    list: Vec<T>,
    legal: impl Fn(&[T]) -> Vec<T>,
    simpler: impl Fn(&T) -> Vec<T>,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut list = list;
    loop {
        let before = list.clone();
        list = remove_pieces(list, &legal, &mut fails);
        list = simplify(list, &legal, &simpler, &mut fails);
        if list == before {
            return list;
        }
    }
}

fn remove_pieces<T: Clone>(
    mut list: Vec<T>,
    legal: impl Fn(&[T]) -> Vec<T>,
    fails: &mut impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut piece = list.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < list.len() {
            let end = (at + piece).min(list.len());
            let rest = legal(&[&list[..at], &list[end..]].concat());
            if fails(&rest) {
                // Making the rest legal may have removed more, so `at` may be the end now.
                list = rest;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    list
}

fn simplify<T: Clone + PartialEq>(
    mut list: Vec<T>,
    legal: impl Fn(&[T]) -> Vec<T>,
    simpler: impl Fn(&T) -> Vec<T>,
    fails: &mut impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut at = 0;
    while at < list.len() {
        let simpler = simpler(&list[at]).into_iter().find_map(|op| {
            let mut tried = list.clone();
            tried[at] = op;
            let tried = legal(&tried);
            (tried != list && fails(&tried)).then_some(tried)
        });
        match simpler {
            Some(simpler) => list = simpler,
            None => at += 1,
        }
    }
    list
}

/// Operations that do less, each strictly simpler than `op`, so that simplifying ends.
fn simpler(op: &Op) -> Vec<Op> {
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
    use crate::ops::{Generator, Ops};

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
