//! Options out of range, and options files that contradict the database.

use titan::{ColumnFamilyOptions, CompressionType, Db, DbOptions, ErrorKind, Options};

/// Each change makes the named option invalid.
#[test]
fn every_option_has_its_range_and_is_named() {
    type Db = fn(&mut DbOptions);
    let of_db: [(&str, Db); 7] = [
        ("max_open_files", |o| o.max_open_files = 15),
        ("max_open_files_memory", |o| {
            o.max_open_files_memory = (1 << 20) - 1
        }),
        ("max_background_jobs", |o| o.max_background_jobs = 0),
        ("max_background_jobs", |o| o.max_background_jobs = 257),
        ("delayed_write_rate", |o| o.delayed_write_rate = 1023),
        ("max_manifest_file_size", |o| {
            o.max_manifest_file_size = 4095
        }),
        ("max_manifest_file_size", |o| o.max_manifest_file_size = 0),
    ];
    type Family = fn(&mut ColumnFamilyOptions);
    let of_family: [(&str, Family); 27] = [
        ("write_buffer_size", |o| {
            o.write_buffer_size = (64 << 10) - 1
        }),
        ("write_buffer_size", |o| {
            o.write_buffer_size = (64 << 30) + 1
        }),
        ("max_write_buffer_number", |o| o.max_write_buffer_number = 1),
        ("level0_file_num_compaction_trigger", |o| {
            o.level0_file_num_compaction_trigger = 0
        }),
        ("level0_slowdown_writes_trigger", |o| {
            o.level0_slowdown_writes_trigger = 3
        }),
        ("level0_stop_writes_trigger", |o| {
            o.level0_stop_writes_trigger = 19
        }),
        ("hard_pending_compaction_bytes_limit", |o| {
            o.hard_pending_compaction_bytes_limit = 1
        }),
        ("num_levels", |o| o.num_levels = 1),
        ("num_levels", |o| o.num_levels = 65),
        ("max_bytes_for_level_base", |o| {
            o.max_bytes_for_level_base = 1023
        }),
        ("max_bytes_for_level_multiplier", |o| {
            o.max_bytes_for_level_multiplier = 1
        }),
        ("target_file_size_base", |o| o.target_file_size_base = 1023),
        ("block_size", |o| o.block_size = 255),
        ("block_size", |o| o.block_size = (16 << 20) + 1),
        ("block_restart_interval", |o| o.block_restart_interval = 0),
        ("block_restart_interval", |o| {
            o.block_restart_interval = 4097
        }),
        ("bloom_bits_per_key", |o| o.bloom_bits_per_key = -1.0),
        ("bloom_bits_per_key", |o| o.bloom_bits_per_key = 100.5),
        ("bloom_bits_per_key", |o| o.bloom_bits_per_key = f64::NAN),
        ("bloom_bits_per_key", |o| {
            o.bloom_bits_per_key = f64::INFINITY
        }),
        ("blob_file_size", |o| o.blob_file_size = (64 << 10) - 1),
        ("blob_file_size", |o| o.blob_file_size = 0),
        ("compression", |o| o.compression = CompressionType::Zlib),
        ("blob_compression_type", |o| {
            o.blob_compression_type = CompressionType::Lz4hc
        }),
        ("blob_compression_type", |o| {
            o.blob_compression_type = CompressionType::Snappy
        }),
        ("max_write_buffer_number", |o| o.max_write_buffer_number = 0),
        ("num_levels", |o| o.num_levels = usize::MAX),
    ];
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("db");
    let refused = |options: &Options, name: &str| {
        let e = titan::Db::open(&dir, options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidOption, "{name}: {e}");
        assert!(e.message().contains(name), "{name}: {e}");
        assert!(!dir.exists(), "{name}");
        e
    };
    for (name, change) in of_db {
        let mut options = Options::default();
        change(&mut options.db);
        refused(&options, name);
    }
    for (name, change) in of_family {
        let mut options = Options::default();
        change(&mut options.default);
        refused(&options, name);
        let mut family = ColumnFamilyOptions::default();
        change(&mut family);
        let mut options = Options::default();
        options.families.insert("pages".to_owned(), family.clone());
        let e = refused(&options, name);
        assert!(e.message().contains("pages"), "{e}");
    }
    // The same for families that are created later, which then do not exist.
    let db = titan::Db::open(&dir, &Options::default()).unwrap();
    for (name, change) in of_family {
        let mut family = ColumnFamilyOptions::default();
        change(&mut family);
        let e = db.create_column_family("pages", family).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidOption, "{name}: {e}");
        assert!(e.message().contains(name), "{name}: {e}");
    }
    assert_eq!(db.column_families().len(), 1);
}

