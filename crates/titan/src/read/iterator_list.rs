//! The iterators alive, with their times of creation and their versions: for the report on space.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::SuperVersion;
use crate::number_map::NumberMap;
use crate::sync::Mutex;
use crate::version::Version;

/// The iterators alive. The lock is taken for moments: when one is created and when it is dropped.
#[derive(Default)]
pub(crate) struct IteratorList {
    alive: Mutex<Alive>,
}

#[derive(Default)]
struct Alive {
    next: u64,
    /// In the order of their creation.
    iterators: NumberMap<u64, LiveIterator>,
}

/// An iterator, as others see it. The list does not keep it alive.
#[derive(Clone)]
pub(crate) struct LiveIterator {
    /// When it was created, by [`SystemClock::monotonic`](crate::SystemClock::monotonic).
    pub(crate) since: Duration,
    /// Leads to its version.
    pub(crate) version: Weak<Version>,
}

impl IteratorList {
    /// Counts an iterator until the last clone of the guard is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        super_version: &SuperVersion,
        since: Duration,
    ) -> Arc<ListedIterator> {
        let iterator = LiveIterator {
            since,
            version: Arc::downgrade(&super_version.version),
        };
        let mut alive = self.alive.lock();
        let number = alive.next;
        alive.next += 1;
        let before = alive.iterators.insert(number, iterator);
        invariant!(before.is_none(), "two iterators have the number {number}");
        Arc::new(ListedIterator {
            number,
            list: Arc::clone(self),
        })
    }

    /// The iterators alive, the oldest first.
    pub(crate) fn alive(&self) -> Vec<LiveIterator> {
        self.alive.lock().iterators.values().cloned().collect()
    }
}

/// An iterator's entry in the list, until dropped.
pub(crate) struct ListedIterator {
    number: u64,
    list: Arc<IteratorList>,
}

impl Drop for ListedIterator {
    fn drop(&mut self) {
        let removed = self.list.alive.lock().iterators.remove(&self.number);
        invariant!(
            removed.is_some() || std::thread::panicking(),
            "an iterator ends that is not in the list"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::internal_key::InternalKeyComparator;
    use crate::format::{BytewiseComparator, ColumnFamilyId};
    use crate::memtable::Memtable;

    #[test]
    fn an_iterator_is_listed_until_it_is_gone() {
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let version = Version::empty(ColumnFamilyId::DEFAULT, comparator.clone(), 7);
        let super_version = SuperVersion {
            memtable: Memtable::new(comparator, 1 << 16),
            immutables: Vec::new(),
            version: Arc::new(version),
            generation: 0,
        };
        let list = Arc::new(IteratorList::default());
        let since = || -> Vec<u64> {
            let alive = list.alive();
            alive.iter().map(|i| i.since.as_secs()).collect()
        };
        let enter = |at| list.enter(&super_version, Duration::from_secs(at));
        let (a, b, c) = (enter(1), enter(2), enter(3));
        assert_eq!(since(), [1, 2, 3]);
        drop(b);
        assert_eq!(since(), [1, 3]);
        let again = Arc::clone(&a);
        assert_eq!(since(), [1, 3]);
        drop((a, c));
        assert_eq!(since(), [1]);
        drop(again);
        assert!(since().is_empty());
    }
}
