//! Files that take other space than the kernel knows.
//!
//! The kernel takes what it knows of a file to be true while it writes its cache, but it cannot foresee
//! how much space the file takes then (`st_blocks`). It asks again after a program closed the file. For
//! files that stay open it must be told, and then asks for all attributes: that costs a request, so it is
//! told at once only if a program syncs the file, and otherwise a second later.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

use super::kernel_cache::KernelCache;
use crate::schema::InodeNumber;

const DELAY: Duration = Duration::from_secs(1);

/// The files, and the way to the thread that tells the kernel, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct StaleBlocks {
    files: Arc<Mutex<HashSet<InodeNumber>>>,
    first: Sender<()>,
    kernel_cache: KernelCache,
}

impl StaleBlocks {
    /// # Errors
    /// Those of starting a thread.
    pub(super) fn start(kernel_cache: &KernelCache) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let stale = StaleBlocks {
            files: Arc::default(),
            first: sender,
            kernel_cache: kernel_cache.clone(),
        };
        let (files, kernel_cache) = (Arc::clone(&stale.files), kernel_cache.clone());
        std::thread::Builder::new()
            .name("tifs-blocks".to_owned())
            .spawn(move || tell(&receiver, &files, &kernel_cache))?;
        Ok(stale)
    }

    /// A write of the kernel's cache changed how much space a file takes.
    pub(super) fn changed(&self, inode: InodeNumber) {
        let mut files = self.files.lock();
        if files.insert(inode) && files.len() == 1 {
            // If the thread is gone, so is the mount.
            let _ = self.first.send(());
        }
    }

    /// A program synced a file.
    pub(super) fn synced(&self, inode: InodeNumber) {
        if self.files.lock().remove(&inode) {
            self.kernel_cache.forget_attributes(inode);
        }
    }
}

fn tell(first: &Receiver<()>, files: &Mutex<HashSet<InodeNumber>>, kernel_cache: &KernelCache) {
    while first.recv().is_ok() {
        std::thread::sleep(DELAY);
        let stale = std::mem::take(&mut *files.lock());
        for inode in stale {
            kernel_cache.forget_attributes(inode);
        }
    }
}
