//! Finding data and holes although the kernel has not written all of them.
//!
//! The kernel asks for the data of a file without writing its cache first (so Linux 6.18 does), but
//! unwritten data fills holes. So before a hole is reported or skipped, the kernel is told to write
//! the hole's range, and the file is searched again. Only holes need that: no write makes one, and
//! calls that make one pass the kernel's cache at once.
//!
//! The kernel's writes are requests for the serving threads, which therefore must not wait for
//! them. A thread of its own does, one search after the other.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use fuser::ReplyLseek;
use rustix::io::Errno;

use super::convert;
use super::failures::Failures;
use super::kernel_cache::KernelCache;
use crate::error::Result;
use crate::file_system::{self, FileSystem};
use crate::schema::InodeNumber;

/// One search.
#[derive(Debug)]
pub(super) struct Seek {
    pub(super) inode: InodeNumber,
    pub(super) offset: u64,
    pub(super) what: file_system::Seek,
    pub(super) reply: ReplyLseek,
}

/// The way to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Seeker(Sender<Seek>);

impl Seeker {
    /// # Errors
    /// Those of starting a thread.
    pub(super) fn start(
        file_system: &Arc<dyn FileSystem>,
        kernel_cache: &KernelCache,
        failures: &Arc<Failures>,
    ) -> io::Result<Self> {
        let (sender, seeks) = channel();
        let (file_system, kernel_cache) = (Arc::clone(file_system), kernel_cache.clone());
        let failures = Arc::clone(failures);
        std::thread::Builder::new()
            .name("tifs-seek".to_owned())
            .spawn(move || serve(&seeks, &*file_system, &kernel_cache, &failures))?;
        Ok(Seeker(sender))
    }

    /// Lets the thread search and reply.
    pub(super) fn seek(&self, seek: Seek) {
        // If the thread is gone, the reply that is dropped says EIO.
        let _ = self.0.send(seek);
    }
}

fn serve(
    seeks: &Receiver<Seek>,
    file_system: &dyn FileSystem,
    kernel_cache: &KernelCache,
    failures: &Failures,
) {
    for seek in seeks {
        let Seek {
            inode,
            offset,
            what,
            reply,
        } = seek;
        let stored = |offset, what| file_system.seek(inode, offset, what);
        let write_back = |hole: &Range<u64>| kernel_cache.write_back(inode, hole);
        match search(offset, what, stored, write_back) {
            Ok(found) => reply.offset(found.cast_signed()),
            Err(error) => {
                failures.note("lseek", inode, &error);
                reply.error(convert::errno(error.errno()));
            }
        }
    }
}

/// Searches stored data, and lets the holes that decide the result be written back first. Ends,
/// because each hole written back is or begins after the last one.
fn search(
    offset: u64,
    what: file_system::Seek,
    stored: impl Fn(u64, file_system::Seek) -> Result<u64>,
    mut write_back: impl FnMut(&Range<u64>),
) -> Result<u64> {
    let mut written: Option<Range<u64>> = None;
    loop {
        let found = stored(offset, what);
        let hole = match (&found, what) {
            (Ok(data), file_system::Seek::Data) => offset..*data,
            (Ok(hole), file_system::Seek::Hole) => {
                *hole..data_after(*hole, &stored)?.unwrap_or(u64::MAX)
            }
            (Err(error), _) if error.errno() == Errno::NXIO => offset..u64::MAX,
            (Err(_), _) => return found,
        };
        let known = written.as_ref().is_some_and(|written| {
            written.start <= hole.start && hole.start < written.end && hole.end <= written.end
        });
        if hole.is_empty() || known {
            return found;
        }
        write_back(&hole);
        written = Some(hole);
    }
}

fn data_after(
    offset: u64,
    stored: impl Fn(u64, file_system::Seek) -> Result<u64>,
) -> Result<Option<u64>> {
    match stored(offset, file_system::Seek::Data) {
        Ok(data) => Ok(Some(data)),
        Err(error) if error.errno() == Errno::NXIO => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use std::cell::RefCell;

    use super::*;

    /// A file of one-byte blocks: `#` is stored, `+` is in the kernel's cache only, `.` is a hole.
    struct File(RefCell<Vec<u8>>);

    impl File {
        fn new(blocks: &str) -> Self {
            File(RefCell::new(blocks.as_bytes().to_vec()))
        }

        /// The size that is stored ends after the last block that is not in the cache only.
        fn stored(&self, offset: u64, what: file_system::Seek) -> Result<u64> {
            let blocks = self.0.borrow();
            let size = blocks
                .iter()
                .rposition(|b| *b != b'+')
                .map_or(0, |last| last + 1);
            let offset = offset as usize;
            if offset >= size {
                return Err(Errno::NXIO.into());
            }
            let is_data = what == file_system::Seek::Data;
            let found = (offset..size).find(|at| (blocks[*at] == b'#') == is_data);
            match found {
                Some(found) => Ok(found as u64),
                None if is_data => Err(Errno::NXIO.into()),
                None => Ok(size as u64),
            }
        }

        fn write_back(&self, range: &Range<u64>) {
            let mut blocks = self.0.borrow_mut();
            for (at, block) in blocks.iter_mut().enumerate() {
                if range.contains(&(at as u64)) && *block == b'+' {
                    *block = b'#';
                }
            }
        }

        fn search(&self, offset: u64, what: file_system::Seek) -> Option<u64> {
            let found = search(
                offset,
                what,
                |offset, what| self.stored(offset, what),
                |hole| self.write_back(hole),
            );
            match found {
                Ok(found) => Some(found),
                Err(error) => {
                    assert_eq!(error.errno(), Errno::NXIO);
                    None
                }
            }
        }
    }

    #[test]
    fn searches_find_the_same_as_if_everything_were_stored() {
        use file_system::Seek::{Data, Hole};
        let random = &mut fastrand::Rng::with_seed(11);
        for round in 0..2000 {
            let length = random.usize(0..12);
            let blocks: String = (0..length)
                .map(|_| *random.choice(&['#', '+', '.']).unwrap())
                .collect();
            let everything = File::new(&blocks.replace('+', "#"));
            for offset in 0..length as u64 + 2 {
                for what in [Data, Hole] {
                    let expected = everything.stored(offset, what).ok();
                    let found = File::new(&blocks).search(offset, what);
                    assert_eq!(
                        found, expected,
                        "round {round}: {what:?} at {offset} of {blocks}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_is_written_back_to_find_data_where_it_is() {
        let file = File::new("#+#");
        assert_eq!(file.search(0, file_system::Seek::Data), Some(0));
        assert_eq!(file.search(2, file_system::Seek::Data), Some(2));
        assert_eq!(file.0.borrow()[1], b'+');
    }
}
