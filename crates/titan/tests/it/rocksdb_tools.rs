//! RocksDB's own tools read a database that Titan wrote and write to it, and Titan reads it again.
//!
//! Criteria of success: `ldb scan` ends with status 0 and prints nothing to standard error.
//! `sst_dump` verifies checksums only on request and ends with status 0 even if it finds damage, so
//! it must print that each file is ok. The tests are skipped if RocksDB's tools are not installed.

use std::path::Path;
use std::process::{Command, Output};

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions,
    ErrorKind, Options, Stated, WriteBatch, WriteOptions,
};
use titan_testkit::requirement;
use titan_tools::{RepairTo, downgrade, repair};

use crate::directory::{
    Rows, assert_same, check, check_all, contents, copy, file_starting, files_ending, hex,
};

/// Runs a tool; returns `None` if it is not installed.
pub(crate) fn run(tool: &str, args: &[&str]) -> Option<Output> {
    match Command::new(tool).args(args).output() {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => panic!("{tool}: {e}"),
        output => requirement::met(requirement::ROCKSDB_TOOLS, output),
    }
}

fn installed() -> bool {
    run("ldb", &["--version"]).is_some()
}

/// The output of `ldb` for a command that must succeed without errors.
fn ldb(dir: &Path, args: &[&str]) -> String {
    let db = format!("--db={}", dir.display());
    let output = run("ldb", &[&[db.as_str()], args].concat()).unwrap();
    let (out, err) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(
        output.status.success() && err.is_empty(),
        "ldb {args:?}: {}, {err}",
        output.status
    );
    assert!(!out.starts_with("Failed"), "ldb {args:?}: {out}");
    out
}

/// Output of `sst_dump` for the properties of the tables in a directory; `None` if it is not
/// installed.
pub(crate) fn table_properties(dir: &Path) -> Option<String> {
    let file = format!("--file={}", dir.display());
    let args = [&*file, "--command=none", "--show_properties"];
    let output = run("sst_dump", &args)?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A family as `ldb scan` prints it.
pub(crate) fn ldb_scan(dir: &Path, family: &str) -> Rows {
    let bytes = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap();
        (0..digits.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
            .collect()
    };
    let text = ldb(
        dir,
        &[&format!("--column_family={family}"), "scan", "--hex"],
    );
    text.lines()
        .map(|line| {
            let (key, value) = line.split_once(" : ").unwrap();
            (bytes(key), bytes(value))
        })
        .collect()
}

/// Lets RocksDB check everything in a directory that it can check.
fn rocksdb_agrees(dir: &Path, expected: &[(String, Rows)], what: &str) {
    // "Column families in <directory>: ", and on the next line {default, second}
    let listed = ldb(dir, &["list_column_families"]);
    let listed = listed
        .lines()
        .find_map(|l| l.strip_prefix('{')?.strip_suffix('}'));
    let mut listed: Vec<&str> = listed.unwrap().split(", ").collect();
    listed.sort();
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(listed, names, "{what}");
    for (name, rows) in expected {
        assert_same(&ldb_scan(dir, name), rows, &format!("{what}, ldb, {name}"));
    }
    assert_eq!(ldb(dir, &["checkconsistency"]).trim(), "OK", "{what}");
    let tables = files_ending(dir, ".sst");
    let output = run(
        "sst_dump",
        &[
            &format!("--file={}", dir.display()),
            "--command=verify",
            "--verify_checksum",
        ],
    );
    let output = output.unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(err.is_empty(), "{what}: sst_dump: {err}");
    let ok = out.matches("The file is ok").count();
    assert_eq!(ok, tables.len(), "{what}: sst_dump: {out}");
}

const COMPRESSIONS: [CompressionType; 4] = [
    CompressionType::None,
    CompressionType::Snappy,
    CompressionType::Lz4,
    CompressionType::Zstd,
];

fn family_options(compression: CompressionType, blobs: CompressionType) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: 3,
        target_file_size_base: 48 << 10,
        max_bytes_for_level_base: 128 << 10,
        max_bytes_for_level_multiplier: 4,
        min_blob_size: 300,
        blob_file_size: 64 << 10,
        compression,
        blob_compression_type: blobs,
        // RocksDB does not find relocated records.
        enable_blob_garbage_collection: false,
        ..ColumnFamilyOptions::default()
    }
}

