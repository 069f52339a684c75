//! What cursors ask the kernel for before they want it.

use parking_lot::Mutex;

use super::*;
use crate::vfs::ReadableFile;

/// Bytes of a file, from and to.
type Range = (u64, u64);

/// A file that notes what it is asked for.
struct NotingFile {
    file: Arc<dyn ReadableFile>,
    /// Reads and hints, in order.
    reads: Mutex<Vec<Range>>,
    hints: Mutex<Vec<Range>>,
}

impl NotingFile {
    /// Reads and hints since the last call.
    fn take(&self) -> (Vec<Range>, Vec<Range>) {
        (
            std::mem::take(&mut self.reads.lock()),
            std::mem::take(&mut self.hints.lock()),
        )
    }
}

impl ReadableFile for NotingFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.reads.lock().push((offset, offset + buf.len() as u64));
        self.file.read_at(offset, buf)
    }

    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn prefetch(&self, offset: u64, len: usize) {
        self.hints.lock().push((offset, offset + len as u64));
        self.file.prefetch(offset, len);
    }
}

const ENTRIES: u32 = 20_000;

fn key(i: u32) -> Vec<u8> {
    format!("{i:08}").into_bytes()
}

/// A table of [`ENTRIES`] entries of some 100 bytes: about 500 blocks of 4 KiB.
fn table(dir: &Path) -> (Arc<NotingFile>, Arc<TableReader>) {
    let path = dir.join("000007.sst");
    let options = TableWriterOptions {
        compression: CompressionType::None,
        ..writer_options()
    };
    let mut w = writer(&path, options);
    for i in 0..ENTRIES {
        let ikey = internal_key(&key(i), SequenceNumber(1), ValueType::Value as u8);
        w.add(&ikey, &[i as u8; 90]).unwrap();
    }
    w.finish().unwrap();
    let file = Arc::new(NotingFile {
        file: StdVfs.open(&path, Access::Random).unwrap(),
        reads: Mutex::default(),
        hints: Mutex::default(),
    });
    let options = reader_options(file.size().unwrap());
    let table = TableReader::open(file.clone(), &path, options).unwrap();
    file.take();
    (file, table)
}

fn uncached(table: &Arc<TableReader>) -> super::super::TableIterator {
    table.iter(TableIterOptions {
        fill_cache: false,
        readahead: 0,
    })
}

fn covered(hints: &[Range], read: &Range) -> bool {
    let mut from = read.0;
    while from < read.1 {
        let Some(hint) = hints.iter().find(|h| h.0 <= from && from < h.1) else {
            return false;
        };
        from = hint.1;
    }
    true
}

/// Every read but the first two was asked for, in few hints that do not overlap.
fn assert_walked_ahead(reads: &[Range], hints: &[Range]) {
    assert!(reads.len() > 400, "{} reads", reads.len());
    assert!(hints.len() < 20, "{hints:?}");
    assert!(reads[2..].iter().all(|read| covered(hints, read)));
    assert!(!reads[..2].iter().any(|read| covered(hints, read)));
    for (i, a) in hints.iter().enumerate() {
        assert!(hints[..i].iter().all(|b| a.1 <= b.0 || b.1 <= a.0));
        assert!(a.1 - a.0 <= 256 << 10);
    }
}

#[test]
fn walks_are_read_ahead_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let (file, table) = table(dir.path());
    let mut iter = uncached(&table);

    iter.seek_to_first().unwrap();
    while iter.valid() {
        iter.next().unwrap();
    }
    let (reads, hints) = file.take();
    assert_walked_ahead(&reads, &hints);

    let mut iter = uncached(&table);
    iter.seek_to_last().unwrap();
    while iter.valid() {
        iter.prev().unwrap();
    }
    let (reads, hints) = file.take();
    assert_walked_ahead(&reads, &hints);
}

#[test]
fn seeks_and_short_scans_read_nothing_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let (file, table) = table(dir.path());
    let mut iter = uncached(&table);
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let target = seek_key(&key(rng.u32(..ENTRIES)), SequenceNumber(2));
        iter.seek(&target).unwrap();
        // At most into the next block, and back.
        for _ in 0..20 {
            iter.next().unwrap();
        }
        for _ in 0..20 {
            iter.prev().unwrap();
        }
    }
    let (reads, hints) = file.take();
    assert!(reads.len() >= 200);
    assert_eq!(hints, []);
}

#[test]
fn cached_blocks_ask_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (file, table) = table(dir.path());
    let walk = || {
        let mut iter = table.iter(TableIterOptions::default());
        iter.seek_to_first().unwrap();
        // The cache holds 1 MiB: all of this.
        for _ in 0..ENTRIES / 8 {
            iter.next().unwrap();
        }
        file.take()
    };
    let (reads, hints) = walk();
    assert!(!reads.is_empty() && !hints.is_empty());
    assert_eq!(walk(), (vec![], vec![]));
}
