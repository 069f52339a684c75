//! Options that change while the database is open.

use titan::merge::builtin::by_name;
use titan::{
    ColumnFamilyOptions, Db, DbOptions, ErrorKind, LoadedOptions, Options, StallEvent, Stated,
};
use titan_testkit::sim::{Loss, SimVfs};
use titan_tools::check;

use crate::support::{DIR, files, key, manual, open, options, value};

fn options_files(vfs: &SimVfs) -> usize {
    let files = files(vfs, DIR, "");
    files.iter().filter(|name| name.contains("OPTIONS")).count()
}

#[test]
fn a_change_applies_is_kept_and_is_all_or_nothing() {
    let vfs = SimVfs::new();
    // Openings take over the options kept.
    let plain = options(&vfs, ColumnFamilyOptions::default());
    let db = open(&plain);
    db.set_options(&[("min_blob_size", "100"), ("compression", "kZSTD")])
        .unwrap();
    assert_eq!(db.options().min_blob_size, 100);
    let e = db
        .set_options(&[("min_blob_size", "200"), ("block_size", "1")])
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidOption);
    assert_eq!(db.options().min_blob_size, 100);
    for n in 0..20 {
        let bits = n.to_string();
        db.set_options(&[("bloom_bits_per_key", &bits)]).unwrap();
    }
    assert_eq!(options_files(&vfs), 2);
    let other = db
        .create_column_family("other", ColumnFamilyOptions::default())
        .unwrap();
    other.set_options(&[("write_buffer_size", "1M")]).unwrap();
    assert_eq!(db.options().write_buffer_size, 64 << 20);
    // The machine stops.
    let journal = vfs.journal();
    let crashed = journal.crash_at(journal.len(), &Loss::All);
    drop((db, other));
    let plain = options(&crashed, ColumnFamilyOptions::default());
    let db = open(&plain);
    let found = db.options();
    assert_eq!((found.min_blob_size, found.bloom_bits_per_key), (100, 19.0));
    assert_eq!(found.compression, titan::CompressionType::Zstd);
    let other = db.column_family("other").unwrap();
    assert_eq!(other.options().write_buffer_size, 1 << 20);
    db.drop_column_family(&other).unwrap();
    let e = other.set_options(&[("min_blob_size", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    db.close().unwrap();
    let e = db.set_options(&[("min_blob_size", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
    drop(other);
    drop(db);
    let db = Db::open_read_only(DIR, &plain).unwrap();
    let e = db.set_options(&[("min_blob_size", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ReadOnly, "{e}");
}

#[test]
fn a_change_that_is_not_to_be_kept_ends_with_the_opening() {
    let vfs = SimVfs::new();
    let plain = options(&vfs, ColumnFamilyOptions::default());
    drop(open(&plain));
    let passing = Options {
        db: DbOptions {
            keep_options: false,
            ..plain.db.clone()
        },
        ..plain.clone()
    };
    let db = open(&passing);
    db.set_options(&[("min_blob_size", "100")]).unwrap();
    assert_eq!(db.options().min_blob_size, 100);
    drop(db);
    assert_eq!(open(&plain).options().min_blob_size, 4096);
}

#[test]
fn jobs_and_writers_go_by_the_new_options() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        level0_file_num_compaction_trigger: 2,
        stated: Stated::all(),
        ..manual()
    };
    let db = open(&options(&vfs, family));
    let tables = || db.table_properties(None, None).unwrap().len();
    let fill = |from: usize| {
        for n in from..from + 2000 {
            db.put(&key(n), &value(n, 90)).unwrap();
        }
        db.wait_idle().unwrap();
    };
    // A write buffer has its new size when the next one begins.
    fill(0);
    assert_eq!(tables(), 0);
    db.set_options(&[("write_buffer_size", "64K")]).unwrap();
    db.flush().unwrap();
    fill(2000);
    assert!(tables() >= 3, "{} tables", tables());

    // Values are separated by their new size, and then not at all.
    db.put(b"a", &value(1, 50)).unwrap();
    db.set_options(&[("min_blob_size", "20")]).unwrap();
    db.flush().unwrap();
    let separated = || db.metrics().families[0].blob_files;
    assert_eq!(separated(), 1);
    db.put(b"b", &value(2, 50)).unwrap();
    db.set_options(&[("enable_blob_files", "false")]).unwrap();
    db.flush().unwrap();
    assert_eq!(separated(), 1);

    // Compactions begin when they are allowed.
    assert!(tables() > 3);
    db.wait_idle().unwrap();
    assert!(tables() > 3);
    db.set_options(&[("disable_auto_compactions", "false")])
        .unwrap();
    db.wait_idle().unwrap();
    assert!(tables() <= 2, "{} tables", tables());
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&*value(1, 50)));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&*value(2, 50)));
}

fn separated(db: &Db) -> usize {
    db.wait_idle().unwrap();
    db.metrics().families[0].blob_files
}

fn compact(db: &Db) {
    db.compact_range(None, None, &Default::default()).unwrap();
}

/// Closes the database, and checks that pointers, accounts and scans agree.
fn close_and_check(db: Db, options: &Options) {
    db.close().unwrap();
    drop(db);
    let report = check(DIR.as_ref(), options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

#[test]
fn values_come_back_inline_when_they_are_separated_no_more() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        blob_compression_type: titan::CompressionType::Zstd,
        blob_file_size: 64 << 10,
        ..manual()
    };
    let mut plain = options(&vfs, family);
    plain.default.stated = Stated::fields(&["disable_auto_compactions"]);
    let db = open(&plain);
    // More than are fetched at once, in many files, some of them overwritten and some small.
    let len = |n: usize| if n.is_multiple_of(7) { 10 } else { 500 };
    let put = |keys: std::ops::Range<usize>, round: usize| {
        for n in keys {
            db.put(&key(n), &value(n + round, len(n))).unwrap();
        }
        db.flush().unwrap();
    };
    put(0..3000, 0);
    compact(&db);
    let snapshot = db.snapshot();
    put(1000..2000, 1);
    assert!(separated(&db) > 2);
    db.set_options(&[("enable_blob_files", "false")]).unwrap();
    compact(&db);
    assert_eq!(separated(&db), 0);
    assert_eq!(files(&vfs, DIR, ".blob"), Vec::<String>::new());
    let at_snapshot = titan::ReadOptions {
        snapshot: Some(snapshot),
        ..Default::default()
    };
    for n in 0..3000 {
        let round = usize::from((1000..2000).contains(&n));
        let found = db.get(&key(n)).unwrap().unwrap();
        assert_eq!(found, value(n + round, len(n)), "{n}");
        let found = db.get_with(&key(n), &at_snapshot).unwrap().unwrap();
        assert_eq!(found, value(n, len(n)), "{n}");
    }
    drop(at_snapshot);
    close_and_check(db, &plain);

    // And back again.
    let db = open(&plain);
    assert!(!db.options().enable_blob_files);
    db.set_options(&[("enable_blob_files", "true")]).unwrap();
    let all = titan::CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &all).unwrap();
    assert!(separated(&db) > 2);
    for n in (0..3000).step_by(9) {
        let round = usize::from((1000..2000).contains(&n));
        let found = db.get(&key(n)).unwrap().unwrap();
        assert_eq!(found, value(n + round, len(n)), "{n}");
    }
    close_and_check(db, &plain);
}

