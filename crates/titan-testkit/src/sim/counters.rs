//! Counts calls and bytes by kind of operation and path.

use std::collections::BTreeMap;

use super::op::{Call, OpKind};

#[derive(Default)]
pub(super) struct Counters(BTreeMap<OpKind, BTreeMap<String, Count>>);

#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) calls: u64,
    pub(super) bytes: u64,
}

impl Counters {
    /// Counts an operation that succeeded and moved `bytes`.
    pub(super) fn add(&mut self, call: &Call<'_>, bytes: usize) {
        let by_path = self.0.entry(call.kind).or_default();
        let path = call.path.to_string_lossy();
        // Looked up first: the path is new only once, and `entry` would require an owned
        // path.
        if !by_path.contains_key(&*path) {
            by_path.insert(path.clone().into_owned(), Count::default());
        }
        if let Some(count) = by_path.get_mut(&*path) {
            count.calls += 1;
            count.bytes += bytes as u64;
        }
    }

    /// The sum over the paths ending in `suffix`.
    pub(super) fn sum(&self, kind: OpKind, suffix: &str) -> Count {
        let all = self.0.get(&kind).into_iter().flatten();
        all.filter(|(path, _)| path.ends_with(suffix))
            .fold(Count::default(), |sum, (_, count)| Count {
                calls: sum.calls + count.calls,
                bytes: sum.bytes + count.bytes,
            })
    }
}
