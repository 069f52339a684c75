//! Memory, counted by the allocator of this program: closing a database returns all of it, and the
//! metrics of caches and memtables agree with the memory allocated.
//!
//! The tests run one at a time, since all threads of a process share the counter. They compare
//! numbers of bytes, never times.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::io::Read;
use std::ops::RangeInclusive;

use parking_lot::{Mutex, MutexGuard};
use titan::{
    ColumnFamily, ColumnFamilyOptions, CompressionType, DataInMemory, Db, Env, EnvOptions, Options,
    ReadOptions, Stated, WriteBatch, WriteOptions,
};

use titan_testkit::counted::{Counted, live_bytes, take_peak_bytes};

#[global_allocator]
static COUNTED: Counted = Counted;

static ALONE: Mutex<()> = Mutex::new(());

/// Keeps the other tests of this program from running.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock()
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Bytes that do not compress.
fn value(n: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(n as u64).fill(&mut bytes);
    bytes
}

/// Asserts that `real` bytes are so many hundredths of those accounted.
#[track_caller]
fn assert_share(real: i64, accounted: u64, percent: RangeInclusive<i64>, what: &str) {
    let accounted = i64::try_from(accounted).unwrap();
    let share = real * 100 / accounted.max(1);
    assert!(
        percent.contains(&share),
        "{what}: {real} bytes are allocated, {accounted} are accounted: {share}%"
    );
}

