//! The files of an open database: where they are, which are open, and which can be deleted.

use std::path::PathBuf;
use std::sync::Arc;

use crate::blob::ValueFetcher;
use crate::compaction::building::job_env::JobEnv;
use crate::format::file_name::FileKind;
use crate::open_files::OpenFiles;
use crate::stats::{self, Listeners, Statistics, notify};
use crate::sync::Mutex;
use crate::version::ObsoleteFiles;
use crate::vfs::{FileLock, Vfs, in_locked};

/// The directory of an open database.
pub(crate) struct Files {
    pub(crate) dir: PathBuf,
    pub(crate) vfs: Arc<dyn Vfs>,
    /// The same, without the files that a read-only database has in memory.
    pub(crate) device: Arc<dyn Vfs>,
    /// For jobs, which write files.
    pub(crate) env: JobEnv,
    pub(crate) open: Arc<OpenFiles>,
    pub(crate) fetcher: ValueFetcher,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    /// The lock on the directory until it is released. Held while obsolete files are deleted: a
    /// thread that waits for it finds them gone, and none is deleted once the directory is another
    /// process's.
    lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl Files {
    /// The file system `vfs`, in which paths in the directory lead to the one that is locked.
    pub(crate) fn in_locked(&self, vfs: Arc<dyn Vfs>) -> Arc<dyn Vfs> {
        match &*self.lock.lock() {
            Some(lock) => in_locked(vfs, &self.dir, &**lock),
            None => vfs,
        }
    }

    /// Files in the directory of `env`, which `lock` protects.
    pub(crate) fn new(
        env: JobEnv,
        open: Arc<OpenFiles>,
        obsolete: Arc<ObsoleteFiles>,
        statistics: &Arc<Statistics>,
        lock: Box<dyn FileLock>,
    ) -> Self {
        Files {
            dir: env.dir.clone(),
            vfs: Arc::clone(&env.vfs),
            device: Arc::clone(&env.vfs),
            env,
            fetcher: ValueFetcher::new(Arc::clone(&open) as Arc<_>, Arc::clone(statistics)),
            open,
            obsolete,
            lock: Mutex::new(Some(lock)),
        }
    }

    /// Releases the directory. Nothing is deleted from now on.
    pub(crate) fn release(&self) {
        *self.lock.lock() = None;
    }

    /// Deletes obsolete files. A file becomes obsolete only after the edit that removed it is
    /// durable and the last version that named it is gone (BLOB-2). A file that cannot be deleted
    /// now is deleted at the next opening, as is every file once the database has released its
    /// directory. On return, none of the files that were obsolete before is left.
    pub(super) fn delete_obsolete(&self, statistics: &Statistics, listeners: &Listeners) {
        let lock = self.lock.lock();
        if lock.is_none() {
            return;
        }
        for file in self.obsolete.take() {
            gate!("purge: file to be deleted");
            match (self.open.delete(file), file) {
                (Ok(()), FileKind::Table(_)) => stats::add(&statistics.sst_files_deleted, 1),
                (Ok(()), FileKind::Blob(_)) => stats::add(&statistics.blob_files_deleted, 1),
                (Err(e), _) if !e.is_not_found() => {
                    notify!(listeners, deletion_failed(&e));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::db::recovery::open::open;
    use crate::{FileNumber, Options};

    /// A job may end late, when the directory may be another process's.
    #[test]
    fn nothing_is_deleted_once_the_directory_is_given_free() {
        let dir = tempfile::tempdir().unwrap();
        let core = open(dir.path(), &Options::default()).unwrap();
        let tables = [1001, 1002].map(|n| FileKind::Table(FileNumber(n)));
        for table in tables {
            std::fs::write(table.path(dir.path()), b"x").unwrap();
        }
        let there = || {
            let exists = tables.iter().filter(|t| t.path(dir.path()).exists());
            exists.copied().collect::<BTreeSet<_>>()
        };
        core.shared.files.obsolete.push(tables[0]);
        core.shared.purge();
        assert_eq!(there(), BTreeSet::from([tables[1]]));

        core.close().unwrap();
        core.shared.files.obsolete.push(tables[1]);
        core.shared.purge();
        assert_eq!(there(), BTreeSet::from([tables[1]]));
    }
}
