//! Limits that are enforced: open files, log sizes, memtables, levels.

use titan::{ColumnFamilyOptions, CompactRangeOptions, Db, Options, ReadOptions};
use titan_testkit::sim::SimVfs;

use crate::support::{DIR, files, key, manual, open, options, value};

fn descriptors(dir: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    targets.filter(|target| target.starts_with(dir)).count()
}

#[test]
fn open_files_stay_near_their_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options {
        default: manual(),
        ..Options::default()
    };
    options.db.max_open_files = 16;
    options.default.level0_slowdown_writes_trigger = 1000;
    options.default.level0_stop_writes_trigger = 1000;
    let db = Db::open(dir.path(), &options).unwrap();
    for n in 0..150 {
        db.put(&key(n), &value(n, 200)).unwrap();
        db.flush().unwrap();
    }
    let mut most = 0;
    for round in 0..3 {
        for n in 0..150 {
            let n = (n * 37 + round) % 150;
            assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 200));
            most = most.max(descriptors(dir.path()));
        }
    }
    // The WAL, the MANIFEST, the lock, and a file in use beside those kept open.
    assert!(most <= 16 + 5, "{most} open");
    assert!(db.metrics().open_files <= 16);
    // An iterator needs all tables of level 0, and releases them.
    let mut it = db.iter(&ReadOptions::default()).unwrap();
    it.seek_to_last().unwrap();
    assert_eq!(it.value().unwrap(), value(149, 200));
    drop(it);
    assert!(descriptors(dir.path()) <= 16 + 5);
}

#[test]
fn memory_of_open_files_stays_within_its_limit() {
    const LIMIT: u64 = 1 << 20;
    let vfs = SimVfs::new();
    let mut options = options(&vfs, manual());
    options.db.max_open_files_memory = LIMIT;
    // One entry for each block.
    options.default.enable_blob_files = false;
    options.default.level0_slowdown_writes_trigger = 1000;
    options.default.level0_stop_writes_trigger = 1000;
    let db = open(&options);
    // Indexes store keys: separators of keys that differ only at their ends cannot be shortened.
    let key = |n: usize| [&[b'k'; 4000][..], &key(n)].concat();
    for table in 0..40 {
        for n in 0..16 {
            db.put(&key(table * 16 + n), &value(n, 5000)).unwrap();
        }
        db.flush().unwrap();
    }
    let mut most = 0;
    for n in 0..640 {
        let n = n * 37 % 640;
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n % 16, 5000));
        most = most.max(db.metrics().open_files_memory);
    }
    let metrics = db.metrics();
    assert_eq!(metrics.max_open_files_memory, LIMIT);
    assert!(metrics.open_files < 40, "all tables stayed open");
    assert!((LIMIT / 2..=LIMIT).contains(&most), "{most} bytes");
}

#[test]
fn limits_that_are_left_to_the_process_follow_from_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let limit = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let limit = limit
        .and_then(|line| line.split_whitespace().nth(3))
        .unwrap();
    let metrics = db.metrics();
    if let Ok(limit) = limit.parse::<u64>() {
        assert_eq!(metrics.max_open_files, (limit - limit / 4).max(16));
    }
    assert!(metrics.max_open_files_memory >= 16 << 20);
    drop(db);
    // If nothing is known of the process, fixed limits apply.
    let metrics = open(&options(&SimVfs::new(), manual())).metrics();
    assert_eq!(metrics.max_open_files, 1000);
    assert_eq!(metrics.max_open_files_memory, 1 << 30);
}

#[test]
fn an_idle_family_does_not_keep_wal_files() {
    let vfs = SimVfs::new();
    let mut options = options(
        &vfs,
        ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            ..ColumnFamilyOptions::default()
        },
    );
    options.db.max_total_wal_size = 256 << 10;
    let db = open(&options);
    let idle = db
        .create_column_family("idle", options.default.clone())
        .unwrap();
    idle.put(b"once", b"written").unwrap();
    for n in 0..2000 {
        db.put(&key(n), &value(n, 1000)).unwrap();
        let wal = db.metrics().wal_bytes;
        // Entries written while flushes run come on top.
        assert!(wal < 1 << 20, "{wal} bytes of WAL at {n}");
    }
    db.wait_idle().unwrap();
    let left: usize = files(&vfs, DIR, ".log")
        .iter()
        .map(|name| vfs.read_all(format!("{DIR}/{name}")).unwrap().len())
        .sum();
    assert!(left < 512 << 10, "{left} bytes of WAL left");
    assert_eq!(idle.get(b"once").unwrap().unwrap(), "written");
}

