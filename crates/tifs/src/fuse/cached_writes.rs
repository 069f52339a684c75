//! Tracks writeback errors: data that the kernel accepted from programs and that we could not
//! store.
//!
//! The program that wrote the data has gone on. It learns of two things later:
//!
//! - *There is no room.* Before a `write`, the kernel asks for attributes that it does not have. So
//!   a refused write of its cache, or one that took the last room, lets the kernel forget them; the
//!   next such question gets the error, once.
//! - *Data was refused.* The kernel drops it and reports that once; a later `fsync` would succeed,
//!   with holes in the file. So the ranges are remembered, and `fsync` fails until they are written
//!   again or cut off.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use titan::invariant;

use super::kernel_cache::KernelCache;
use crate::schema::InodeNumber;

/// The files with errors to report. Costs one load while there are none.
#[derive(Debug, Default)]
pub(super) struct CachedWrites {
    kernel_cache: KernelCache,
    files: Mutex<Files>,
    /// The number of files in both maps.
    len: AtomicUsize,
}

#[derive(Debug, Default)]
struct Files {
    /// Errors for the next writers.
    unheard: HashMap<InodeNumber, Errno>,
    /// Files that lack data.
    refused: HashMap<InodeNumber, Refused>,
}

/// The missing data of a file.
#[derive(Debug)]
struct Refused {
    errno: Errno,
    /// The ranges by their beginning. They do not touch each other.
    ranges: BTreeMap<u64, u64>,
}

impl CachedWrites {
    pub(super) fn new(kernel_cache: KernelCache) -> Self {
        CachedWrites {
            kernel_cache,
            ..CachedWrites::default()
        }
    }

    /// Notes that a write of the cache was refused, so that the file lacks its data.
    pub(super) fn refused(&self, inode: InodeNumber, range: Range<u64>, errno: Errno) {
        self.change(|files| {
            files.unheard.insert(inode, errno);
            let refused = files.refused.entry(inode).or_insert_with(|| Refused {
                errno,
                ranges: BTreeMap::new(),
            });
            refused.errno = errno;
            refused.add(range);
        });
        // ORDER: after it is known here, or the kernel could ask in vain and not ask again.
        self.kernel_cache.forget_attributes(inode);
    }

    /// The error for the next writer of a file, which is then forgotten. A volume that was full may
    /// have room again.
    pub(super) fn hear(
        &self,
        inode: InodeNumber,
        has_room: impl FnOnce() -> bool,
    ) -> Option<Errno> {
        if self.is_empty() {
            return None;
        }
        let errno = *self.files.lock().unheard.get(&inode)?;
        if errno == Errno::NOSPC && has_room() {
            return None;
        }
        self.change(|files| files.unheard.remove(&inode))
    }

    /// Lets the kernel forget the attributes of an inode that it is about to get, if the next
    /// writer must get an error.
    ///
    /// A short lifetime of the attributes would not do: then readers ask too, and would get the
    /// writer's error. A reader does not ask for attributes that the kernel was told to forget,
    /// since the kernel knows the size itself.
    pub(super) fn answered(&self, inode: InodeNumber) {
        if self.is_unheard(inode) {
            // The answer counts as older than this, also if it arrives later.
            self.kernel_cache.forget_attributes(inode);
        }
    }

    fn is_unheard(&self, inode: InodeNumber) -> bool {
        !self.is_empty() && self.files.lock().unheard.contains_key(&inode)
    }

    /// Notes that a range was written, perhaps into the last room.
    pub(super) fn written(&self, inode: InodeNumber, range: Range<u64>, to_last_room: bool) {
        let is_needless = self.is_empty() || range.is_empty();
        if is_needless && !to_last_room {
            return;
        }
        self.change(|files| {
            if to_last_room {
                files.unheard.insert(inode, Errno::NOSPC);
            } else {
                files.unheard.remove(&inode);
            }
            files.keep(inode, |refused| refused.remove(range));
        });
        if to_last_room {
            // ORDER: after it is known here, as above.
            self.kernel_cache.forget_attributes(inode);
        }
    }

    /// Notes that a file was cut or extended to this size.
    pub(super) fn resized(&self, inode: InodeNumber, size: u64) {
        if !self.is_empty() {
            self.change(|files| files.keep(inode, |refused| refused.remove(size..u64::MAX)));
        }
    }

    /// Notes that the kernel forgot a file: it has no writer now. Missing data stays known.
    pub(super) fn forgotten(&self, inode: InodeNumber) {
        if !self.is_empty() {
            self.change(|files| files.unheard.remove(&inode));
        }
    }

    /// The reason why a file lacks accepted data, if it does. Its next writer need not get the
    /// error then.
    pub(super) fn lacks(&self, inode: InodeNumber) -> Option<Errno> {
        if self.is_empty() {
            return None;
        }
        self.change(|files| {
            let refused = files.refused.get(&inode)?;
            files.unheard.remove(&inode);
            Some(refused.errno)
        })
    }

    /// The reason why some file lacks accepted data, if one does for which `exists` is true.
    pub(super) fn any_lacks(&self, exists: impl Fn(InodeNumber) -> bool) -> Option<Errno> {
        if self.is_empty() {
            return None;
        }
        let refused = &self.files.lock().refused;
        let mut lacking = refused.iter().filter(|(inode, _)| exists(**inode));
        lacking.next().map(|(_, refused)| refused.errno)
    }

    fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    fn change<T>(&self, change: impl FnOnce(&mut Files) -> T) -> T {
        let mut files = self.files.lock();
        let result = change(&mut files);
        invariant!(
            files
                .refused
                .values()
                .all(|refused| !refused.ranges.is_empty()),
            "a file lacks no data and is said to"
        );
        let len = files.unheard.len() + files.refused.len();
        self.len.store(len, Ordering::Release);
        result
    }
}

impl Files {
    /// Changes the errors of a file, and removes it if it has none left.
    fn keep(&mut self, inode: InodeNumber, change: impl FnOnce(&mut Refused)) {
        if let Some(refused) = self.refused.get_mut(&inode) {
            change(refused);
            if refused.ranges.is_empty() {
                self.refused.remove(&inode);
            }
        }
    }
}

impl Refused {
    fn add(&mut self, mut range: Range<u64>) {
        invariant!(!range.is_empty(), "nothing was refused: {range:?}");
        // The ranges that it touches become part of it.
        while let Some((&start, &end)) = self.ranges.range(..=range.end).next_back() {
            if end < range.start {
                break;
            }
            self.ranges.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.ranges.insert(range.start, range.end);
        self.check();
    }

    fn check(&self) {
        let ranges = || self.ranges.iter().zip(self.ranges.iter().skip(1));
        invariant!(
            ranges().all(|((_, end), (start, _))| end < start),
            "ranges touch: {:?}",
            self.ranges
        );
    }

    fn remove(&mut self, range: Range<u64>) {
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.ranges.remove(&start);
            if range.end < end {
                self.ranges.insert(range.end, end);
            }
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
        }
        self.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeNumber = InodeNumber(7);
    const OTHER: InodeNumber = InodeNumber(8);

    #[test]
    fn a_file_lacks_data_until_every_byte_was_written_again_or_cut_off() {
        let writes = CachedWrites::default();
        let refuse = |range| writes.refused(FILE, range, Errno::NOSPC);
        refuse(0..10);
        refuse(20..30);
        refuse(8..20);
        assert_eq!(writes.lacks(FILE), Some(Errno::NOSPC));
        assert_eq!(writes.lacks(OTHER), None);
        assert_eq!(writes.any_lacks(|_| true), Some(Errno::NOSPC));
        assert_eq!(writes.any_lacks(|inode| inode != FILE), None);
        // A copy of nothing.
        writes.written(FILE, 15..15, false);
        assert!(writes.lacks(FILE).is_some());
        writes.written(FILE, 5..25, false);
        writes.written(OTHER, 0..30, false);
        assert!(writes.lacks(FILE).is_some());
        writes.resized(FILE, 27);
        writes.written(FILE, 0..5, false);
        assert!(writes.lacks(FILE).is_some());
        writes.written(FILE, 24..27, false);
        assert_eq!(writes.lacks(FILE), None);
        assert!(writes.is_empty());
    }

    #[test]
    fn ranges_are_a_set_of_bytes() {
        let seed = fastrand::u64(..);
        eprintln!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut refused = Refused {
            errno: Errno::IO,
            ranges: BTreeMap::new(),
        };
        let mut bytes = [false; 64];
        for _ in 0..10_000 {
            let start = random.usize(0..64);
            let end = random.usize(start + 1..=64);
            let lacking = random.bool();
            bytes[start..end].fill(lacking);
            let range = start as u64..end as u64;
            if lacking {
                refused.add(range);
            } else {
                refused.remove(range);
            }
            let mut found = [false; 64];
            let mut last = None;
            for (&start, &end) in &refused.ranges {
                assert!(start < end && last.is_none_or(|last| last < start));
                found[start as usize..end as usize].fill(true);
                last = Some(end);
            }
            assert_eq!(found, bytes);
        }
    }

    #[test]
    fn the_next_writer_hears_once_that_there_was_no_room() {
        let writes = CachedWrites::default();
        let hear = |file| writes.hear(file, || false);
        let last_room = || writes.written(FILE, 0..1, true);
        assert_eq!(hear(FILE), None);
        last_room();
        assert!(writes.is_unheard(FILE));
        assert_eq!(hear(OTHER), None);
        assert_eq!(hear(FILE), Some(Errno::NOSPC));
        assert_eq!(hear(FILE), None);
        assert!(writes.is_empty());
        writes.refused(FILE, 0..1, Errno::IO);
        assert_eq!(writes.hear(FILE, || true), Some(Errno::IO));
        // A sync that failed has said it.
        writes.refused(FILE, 0..1, Errno::IO);
        assert_eq!(writes.lacks(FILE), Some(Errno::IO));
        assert_eq!(hear(FILE), None);
        // There is room again.
        last_room();
        assert_eq!(writes.hear(FILE, || true), None);
        assert!(writes.is_unheard(FILE));
        writes.written(FILE, 0..1, false);
        assert_eq!(hear(FILE), None);
        // Nobody writes there any more.
        last_room();
        writes.forgotten(FILE);
        assert_eq!(hear(FILE), None);
    }
}
