//! Options that are kept with a database: all of them come back, after any changes in between, and
//! the fields that an opening states apply one by one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use titan::vfs::Vfs;
use titan::{
    ColumnFamilyOptions, CompressionType, DataInMemory, Db, DbOptions, ErrorKind, LoadedOptions,
    Options, ReverseBytewiseComparator, Stated, StatsLevel, TimeToLive, merge, prefix,
};
use titan_testkit::requirement;
use titan_testkit::sim::{Loss, SimVfs};
use titan_tools::{RepairTo, downgrade, repair};

use crate::support::{DIR, files, open, options};

/// Options with random values in every field. A new field must be added here, or this does not
/// compile.
fn any_family(rng: &mut Rng) -> ColumnFamilyOptions {
    let trigger = rng.usize(1..20);
    let slow = trigger + rng.usize(0..20);
    let soft = rng.u64(1..1 << 40);
    let low = 0.01 + rng.f64() * 0.5;
    let codecs = [
        CompressionType::None,
        CompressionType::Lz4,
        CompressionType::Zstd,
        CompressionType::Snappy,
    ];
    let default = ColumnFamilyOptions::default();
    ColumnFamilyOptions {
        write_buffer_size: rng.u64(64 << 10..1 << 20),
        max_write_buffer_number: rng.usize(2..9),
        level0_file_num_compaction_trigger: trigger,
        level0_slowdown_writes_trigger: slow,
        level0_stop_writes_trigger: slow + rng.usize(0..20),
        soft_pending_compaction_bytes_limit: soft,
        hard_pending_compaction_bytes_limit: soft + rng.u64(0..1 << 40),
        num_levels: rng.usize(2..=64),
        max_bytes_for_level_base: rng.u64(1024..1 << 40),
        max_bytes_for_level_multiplier: rng.u64(2..100),
        target_file_size_base: rng.u64(1024..1 << 40),
        disable_auto_compactions: rng.bool(),
        block_size: rng.usize(256..=16 << 20),
        block_restart_interval: rng.usize(1..=4096),
        bloom_bits_per_key: *rng.choice(&[0.0, 0.1 + 0.2, 7.5, 100.0]).unwrap(),
        compression: *rng.choice(&codecs).unwrap(),
        enable_blob_files: rng.bool(),
        min_blob_size: rng.u64(0..1 << 40),
        blob_file_size: rng.u64(64 << 10..1 << 40),
        blob_compression_type: *rng.choice(&codecs[..3]).unwrap(),
        enable_blob_garbage_collection: rng.bool(),
        blob_garbage_collection_low_threshold: low,
        blob_garbage_collection_high_threshold: low + rng.f64() * 0.4,
        blob_garbage_collection_punch_holes: false,
        max_space_amp: 1.1 + rng.f64() * 90.0,
        stated: Stated::all(),
        comparator: default.comparator,
        prefix_extractor: None,
        merge_operator: None,
        compaction_filter: None,
        table_properties_collectors: Vec::new(),
        sst_partitioner: None,
    }
}

fn any_db(rng: &mut Rng, vfs: &SimVfs) -> DbOptions {
    let default = DbOptions::default();
    DbOptions {
        create_if_missing: true,
        error_if_exists: false,
        keep_options: true,
        max_open_files: rng.usize(16..5000),
        max_open_files_memory: rng.u64(1 << 20..1 << 40),
        db_write_buffer_size: rng.u64(64 << 10..1 << 40),
        data_in_memory: *rng
            .choice(&[
                DataInMemory::Auto,
                DataInMemory::Always,
                DataInMemory::Never,
            ])
            .unwrap(),
        max_background_jobs: rng.usize(1..5),
        block_cache_size: rng.u64(1 << 20..1 << 30),
        max_total_wal_size: rng.u64(0..1 << 40),
        use_direct_io_for_flush_and_compaction: rng.bool(),
        delayed_write_rate: rng.u64(1024..1 << 40),
        blob_garbage_collection_rate: rng.u64(1 << 20..1 << 40),
        max_manifest_file_size: rng.u64(4096..1 << 40),
        slow_operation_micros: rng.u64(..),
        stats_level: *rng
            .choice(&[StatsLevel::Off, StatsLevel::Sampled, StatsLevel::All])
            .unwrap(),
        // These are stated at each opening.
        wal_recovery_mode: default.wal_recovery_mode,
        extend_wal_files: true,
        wal_dir: default.wal_dir,
        comparator_aliases: default.comparator_aliases,
        vfs: Arc::new(vfs.clone()),
        clock: default.clock,
        commit_hook: None,
        env: None,
        listeners: default.listeners,
    }
}

/// All fields of options, as text.
fn fields(options: &ColumnFamilyOptions) -> String {
    toml::to_string(options).unwrap()
}

