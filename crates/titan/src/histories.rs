//! Every short history of some keys, for the tests that enumerate them. The small worlds of
//! `tests/it` include this file.

/// The list of `len` operations of `menu` with a number: its first operation is the lowest digit.
pub(crate) fn list<T: Copy>(menu: &[T], len: u32, number: usize) -> Vec<T> {
    let digit = |at| number / menu.len().pow(at) % menu.len();
    (0..len).map(|at| menu[digit(at)]).collect()
}

/// Every list of `len` operations of `menu`.
pub(crate) fn every_list<T: Copy>(menu: &[T], len: u32) -> impl Iterator<Item = Vec<T>> {
    (0..menu.len().pow(len)).map(move |number| list(menu, len, number))
}

/// An operation on keys that are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Put(usize),
    /// Puts a value that goes to a blob file.
    Separated(usize),
    Delete(usize),
    Single(usize),
    Range(usize, usize),
}

impl Op {
    /// Every operation on the first `keys` keys.
    pub(crate) fn all(keys: usize) -> Vec<Op> {
        let points = [Op::Put, Op::Separated, Op::Delete, Op::Single];
        let points = points.iter().flat_map(|op| (0..keys).map(op));
        let ranges =
            (0..keys).flat_map(|from| (from + 1..=keys).map(move |to| Op::Range(from, to)));
        points.chain(ranges).collect()
    }

    /// Its key, unless it is a range deletion.
    pub(crate) fn key(self) -> Option<usize> {
        match self {
            Op::Put(key) | Op::Separated(key) | Op::Delete(key) | Op::Single(key) => Some(key),
            Op::Range(..) => None,
        }
    }

    pub(crate) fn concerns(self, at: usize) -> bool {
        match self {
            Op::Range(from, to) => (from..to).contains(&at),
            _ => self.key() == Some(at),
        }
    }

    fn is_value(self) -> bool {
        matches!(self, Op::Put(_) | Op::Separated(_))
    }
}

/// Whether each single deletion deletes a value that was put once, and no key with single deletions
/// is deleted otherwise.
pub(crate) fn is_legal(history: &[Op], keys: usize) -> bool {
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
