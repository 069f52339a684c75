//! Databases of tests: their options, keys and values; a listener that panics; waiting for other
//! threads.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use titan::vfs::Vfs;
use titan::{
    ColumnFamilyOptions, CompactionBeginEvent, CompactionEvent, CompressionType, Db, DbOptions,
    EventListener, FlushBeginEvent, FlushEvent, GarbageCollectionBeginEvent,
    GarbageCollectionEvent, MemtableSealedEvent, Options, Stated,
};

use crate::sim::SimVfs;

/// Where databases are in a simulated file system.
pub const DIR: &str = "/db";

/// Bytes of a blob record before key and value.
pub const RECORD_HEADER: u64 = 32;

/// Options of a database in `vfs`; `default` are those of all families.
pub fn options(vfs: &SimVfs, default: ColumnFamilyOptions) -> Options {
    Options {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            ..DbOptions::default()
        },
        default,
        ..Options::default()
    }
}

/// A family that separates values from 100 bytes on, does not compress, and compacts only on
/// request. Every opening states all of it.
pub fn manual() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        disable_auto_compactions: true,
        enable_blob_garbage_collection: false,
        min_blob_size: 100,
        compression: CompressionType::None,
        stated: Stated::all(),
        ..ColumnFamilyOptions::default()
    }
}

/// The same, but garbage is collected as soon as there is any.
pub fn collecting() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        blob_file_size: 64 << 10,
        enable_blob_garbage_collection: true,
        ..manual()
    }
}

/// The database in [`DIR`].
///
/// # Panics
/// If it cannot be opened.
#[expect(clippy::unwrap_used, reason = "it is for tests")]
pub fn open(options: &Options) -> Db {
    Db::open(DIR, options).unwrap()
}

/// A key that sorts as its number.
pub fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Bytes that are determined by `n` and do not compress.
pub fn value(n: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(n as u64).fill(&mut bytes);
    bytes
}

/// The files of the database whose names end in `suffix`.
///
/// # Panics
/// If the directory cannot be read.
#[expect(clippy::unwrap_used, reason = "it is for tests")]
pub fn files(vfs: &dyn Vfs, dir: impl AsRef<Path>, suffix: &str) -> Vec<String> {
    let mut names = vfs.read_dir(dir.as_ref()).unwrap();
    names.retain(|name| name.ends_with(suffix));
    names.sort();
    names
}

/// Panics whenever it is called.
#[derive(Debug)]
pub struct Hopeless;

#[expect(clippy::panic, reason = "that is its purpose")]
impl EventListener for Hopeless {
    fn memtable_sealed(&self, _: &MemtableSealedEvent) {
        panic!("at a sealed memtable");
    }

    fn flush_begun(&self, _: &FlushBeginEvent) {
        panic!("at the begin of a flush");
    }

    fn flush_finished(&self, _: &FlushEvent) {
        panic!("at a flush");
    }

    fn compaction_begun(&self, _: &CompactionBeginEvent) {
        panic!("at the begin of a compaction");
    }

    fn compaction_finished(&self, _: &CompactionEvent) {
        panic!("at a compaction");
    }

    fn garbage_collection_begun(&self, _: &GarbageCollectionBeginEvent) {
        panic!("at the begin of a collection");
    }

    fn garbage_collected(&self, _: &GarbageCollectionEvent) {
        panic!("at a collection");
    }

    fn compaction_filter_failed(&self, _: &titan::Error) {
        panic!("at a filter");
    }

    fn writes_stopped(&self, _: &titan::Error) {
        panic!("at a failure");
    }
}

/// If this environment variable is set, [`eventually`] waits for so many seconds. Slow machines and
/// tools that make everything slower need it.
pub const PATIENCE: &str = "TITAN_TEST_PATIENCE";

/// Waits for what another thread is about to do.
///
/// # Panics
/// If it has not happened after 30 seconds, or those of [`PATIENCE`].
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience(std::env::var(PATIENCE).ok().as_deref());
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

/// Longest wait, given the variable.
#[expect(clippy::unwrap_used, reason = "it is for tests")]
fn patience(stated: Option<&str>) -> Duration {
    Duration::from_secs(stated.map_or(30, |seconds| seconds.parse().unwrap()))
}

/// Number of `full` steps that a test does: few if `TITAN_SMALL_TESTS` is set, for tools that make
/// everything a hundred times slower.
pub fn scaled(full: u64) -> u64 {
    match std::env::var_os("TITAN_SMALL_TESTS") {
        Some(_) => full.div_ceil(20),
        None => full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_lengthens_waits() {
        assert_eq!(patience(None), Duration::from_secs(30));
        assert_eq!(patience(Some("600")), Duration::from_secs(600));
    }

    #[test]
    fn a_wait_ends_with_its_event() {
        let mut looks = 0;
        eventually("the third look", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }
}