fn load(vfs: &SimVfs, dir: &str) -> Options {
    LoadedOptions::load(Arc::new(vfs.clone()), dir)
        .unwrap()
        .options
}

fn plain(vfs: &SimVfs) -> Options {
    options(vfs, ColumnFamilyOptions::default())
}

#[test]
fn every_field_goes_out_and_comes_back() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut rng = Rng::with_seed(seed);
        let vfs = SimVfs::new();
        let mut given = plain(&vfs);
        given.db = any_db(&mut rng, &vfs);
        given.default = any_family(&mut rng);
        given
            .families
            .insert("at opening".to_owned(), any_family(&mut rng));
        let created = any_family(&mut rng);

        let db = open(&given);
        db.create_column_family("later", created.clone()).unwrap();
        given.families.insert("later".to_owned(), created);
        db.put(b"k", b"v").unwrap();
        let same = |dir: &str, after: &str| {
            let loaded = load(&vfs, dir);
            let expected = toml::to_string(&given.db).unwrap();
            assert_eq!(toml::to_string(&loaded.db).unwrap(), expected, "{after}");
            for name in ["default", "at opening", "later"] {
                let (loaded, given) = (loaded.family(name), given.family(name));
                assert_eq!(fields(loaded), fields(given), "{name}, {after}");
            }
        };
        same(DIR, "while it is open");
        db.checkpoint("/copy").unwrap();
        db.close().unwrap();
        drop(db);
        same(DIR, "when it is closed");
        same("/copy", "in a checkpoint");

        // An opening that states nothing takes everything over, and keeps it.
        for dir in [DIR, "/copy"] {
            let mut unstated = plain(&vfs);
            unstated.db = given.db.clone();
            let db = Db::open(dir, &unstated).unwrap();
            for family in db.column_families() {
                let expected = fields(given.family(family.name()));
                assert_eq!(fields(&family.options()), expected, "{}", family.name());
            }
            db.close().unwrap();
            drop(db);
            same(dir, "after an opening that states nothing");
        }

        // So do tools that write a MANIFEST.
        downgrade(Path::new(DIR), &given, &mut |_| {}).unwrap();
        same(DIR, "after a downgrade");
        let mut unstated = plain(&vfs);
        unstated.db = given.db.clone();
        repair(Path::new(DIR), &RepairTo::InPlace, &unstated, &mut |_| {}).unwrap();
        same(DIR, "after a repair");
    }
}

#[test]
fn what_is_stated_holds_field_by_field() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        compression: CompressionType::Zstd,
        min_blob_size: 100,
        level0_file_num_compaction_trigger: 2,
        level0_slowdown_writes_trigger: 3,
        ..ColumnFamilyOptions::default()
    };
    let db = open(&options(&vfs, family.clone()));
    db.create_column_family("pages", family).unwrap();
    db.close().unwrap();
    drop(db);

    // A field that differs from its default is stated, for the family for which it is given.
    let mut given = plain(&vfs);
    given.default.block_size = 8192;
    let db = open(&given);
    let pages = db.column_family("pages").unwrap();
    assert_eq!(db.options().block_size, 8192);
    assert_eq!(pages.options().block_size, 4096);
    for family in db.column_families() {
        assert_eq!(family.options().compression, CompressionType::Zstd);
        assert_eq!(family.options().min_blob_size, 100);
    }
    let taken = db.taken_options();
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0].family, "default");
    assert!(taken[0].file.starts_with("MANIFEST-"), "{taken:?}");
    assert_eq!(taken[0].options["compression"], "zstd");
    assert!(!taken[0].options.contains_key("block_size"), "{taken:?}");
    db.close().unwrap();
    drop((db, pages));

    // A default is stated by name, by being in a file, or in options that were loaded.
    let lz4 = |mut given: Options, of: &str, how: &str| {
        given.db.vfs = Arc::new(vfs.clone());
        given.db.keep_options = false;
        let db = open(&given);
        let options = db.column_family(of).unwrap().options().clone();
        assert_eq!(options.compression, CompressionType::Lz4, "{how}");
        assert_eq!(options.min_blob_size, 100, "{how}");
        db.close().unwrap();
    };
    let mut named = plain(&vfs);
    named.default.stated = Stated::fields(&["compression"]);
    lz4(named, "default", "by name");
    lz4(
        toml::from_str("[families.pages]\ncompression = \"lz4\"\n").unwrap(),
        "pages",
        "in a file",
    );
    let mut loaded = load(&vfs, DIR);
    loaded.default.compression = CompressionType::Lz4;
    lz4(loaded, "default", "loaded");
    // None of these openings was to keep it.
    assert_eq!(load(&vfs, DIR).default.compression, CompressionType::Zstd);

    // A stated option takes precedence over one that is taken over.
    let mut given = plain(&vfs);
    given.default.level0_file_num_compaction_trigger = 10;
    let db = open(&given);
    assert_eq!(db.options().level0_file_num_compaction_trigger, 10);
    assert_eq!(db.options().level0_slowdown_writes_trigger, 10);
    db.close().unwrap();
    drop(db);

    let mut unknown = plain(&vfs);
    unknown.default.stated = Stated::fields(&["compresion"]);
    let error = Db::open(DIR, &unknown).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.message().contains("compresion"), "{error}");
}

