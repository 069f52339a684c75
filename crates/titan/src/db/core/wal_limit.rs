//! Whether WAL files together are too large, in a form that each commit can read without the state
//! lock, however many families there are.

use super::state::{FamilyState, State};
use crate::format::total;
use crate::options::DbOptions;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The most bytes of WAL files that a database with several families keeps.
fn limit_of(state: &State, options: &DbOptions) -> u64 {
    match options.max_total_wal_size {
        // However many families there are: most of them may be idle.
        0 => {
            let families = state.families.values();
            let buffers = families.map(|f| f.family.options().write_buffer_size);
            buffers.max().unwrap_or(0).saturating_mul(4)
        }
        limit => limit,
    }
}

/// About how many bytes WAL files may take.
pub(crate) fn wal_bound(state: &State, options: &DbOptions) -> u64 {
    let memtables = |family: &FamilyState| {
        let options = family.family.options();
        let most = options.max_write_buffer_number as u64;
        options.write_buffer_size.saturating_mul(most)
    };
    match state.families.len() {
        1 => total(state.families.values().map(memtables)),
        _ => limit_of(state, options),
    }
}

/// Bytes of closed WAL files and the limit for all. Set under the state lock; read by the leader of
/// the commit queue.
#[derive(Default)]
pub(crate) struct WalLimit {
    limit: AtomicU64,
    closed: AtomicU64,
    /// The number of the oldest closed file; 0 if there is none.
    oldest: AtomicU64,
    /// The oldest file when the limit was last exceeded.
    answered: AtomicU64,
}

impl WalLimit {
    /// To be called after WAL files or families have changed. Cost: O(families).
    pub(crate) fn set(&self, state: &State, options: &DbOptions) {
        let limit = match state.families.len() {
            // A single family flushes the memtables that it fills.
            1 => u64::MAX,
            _ => limit_of(state, options),
        };
        let closed = || state.wals.iter().take(state.wals.len().saturating_sub(1));
        invariant!(
            state.wals.iter().is_sorted_by_key(|wal| wal.number),
            "WAL files are out of order"
        );
        let oldest = closed().next().map_or(0, |wal| wal.number.0);
        self.limit.store(limit, Ordering::Relaxed);
        let bytes = closed().map(|wal| wal.size).sum();
        self.closed.store(bytes, Ordering::Relaxed);
        self.oldest.store(oldest, Ordering::Relaxed);
    }

    /// Whether something must be flushed so that the oldest file can be deleted; says so once per
    /// file. Only where an idle family could keep files alive.
    pub(crate) fn is_exceeded(&self, current: u64) -> bool {
        let oldest = self.oldest.load(Ordering::Relaxed);
        let closed = self.closed.load(Ordering::Relaxed);
        let exceeded = closed.saturating_add(current) > self.limit.load(Ordering::Relaxed);
        oldest > 0 && exceeded && self.answered.swap(oldest, Ordering::Relaxed) != oldest
    }
}
