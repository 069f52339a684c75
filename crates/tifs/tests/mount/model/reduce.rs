//! Reduces a failing list of operations.

use super::op::Step;
use super::pair::Difference;

/// A smaller list that still fails, and how: cuts the list after the failure, then removes ever
/// smaller pieces. `run` is called about `n log n` times if few of `n` operations matter.
pub fn reduce(
    mut steps: Vec<Step>,
    mut difference: Difference,
    mut run: impl FnMut(&[Step]) -> Option<Difference>,
) -> (Vec<Step>, Difference) {
    steps.truncate(difference.at + 1);
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let mut end = steps.len();
        while end > 0 {
            let start = end.saturating_sub(piece);
            let rest = [&steps[..start], &steps[end..]].concat();
            if let Some(smaller) = run(&rest) {
                steps = rest;
                steps.truncate(smaller.at + 1);
                difference = smaller;
            }
            end = start.min(steps.len());
        }
        piece /= 2;
    }
    (steps, difference)
}
