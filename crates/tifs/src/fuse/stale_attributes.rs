//! Inodes whose attributes in the kernel may be stale.
//!
//! The kernel believes attributes until it changes an inode itself. In two cases that is wrong:
//!
//! - It cannot foresee the space of a file (`st_blocks`) when it writes its cache. It asks again
//!   after a program closed the file, but files may stay open.
//! - It forgets the attributes of a directory after each change of its entries. But if another
//!   program asked for them just before the change, the answer may arrive after it, and the kernel
//!   keeps it.
//!
//! So we notify the kernel, which then asks when it needs the attributes. That costs a request: it
//! is notified at once only if a program syncs a file, otherwise up to a second later. By then
//! answers from before a change have arrived.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

use super::kernel_cache::KernelCache;
use crate::schema::InodeNumber;

/// The time for gathering changes, and then from the last of them to the notification.
const DELAY: Duration = Duration::from_millis(500);

/// The inodes, and the way to the thread that tells the kernel, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct StaleAttributes {
    inodes: Arc<Mutex<HashSet<InodeNumber>>>,
    first: Sender<()>,
    kernel_cache: KernelCache,
}

impl StaleAttributes {
    /// # Errors
    /// Those of starting a thread.
    pub(super) fn start(kernel_cache: &KernelCache) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let stale = StaleAttributes {
            inodes: Arc::default(),
            first: sender,
            kernel_cache: kernel_cache.clone(),
        };
        let (inodes, kernel_cache) = (Arc::clone(&stale.inodes), kernel_cache.clone());
        std::thread::Builder::new()
            .name("tifs-attributes".to_owned())
            .spawn(move || tell(&receiver, &inodes, &kernel_cache))?;
        Ok(stale)
    }

    /// Notes that a write of the kernel's cache changed the space of a file, or that the entries of
    /// a directory changed. Cost: a lock and an entry of a set in memory.
    pub(super) fn changed(&self, inode: InodeNumber) {
        let mut inodes = self.inodes.lock();
        if inodes.insert(inode) && inodes.len() == 1 {
            // If the thread is gone, so is the mount.
            let _ = self.first.send(());
        }
    }

    /// Notes that a program synced a file.
    pub(super) fn synced(&self, file: InodeNumber) {
        if self.inodes.lock().remove(&file) {
            self.kernel_cache.forget_attributes(file);
        }
    }
}

fn tell(first: &Receiver<()>, inodes: &Mutex<HashSet<InodeNumber>>, kernel_cache: &KernelCache) {
    while first.recv().is_ok() {
        std::thread::sleep(DELAY);
        let stale = std::mem::take(&mut *inodes.lock());
        // ORDER: the pause is between the last of these changes and telling the kernel, so that an
        // answer from before a change does not arrive later. Later changes are told the next time.
        std::thread::sleep(DELAY);
        for inode in stale {
            kernel_cache.forget_attributes(inode);
        }
    }
}
