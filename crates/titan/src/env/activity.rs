//! Reads and writes by users of all databases of an `Env`: jobs of one yield to reads of all, and
//! each is idle later while users write to another.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::format::OpeningId;
use crate::stats::Statistics;
use crate::sync::Mutex;

/// See the module.
#[derive(Default)]
pub(crate) struct Activity(Mutex<Databases>);

#[derive(Default)]
struct Databases {
    open: BTreeMap<OpeningId, Arc<Statistics>>,
    /// The sums of those that are closed, so that closing one is no activity.
    closed_reads: u64,
    closed_writes: u64,
}

impl Activity {
    /// A database is open.
    pub(super) fn add(&self, id: OpeningId, statistics: &Arc<Statistics>) {
        self.0.lock().open.insert(id, Arc::clone(statistics));
    }

    /// It is closed.
    pub(super) fn remove(&self, id: OpeningId) {
        let databases = &mut *self.0.lock();
        if let Some(closed) = databases.open.remove(&id) {
            databases.closed_reads = databases.closed_reads.wrapping_add(closed.reads());
            databases.closed_writes = databases.closed_writes.wrapping_add(closed.writes());
        }
    }

    /// Changes with every write. Cost: visits each database.
    pub(crate) fn writes(&self) -> u64 {
        let databases = self.0.lock();
        sum(&databases, databases.closed_writes, Statistics::writes)
    }

    /// Changes with everything that users read. Cost: visits each database.
    pub(crate) fn reads(&self) -> u64 {
        let databases = self.0.lock();
        sum(&databases, databases.closed_reads, Statistics::reads)
    }

    /// Changes with everything that users do. Cost: visits each database.
    pub(crate) fn all(&self) -> u64 {
        self.reads().wrapping_add(self.writes())
    }
}

fn sum(databases: &Databases, closed: u64, of: fn(&Statistics) -> u64) -> u64 {
    let open = databases.open.values();
    open.map(|statistics| of(statistics))
        .fold(closed, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::add;

    #[test]
    fn closing_a_database_is_no_activity_of_users() {
        let activity = Activity::default();
        let [one, other] = [1, 2].map(|_| Arc::new(Statistics::default()));
        let ids = [(); 2].map(|()| OpeningId::new());
        activity.add(ids[0], &one);
        activity.add(ids[1], &other);
        add(&one.keys_written, 3);
        add(&one.gets, 2);
        add(&other.keys_written, 1);
        assert_eq!((activity.reads(), activity.writes()), (2, 4));
        activity.remove(ids[0]);
        assert_eq!((activity.reads(), activity.writes()), (2, 4));
        add(&other.gets, 1);
        assert_eq!(activity.all(), 7);
    }
}