/// By default the WAL is bounded by the largest write buffer, not by the number of families.
#[test]
fn many_idle_families_keep_no_more_wal_files_than_one() {
    let vfs = SimVfs::new();
    let options = options(
        &vfs,
        ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            ..ColumnFamilyOptions::default()
        },
    );
    let db = open(&options);
    for n in 0..20 {
        let idle = db.create_column_family(&format!("idle{n}"), options.default.clone());
        idle.unwrap().put(b"once", b"written").unwrap();
    }
    for n in 0..2000 {
        db.put(&key(n), &value(n, 1000)).unwrap();
        let wal = db.metrics().wal_bytes;
        // Entries written while flushes run come on top.
        assert!(wal < 1 << 20, "{wal} bytes of WAL at {n}");
    }
    db.wait_idle().unwrap();
    let wal = db.metrics().wal_bytes;
    assert!(wal < 512 << 10, "{wal} bytes of WAL left");
    // The report has it beside its bound, and the bytes that `max_space_amp` allows the other
    // files.
    let report = db.space_report().unwrap();
    let bound = report.bound.unwrap();
    assert_eq!(bound.wal_bytes, 256 << 10);
    assert!(report.disk.wal_bytes >= wal && wal < 2 * bound.wal_bytes);
    assert!(report.disk.data_bytes() <= bound.file_bytes);
    let live = report.total.sst_bytes + report.total.live_blob_bytes;
    assert!(bound.file_bytes > live + (32 << 20), "{bound:?}");
    assert!(bound.file_bytes < 2 * live + (64 << 20), "{bound:?}");
    drop(db);
    let view = Db::open_read_only(DIR, &options).unwrap();
    let seen = view.space_report().unwrap().bound.unwrap();
    assert_eq!(seen.wal_bytes, bound.wal_bytes);
    // The entries that it has replayed are in tables, in memory.
    assert!(
        seen.file_bytes.abs_diff(bound.file_bytes) < 1 << 20,
        "{seen:?} {bound:?}"
    );
}

/// A secondary instance of RocksDB takes zeros at the end of a log for a gap.
#[test]
fn logs_are_extended_by_zeros_only_where_the_option_says_so() {
    for extended in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.db.extend_wal_files = extended;
        let newest_log = || {
            let names = std::fs::read_dir(place.path()).unwrap();
            let paths = names.map(|entry| entry.unwrap().path());
            let logs = paths.filter(|path| path.extension().is_some_and(|e| e == "log"));
            std::fs::read(logs.max().unwrap()).unwrap()
        };
        let db = Db::open(place.path(), &options).unwrap();
        for round in 0..4 {
            for n in 0..20 {
                db.put(&key(n), b"the end of a record").unwrap();
                let log = newest_log();
                match extended {
                    // Later ones may be extended otherwise.
                    true if round > 0 => {}
                    true => assert!(log.ends_with(&[0; 1000]), "{n}"),
                    false => assert!(log.ends_with(b"the end of a record"), "{round}, {n}"),
                }
            }
            db.flush().unwrap();
        }
    }
}

#[test]
fn the_manifest_starts_anew_at_its_size() {
    let vfs = SimVfs::new();
    let mut options = options(&vfs, manual());
    options.db.max_manifest_file_size = 4096;
    let db = open(&options);
    let manifest = || {
        let mut names = files(&vfs, DIR, "");
        names.retain(|name| name.starts_with("MANIFEST-"));
        names
    };
    let first = manifest();
    for n in 0..60 {
        db.put(&key(n % 7), &value(n, 200)).unwrap();
        db.flush().unwrap();
        if n % 4 == 3 {
            db.compact_range(None, None, &CompactRangeOptions::default())
                .unwrap();
        }
        db.wait_idle().unwrap();
        let names = manifest();
        assert_eq!(names.len(), 1, "{names:?}");
        let size = vfs.read_all(format!("{DIR}/{}", names[0])).unwrap().len();
        assert!(size < 8192, "{size}");
    }
    assert_ne!(manifest(), first);
    drop(db);
    let db = open(&options);
    for n in 53..60 {
        assert_eq!(db.get(&key(n % 7)).unwrap().unwrap(), value(n, 200));
    }
}

/// Volumes on small devices ended with more bytes of edits than of files.
#[test]
fn the_manifest_of_a_small_database_stays_small() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    let most = (0..4000).map(|n| {
        db.put(&key(n % 7), &value(n, 200)).unwrap();
        db.flush().unwrap();
        if n % 4 == 3 {
            let all = CompactRangeOptions::default();
            db.compact_range(None, None, &all).unwrap();
        }
        db.wait_idle().unwrap();
        let names = files(&vfs, DIR, "").into_iter();
        let manifests = names.filter(|name| name.starts_with("MANIFEST-"));
        let sizes = manifests.map(|name| vfs.read_all(format!("{DIR}/{name}")).unwrap().len());
        sizes.max().unwrap()
    });
    let most = most.max().unwrap();
    // Many edits, so that few of them start another.
    assert!((200 << 10..300 << 10).contains(&most), "{most}");
}