/// No thread reads files ahead when a database is opened.
fn options() -> Options {
    let mut options = Options {
        default: ColumnFamilyOptions {
            write_buffer_size: 256 << 10,
            min_blob_size: 500,
            blob_file_size: 128 << 10,
            max_bytes_for_level_base: 256 << 10,
            target_file_size_base: 32 << 10,
            stated: Stated::all(),
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    options.db.data_in_memory = DataInMemory::Never;
    options
}

fn read_all(family: &ColumnFamily, options: &ReadOptions) -> usize {
    let (mut iter, mut rows) = (family.iter(options).unwrap(), 0);
    iter.seek_to_first().unwrap();
    while iter.valid() {
        rows += usize::from(!iter.value().unwrap().is_empty());
        iter.next().unwrap();
    }
    rows
}

/// Everything that allocates for longer than a call: memtables, tables, blob files and maps that
/// are open, blocks, snapshots, iterators, lazy values, families, WAL files, background threads.
fn live_and_close(round: usize) {
    let dir = tempfile::tempdir().unwrap();
    let options = options();
    for opening in 0..2 {
        let db = Db::open(dir.path(), &options).unwrap();
        let second = match db.column_family("second") {
            Some(second) => second,
            None => db
                .create_column_family("second", options.default.clone())
                .unwrap(),
        };
        for n in 0..600 {
            let mut batch = WriteBatch::new();
            let large = value(round * 1000 + n, if n % 3 == 0 { 900 } else { 60 });
            batch.put(&*db, key(n * 7 % 600), &large).unwrap();
            batch.put(&second, key(n), &large[..60]).unwrap();
            db.write(batch, &WriteOptions::default()).unwrap();
        }
        let snapshot = db.snapshot();
        db.delete_range(&key(100), &key(150)).unwrap();
        db.flush_all().unwrap();
        let lazy = db.get_lazy(&key(21)).unwrap();
        db.collect_garbage(None, None, &Default::default()).unwrap();
        let at = ReadOptions {
            snapshot: Some(snapshot),
            ..ReadOptions::default()
        };
        assert_eq!(read_all(&db, &at), 600);
        assert_eq!(read_all(&db, &ReadOptions::default()), 550);
        assert_eq!(read_all(&second, &ReadOptions::default()), 600);
        assert!(lazy.unwrap().fetch().is_ok());
        let keys: Vec<_> = (0..600).map(key).collect();
        assert_eq!(db.multi_get_with(&keys, &at).len(), 600);
        if opening == 1 {
            db.drop_column_family(&second).unwrap();
        }
        // Only in the WAL.
        db.put(&key(0), &value(round, 2000)).unwrap();
        db.wait_idle().unwrap();
        db.close().unwrap();
    }
}

#[test]
fn closing_returns_all_memory() {
    let _alone = alone();
    // Memory that the process keeps for good is allocated in the first rounds: state of threads, of
    // compression, of the test harness.
    const FIRST: usize = 3;
    const ROUNDS: usize = 12;
    let mut after = Vec::new();
    for round in 0..ROUNDS {
        live_and_close(round);
        after.push(live_bytes());
    }
    let (first, last) = (after[FIRST - 1], after[ROUNDS - 1]);
    let kept = (last - first) / (ROUNDS - FIRST) as i64;
    assert!(kept < 1000, "{kept} bytes a round stay: {after:?}");
}

#[test]
fn the_block_cache_has_as_many_bytes_as_it_says() {
    let _alone = alone();
    for compression in [CompressionType::None, CompressionType::Lz4] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options();
        options.db.block_cache_size = 4 << 20;
        options.default.enable_blob_files = false;
        options.default.disable_auto_compactions = true;
        options.default.compression = compression;
        let db = Db::open(dir.path(), &options).unwrap();
        // Twice as much as the cache holds. A half of each value compresses.
        let keys = 16_000;
        for n in 0..keys {
            let value = [value(n, 250), vec![7; 250]].concat();
            db.put(&key(n), &value).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
        db.close().unwrap();
        drop(db);

        let db = Db::open(dir.path(), &options).unwrap();
        db.wait_idle().unwrap();
        // Opens every table, and sets the cache up.
        (0..keys).step_by(40).for_each(|n| {
            db.get(&key(n)).unwrap();
        });
        let usage = || db.metrics().block_cache_bytes;
        let (live, used) = (live_bytes(), usage());
        for n in 0..keys / 4 {
            db.get(&key(n)).unwrap();
        }
        let (filled, full) = (live_bytes(), usage());
        let what = format!("filling it, {compression:?}");
        assert!(full > used + (1 << 20), "{what}: {used} {full}");
        assert_share(filled - live, full - used, 90..=120, &what);

        // Other blocks take the place of these.
        for n in 0..keys {
            db.get(&key(n)).unwrap();
        }
        let (live, used) = (live_bytes(), usage());
        for n in (0..keys).rev() {
            db.get(&key(n)).unwrap();
        }
        assert!(usage() <= 4 << 20);
        let grown = live_bytes() - live - (usage() as i64 - used as i64);
        assert!(grown.abs() < 256 << 10, "{compression:?}: {grown}");
        db.close().unwrap();
    }
}

/// Writes the entry of this number.
type Write<'a> = &'a dyn Fn(&Db, usize);

#[test]
fn a_memtable_has_as_many_bytes_as_it_says() {
    let _alone = alone();
    // Chunks of this write buffer are allocated; those of larger ones are mapped, which the
    // allocator does not see.
    let mut options = options();
    options.default.write_buffer_size = 1 << 20;
    options.default.disable_auto_compactions = true;
    let put = |db: &Db, n: usize, len: usize| db.put(&key(n), &value(n, len)).unwrap();
    let kinds: [(&str, Write<'_>, usize); 5] = [
        ("small values", &|db, n| put(db, n, 20), 5000),
        ("values of 1 KB", &|db, n| put(db, n, 1000), 700),
        ("values of 50 KB", &|db, n| put(db, n, 50_000), 14),
        ("deletions", &|db, n| db.delete(&key(n)).unwrap(), 7000),
        (
            "range deletions",
            &|db, n| db.delete_range(&key(2 * n), &key(2 * n + 1)).unwrap(),
            900,
        ),
    ];
    for (what, write, count) in kinds {
        // Of its own, so that no job of another memtable frees anything meanwhile.
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &options).unwrap();
        db.wait_idle().unwrap();
        // The first entries take buffers that stay.
        (0..2).for_each(|n| write(&db, n));
        let memtable = || db.metrics().families[0].memtable_bytes;
        let (live, accounted) = (live_bytes(), memtable());
        (2..count).for_each(|n| write(&db, n));
        // Memory that reading them needs.
        assert!(db.get(b"no such key").unwrap().is_none());
        let (grown, counted) = (live_bytes() - live, memtable() - accounted);
        assert!(counted > 100_000, "{what}: {counted} bytes");
        assert_eq!(db.metrics().families[0].immutable_memtables, 0, "{what}");
        // How many fragments there will be is an estimate; a memtable takes 1000 of these at most.
        let most = if what == "range deletions" { 200 } else { 125 };
        assert_share(grown, counted, 80..=most, what);
        db.close().unwrap();
    }
}

#[test]
fn a_large_value_is_read_in_little_memory() {
    const SIZE: usize = 64 << 20;
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &options()).unwrap();
    db.put("film", value(1, SIZE)).unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let film = db.get_lazy("film").unwrap().unwrap();
    let before = live_bytes();
    take_peak_bytes();
    let copied = std::io::copy(&mut film.reader(), &mut std::io::sink()).unwrap();
    assert_eq!(copied, SIZE as u64);
    let peak = take_peak_bytes() - before;
    assert!(peak < 2 << 20, "{peak} bytes for a value of {SIZE}");
}

/// Gives the bytes of a value without having them.
struct Film {
    left: u64,
    rng: fastrand::Rng,
}

impl Read for Film {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = buf.len().min(self.left as usize);
        self.rng.fill(&mut buf[..len]);
        self.left -= len as u64;
        Ok(len)
    }
}

