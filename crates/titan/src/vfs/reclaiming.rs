//! A file system that closes files kept open for later, when the process has no file descriptor
//! left for another one.
//!
//! So files that the engine keeps open for speed never take the descriptors that it needs: for WAL
//! files, for MANIFESTs, and for the output of jobs.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::{
    Access, DeviceSpace, FileLock, PunchableFile, ReadableFile, Vfs, WritableFile, forward,
};
use crate::error::Result;

/// Closes some files that nothing uses now; returns whether there were any.
type CloseUnused = dyn Fn() -> bool + Send + Sync;

/// See the [module](self).
pub(crate) struct Reclaiming {
    inner: Arc<dyn Vfs>,
    close_unused: OnceLock<Box<CloseUnused>>,
}

impl Reclaiming {
    /// Nothing is kept open yet.
    pub(crate) fn new(inner: Arc<dyn Vfs>) -> Self {
        Reclaiming {
            inner,
            close_unused: OnceLock::new(),
        }
    }

    /// From now on calls `close_unused` where a descriptor is missing. Only the first call counts.
    pub(crate) fn reclaim_by(&self, close_unused: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.close_unused.set(Box::new(close_unused));
    }

    /// Opens something, and again after files have been closed for it.
    fn opening<T>(&self, open: impl Fn(&dyn Vfs) -> Result<T>) -> Result<T> {
        loop {
            let opened = open(&*self.inner);
            match &opened {
                // Another thread may take the descriptor, but each round closes files, so this
                // ends.
                Err(e) if e.is_out_of_descriptors() && self.reclaim() => {}
                _ => return opened,
            }
        }
    }

    fn reclaim(&self) -> bool {
        let keeps = mutant!(kept_files_take_descriptors);
        !keeps && self.close_unused.get().is_some_and(|close| close())
    }
}

impl Vfs for Reclaiming {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.opening(|vfs| vfs.create(path))
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.opening(|vfs| vfs.create_log(path))
    }

    fn create_bulk(&self, path: &Path, direct: bool) -> Result<Box<dyn WritableFile>> {
        self.opening(|vfs| vfs.create_bulk(path, direct))
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        self.opening(|vfs| vfs.open(path, access))
    }

    fn open_guarded(&self, path: &Path) -> Result<Arc<dyn ReadableFile>> {
        self.opening(|vfs| vfs.open_guarded(path))
    }

    fn open_to_punch(&self, path: &Path) -> Result<Box<dyn PunchableFile>> {
        self.opening(|vfs| vfs.open_to_punch(path))
    }

    forward! {
        self, self.inner;
        remove rename link link_count create_dir_all remove_dir size allocated_bytes exists
        canonicalize resources
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.opening(|vfs| vfs.sync_dir(dir))
    }

    fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
        self.opening(|vfs| vfs.read_dir(dir))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.opening(|vfs| vfs.sync_file(path))
    }

    fn sync_closed(&self, path: &Path) -> Result<()> {
        self.opening(|vfs| vfs.sync_closed(path))
    }

    fn device_space(&self, dir: &Path) -> Result<Option<DeviceSpace>> {
        self.opening(|vfs| vfs.device_space(dir))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.opening(|vfs| vfs.lock(path))
    }

    fn lock_shared(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.opening(|vfs| vfs.lock_shared(path))
    }

    fn lock_directory(&self, dir: &Path) -> Result<Box<dyn FileLock>> {
        self.opening(|vfs| vfs.lock_directory(dir))
    }
}
