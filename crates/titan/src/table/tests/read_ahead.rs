//! Prefetches that cursors ask of the kernel.

use std::mem;

use parking_lot::Mutex;

use super::*;
use crate::table::read::iterator::TableIterator;
use crate::vfs::ReadableFile;

/// Bytes of a file, from and to.
type Range = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Read(Range),
    Hint(Range),
}

use Event::{Hint, Read};

/// A file that records its reads and hints.
struct NotingFile {
    file: Arc<dyn ReadableFile>,
    events: Mutex<Vec<Event>>,
}

impl NotingFile {
    /// The reads and hints since the last call, in order.
    fn take(&self) -> Vec<Event> {
        mem::take(&mut self.events.lock())
    }
}

impl ReadableFile for NotingFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let range = (offset, offset + buf.len() as u64);
        self.events.lock().push(Read(range));
        self.file.read_at(offset, buf)
    }

    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn prefetch(&self, offset: u64, len: usize) {
        self.events.lock().push(Hint((offset, offset + len as u64)));
        self.file.prefetch(offset, len);
    }
}

fn key(i: usize) -> Vec<u8> {
    format!("{i:08}").into_bytes()
}

/// A table of `entries` entries with values of `value` bytes, in blocks of 4 KiB or of one entry.
fn table(dir: &Path, entries: usize, value: usize) -> (Arc<NotingFile>, Arc<TableReader>) {
    let path = dir.join("000007.sst");
    let options = TableWriterOptions {
        compression: CompressionType::None,
        ..writer_options()
    };
    let mut w = writer(&path, options);
    for i in 0..entries {
        let ikey = internal_key(&key(i), SequenceNumber(1), ValueType::Value as u8);
        w.add(&ikey, &vec![i as u8; value]).unwrap();
    }
    w.finish().unwrap();
    let file = Arc::new(NotingFile {
        file: StdVfs.open(&path, Access::Random).unwrap(),
        events: Mutex::default(),
    });
    let options = reader_options(file.size().unwrap());
    let table = TableReader::open(file.clone(), &path, options).unwrap();
    file.take();
    (file, table)
}

fn uncached(table: &Arc<TableReader>) -> TableIterator {
    table.iter(TableIterOptions {
        fill_cache: false,
        readahead: 0,
    })
}

fn walk(iter: &mut TableIterator, backward: bool) {
    if backward {
        iter.seek_to_last().unwrap();
    } else {
        iter.seek_to_first().unwrap();
    }
    while iter.valid() {
        if backward {
            iter.prev().unwrap();
        } else {
            iter.next().unwrap();
        }
    }
}

/// Checks that every read up to `end` except the first two was hinted before, and that hints do not
/// overlap. Returns the hints.
fn walked_ahead(events: &[Event], end: u64) -> Vec<Range> {
    let mut hints: Vec<Range> = Vec::new();
    let mut reads = 0;
    for event in events {
        match *event {
            Hint(hint) => {
                assert!(hints.iter().all(|h| h.1 <= hint.0 || hint.1 <= h.0));
                hints.push(hint);
            }
            Read(read) => {
                reads += 1;
                // The checksum of the last block need not be in a hint.
                let wanted = (read.0, read.1.min(end));
                assert_eq!(covered(&hints, wanted), reads > 2, "read {reads}: {read:?}");
            }
        }
    }
    hints
}

fn covered(hints: &[Range], read: Range) -> bool {
    let mut from = read.0;
    while from < read.1 {
        match hints.iter().find(|hint| hint.0 <= from && from < hint.1) {
            None => return false,
            Some(hint) => from = hint.1,
        }
    }
    true
}

#[test]
fn walks_are_read_ahead_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    for (entries, value, block) in [
        (20_000, 90, 8 << 10),
        (60, 100_000, 101_000),
        (30, 300_000, 301_000),
    ] {
        let (file, table) = table(dir.path(), entries, value);
        for backward in [false, true] {
            walk(&mut uncached(&table), backward);
            let events = file.take();
            let last = table.index.handle(table.index.len() - 1).unwrap();
            let end = last.offset + last.size;
            let hints = walked_ahead(&events, end);
            let sizes: Vec<u64> = hints.iter().map(|hint| hint.1 - hint.0).collect();
            assert!(
                (16 << 10..(16 << 10) + block).contains(&sizes[0]),
                "{sizes:?}"
            );
            assert!(sizes.iter().all(|size| *size <= (256 << 10) + block));
            if value < 1000 {
                assert_eq!(sizes[1..5], [32 << 10, 64 << 10, 128 << 10, 256 << 10]);
            }
            let last = table.index.handle(table.index.len() - 1).unwrap();
            assert!(
                hints
                    .iter()
                    .all(|hint| hint.1 <= last.offset + last.size + 5)
            );
        }
    }
}

#[test]
fn seeks_and_short_scans_read_nothing_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let (file, table) = table(dir.path(), 20_000, 90);
    let mut iter = uncached(&table);
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let target = seek_key(&key(rng.usize(..20_000)), SequenceNumber(2));
        iter.seek(&target).unwrap();
        // Goes at most into the next block, and back.
        for _ in 0..20 {
            iter.next().unwrap();
        }
        for _ in 0..20 {
            iter.prev().unwrap();
        }
    }
    let events = file.take();
    assert!(events.len() >= 200);
    assert!(events.iter().all(|event| matches!(event, Read(_))));
}

#[test]
fn walks_over_cached_blocks_ask_for_little() {
    let dir = tempfile::tempdir().unwrap();
    let (file, table) = table(dir.path(), 20_000, 90);
    // The cache holds all but one in thirty of the first 150 blocks.
    let mut at = 0;
    let block_of = |i: usize| {
        let target = seek_key(&key(i), SequenceNumber(2));
        table.index.find(&order(), &target)
    };
    while block_of(at) < 150 {
        if block_of(at) % 30 != 10 {
            let target = seek_key(&key(at), SequenceNumber(2));
            assert!(table.get(&target, true).unwrap().is_some());
        }
        at += 1;
    }
    file.take();
    let mut iter = uncached(&table);
    iter.seek_to_first().unwrap();
    for _ in 0..at - 100 {
        iter.next().unwrap();
    }
    let events = file.take();
    let reads = events.iter().filter(|e| matches!(e, Read(_))).count();
    let hints: Vec<u64> = (events.iter())
        .filter_map(|event| match event {
            Hint(hint) => Some(hint.1 - hint.0),
            Read(_) => None,
        })
        .collect();
    assert_eq!((reads, hints.len()), (5, 5), "{events:?}");
    assert!(hints.iter().all(|hint| *hint <= 24 << 10), "{hints:?}");
}