#[test]
fn a_damaged_value_stays_where_it_is_and_harms_no_other() {
    let vfs = SimVfs::new();
    let plain = options(&vfs, manual());
    let db = open(&plain);
    for n in 0..100 {
        db.put(&key(n), &value(n, 500)).unwrap();
    }
    db.flush().unwrap();
    let blob = &files(&vfs, DIR, ".blob")[0];
    vfs.flip_bit(std::path::Path::new(DIR).join(blob), 10_000)
        .unwrap();
    db.set_options(&[("enable_blob_files", "false")]).unwrap();
    compact(&db);
    let damaged: Vec<usize> = (0..100).filter(|n| db.get(&key(*n)).is_err()).collect();
    assert_eq!(damaged.len(), 1);
    for n in (0..100).filter(|n| !damaged.contains(n)) {
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 500), "{n}");
    }
    assert_eq!(separated(&db), 1);
    let usage = db.space_report().unwrap().total;
    assert!(usage.live_blob_bytes < 600, "{usage:?}");
    db.delete(&key(damaged[0])).unwrap();
    compact(&db);
    assert_eq!(separated(&db), 0);
    close_and_check(db, &plain);
}

/// Some bits of a blob file's header say that it is of a later version, or has features that Titan
/// does not read.
#[test]
fn damage_that_looks_like_another_format_stops_no_job() {
    for offset in 0..30 {
        let vfs = SimVfs::new();
        let family = ColumnFamilyOptions {
            merge_operator: by_name("stringappend"),
            ..manual()
        };
        let db = open(&options(&vfs, family));
        for n in 0..3 {
            db.put(&key(n), &value(n, 500)).unwrap();
        }
        db.flush().unwrap();
        db.delete(&key(2)).unwrap();
        compact(&db);
        let blob = &files(&vfs, DIR, ".blob")[0];
        let path = std::path::Path::new(DIR).join(blob);
        vfs.flip_bit(path, offset).unwrap();
        let found = |n: usize| db.get(&key(n)).map_err(|e| e.kind());
        let before = found(0);
        // It is the base of operands, then an input of a collection, then to be brought back.
        db.merge(&key(1), b"x").unwrap();
        compact(&db);
        let _ = db.collect_garbage(None, None, &Default::default());
        assert!(db.background_error().is_none(), "byte {offset}");
        db.set_options(&[("enable_blob_files", "false")]).unwrap();
        db.put(b"other", b"1").unwrap();
        compact(&db);
        assert_eq!(found(0), before, "byte {offset}");
        // Writes go on, and make the keys whole again.
        for n in 0..2 {
            db.put(&key(n), b"again").unwrap();
        }
        compact(&db);
        assert_eq!(separated(&db), 0, "byte {offset}");
    }
}

