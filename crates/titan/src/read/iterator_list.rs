//! The iterators alive, with their times of creation and their versions: for the report on space.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::SuperVersion;
use crate::sync::Mutex;
use crate::version::Version;

/// The iterators alive. The lock is taken for moments: when one is created and when it is dropped.
#[derive(Default)]
pub(crate) struct IteratorList {
    alive: Mutex<Alive>,
}

#[derive(Default)]
struct Alive {
    /// Places, some of which are vacant.
    iterators: Vec<Option<LiveIterator>>,
    /// The vacant places.
    vacant: Vec<usize>,
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
    /// Counts an iterator until the guard is dropped. Cost: no allocation if as many were alive
    /// before.
    pub(crate) fn enter(
        self: &Arc<Self>,
        super_version: &SuperVersion,
        since: Duration,
    ) -> ListedIterator {
        let iterator = LiveIterator {
            since,
            version: Arc::downgrade(&super_version.version),
        };
        let mut alive = self.alive.lock();
        let place = alive.vacant.pop().unwrap_or(alive.iterators.len());
        if place == alive.iterators.len() {
            alive.iterators.push(None);
        }
        let before = alive.iterators[place].replace(iterator);
        invariant!(before.is_none(), "two iterators have the place {place}");
        ListedIterator {
            place,
            list: Arc::clone(self),
        }
    }

    /// The iterators alive, the oldest first.
    pub(crate) fn alive(&self) -> Vec<LiveIterator> {
        let mut iterators: Vec<LiveIterator> = {
            let alive = self.alive.lock();
            alive.iterators.iter().flatten().cloned().collect()
        };
        iterators.sort_by_key(|iterator| iterator.since);
        iterators
    }
}

/// An iterator's entry in the list, until dropped.
pub(crate) struct ListedIterator {
    place: usize,
    list: Arc<IteratorList>,
}

impl Drop for ListedIterator {
    fn drop(&mut self) {
        let mut alive = self.list.alive.lock();
        let removed = alive.iterators.get_mut(self.place).and_then(Option::take);
        alive.vacant.push(self.place);
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
        let d = enter(4);
        assert_eq!(
            since(),
            [1, 3, 4],
            "it has the place of the one that is gone"
        );
        drop((a, c));
        assert_eq!(since(), [4]);
        drop(d);
        assert!(since().is_empty());
    }
}
