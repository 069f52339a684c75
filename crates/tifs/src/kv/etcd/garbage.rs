//! Objects that nothing names: those of replaced and deleted blocks, those of commits that did not
//! happen, and those that an earlier mount left. They wait until nothing reads them.

use object_store::path::Path;
use parking_lot::Mutex;

/// Objects to delete, and the revisions before which they may still be read.
#[derive(Default)]
pub(super) struct Garbage(Mutex<Vec<(i64, Path)>>);

impl Garbage {
    /// Adds objects that nothing names since a revision.
    pub(super) fn add(&self, since: i64, paths: impl IntoIterator<Item = Path>) {
        let paths = paths.into_iter().map(|path| (since, path));
        self.0.lock().extend(paths);
    }

    /// Takes at most so many that nothing at or after a revision names.
    pub(super) fn take(&self, revision: i64, at_most: usize) -> Vec<(i64, Path)> {
        let mut all = self.0.lock();
        let mut taken = Vec::new();
        all.retain(|object| {
            let stays = object.0 > revision || taken.len() == at_most;
            if !stays {
                taken.push(object.clone());
            }
            stays
        });
        taken
    }

    /// Puts back what could not be deleted.
    pub(super) fn give_back(&self, objects: Vec<(i64, Path)>) {
        self.0.lock().extend(objects);
    }
}
