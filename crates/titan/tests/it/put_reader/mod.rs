//! Values that a reader gives piece by piece.

mod calls;
mod crashes;
mod faults;
mod model;
mod with_rocksdb;

use std::io::{self, Read};

use titan::{ColumnFamilyOptions, Db, LazyValue, Options};
use titan_testkit::sim::SimVfs;

use crate::support::{manual, options, value};

/// The shortest value that goes to a blob file of its own.
const LONG: usize = 1 << 20;

/// Gives the bytes of [`value`], in reads of different lengths.
struct Source {
    value: io::Cursor<Vec<u8>>,
    rng: fastrand::Rng,
}

impl Source {
    fn new(seed: usize, len: usize) -> Self {
        Source {
            value: io::Cursor::new(value(seed, len)),
            rng: fastrand::Rng::with_seed(seed as u64),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = match self.rng.u8(..4) {
            0 => 1,
            1 => self.rng.usize(1..10_000),
            _ => usize::MAX,
        };
        let len = buf.len().min(most);
        self.value.read(&mut buf[..len])
    }
}

/// Gives so many bytes of [`value`], then does something else than to end.
struct Broken<F> {
    source: Source,
    then: F,
}

fn broken<F: FnMut() -> io::Result<usize>>(len: usize, then: F) -> Broken<F> {
    Broken {
        source: Source::new(1, len),
        then,
    }
}

impl<F: FnMut() -> io::Result<usize>> Read for Broken<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.source.read(buf)? {
            0 if !buf.is_empty() => (self.then)(),
            read => Ok(read),
        }
    }
}

/// All bytes of a value, read in parts.
fn read(value: &LazyValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.reader().read_to_end(&mut bytes).unwrap();
    bytes
}

fn manually(vfs: &SimVfs) -> Options {
    options(vfs, manual())
}

/// Like [`manually`], with collections of garbage.
fn collecting(vfs: &SimVfs) -> Options {
    let family = ColumnFamilyOptions {
        enable_blob_garbage_collection: true,
        ..manual()
    };
    options(vfs, family)
}

fn blob_files(db: &Db) -> usize {
    db.metrics().families[0].blob_files
}
