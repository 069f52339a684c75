//! Room on the device below the store, and stopping before it is full.
//!
//! A store on a full device can neither delete nor move its log, and cannot be opened again. So an
//! operation that makes a volume larger fails early, with `ENOSPC`: when the device could not take
//! the part of the log to be moved, and the new data twice, to the log and to its place. A part of
//! the device is kept besides, for deletions and the store's own work.
//!
//! Another part is kept for the kernel's cache. The kernel has accepted its data from programs
//! without asking, and would drop refused data. So only writes of the cache may use this part
//! (`docs/adr/0040-kernel-caches-and-locks.md`).
//!
//! A write that replaces data makes the volume larger only until the replaced data is freed. So it
//! may use a part of the kept room, and waits until the store has freed enough if that is used up.
//! So does an operation that cuts blocks, such as a truncation or a hole: it writes the rest of
//! them. It goes on if nothing more can be freed, as it is how users make room.
//!
//! If other programs fill the device nevertheless, the store stops, and goes on by itself when
//! there is room again.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use titan::invariant;

use crate::error::{Error, Result};
use crate::file_system::Capacity;
use crate::kv::{LogSize, Scan, Space};
use crate::schema::{InodeNumber, block_key};
use crate::volume::content::blocks::{MAX_BLOCK, blocks_of_range, written_at_most};
use crate::volume::state::found_room::take;
use crate::volume::state::options::HostSpace;
use crate::volume::state::volume::Volume;

/// Bytes that an operation may write besides its data: keys, attributes, the log's frames.
const OVERHEAD: u64 = 4 << 10;

/// The most that is kept for deletions and the store's work: eight of its largest write buffers.
const KEPT: u64 = 512 << 20;

/// The least that is kept: of twice two cut blocks, in the log and in their place.
const MIN_KEPT: u64 = 8 * MAX_BLOCK;

/// The device is asked again after so many bytes that replace others.
const ASK_EACH_REPLACING: u64 = 4 << 20;

/// The most that is kept for the kernel's cache.
const KEPT_FOR_CACHE: u64 = 128 << 20;

/// Bytes that the kernel may always have accepted and not yet written.
const MIN_DIRTY: u64 = 1 << 20;

/// The part of the device that must become writable for the log to be moved, at most, as a divisor;
/// and the bytes, at most.
const WORTH_PART: u64 = 512;
const MAX_WORTH: u64 = 4 << 20;

/// The part of the device that each of them is, at most.
const KEPT_PART: u64 = 16;

impl HostSpace {
    /// Bytes that are kept for deleting and for the work of the store.
    fn kept(&self) -> u64 {
        (self.total / KEPT_PART).clamp(MIN_KEPT, KEPT)
    }

    /// Bytes that the kernel's cache may still take, in any case.
    fn for_cache(&self) -> u64 {
        self.available.saturating_sub(self.kept())
    }

    /// Bytes that may be written in place of others, which are freed later.
    fn for_replacing(&self) -> u64 {
        self.available.saturating_sub(self.kept() / 2)
    }

    /// Bytes that only the kernel's cache may take.
    fn for_cache_alone(&self) -> u64 {
        (self.total / KEPT_PART).min(KEPT_FOR_CACHE)
    }

    /// Bytes for which the log is moved.
    fn worth_moving(&self) -> u64 {
        (self.total / WORTH_PART).min(MAX_WORTH)
    }

    /// Bytes that everything else may still take.
    fn for_files(&self) -> u64 {
        self.for_cache().saturating_sub(self.for_cache_alone())
    }
}

