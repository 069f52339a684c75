//! Reduces a failing list of operations.

use super::Ops;

/// A smaller list that still fails, without ever smaller pieces of it. `fails` must be
/// deterministic; it is called about `n log n` times.
pub fn reduced(ops: Ops, mut fails: impl FnMut(&Ops) -> bool) -> Ops {
    let mut ops = ops.0;
    let mut piece = ops.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < ops.len() {
            let end = (at + piece).min(ops.len());
            let rest = Ops([&ops[..at], &ops[end..]].concat());
            if fails(&rest) {
                ops = rest.0;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    Ops(ops)
}