#[test]
fn options_survive_without_options_file_or_without_our_manifest_fields() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        compression: CompressionType::Zstd,
        max_space_amp: 3.0,
        ..ColumnFamilyOptions::default()
    };
    let db = open(&options(&vfs, family));
    db.close().unwrap();
    drop(db);
    let remove = |what: &str| {
        let names = vfs.read_dir(Path::new(DIR)).unwrap();
        for name in names.iter().filter(|name| name.starts_with(what)) {
            vfs.remove(&Path::new(DIR).join(name)).unwrap();
        }
    };
    remove("OPTIONS-");
    let loaded = load(&vfs, DIR);
    assert_eq!(loaded.default.compression, CompressionType::Zstd);
    assert!((loaded.default.max_space_amp - 3.0).abs() < 1e-9);
    open(&plain(&vfs)).close().unwrap();

    // The MANIFEST is gone: options that RocksDB knows too come from OPTIONS.
    remove("MANIFEST-");
    assert!(!files(&vfs, DIR, "").is_empty());
    repair(
        Path::new(DIR),
        &RepairTo::InPlace,
        &plain(&vfs),
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(load(&vfs, DIR).default.compression, CompressionType::Zstd);
}

/// Whenever the machine stops, each family has the complete options of one moment.
#[test]
fn a_crash_leaves_options_of_before_or_after() {
    let of = |n: u64| ColumnFamilyOptions {
        min_blob_size: n,
        max_space_amp: 1.5 + n as f64,
        ..ColumnFamilyOptions::default()
    };
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, of(1)));
    db.close().unwrap();
    drop(db);
    vfs.restart_journal();
    let db = open(&options(&vfs, of(2)));
    db.create_column_family("new", of(7)).unwrap();
    db.close().unwrap();
    drop(db);
    let journal = vfs.journal();
    let mut seen = std::collections::BTreeSet::new();
    for point in journal.crash_points() {
        for loss in [Loss::All, Loss::None, Loss::Random(7)] {
            let image = point.crash(&loss);
            let loaded = load(&image, DIR);
            let default = loaded.default.min_blob_size;
            assert!((loaded.default.max_space_amp - (1.5 + default as f64)).abs() < 1e-9);
            let new = loaded.families.get("new");
            assert!(new.is_none_or(|new| new.min_blob_size == 7 && default == 2));
            seen.insert((default, new.is_some()));
            let db = open(&plain(&image));
            assert_eq!(db.options().min_blob_size, default);
            let family = db.column_family("new");
            assert_eq!(family.map(|f| f.options().min_blob_size), new.map(|_| 7));
        }
    }
    let expected = [(1, false), (2, false), (2, true)];
    assert!(seen.into_iter().eq(expected));
}

/// A copy of a directory that RocksDB wrote.
fn of_rocksdb() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rocksdb-7.8-blob-zstd");
    for file in std::fs::read_dir(fixture).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), place.path().join(file.file_name())).unwrap();
    }
    place
}

