//! Data that fits in memory, and data that does not.

use titan::vfs::{Memory, Resources};
use titan::{CompactRangeOptions, DataInMemory, Db, Options};
use titan_testkit::sim::SimVfs;

use crate::support::{DIR, eventually, files, key, manual, open, options, value};

const MIB: u64 = 1 << 20;

fn memory_left(vfs: &SimVfs, left: u64) {
    vfs.set_resources(Resources {
        memory: Some(Memory { total: left, left }),
        ..Resources::default()
    });
}

/// Keys with values in blob files, some of them relocated, and keys with inline values; some 1.6 MB
/// together.
fn filled(vfs: &SimVfs) -> Options {
    let options = options(vfs, manual());
    let db = open(&options);
    for overwritten in [false, true] {
        for n in 0..1000 {
            let len = if n % 4 == 3 { 80 } else { 2000 };
            if !overwritten || n % 2 == 0 {
                db.put(&key(n), &value(n, len)).unwrap();
            }
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let collected = db.collect_garbage(None, None, &Default::default()).unwrap();
    assert!(collected.bytes_written > 0, "{collected:?}");
    // Beside relocated records, a blob file that was not relocated, and tables of both kinds.
    db.put(&key(1000), &value(1000, 100_000)).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    options
}

fn size_of_all(vfs: &SimVfs, suffixes: &[&str]) -> u64 {
    use titan::vfs::Vfs;
    let names = suffixes.iter().flat_map(|suffix| files(vfs, DIR, suffix));
    names
        .map(|name| vfs.size(&std::path::Path::new(DIR).join(name)).unwrap())
        .sum()
}

/// Opens the database and waits until so many bytes were prefetched.
fn prefetches(options: &Options, bytes: u64) -> Db {
    let db = open(options);
    eventually("prefetching", || {
        db.statistics().prefetched_bytes() >= bytes
    });
    db
}

#[test]
fn what_fits_is_read_when_the_database_is_opened() {
    let vfs = SimVfs::new();
    let options = filled(&vfs);
    memory_left(&vfs, 100 * MIB);
    // Of blob files only the records are read.
    let all = size_of_all(&vfs, &[".sst", ".blobmap", ".blob"]);
    let frames = 100 * files(&vfs, DIR, ".blob").len() as u64;
    let db = prefetches(&options, all - frames);
    assert!(db.statistics().prefetched_bytes() <= all);
    let metrics = db.metrics();
    assert!(metrics.data_in_memory);
    assert_eq!(metrics.data_memory, Some(50 * MIB));
    assert!(metrics.data_bytes > MIB && metrics.data_bytes <= all);
    for n in 0..1000 {
        assert!(db.get(&key(n)).unwrap().is_some());
    }
}

#[test]
fn of_what_does_not_fit_tables_of_pointers_and_maps_are_read() {
    let vfs = SimVfs::new();
    let options = filled(&vfs);
    memory_left(&vfs, 2 * MIB);
    let small = size_of_all(&vfs, &[".sst", ".blobmap"]);
    assert!(small > 10_000);
    let db = prefetches(&options, small);
    // Closing waits for the thread, which has stopped.
    let core = db.clone();
    db.close().unwrap();
    assert_eq!(core.statistics().prefetched_bytes(), small);
    assert!(!core.metrics().data_in_memory);
}

#[test]
fn nothing_is_read_where_nobody_knows_of_memory_or_it_is_forbidden() {
    let vfs = SimVfs::new();
    let mut options = filled(&vfs);
    let reads_nothing = |options: &Options| {
        let db = open(options);
        let core = db.clone();
        db.close().unwrap();
        assert_eq!(core.statistics().prefetched_bytes(), 0);
        core.metrics()
    };
    let metrics = reads_nothing(&options);
    assert!(!metrics.data_in_memory && metrics.data_memory.is_none());
    memory_left(&vfs, 100 * MIB);
    options.db.data_in_memory = DataInMemory::Never;
    assert!(!reads_nothing(&options).data_in_memory);
    // A read-only opening starts no thread that could.
    options.db.data_in_memory = DataInMemory::Always;
    let db = Db::open_read_only(DIR, &options).unwrap();
    assert!(db.metrics().data_in_memory);
    assert_eq!(db.statistics().prefetched_bytes(), 0);
}

/// Whether a flush, a compaction and a collection write around the cache. Each round leaves garbage
/// in the file that the one before wrote.
fn writes_direct(vfs: &SimVfs, db: &Db, round: usize) -> (bool, bool, bool) {
    let any = || !vfs.take_direct_files().is_empty();
    any();
    for n in 50 * round..50 * round + 100 {
        db.put(&key(n), &value(n, 3000)).unwrap();
    }
    db.flush().unwrap();
    let flush = any();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let compaction = any();
    // The thread that reads files into the cache may look at the version before the compaction: a
    // collection leaves alone the files that this version pins.
    eventually("the end of older versions", || {
        db.space_report().unwrap().total.pinned_blob_bytes == 0
    });
    let collected = db.collect_garbage(None, None, &Default::default()).unwrap();
    assert!(collected.bytes_written > 0, "{collected:?}");
    (flush, compaction, any())
}

#[test]
fn only_rewrites_of_what_does_not_fit_go_around_the_cache() {
    let vfs = SimVfs::new();
    let mut options = filled(&vfs);
    memory_left(&vfs, 100 * MIB);
    let db = open(&options);
    assert_eq!(writes_direct(&vfs, &db, 0), (false, false, false));
    assert_eq!(db.statistics().direct_io_jobs(), 0);
    // Decided anew for each job.
    memory_left(&vfs, MIB);
    assert_eq!(writes_direct(&vfs, &db, 1), (false, true, true));
    assert!(db.statistics().direct_io_jobs() >= 2);
    memory_left(&vfs, 100 * MIB);
    assert_eq!(writes_direct(&vfs, &db, 2), (false, false, false));
    db.close().unwrap();

    // Unless the options override it.
    let stated = [(DataInMemory::Always, false), (DataInMemory::Never, true)];
    for (round, (data_in_memory, direct)) in (3..).zip(stated) {
        options.db.data_in_memory = data_in_memory;
        let db = open(&options);
        assert_eq!(writes_direct(&vfs, &db, round), (false, direct, direct));
        db.close().unwrap();
    }
    options.db.data_in_memory = DataInMemory::Always;
    options.db.use_direct_io_for_flush_and_compaction = true;
    let db = open(&options);
    assert_eq!(writes_direct(&vfs, &db, 5), (true, true, true));
}
