//! Bytes of the files of all databases of an `Env`: together they fit in memory, or do not.

use std::collections::BTreeMap;

use crate::format::{OpeningId, total};
use crate::sync::Mutex;

/// The size that each database has stated last.
#[derive(Default)]
pub(super) struct DataSizes(Mutex<BTreeMap<OpeningId, u64>>);

impl DataSizes {
    /// A database is open, and has not stated its size yet.
    pub(super) fn add(&self, id: OpeningId) {
        self.0.lock().insert(id, 0);
    }

    /// The database has so many bytes now. Returns the sum over it and all that are open. Cost:
    /// O(databases).
    pub(super) fn set(&self, id: OpeningId, bytes: u64) -> u64 {
        let mut sizes = self.0.lock();
        // Its metrics can be asked for after it has been closed, too: then it does not count for
        // others.
        if let Some(size) = sizes.get_mut(&id) {
            *size = bytes;
        }
        let others = sizes.iter().filter(|(other, _)| **other != id);
        total(others.map(|(_, size)| *size).chain([bytes]))
    }

    /// The database is closed.
    pub(super) fn remove(&self, id: OpeningId) {
        self.0.lock().remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_of_what_each_said_last_while_it_was_open() {
        let sizes = DataSizes::default();
        let [a, b] = [(); 2].map(|()| OpeningId::new());
        sizes.add(a);
        sizes.add(b);
        assert_eq!(sizes.set(a, 5), 5);
        assert_eq!(sizes.set(b, 7), 12);
        assert_eq!(sizes.set(a, 1), 8);
        sizes.remove(b);
        assert_eq!(sizes.set(a, 2), 2);
        assert_eq!(sizes.set(b, 7), 9, "beside what is open");
        assert_eq!(sizes.set(a, 2), 2, "it is closed");
    }
}
