//! Histories of concurrent transactions, and the rules of snapshot isolation.
//!
//! Each read and each commit is written down. Then it must hold, exactly:
//!
//! - Every read found the newest committed write at its timestamp.
//! - Of two committed transactions that overlap, no two wrote or locked the same key.
//!
//! A key is a number, so is a value, and no value is written twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::failure::Checked;

/// A value, or nothing after a deletion and before the first write.
pub type Content = Option<u64>;

/// A key of a committed transaction.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The timestamp of the snapshot at which the transaction looked at the key. No other
    /// transaction has committed the key since.
    pub since: u64,
    /// The new content; `None` for a key that was only locked.
    pub content: Option<Content>,
}

/// The keys of a transaction.
pub type Changes = BTreeMap<u8, Change>;

/// Commits and reads of all clients, which share it.
#[derive(Default)]
pub struct History {
    commits: Mutex<Vec<(u64, Changes)>>,
    reads: Mutex<Vec<(u64, u8, Content)>>,
    acknowledged: AtomicU64,
    next: AtomicU64,
}

impl History {
    /// A value that was never given before.
    pub fn new_value(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Notes the content of a key at a timestamp.
    pub fn read(&self, at: u64, key: u8, found: Content) {
        self.reads.lock().push((at, key, found));
    }

    /// Notes a commit that was acknowledged.
    pub fn acknowledged(&self, commit: u64, changes: Changes) {
        self.acknowledged.fetch_max(commit, Ordering::SeqCst);
        self.committed(commit, changes);
    }

    /// Notes a commit that was found later.
    pub fn committed(&self, commit: u64, changes: Changes) {
        self.commits.lock().push((commit, changes));
    }

    /// The last acknowledged commit. A snapshot that is made now is not older.
    pub fn last_acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Compares all reads with all commits. Returns the number of commits.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Checked<usize> {
        let mut commits = self.commits.lock();
        commits.sort_by_key(|(commit, _)| *commit);
        let mut last: BTreeMap<u8, u64> = BTreeMap::new();
        let mut versions: BTreeMap<u8, Vec<(u64, Content)>> = BTreeMap::new();
        for (commit, changes) in commits.iter() {
            for (key, change) in changes {
                let before = last.insert(*key, *commit).unwrap_or(0);
                crate::ensure!(
                    before <= change.since,
                    "{key}: the commit at {commit} looked at {}, but one at {before} came between",
                    change.since
                );
                if let Some(content) = change.content {
                    versions.entry(*key).or_default().push((*commit, content));
                }
            }
        }
        for (at, key, found) in self.reads.lock().iter() {
            let all = versions.get(key).map_or(&[][..], Vec::as_slice);
            let until = all.partition_point(|(commit, _)| commit <= at);
            let newest = all[..until].last().copied();
            let expected = newest.and_then(|(_, content)| content);
            crate::ensure!(
                *found == expected,
                "{key} at {at}: {found:?} was read, {newest:?} is the newest commit"
            );
        }
        Ok(commits.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(since: u64, content: Option<Content>) -> Changes {
        Changes::from([(1, Change { since, content })])
    }

    #[test]
    fn reads_find_the_newest_commit_and_locks_change_nothing() {
        let history = History::default();
        history.acknowledged(10, change(5, Some(Some(7))));
        history.committed(12, change(11, None));
        history.committed(20, change(12, Some(None)));
        for (at, found) in [(9, None), (10, Some(7)), (19, Some(7)), (20, None)] {
            history.read(at, 1, found);
        }
        assert_eq!(history.check().unwrap(), 3);
        assert_eq!(history.last_acknowledged(), 10);
        history.read(11, 1, None);
        history.check().unwrap_err();
    }

    #[test]
    fn commits_that_overlap_are_found() {
        let history = History::default();
        history.committed(10, change(5, None));
        history.committed(12, change(9, Some(None)));
        history.check().unwrap_err();
    }
}