#[test]
fn extremes_within_the_range_work() {
    let family = ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: 1,
        level0_slowdown_writes_trigger: 4,
        level0_stop_writes_trigger: 8,
        num_levels: 2,
        max_bytes_for_level_base: 1024,
        max_bytes_for_level_multiplier: u64::MAX,
        target_file_size_base: 1024,
        block_size: 256,
        block_restart_interval: 1,
        bloom_bits_per_key: 100.0,
        min_blob_size: 0,
        blob_file_size: 64 << 10,
        ..ColumnFamilyOptions::default()
    };
    let others = ColumnFamilyOptions {
        num_levels: 64,
        max_bytes_for_level_base: u64::MAX,
        target_file_size_base: u64::MAX,
        block_size: 16 << 20,
        block_restart_interval: 4096,
        bloom_bits_per_key: 0.1,
        min_blob_size: u64::MAX,
        blob_file_size: u64::MAX,
        soft_pending_compaction_bytes_limit: u64::MAX,
        hard_pending_compaction_bytes_limit: u64::MAX,
        level0_slowdown_writes_trigger: usize::MAX,
        level0_stop_writes_trigger: usize::MAX,
        max_write_buffer_number: usize::MAX,
        ..family.clone()
    };
    for (number, default) in [family, others].into_iter().enumerate() {
        let mut options = Options {
            default,
            ..Options::default()
        };
        options.db.max_open_files = 16;
        options.db.max_background_jobs = 1;
        options.db.max_manifest_file_size = 4096;
        options.db.block_cache_size = [0, 1 << 20][number];
        options.db.max_total_wal_size = [1, u64::MAX][number];
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &options).unwrap();
        let other = db
            .create_column_family("other", options.default.clone())
            .unwrap();
        for i in 0..2000_u32 {
            db.put(&i.to_be_bytes(), &vec![7; (i % 300) as usize])
                .unwrap();
            other.put(&i.to_be_bytes(), &i.to_be_bytes()).unwrap();
        }
        db.flush_all().unwrap();
        db.compact_range(None, None, &Default::default()).unwrap();
        db.wait_idle().unwrap();
        for i in 0..2000_u32 {
            let value = db.get(&i.to_be_bytes()).unwrap().unwrap();
            assert_eq!(
                value,
                vec![7; (i % 300) as usize],
                "options {number}, key {i}"
            );
            assert_eq!(
                other.get(&i.to_be_bytes()).unwrap().unwrap(),
                &i.to_be_bytes()[..]
            );
        }
        db.close().unwrap();
    }
}

#[test]
fn options_from_a_file_take_no_unknown_names() {
    let good = "
        [db]
        max_open_files = 50
        [default]
        min_blob_size = 100
        blob_compression_type = \"zstd\"
        [families.pages]
        block_size = 8192
    ";
    let options: Options = toml::from_str(good).unwrap();
    assert_eq!(options.db.max_open_files, 50);
    assert_eq!(options.default.min_blob_size, 100);
    assert_eq!(options.default.blob_compression_type, CompressionType::Zstd);
    assert_eq!(options.family("pages").block_size, 8192);
    assert_eq!(options.family("another").min_blob_size, 100);
    let text = toml::to_string(&options).unwrap();
    let again: Options = toml::from_str(&text).unwrap();
    assert_eq!(format!("{options:?}"), format!("{again:?}"));

    for (bad, name) in [
        ("[db]\nmax_open_file = 50", "max_open_file"),
        ("[default]\nmin_blob_sizes = 1", "min_blob_sizes"),
        ("[families.pages]\ncomparator = 'x'", "comparator"),
        ("[family.pages]\nblock_size = 8192", "family"),
        ("max_open_files = 50", "max_open_files"),
        ("[default]\nblob_compression_type = 'brotli'", "brotli"),
        ("[default]\nmin_blob_size = -1", "-1"),
        ("[default]\nmin_blob_size = 'many'", "many"),
    ] {
        let e = toml::from_str::<Options>(bad).unwrap_err();
        assert!(e.to_string().contains(name), "{bad}: {e}");
    }
}