impl Volume {
    /// Makes sure that the device has room for so many more bytes. Called before an operation that
    /// makes the volume larger.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub(in crate::volume) fn make_room(&self, bytes: u64) -> Result<()> {
        self.locks.check_not_inherited()?;
        let bytes = bytes + OVERHEAD;
        if take(&self.room.bytes, bytes) {
            return Ok(());
        }
        let rest = self.found(HostSpace::for_files, bytes)?;
        let rest = rest.min(self.options.ask_each);
        self.room.bytes.store(rest, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes that are left of a part of the device, once so many are written.
    ///
    /// # Errors
    /// `ENOSPC`.
    fn found(&self, part: fn(&HostSpace) -> u64, bytes: u64) -> Result<u64> {
        // Room that was found before and not yet used is a part of the room found now.
        let take_back = |room: &AtomicU64| room.swap(0, Ordering::Relaxed);
        let before = [&self.room.bytes, &self.room.replacing].map(|room| (room, take_back(room)));
        let mut host = (self.options.host_space)()?;
        let mut log = self.kv.log_size()?;
        // Moving the log for a few bytes each time would move it at each change in the end.
        let worth = bytes.max(host.worth_moving());
        if writable(part(&host), log) < bytes && (part(&host) + log.files) / 2 >= worth {
            // Data that is in its place need not be moved any more. And data that is being moved
            // takes room twice.
            self.kv.move_log()?;
            host = (self.options.host_space)()?;
            log = self.kv.log_size()?;
        }
        let rest = writable(part(&host), log).checked_sub(bytes);
        invariant!(
            rest.is_none_or(|rest| rest + bytes <= host.available),
            "{bytes} bytes are given of {}",
            host.available
        );
        rest.ok_or_else(|| {
            for (room, bytes) in before {
                room.fetch_max(bytes, Ordering::Relaxed);
            }
            is_full(&host)
        })
    }

    /// The same for a write of content. Returns whether it used the room that is kept for the
    /// kernel's cache.
    ///
    /// # Errors
    /// `ENOSPC`, if not even that has room. Those of the store.
    pub(in crate::volume) fn make_room_for_write(
        &self,
        number: InodeNumber,
        range: Range<u64>,
        from_cache: bool,
    ) -> Result<bool> {
        let bytes = written_at_most(range.start, range.end);
        let full = match self.make_room(bytes) {
            Err(full) if full.errno() == Errno::NOSPC => full,
            made => return made.map(|()| false),
        };
        let refuses = mutant!(full_volume_not_overwritten);
        if !refuses && self.replaces(number, range)? {
            match self.make_room_to_replace(bytes) {
                Err(full) if full.errno() == Errno::NOSPC => {}
                made => return made.map(|()| false),
            }
        }
        if from_cache && !mutant!(cache_without_room) {
            self.found(HostSpace::for_cache, bytes + OVERHEAD)?;
            return Ok(true);
        }
        Err(full)
    }

    /// Makes room for bytes that replace others. Waits until the store has freed replaced data.
    ///
    /// # Errors
    /// `ENOSPC`, if nothing more can be freed. Those of the store.
    fn make_room_to_replace(&self, bytes: u64) -> Result<()> {
        let bytes = bytes + OVERHEAD;
        if take(&self.room.replacing, bytes) {
            return Ok(());
        }
        let _freeing = self.room.freeing.lock();
        let mut step = 0;
        loop {
            let full = match self.found(HostSpace::for_replacing, bytes) {
                Err(full) if full.errno() == Errno::NOSPC => full,
                found => {
                    let rest = found?.min(ASK_EACH_REPLACING.min(self.options.ask_each));
                    self.room.replacing.store(rest, Ordering::Relaxed);
                    return Ok(());
                }
            };
            if !self.kv.free_garbage(step)? {
                return Err(full);
            }
            step += 1;
        }
    }

    /// Makes room for the blocks at the ends of a range that is cut out of a file. Takes the room
    /// kept for deletions if there is no other.
    ///
    /// # Errors
    /// Those of the store.
    pub(in crate::volume) fn make_room_to_cut(&self, range: Range<u64>) -> Result<()> {
        let bytes = written_at_most(range.start, range.end).min(2 * MAX_BLOCK);
        if bytes == 0 {
            // No rest of a block is written.
            return Ok(());
        }
        let has_no_room = |done: &Result<()>| matches!(done, Err(e) if e.errno() == Errno::NOSPC);
        for make in [Volume::make_room, Volume::make_room_to_replace] {
            let made = make(self, bytes);
            if !has_no_room(&made) {
                return made;
            }
        }
        // Many cuts must not fill the room kept with their log.
        let kept = (self.options.host_space)()?.kept();
        if self.kv.log_size()?.unmoved < kept / 4 {
            return Ok(());
        }
        let moved = self.kv.move_log();
        if has_no_room(&moved) { Ok(()) } else { moved }
    }

    /// Whether a write to a range replaces stored data, all of it.
    fn replaces(&self, number: InodeNumber, range: Range<u64>) -> Result<bool> {
        let _lock = self.locks.shared(number);
        let inode = self.stored(number)?.inode;
        if range.end > inode.size || inode.is_inline() {
            return Ok(range.end <= inode.size);
        }
        let blocks = blocks_of_range(&inode, range.start, range.end);
        let count = (blocks.end - blocks.start) as usize;
        let scan = Scan {
            begin: block_key(number, blocks.start),
            end: block_key(number, blocks.end),
            ..Scan::prefix(Space::Data, b"").keys_only().limit(count)
        };
        Ok(self.kv.scan(&scan)?.len() == count)
    }

    /// The most bytes that the kernel may have accepted and not yet written, so that there is room
    /// for them: each byte is written twice, and a block is written whole.
    ///
    /// # Errors
    /// Those of asking the device.
    pub fn max_dirty(&self) -> Result<u64> {
        let host = (self.options.host_space)()?;
        Ok((host.for_cache_alone() / 4).max(MIN_DIRTY))
    }

    pub(in crate::volume) fn capacity(&self) -> Result<Capacity> {
        /// The assumed bytes of an inode, for the number of inodes that could be created.
        const INODE: u64 = 512;
        const BLOCK: u64 = Capacity::BLOCK_SIZE as u64;
        let (available, reserved) = self.free_space()?;
        let usage = self.usage();
        let used = usage.blocks * 512 / BLOCK;
        let free = (available + reserved) / BLOCK;
        let free_inodes = available / INODE;
        Ok(Capacity {
            blocks: used + free,
            free,
            available: available / BLOCK,
            inodes: usage.inodes + free_inodes,
            free_inodes,
        })
    }

    /// Bytes that users may still store, and bytes that only the superuser of the host could use in
    /// addition.
    pub(in crate::volume) fn free_space(&self) -> Result<(u64, u64)> {
        let host = (self.options.host_space)()?;
        let log = self.kv.log_size()?;
        // As if the log was moved.
        let taken = log.unmoved + 2 * host.worth_moving();
        let available = (host.for_files() + log.files).saturating_sub(taken);
        Ok((available, host.free.saturating_sub(host.available)))
    }
}

/// Bytes that may be written now, to the log and to their place, of so many that are free.
fn writable(free: u64, log: LogSize) -> u64 {
    if mutant!(log_takes_no_room) {
        return free / 2;
    }
    free.saturating_sub(log.unmoved) / 2
}

/// The error for data without room on the device.
fn is_full(host: &HostSpace) -> Error {
    let what = format!(
        "the volume is full: its device has {} MiB left, which are kept",
        host.available >> 20
    );
    Error::new(Errno::NOSPC, what)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use std::sync::Arc;

    use super::*;
    use crate::file_system::{Caller, WriteContext};
    use crate::kv::MemoryKv;
    use crate::schema::InodeNumber;
    use crate::volume::VolumeOptions;

    const CALLER: Caller = Caller { uid: 0, gid: 0 };
    const ROOT: InodeNumber = InodeNumber::ROOT;

    const KEPT_OF_2_GIB: u64 = 1 << 27;

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
        // Each one makes the file larger.
        let write =
            |n: u64| volume.write(file, n << 20, &vec![1; 1 << 20], WriteContext::default());
        write(0).unwrap();

        // Less than the room kept: found out once the room found before is used.
        available.store((1 << 27) - 1, Ordering::Relaxed);
        let errors: Vec<_> = (1..33).filter_map(|n| write(n).err()).collect();
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
    fn the_last_room_is_for_the_cache_of_the_kernel() {
        let available = Arc::new(AtomicU64::new(1 << 30));
        let volume = volume(&available);
        let made = volume.make_node(&CALLER, ROOT, b"f", 0o100_644, 0, 0);
        let file = made.unwrap().number;
        let size = AtomicU64::new(0);
        // Each one makes the file larger.
        let write = |from_cache| {
            let end = size.fetch_add(1 << 20, Ordering::Relaxed);
            volume.room.bytes.store(0, Ordering::Relaxed);
            let context = WriteContext {
                from_cache,
                ..WriteContext::default()
            };
            let written = volume.write(file, end, &vec![1; 1 << 20], context);
            written.map(|w| w.was_last_room).map_err(|e| e.errno())
        };
        assert_eq!((write(false), write(true)), (Ok(false), Ok(false)));
        available.store(KEPT_OF_2_GIB + KEPT_FOR_CACHE, Ordering::Relaxed);
        assert_eq!((write(false), write(true)), (Err(Errno::NOSPC), Ok(true)));
        // Enough for all that the kernel may have, twice.
        assert!(volume.max_dirty().unwrap() * 2 <= KEPT_FOR_CACHE / 2);
        available.store(KEPT_OF_2_GIB + (1 << 20), Ordering::Relaxed);
        assert_eq!(write(true), Err(Errno::NOSPC));
        available.store(1 << 30, Ordering::Relaxed);
        assert_eq!((write(false), write(true)), (Ok(false), Ok(false)));
    }

    #[test]
    fn a_full_volume_takes_what_replaces_stored_data() {
        let available = Arc::new(AtomicU64::new(1 << 30));
        let volume = volume(&available);
        let write = |name: &[u8], offset, length| {
            let number = match volume.lookup(ROOT, name) {
                Ok(found) => found.number,
                Err(_) => {
                    volume
                        .make_node(&CALLER, ROOT, name, 0o100_644, 0, 0)?
                        .number
                }
            };
            let context = WriteContext::default();
            volume.write(number, offset, &vec![1; length], context)?;
            Ok(())
        };
        let errno = |written: Result<()>| written.err().map(|e| e.errno());
        write(b"blocks", 0, 1 << 20).unwrap();
        write(b"hole", 1 << 20, 1 << 16).unwrap();
        write(b"inline", 0, 100).unwrap();
        // Less than the room kept, and more than half of it.
        available.store(KEPT_OF_2_GIB - 1, Ordering::Relaxed);
        volume.room.bytes.store(0, Ordering::Relaxed);
        assert_eq!(
            errno(write(b"blocks", 1 << 20, 1)),
            Some(Errno::NOSPC),
            "it grows"
        );
        assert_eq!(
            errno(write(b"hole", 0, 1)),
            Some(Errno::NOSPC),
            "there is a hole"
        );
        assert_eq!(
            errno(write(b"inline", 90, 11)),
            Some(Errno::NOSPC),
            "it grows"
        );
        assert_eq!(errno(write(b"new", 0, 1)), Some(Errno::NOSPC));
        assert_eq!(errno(write(b"blocks", 1000, 1 << 16)), None);
        assert_eq!(errno(write(b"inline", 0, 100)), None);
        // The memory that is the store here frees nothing.
        available.store(KEPT_OF_2_GIB / 2, Ordering::Relaxed);
        volume.room.replacing.store(0, Ordering::Relaxed);
        assert_eq!(errno(write(b"blocks", 1000, 1 << 16)), Some(Errno::NOSPC));
    }

    #[test]
    fn a_small_write_needs_room_for_the_blocks_that_it_rewrites() {
        const BLOCK: u64 = 32 << 10;
        let available = Arc::new(AtomicU64::new(1 << 30));
        let volume = volume(&available);
        let made = volume.make_node(&CALLER, ROOT, b"f", 0o100_644, 0, 0);
        let file = made.unwrap().number;
        let context = WriteContext::default();
        let blocks = 2 * VolumeOptions::default().ask_each / BLOCK;
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