#[test]
fn options_of_the_database_change_and_are_kept() {
    let vfs = SimVfs::new();
    let plain = options(&vfs, manual());
    let db = open(&plain);
    db.set_options(&[
        ("block_cache_size", "1M"),
        ("delayed_write_rate", "2M"),
        ("blob_garbage_collection_rate", "4M"),
        ("max_total_wal_size", "8M"),
        ("max_manifest_file_size", "4096"),
        ("data_in_memory", "never"),
    ])
    .unwrap();
    let capacity = || db.property("rocksdb.block-cache-capacity");
    assert_eq!(capacity().as_deref(), Some("1048576"));
    // The MANIFEST is soon full.
    let manifests = || {
        files(&vfs, DIR, "")
            .into_iter()
            .find(|f| f.starts_with("MANIFEST"))
    };
    let before = manifests();
    for n in 0..60 {
        let bits = n.to_string();
        db.set_options(&[("bloom_bits_per_key", &bits)]).unwrap();
    }
    assert_ne!(manifests(), before);

    for (changes, text) in [
        (vec![("no_such", "1")], "no_such"),
        (
            vec![("max_open_files_memory", "8M")],
            "cannot change while the database",
        ),
        (vec![("max_open_files", "7")], "0 or at least 16"),
        (vec![("max_background_jobs", "0")], "1 to 256"),
        (vec![("wal_dir", "/x")], "cannot change while the database"),
        (vec![("listeners", "x")], "cannot change while the database"),
        (vec![("delayed_write_rate", "1")], "at least 1024"),
        // One call for the database and the family: nothing applies.
        (
            vec![("block_cache_size", "2M"), ("block_size", "1")],
            "block_size",
        ),
        (
            vec![("min_blob_size", "7"), ("delayed_write_rate", "1")],
            "at least 1024",
        ),
        (
            vec![
                ("block_cache_size", "2M"),
                ("blob_garbage_collection_rate", "1"),
            ],
            "at least 1 MiB",
        ),
        (
            vec![("block_cache_size", "1"), ("block_cache_size", "2")],
            "twice",
        ),
    ] {
        let e = db.set_options(&changes).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidOption, "{e}");
        assert!(e.message().contains(text), "{changes:?}: {e}");
    }
    assert_eq!(capacity().as_deref(), Some("1048576"));
    assert_ne!(db.options().min_blob_size, 7);
    db.set_options(&[("min_blob_size", "7"), ("block_cache_size", "1M")])
        .unwrap();
    assert_eq!(db.options().min_blob_size, 7);
    let family = db.column_family("default").unwrap();
    let e = family
        .set_options(&[("block_cache_size", "1M")])
        .unwrap_err();
    assert!(e.message().contains("Db::set_options"), "{e}");

    // The machine stops.
    let journal = vfs.journal();
    let crashed = journal.crash_at(journal.len(), &Loss::All);
    let load = |vfs: &SimVfs| {
        let loaded = LoadedOptions::load(std::sync::Arc::new(vfs.clone()), DIR);
        let loaded = loaded.unwrap().options.db;
        (loaded.block_cache_size, loaded.delayed_write_rate)
    };
    assert_eq!(load(&crashed), (1 << 20, 2 << 20));
    // Defaults replace the options kept, too.
    let default = DbOptions::default();
    for (name, value) in [
        ("block_cache_size", default.block_cache_size.to_string()),
        ("delayed_write_rate", default.delayed_write_rate.to_string()),
        ("blob_garbage_collection_rate", "64M".to_owned()),
        ("max_total_wal_size", "0".to_owned()),
        ("max_manifest_file_size", "64M".to_owned()),
        ("data_in_memory", "auto".to_owned()),
    ] {
        db.set_options(&[(name, &value)]).unwrap();
    }
    db.close().unwrap();
    let defaults = (default.block_cache_size, default.delayed_write_rate);
    assert_eq!(load(&vfs), defaults);
    let e = db.set_options(&[("block_cache_size", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed);
    drop(db);
    let db = Db::open_read_only(DIR, &plain).unwrap();
    let e = db.set_options(&[("block_cache_size", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ReadOnly, "{e}");
}

/// The limits on bytes that wait for compaction.
const PENDING: [&str; 2] = [
    "soft_pending_compaction_bytes_limit",
    "hard_pending_compaction_bytes_limit",
];

#[test]
fn a_limit_of_zero_on_pending_compaction_is_no_limit() {
    let vfs = SimVfs::new();
    let plain = options(&vfs, ColumnFamilyOptions::default());
    let db = open(&plain);
    let stall = |db: &Db| db.metrics().families[0].stall;
    db.set_options(&[(PENDING[0], "0"), (PENDING[1], "0")])
        .unwrap();
    assert_eq!(stall(&db), StallEvent::Normal);
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    drop(db);
    // It is kept, and means the same in the options of an opening.
    let db = open(&plain);
    let kept = db.options();
    assert_eq!(kept.soft_pending_compaction_bytes_limit, 0);
    assert_eq!(kept.hard_pending_compaction_bytes_limit, 0);
    assert_eq!(stall(&db), StallEvent::Normal);
    db.put(b"k", b"w").unwrap();
    // Each by itself: only delayed, or stopped without being delayed before.
    for (soft, hard) in [("1T", "0"), ("0", "1T")] {
        db.set_options(&[(PENDING[0], soft), (PENDING[1], hard)])
            .unwrap();
        assert_eq!(stall(&db), StallEvent::Normal, "{soft}, {hard}");
    }
}

#[test]
fn the_number_of_open_files_changes_with_its_option() {
    const TABLES: usize = 60;
    let vfs = SimVfs::new();
    let mut plain = options(&vfs, manual());
    plain.db.max_open_files = 1000;
    let db = open(&plain);
    for n in 0..TABLES {
        db.put(&key(n), &value(n, 10)).unwrap();
        db.flush().unwrap();
    }
    let read_all = || {
        for n in 0..TABLES {
            assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 10), "{n}");
        }
    };
    read_all();
    assert!(db.metrics().open_files >= TABLES);
    db.set_options(&[("max_open_files", "16")]).unwrap();
    assert_eq!(db.metrics().max_open_files, 16);
    let left = db.metrics().open_files;
    assert!((1..=16).contains(&left), "{left}");
    read_all();
    assert!(db.metrics().open_files <= 16);
    db.set_options(&[("max_open_files", "200")]).unwrap();
    read_all();
    read_all();
    let open = db.metrics().open_files;
    assert!(open >= TABLES / 2, "{open}");
    let kept = LoadedOptions::load(std::sync::Arc::new(vfs.clone()), DIR).unwrap();
    assert_eq!(kept.options.db.max_open_files, 200);
}