#[test]
fn a_large_value_is_put_and_copied_in_little_memory() {
    const SIZE: u64 = 300 << 20;
    const MOST: i64 = 3 << 20;
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut options = options();
    options.db.block_cache_size = 1 << 20;
    let db = Db::open(dir.path(), &options).unwrap();
    db.wait_idle().unwrap();
    let peak_of = |what: &str, run: &dyn Fn()| {
        let before = live_bytes();
        take_peak_bytes();
        run();
        let peak = take_peak_bytes() - before;
        assert!(peak < MOST, "{what}: {peak} bytes for a value of {SIZE}");
    };
    peak_of("put", &|| {
        assert_eq!(
            db.put_reader(
                "film",
                Film {
                    left: SIZE,
                    rng: fastrand::Rng::with_seed(1),
                }
            )
            .unwrap(),
            SIZE
        );
    });
    peak_of("compaction", &|| {
        db.put("a", "b").unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
        db.wait_idle().unwrap();
    });
    peak_of("read", &|| {
        let film = db.get_lazy("film").unwrap().unwrap();
        let copied = std::io::copy(&mut film.reader(), &mut std::io::sink());
        assert_eq!(copied.unwrap(), SIZE);
    });
    db.close().unwrap();
}

#[test]
fn a_collection_copies_a_large_value_in_little_memory() {
    const SIZE: usize = 64 << 20;
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut options = options();
    options.default.blob_file_size = 1 << 30;
    options.default.enable_blob_garbage_collection = false;
    options.default.write_buffer_size = 1 << 30;
    let db = Db::open(dir.path(), &options).unwrap();
    // In one file, from memory.
    db.put("film", value(1, SIZE)).unwrap();
    db.put("other", value(2, SIZE)).unwrap();
    db.flush().unwrap();
    db.delete("other").unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    db.wait_idle().unwrap();
    let before = live_bytes();
    take_peak_bytes();
    let summary = db.collect_garbage(None, None, &Default::default()).unwrap();
    assert!(summary.bytes_written as usize > SIZE, "{summary:?}");
    let peak = take_peak_bytes() - before;
    assert!(peak < 8 << 20, "{peak} bytes for a value of {SIZE}");
    db.close().unwrap();
}

/// The line of `/proc/self/status`.
fn threads() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_thousand_databases_in_one_env_take_few_threads_and_little_memory() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.db.env = Some(Env::new(EnvOptions::default()).unwrap());
    let (bytes_before, threads_before) = (live_bytes(), threads());
    let dbs: Vec<Db> = (0..1000)
        .map(|n| {
            let db = Db::open(dir.path().join(n.to_string()), &options).unwrap();
            db.put("name", n.to_string()).unwrap();
            db
        })
        .collect();
    for db in &dbs {
        db.wait_idle().unwrap();
    }
    let (bytes, more) = (live_bytes() - bytes_before, threads() - threads_before);
    assert!(bytes <= 60 << 20, "{bytes} bytes");
    assert!(more <= 40, "{more} threads");
    for (n, db) in dbs.iter().enumerate() {
        assert_eq!(
            db.get("name").unwrap().as_deref(),
            Some(n.to_string().as_bytes())
        );
        db.close().unwrap();
    }
}