/// A family for each compression of tables, and of blob files where that is supported.
fn options() -> Options {
    let mut options = Options {
        db: DbOptions {
            max_manifest_file_size: 4096,
            ..DbOptions::default()
        },
        default: family_options(CompressionType::None, CompressionType::None),
        ..Options::default()
    };
    for compression in COMPRESSIONS {
        let blobs = match compression {
            CompressionType::Snappy => CompressionType::None,
            other => other,
        };
        let name = format!("{compression:?}").to_lowercase();
        options
            .families
            .insert(name, family_options(compression, blobs));
    }
    let inline = ColumnFamilyOptions {
        enable_blob_files: false,
        bloom_bits_per_key: 0.0,
        ..family_options(CompressionType::Zstd, CompressionType::None)
    };
    options.families.insert("inline".to_owned(), inline);
    options
}

fn value(rng: &mut fastrand::Rng) -> Vec<u8> {
    let len = [0, 1, 20, 299, 300, 301, 1000, 5000][rng.usize(0..8)];
    // Half of it is compressible.
    let noise = std::iter::repeat_with(|| rng.u8(..)).take(len / 2);
    let mut value: Vec<u8> = noise.collect();
    value.resize(len, 7);
    value
}

/// Batches over all families: overwrites, deletions, range deletions.
fn write_rounds(db: &Db, rng: &mut fastrand::Rng, rounds: usize) {
    let families = db.column_families();
    for round in 0..rounds {
        let mut batch = WriteBatch::new();
        for family in &families {
            let key = format!("key {:05}", rng.u32(0..1500));
            match rng.u32(0..40) {
                0 => {
                    let end = format!("{key} {}", rng.u32(0..3));
                    batch.delete_range(family, &key, &end).unwrap();
                }
                1 => {
                    let n = rng.u32(0..1490);
                    let (begin, end) = (format!("key {n:05}"), format!("key {:05}", n + 9));
                    batch.delete_range(family, begin, end).unwrap();
                }
                2..8 => batch.delete(family, &key).unwrap(),
                _ => batch.put(family, &key, value(rng)).unwrap(),
            }
        }
        let options = WriteOptions {
            sync: round % 50 == 0,
            ..WriteOptions::default()
        };
        db.write(batch, &options).unwrap();
    }
}

fn compact(family: &ColumnFamily) {
    let everything = CompactRangeOptions {
        force_bottommost: true,
    };
    family.compact_range(None, None, &everything).unwrap();
}

/// Fills a directory with everything that one can have, and returns its content.
fn fill(dir: &Path, seed: u64) -> Vec<(String, Rows)> {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let db = Db::open(dir, &options()).unwrap();
    write_rounds(&db, rng, 1500);
    let dropped = db
        .create_column_family("dropped", ColumnFamilyOptions::default())
        .unwrap();
    dropped.put(b"gone", b"with its family").unwrap();
    write_rounds(&db, rng, 800);
    for family in db.column_families() {
        compact(&family);
    }
    write_rounds(&db, rng, 800);
    db.drop_column_family(&dropped).unwrap();
    db.flush_all().unwrap();
    db.wait_idle().unwrap();
    write_rounds(&db, rng, 300);
    db.flush_all().unwrap();
    // If one family switches the WAL, the writes of other families stay in the closed file; the new
    // one begins with a record about it.
    write_rounds(&db, rng, 40);
    db.column_family("inline").unwrap().flush().unwrap();
    write_rounds(&db, rng, 40);
    db.wait_idle().unwrap();

    let blob_files_deleted = db.statistics().blob_files_deleted();
    assert!(blob_files_deleted > 0, "no blob file was dropped");
    let mut on_several_levels = 0;
    for family in db.metrics().families {
        let levels = family.levels.iter().filter(|l| l.files > 0).count();
        on_several_levels += usize::from(levels > 1);
        if family.name != "inline" {
            assert!(family.blob_files > 1, "seed {seed}: {family:?}");
            assert!(family.garbage_blob_bytes > 0, "seed {seed}: {family:?}");
        }
    }
    assert!(on_several_levels >= 2, "seed {seed}: {:?}", db.metrics());
    let all = contents(&db).unwrap();
    check_all(&db, &all, "as written");
    db.close().unwrap();
    drop(db);
    assert!(files_ending(dir, ".log").len() > 1, "one WAL only");
    let predecessor = files_ending(dir, ".log").iter().any(|path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(9).any(|w| w == b"titan.wal")
    });
    assert!(predecessor, "no WAL names its predecessor");
    assert!(!file_starting(dir, "MANIFEST-").ends_with("MANIFEST-000001"));
    all
}