/// If nothing is kept, an opening with `keep_options = false` keeps nothing, not even in a
/// checkpoint.
#[test]
fn nothing_is_kept_of_an_opening_that_is_not_to_keep_anything() {
    let place = of_rocksdb();
    for file in std::fs::read_dir(place.path()).unwrap() {
        let file = file.unwrap();
        if file.file_name().to_string_lossy().starts_with("OPTIONS-") {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    let mut given = Options::default();
    given.db.keep_options = false;
    given.default.disable_auto_compactions = true;
    given.default.enable_blob_garbage_collection = false;
    let db = Db::open(place.path(), &given).unwrap();
    assert!(db.options().disable_auto_compactions);
    let copy = place.path().with_extension("copy");
    db.checkpoint(&copy).unwrap();
    db.close().unwrap();
    drop(db);
    let loaded = |dir: &Path| fields(&Options::load(dir).unwrap().default);
    let (original, copied) = (loaded(place.path()), loaded(&copy));
    std::fs::remove_dir_all(&copy).unwrap();
    let defaults = fields(&ColumnFamilyOptions::default());
    assert_eq!(original, defaults);
    assert_eq!(copied, defaults);
}

#[test]
fn options_of_rocksdb_are_taken_over_from_its_file() {
    let place = of_rocksdb();
    let expected = ColumnFamilyOptions {
        compression: CompressionType::Snappy,
        blob_compression_type: CompressionType::Zstd,
        min_blob_size: 400,
        bloom_bits_per_key: 0.0,
        ..ColumnFamilyOptions::default()
    };
    // Twice from RocksDB's file, then from Titan's MANIFEST.
    let given = Options::default();
    for (opening, from) in ["OPTIONS-000043", "OPTIONS-000043", "MANIFEST-"]
        .iter()
        .enumerate()
    {
        let db = match opening {
            0 => Db::open_read_only(place.path(), &given).unwrap(),
            _ => Db::open(place.path(), &given).unwrap(),
        };
        let options = db.options();
        assert_eq!(options.compression, expected.compression);
        assert_eq!(
            options.blob_compression_type,
            expected.blob_compression_type
        );
        assert_eq!(options.min_blob_size, expected.min_blob_size);
        assert!(options.bloom_bits_per_key < 1.0);
        let taken = &db.taken_options()[0];
        assert!(taken.file.starts_with(from), "{taken:?}");
        // Its blob files are smaller than Titan's may be, and it collects garbage in its own way.
        let notes = taken.notes.join("; ");
        let noted = notes.contains("blob_file_size=40000") && notes.contains("downgrade");
        assert_eq!(noted, opening < 2, "{notes}");
        db.close().unwrap();
    }
}

/// Options that RocksDB knows survive an opening by RocksDB, and options that it sets count.
#[test]
fn options_survive_an_opening_by_rocksdb() {
    let place = tempfile::tempdir().unwrap();
    let mut given = Options::default();
    given.default.compression = CompressionType::Zstd;
    given.default.min_blob_size = 700;
    given.default.enable_blob_garbage_collection = false;
    let db = Db::open(place.path(), &given).unwrap();
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    drop(db);
    let ldb = std::process::Command::new("ldb")
        .arg(format!("--db={}", place.path().display()))
        .args([
            "--try_load_options",
            "--write_buffer_size=1000000",
            "put",
            "a",
            "b",
        ])
        .output();
    let Some(output) = requirement::met(requirement::ROCKSDB_TOOLS, ldb) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let loaded = Options::load(place.path()).unwrap().default;
    assert_eq!(loaded.compression, CompressionType::Zstd);
    assert_eq!(loaded.min_blob_size, 700);
    assert_eq!(loaded.write_buffer_size, 1_000_000);
    assert!(!loaded.enable_blob_garbage_collection);
}

/// Code of a family comes from its creation and from openings. A call that gives other code to a
/// family that exists is refused.
#[test]
fn a_family_that_exists_takes_no_code_from_a_later_call() {
    let vfs = SimVfs::new();
    let with_code = || ColumnFamilyOptions {
        merge_operator: merge::builtin::by_name("uint64add"),
        prefix_extractor: Some(prefix::fixed(3)),
        compaction_filter: Some(Arc::new(TimeToLive::new(Duration::from_secs(60)))),
        ..ColumnFamilyOptions::default()
    };
    let db = open(&plain(&vfs));
    for _ in 0..2 {
        db.open_or_create_column_family("f", with_code()).unwrap();
    }
    db.open_or_create_column_family("f", ColumnFamilyOptions::default())
        .unwrap();
    db.close().unwrap();

    // Of these only the filter has not been kept.
    let db = open(&plain(&vfs));
    let refused = db.open_or_create_column_family("f", with_code());
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        refused.message(),
        "column family f exists, and runs without the compaction filter titan.TimeToLive: give it to \
         the opening, in Options::families"
    );
    let other = ColumnFamilyOptions {
        merge_operator: merge::builtin::by_name("max"),
        ..ColumnFamilyOptions::default()
    };
    let refused = db.open_or_create_column_family("f", other);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);

    // So is another order. The default is none that is given.
    let backward = || ColumnFamilyOptions {
        comparator: Arc::new(ReverseBytewiseComparator),
        ..ColumnFamilyOptions::default()
    };
    let refused = db.open_or_create_column_family("f", backward());
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        refused.message(),
        "column family f exists, and is ordered by 'leveldb.BytewiseComparator', not by \
         'rocksdb.ReverseBytewiseComparator'"
    );
    db.create_column_family("backward", backward()).unwrap();
    db.close().unwrap();
    drop(db);
    let db = open(&plain(&vfs));
    for given in [backward(), ColumnFamilyOptions::default()] {
        db.open_or_create_column_family("backward", given).unwrap();
    }
    db.close().unwrap();

    let mut options = plain(&vfs);
    options.families.insert("f".into(), with_code());
    let db = open(&options);
    db.open_or_create_column_family("f", with_code()).unwrap();
}
