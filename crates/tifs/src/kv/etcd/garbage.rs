//! Objects that nothing names: those of replaced and deleted blocks, those of commits that did not
//! happen, and those that an earlier mount left. They wait until nothing reads them.

use std::collections::BTreeMap;

use object_store::path::Path;
use parking_lot::Mutex;

/// Objects to delete, by the revisions before which they may still be read.
#[derive(Default)]
pub(super) struct Garbage(Mutex<BTreeMap<i64, Vec<Path>>>);

impl Garbage {
    /// Adds objects that nothing names since a revision.
    pub(super) fn add(&self, since: i64, paths: impl IntoIterator<Item = Path>) {
        let mut paths = paths.into_iter().peekable();
        if paths.peek().is_some() {
            self.0.lock().entry(since).or_default().extend(paths);
        }
    }

    /// Takes at most so many that nothing at or after a revision names.
    pub(super) fn take(&self, revision: i64, at_most: usize) -> Vec<(i64, Path)> {
        let mut all = self.0.lock();
        let mut taken = Vec::new();
        while taken.len() < at_most
            && let Some(mut first) = all.first_entry().filter(|first| *first.key() <= revision)
        {
            let since = *first.key();
            match first.get_mut().pop() {
                Some(path) => taken.push((since, path)),
                None => drop(first.remove()),
            }
        }
        taken
    }

    /// Puts back the objects that could not be deleted.
    pub(super) fn give_back(&self, objects: Vec<(i64, Path)>) {
        for (since, path) in objects {
            self.add(since, [path]);
        }
    }
}