#[test]
fn rocksdb_reads_what_was_repaired() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let all = fill(dir.path(), 4);
    let repair = |to: &str| {
        let to = dir.path().join(to);
        let target = RepairTo::Directory(to.clone());
        let report = repair(dir.path(), &target, &options(), &mut |_| {}).unwrap();
        (to, report)
    };
    let (whole, report) = repair("whole");
    assert!(report.lost.is_empty(), "{:?}", report.lost);
    rocksdb_agrees(&whole, &all, "repaired");
    std::fs::remove_file(file_starting(dir.path(), "MANIFEST-")).unwrap();
    let (inferred, _) = repair("inferred");
    rocksdb_agrees(&inferred, &all, "repaired without MANIFEST");
    let table = files_ending(dir.path(), ".sst").remove(0);
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[10] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let (salvaged, report) = repair("salvaged");
    assert_eq!(report.salvaged.len(), 1, "{:?}", report.salvaged);
    let db = Db::open(&salvaged, &options()).unwrap();
    let left = contents(&db).unwrap();
    db.close().unwrap();
    drop(db);
    rocksdb_agrees(&salvaged, &left, "repaired without MANIFEST and a block");
}

#[test]
fn rocksdb_reads_what_was_downgraded() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 7);
    let mut collecting = options();
    let families = collecting.families.values_mut();
    for family in families.chain([&mut collecting.default]) {
        family.enable_blob_garbage_collection = true;
        family.stated = Stated::all();
    }
    let db = Db::open(dir.path(), &collecting).unwrap();
    let rng = &mut fastrand::Rng::with_seed(7);
    for _ in 0..3 {
        write_rounds(&db, rng, 500);
        db.flush_all().unwrap();
        for family in db.column_families() {
            compact(&family);
        }
        db.wait_idle().unwrap();
    }
    write_rounds(&db, rng, 200);
    let all = contents(&db).unwrap();
    assert!(db.statistics().garbage_collections() > 3);
    db.close().unwrap();
    drop(db);
    let path = format!("--db={}", dir.path().display());
    let output = run("ldb", &[&path, "scan"]).unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(text.contains("unknown tag"), "{text}");

    let report = downgrade(dir.path(), &collecting, &mut |_| {}).unwrap();
    assert!(report.plan.tables.len() > 3, "{report:#?}");
    let copied = copy(dir.path());
    rocksdb_agrees(copied.path(), &all, "downgraded");
    // RocksDB continues, also with the files that collections wrote.
    for (name, _) in &all {
        ldb(
            copied.path(),
            &[&format!("--column_family={name}"), "compact"],
        );
    }
    rocksdb_agrees(copied.path(), &all, "compacted by RocksDB");
    let db = Db::open(copied.path(), &options()).unwrap();
    check_all(&db, &all, "after RocksDB");
}

#[test]
fn rocksdb_reads_a_checkpoint() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    let all = fill(&source, 6);
    let db = Db::open(&source, &options()).unwrap();
    db.checkpoint(&copy).unwrap();
    write_rounds(&db, &mut fastrand::Rng::with_seed(6), 300);
    for family in db.column_families() {
        compact(&family);
    }
    db.close().unwrap();
    rocksdb_agrees(&copy, &all, "checkpoint");
}

#[test]
fn rocksdb_reads_what_titan_wrote() {
    if !installed() {
        return;
    }
    for seed in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let all = fill(dir.path(), seed);
        rocksdb_agrees(dir.path(), &all, &format!("seed {seed}"));
    }
}

#[test]
fn rocksdb_writes_to_what_titan_wrote_and_titan_reads_on() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut all = fill(dir.path(), 3);
    let seed = "seed 3";
    for round in 1..=2 {
        let what = format!("{seed}, round {round}");
        // Opened for writing, RocksDB replays the WAL and writes its own MANIFEST.
        for (name, rows) in &mut all {
            let family = format!("--column_family={name}");
            let (key, value) = (format!("by ldb {round}"), "v".repeat(round * 700));
            ldb(dir.path(), &[&family, "put", &key, &value]);
            let gone = rows.remove(rows.len() / 2).0;
            ldb(
                dir.path(),
                &[&family, "delete", "--hex", &format!("0x{}", hex(&gone))],
            );
            rows.push((key.into_bytes(), value.into_bytes()));
            rows.sort();
        }
        let db = Db::open(dir.path(), &options()).unwrap();
        check_all(&db, &all, &format!("{what}, after put"));
        db.close().unwrap();
        drop(db);
        rocksdb_agrees(dir.path(), &all, &format!("{what}, after put"));

        for (name, _) in &all {
            ldb(dir.path(), &[&format!("--column_family={name}"), "compact"]);
        }
        let db = Db::open(dir.path(), &options()).unwrap();
        check_all(&db, &all, &format!("{what}, after compact"));
        let rng = &mut fastrand::Rng::with_seed(round as u64);
        write_rounds(&db, rng, 300);
        all = contents(&db).unwrap();
        db.flush_all().unwrap();
        for family in db.column_families() {
            compact(&family);
        }
        check_all(&db, &all, &format!("{what}, ours again"));
        db.close().unwrap();
        drop(db);
        rocksdb_agrees(dir.path(), &all, &format!("{what}, ours again"));
    }
}