#[test]
fn a_memtable_is_flushed_at_its_size() {
    let vfs = SimVfs::new();
    let mut family = manual();
    family.write_buffer_size = 256 << 10;
    let db = open(&options(&vfs, family));
    for n in 0..4096 {
        db.put(&key(n), &value(n, 1000)).unwrap();
        let m = &db.metrics().families[0];
        assert!(m.memtable_bytes < 4 * (256 << 10), "{m:?}");
    }
    db.wait_idle().unwrap();
    let flushes = db.statistics().flushes();
    assert!((4..=20).contains(&flushes), "{flushes} flushes of 4 MiB");
}

#[test]
fn what_is_written_in_order_is_written_once() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        write_buffer_size: 2 << 20,
        level0_file_num_compaction_trigger: 4,
        max_bytes_for_level_base: 8 << 20,
        target_file_size_base: 4 << 20,
        enable_blob_files: false,
        ..ColumnFamilyOptions::default()
    };
    let db = open(&options(&vfs, family.clone()));
    for n in 0..30_000 {
        db.put(&key(n), &value(n, 1000)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let statistics = db.statistics();
    assert!(statistics.trivial_moves() > 2);
    assert_eq!(statistics.compaction_sst_bytes(), 0);
    let levels = &db.metrics().families[0].levels;
    assert!(levels[0].files < 4, "{levels:?}");
    db.close().unwrap();

    let db = open(&options(&vfs, family));
    let mut entries = db.iter(&ReadOptions::default()).unwrap();
    entries.seek_to_first().unwrap();
    for n in 0..30_000 {
        assert_eq!(entries.key(), key(n), "{n}");
        entries.next().unwrap();
    }
    assert!(!entries.valid());

    // Overlapping tables are merged, since level 0 and the base level cannot keep all of the data
    // beside the tables below, and the newer value wins.
    for n in 0..30_000 {
        db.put(&key(n), &value(n + 1, 1000)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(db.statistics().compaction_sst_bytes() > 0);
    for n in 0..30_000 {
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n + 1, 1000), "{n}");
    }
}

#[test]
fn a_queue_leaves_nothing_behind() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        write_buffer_size: 256 << 10,
        level0_file_num_compaction_trigger: 4,
        target_file_size_base: 64 << 10,
        enable_blob_files: false,
        ..ColumnFamilyOptions::default()
    };
    let db = open(&options(&vfs, family));
    // Put and deleted, in order: tables have only deletions of keys that are in no table.
    for n in 0..40_000 {
        db.put(&key(n), &value(n, 20)).unwrap();
        db.delete(&key(n)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let levels = &db.metrics().families[0].levels;
    let beneath: u64 = levels[1..].iter().map(|level| level.bytes).sum();
    assert!(beneath < 16 << 10, "{levels:?}");
}

#[test]
fn levels_stay_within_their_targets_and_files_move_where_they_can() {
    let vfs = SimVfs::new();
    let db = open(&options(
        &vfs,
        ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            level0_file_num_compaction_trigger: 1,
            max_bytes_for_level_base: 64 << 10,
            max_bytes_for_level_multiplier: 4,
            target_file_size_base: 16 << 10,
            enable_blob_files: false,
            ..ColumnFamilyOptions::default()
        },
    ));
    // In order, so that nothing overlaps.
    for n in 0..2000 {
        db.put(&key(n), &value(n, 400)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(db.statistics().trivial_moves() > 0);
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..4000 {
        let n = rng.usize(..2000);
        db.put(&key(n), &value(n, 400)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let m = &db.metrics().families[0];
    assert!(m.base_level < 6, "several levels are in use: {m:?}");
    for (level, l) in m.levels.iter().enumerate().take(6) {
        assert!(l.score < 1.0, "level {level}: {m:?}");
        assert!(
            level < m.base_level || l.bytes <= l.target_bytes,
            "level {level}: {m:?}"
        );
        assert!(level == 0 || level >= m.base_level || l.files == 0, "{m:?}");
    }
    assert_eq!(m.pending_compaction_bytes, 0);
    for n in 0..2000 {
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 400));
    }
}

#[test]
fn tables_of_deletions_are_compacted_soon() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 256 << 10,
        max_bytes_for_level_multiplier: 4,
        target_file_size_base: 32 << 10,
        min_blob_size: 100,
        ..ColumnFamilyOptions::default()
    };
    let db = open(&options(&vfs, family));
    for n in 0..3000 {
        db.put(&key(n), &value(n, 1000)).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    for part in 0..4 {
        for n in (0..2900).filter(|n| n % 4 == part) {
            db.delete(&key(n)).unwrap();
        }
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let m = &db.metrics().families[0];
    assert!(
        m.live_blob_bytes < 1500 << 10,
        "half of what was deleted is still referenced: {m:?}"
    );
}
