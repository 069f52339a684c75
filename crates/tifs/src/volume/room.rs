//! Room on the device below the store, and stopping before it is full.
//!
//! A store on a full device can neither delete nor move what it has in its log, and cannot be opened
//! again. So what makes a volume larger fails early, with `ENOSPC`: when the device could not take what
//! the store has to move from its log, and the new data twice, to the log and to its place. A part of
//! the device is kept besides, for deleting and for the store's own work.
//!
//! If the device becomes full nevertheless, by other programs, the store stops, and goes on by itself
//! when there is room again.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::{HostSpace, Volume};
use crate::error::Result;

/// The device is asked again after so many bytes.
const ASK_EACH: u64 = 16 << 20;

/// What an operation may write besides its data: keys, attributes, the log's frames.
const OVERHEAD: u64 = 4 << 10;

/// The most that is kept for deleting and for the work of the store.
const KEPT: u64 = 128 << 20;

impl HostSpace {
    /// Bytes that are kept for deleting and for the work of the store: a sixteenth of the device, or
    /// less.
    pub(super) fn kept(&self) -> u64 {
        (self.total / 16).min(KEPT)
    }

    /// Bytes that files may still take.
    pub(super) fn for_files(&self) -> u64 {
        self.available.saturating_sub(self.kept())
    }
}

/// What was found and not yet used.
#[derive(Debug, Default)]
pub(super) struct Room {
    bytes: AtomicU64,
}

impl Room {
    fn take(&self, bytes: u64) -> bool {
        let rest = |found: u64| found.checked_sub(bytes);
        let relaxed = Ordering::Relaxed;
        self.bytes.fetch_update(relaxed, relaxed, rest).is_ok()
    }
}

impl Volume {
    /// Makes sure that the device has room for so many bytes more. Called before whatever makes the
    /// volume larger, not before what makes it smaller.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub(super) fn make_room(&self, bytes: u64) -> Result<()> {
        let bytes = bytes + OVERHEAD;
        if self.room.take(bytes) {
            return Ok(());
        }
        let host = (self.options.host_space)()?;
        let mut found = self.found(&host)?;
        if found < bytes && host.for_files() / 2 >= bytes {
            // What is in its place need not be moved any more.
            self.kv.move_log()?;
            found = self.found(&(self.options.host_space)()?)?;
        }
        let rest = found.checked_sub(bytes).ok_or(Errno::NOSPC)?;
        self.room.bytes.store(rest.min(ASK_EACH), Ordering::Relaxed);
        Ok(())
    }

    /// Bytes that may be written now.
    fn found(&self, host: &HostSpace) -> Result<u64> {
        Ok(host.for_files().saturating_sub(self.kv.unmoved()?) / 2)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use std::sync::Arc;

    use super::*;
    use crate::file_system::{Caller, FileSystem, WriteContext};
    use crate::kv::MemoryKv;
    use crate::schema::InodeNumber;
    use crate::volume::VolumeOptions;

    const CALLER: Caller = Caller { uid: 0, gid: 0 };
    const ROOT: InodeNumber = InodeNumber::ROOT;

    /// A volume on a device of 2 GiB, of which so many bytes are available.
    fn volume(available: &Arc<AtomicU64>) -> Volume {
        let asked = Arc::clone(available);
        let options = VolumeOptions {
            host_space: Arc::new(move || {
                let available = asked.load(Ordering::Relaxed);
                Ok(HostSpace {
                    total: 1 << 31,
                    free: available,
                    available,
                })
            }),
            ..VolumeOptions::default()
        };
        let kv = Arc::new(MemoryKv::new());
        Volume::make(&*kv, &options).unwrap();
        Volume::open(kv, options).unwrap()
    }

    #[test]
    fn a_full_device_takes_nothing_but_deletions() {
        let available = Arc::new(AtomicU64::new(1 << 30));
        let volume = volume(&available);
        let make = |name: &[u8]| volume.make_node(&CALLER, ROOT, name, 0o100_644, 0, 0);
        let file = make(b"f").unwrap().number;
        let write = || volume.write(file, 0, &vec![1; 1 << 20], WriteContext::default());
        write().unwrap();

        // Less than what is kept: found out once what was found before is used.
        available.store((1 << 27) - 1, Ordering::Relaxed);
        let errors: Vec<_> = (0..32).filter_map(|_| write().err()).collect();
        assert!((16..=32).contains(&errors.len()));
        assert!(errors.iter().all(|e| e.errno() == Errno::NOSPC));
        volume.room.bytes.store(0, Ordering::Relaxed);
        assert_eq!(make(b"g").unwrap_err().errno(), Errno::NOSPC);
        assert_eq!(volume.capacity().unwrap().available, 0);
        volume.unlink(ROOT, b"f").unwrap();

        available.store(1 << 30, Ordering::Relaxed);
        make(b"g").unwrap();
    }
    #[test]
    fn a_small_write_needs_room_for_the_blocks_that_it_rewrites() {
        const BLOCK: u64 = 32 << 10;
        let available = Arc::new(AtomicU64::new(1 << 30));
        let volume = volume(&available);
        let made = volume.make_node(&CALLER, ROOT, b"f", 0o100_644, 0, 0);
        let file = made.unwrap().number;
        let context = WriteContext::default();
        let blocks = 2 * ASK_EACH / BLOCK;
        for block in 0..blocks {
            let content = vec![1; BLOCK as usize];
            volume
                .write(file, block * BLOCK, &content, context)
                .unwrap();
        }
        available.store(0, Ordering::Relaxed);
        let rewrite = |block| volume.write(file, block * BLOCK, &[2; 512], context);
        let refused = (0..blocks).find_map(|block| rewrite(block).err());
        assert_eq!(refused.unwrap().errno(), Errno::NOSPC);
    }
}