#[test]
fn db_bench_goes_on_with_a_directory_of_titan_s_and_back() {
    if run("db_bench", &["--version"]).is_none() || !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let small = Options {
        default: family_options(CompressionType::Lz4, CompressionType::Lz4),
        ..Options::default()
    };
    let db = Db::open(dir.path(), &small).unwrap();
    write_rounds(&db, &mut fastrand::Rng::with_seed(4), 3000);
    let before = contents(&db).unwrap();
    db.close().unwrap();
    drop(db);
    for round in 1..=2 {
        let path = format!("--db={}", dir.path().display());
        let seed = format!("--seed={round}");
        let args = [
            path.as_str(),
            &seed,
            "--use_existing_db=1",
            "--benchmarks=overwrite,compact,overwrite",
            "--num=3000",
            "--value_size=1000",
            "--enable_blob_files=1",
            "--min_blob_size=500",
            "--blob_file_size=200000",
            "--enable_blob_garbage_collection=1",
            "--blob_compression_type=zstd",
            "--compression_type=lz4",
            "--write_buffer_size=300000",
            "--target_file_size_base=100000",
        ];
        let output = run("db_bench", &args).unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "round {round}: {err}");

        let expected = vec![("default".to_owned(), ldb_scan(dir.path(), "default"))];
        for (key, value) in &before[0].1 {
            let row = (key.clone(), value.clone());
            assert!(expected[0].1.contains(&row), "{} is lost", hex(key));
        }
        assert!(
            expected[0].1.len() > before[0].1.len() + 1000,
            "db_bench wrote little"
        );
        let db = Db::open(dir.path(), &small).unwrap();
        check_all(&db, &expected, &format!("round {round}, after db_bench"));
        compact(&db);
        check_all(&db, &expected, &format!("round {round}, compacted"));
        db.close().unwrap();
        drop(db);
        rocksdb_agrees(dir.path(), &expected, &format!("round {round}"));
    }
}

#[test]
fn rocksdb_takes_options_from_our_file() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let all = fill(dir.path(), 5);
    for (name, _) in &all {
        let family = format!("--column_family={name}");
        // RocksDB logs how it understood the file.
        ldb(
            dir.path(),
            &["--try_load_options", &family, "put", "zz", "loaded"],
        );
        let log = std::fs::read_to_string(dir.path().join("LOG")).unwrap();
        let mut section = log.split("Options for column family [").skip(1);
        let section = section.find(|s| s.starts_with(&format!("{name}]")));
        let section = section.unwrap_or_else(|| panic!("{name} is not in {log}"));
        // Not `enable_blob_files`: the tool sets that from its own arguments, regardless of the
        // file.
        for (option, value) in [
            ("Options.write_buffer_size", "65536"),
            ("Options.level0_file_num_compaction_trigger", "3"),
            ("Options.target_file_size_base", "49152"),
            ("Options.min_blob_size", "300"),
            ("Options.blob_file_size", "65536"),
            ("Options.max_bytes_for_level_base", "131072"),
        ] {
            let line = section.lines().find(|l| l.contains(&format!("{option}:")));
            let line = line.unwrap_or_else(|| panic!("{name}: no {option} in {section}"));
            assert!(line.ends_with(&format!(": {value}")), "{name}: {line}");
        }
    }
    let db = Db::open(dir.path(), &options()).unwrap();
    for (name, mut rows) in all {
        rows.push((b"zz".to_vec(), b"loaded".to_vec()));
        check(&db.column_family(&name).unwrap(), &rows, "options loaded");
    }
}

#[test]
fn rocksdb_is_kept_out_while_a_database_is_open() {
    if !installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    db.put(b"key", b"ours").unwrap();
    let path = format!("--db={}", dir.path().display());
    let args = [path.as_str(), "put", "key", "theirs"];
    let output = run("ldb", &args).unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(!output.status.success() && text.contains("LOCK"), "{text}");
    let again = Db::open(dir.path(), &Options::default()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Locked, "{again}");
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"ours"[..]));
    db.close().unwrap();
    drop(db);
    ldb(dir.path(), &["put", "key", "theirs"]);
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"theirs"[..]));
    let copied = copy(dir.path());
    assert!(Db::open(copied.path(), &Options::default()).is_ok());
}
