//! Damaged and missing files, other than WAL files.

use std::path::{Path, PathBuf};

use titan::{
    ColumnFamily, CompressionType, Db, Error, ErrorKind, Options, ReadOptions, WriteBatch,
    WriteOptions,
};

use super::{must_exist, small};
use crate::directory::{Rows, contents, copy, file_starting, files, files_ending, hex};

fn options() -> Options {
    let mut options = must_exist();
    options.default.blob_compression_type = CompressionType::Lz4;
    // The files must not change while they are tested.
    options.default.disable_auto_compactions = true;
    options
}

/// A closed database with tables at several levels, blob files and a WAL, and its content.
fn database(last: impl FnOnce(&Db)) -> (tempfile::TempDir, Vec<(String, Rows)>) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options();
    options.db.create_if_missing = true;
    let db = Db::open(dir.path(), &options).unwrap();
    let other = db
        .create_column_family("other", options.default.clone())
        .unwrap();
    for round in 0..3_u8 {
        for i in 0..60_u8 {
            let mut batch = WriteBatch::new();
            let long = [vec![round; 60], vec![i; 60]].concat();
            batch
                .put(
                    &*db,
                    [b'k', i],
                    if i % 2 == 0 { &long } else { &long[..30] },
                )
                .unwrap();
            batch.put(&other, [b'o', i], [round, i]).unwrap();
            if i % 7 == round {
                batch.delete(&*db, [b'k', i]).unwrap();
            }
            db.write(batch, &WriteOptions::default()).unwrap();
        }
        db.delete_range(&[b'k', 20], &[b'k', 20 + round]).unwrap();
        if round == 0 {
            db.flush_all().unwrap();
            db.compact_range(None, None, &Default::default()).unwrap();
        } else if round == 1 {
            db.flush_all().unwrap();
        }
    }
    last(&db);
    let all = contents(&db).unwrap();
    db.close().unwrap();
    (dir, all)
}

/// Reads everything. Every result must be right; the errors are returned.
fn read_all(db: &Db, expected: &[(String, Rows)], what: &str) -> Vec<Error> {
    let mut errors = Vec::new();
    let names: Vec<_> = db
        .column_families()
        .iter()
        .map(|f| f.name().to_owned())
        .collect();
    for (name, rows) in expected {
        let Some(family) = db.column_family(name) else {
            panic!("{what}: of the families only {names:?} are left");
        };
        let backward: Rows = rows.iter().rev().cloned().collect();
        errors.extend(walk(&family, rows, true, what).err());
        errors.extend(walk(&family, &backward, false, what).err());
        for (key, value) in rows {
            match family.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..]), "{what}, {}", hex(key)),
                Err(e) => errors.push(e),
            }
        }
        for gone in 0..60 {
            let key = [name.as_bytes()[0].max(b'k'), gone];
            if !rows.iter().any(|(k, _)| *k == key) {
                match family.contains_key(&key) {
                    Ok(found) => assert!(!found, "{what}: {} is back", hex(&key)),
                    Err(e) => errors.push(e),
                }
            }
        }
    }
    errors
}

fn walk(family: &ColumnFamily, rows: &Rows, forward: bool, what: &str) -> Result<(), Error> {
    let mut it = family.iter(&ReadOptions::default())?;
    if forward {
        it.seek_to_first()?
    } else {
        it.seek_to_last()?
    }
    for (key, value) in rows {
        assert!(it.valid(), "{what}: the scan ends before {}", hex(key));
        assert_eq!(hex(it.key()), hex(key), "{what}");
        assert_eq!(it.value()?, value, "{what}, {}", hex(key));
        if forward { it.next()? } else { it.prev()? }
    }
    assert!(!it.valid(), "{what}: {} is too much", hex(it.key()));
    Ok(())
}

/// Opens and reads a damaged copy: the results are right, or errors name a file. Returns whether
/// there were errors.
fn survives(dir: &Path, expected: &[(String, Rows)], named: Option<&Path>, what: &str) -> bool {
    let errors = match Db::open(dir, &options()) {
        Ok(db) => read_all(&db, expected, what),
        Err(e) => vec![e],
    };
    for e in &errors {
        // A flipped version number may look like a later version.
        let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
        assert!(kinds.contains(&e.kind()), "{what}: {e}");
        let path = e
            .path()
            .unwrap_or_else(|| panic!("{what}: no file is named: {e}"));
        match named {
            Some(named) => assert_eq!(path, named, "{what}: {e}"),
            None => assert!(path.starts_with(dir), "{what}: {e}"),
        }
    }
    !errors.is_empty()
}

/// Flips bits and truncates the file: at every position of a small file, and at a seeded sample of
/// those of a larger one. Returns how many of the flips were noticed.
fn damage_file(base: &Path, file: &Path, expected: &[(String, Rows)], own_name: bool) -> usize {
    let content = std::fs::read(file).unwrap();
    let name = file.file_name().unwrap();
    let rng = &mut fastrand::Rng::with_seed(content.len() as u64);
    let all = content.len() <= 64;
    let mut places: Vec<usize> = (0..content.len()).collect();
    if !all {
        rng.shuffle(&mut places);
        places.truncate(60);
    }
    let mut noticed = 0;
    for &at in &places {
        for cut in [false, true] {
            let dir = copy(base);
            let path = dir.path().join(name);
            let mut bytes = content.clone();
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << rng.u32(0..8);
            }
            std::fs::write(&path, &bytes).unwrap();
            let what = format!("{name:?}, byte {at} of {}, cut {cut}", content.len());
            let error = survives(dir.path(), expected, own_name.then_some(&path), &what);
            noticed += usize::from(error && !cut);
        }
    }
    noticed
}

#[test]
fn damaged_tables_are_named_or_harmless() {
    let (dir, all) = database(|db| db.flush_all().unwrap());
    let tables = files_ending(dir.path(), ".sst");
    assert!(tables.len() >= 4, "{tables:?}");
    for table in tables {
        let noticed = damage_file(dir.path(), &table, &all, true);
        assert!(
            noticed > 30,
            "{noticed} flips noticed in {}",
            table.display()
        );
    }
}

#[test]
fn damaged_blob_files_are_named_or_harmless() {
    let (dir, all) = database(|db| db.flush_all().unwrap());
    let blobs = files_ending(dir.path(), ".blob");
    assert!(blobs.len() >= 2, "{blobs:?}");
    let noticed: usize = blobs
        .iter()
        .map(|blob| damage_file(dir.path(), blob, &all, true))
        .sum();
    assert!(noticed > 30, "{noticed} flips noticed");
}

#[test]
fn a_damaged_manifest_is_named_or_harmless_whatever_it_ends_with() {
    type Last = fn(&Db);
    let endings: [(&str, Last); 5] = [
        ("nothing", |_| ()),
        ("a flush", |db| db.flush().unwrap()),
        ("a compaction", |db| {
            db.compact_range(None, None, &Default::default()).unwrap()
        }),
        ("a new family", |db| {
            let new = db.create_column_family("new", options().default).unwrap();
            new.put(b"k", b"in the log").unwrap();
        }),
        ("a dropped family", |db| {
            db.drop_column_family(&db.column_family("other").unwrap())
                .unwrap();
        }),
    ];
    for (what, last) in endings {
        let (dir, all) = database(last);
        let manifest = file_starting(dir.path(), "MANIFEST-");
        let noticed = damage_file(dir.path(), &manifest, &all, false);
        assert!(noticed > 40, "{what}: {noticed} flips noticed");
    }
}

#[test]
fn the_last_bytes_of_a_manifest_matter_too() {
    let (dir, all) = database(|db| {
        let new = db.create_column_family("new", options().default).unwrap();
        new.put(b"k", b"in the log").unwrap();
    });
    let manifest = file_starting(dir.path(), "MANIFEST-");
    let content = std::fs::read(&manifest).unwrap();
    for at in content.len() - 60..content.len() {
        let damaged = copy(dir.path());
        let path = damaged.path().join(manifest.file_name().unwrap());
        let mut bytes = content.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        survives(
            damaged.path(),
            &all,
            None,
            &format!("byte {at} of {}", content.len()),
        );
    }
}

/// RocksDB's records do not say how far the file was durable before them. A record that is complete
/// was written as a whole, even if a crash has cut off bytes after it.
#[test]
fn the_last_record_of_a_rocksdb_manifest_is_not_taken_for_a_torn_one() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let fixture = fixtures.join("rocksdb-7.8-default");
    let manifest = file_starting(&fixture, "MANIFEST-");
    let content = std::fs::read(&manifest).unwrap();
    let mut last = 0;
    let mut next = 0;
    while next < content.len() {
        last = next;
        next += 7 + usize::from(u16::from_le_bytes([content[last + 4], content[last + 5]]));
    }
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let dir = copy(&fixture);
        let mut bytes = content.clone();
        change(&mut bytes);
        std::fs::write(dir.path().join(manifest.file_name().unwrap()), bytes).unwrap();
        dir
    };
    let is_noticed = |change: &dyn Fn(&mut Vec<u8>), what: &str| {
        let dir = damaged(change);
        let before = listing(dir.path());
        let e = Db::open(dir.path(), &must_exist()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
        assert_eq!(e.offset(), Some(last as u64), "{what}: {e}");
        assert!(
            e.path()
                .is_some_and(|path| path.file_name() == manifest.file_name())
        );
        let report = titan_tools::check(dir.path(), &must_exist(), &mut |_| {}).unwrap();
        assert_eq!(report.problems.len(), 1, "{what}: {:?}", report.problems);
        std::fs::remove_file(dir.path().join("LOCK")).unwrap();
        assert_eq!(listing(dir.path()), before, "{what}");
    };
    // The checksum, and the bytes that it covers. A length beyond the end of the file looks like a
    // torn record.
    for at in (last..last + 4).chain(last + 7..content.len()) {
        is_noticed(&|bytes| bytes[at] ^= 1, &format!("byte {at}"));
    }
    is_noticed(&|bytes| bytes[last + 8..].fill(0), "zeros");
    for len in last..content.len() {
        let dir = damaged(&|bytes| bytes.truncate(len));
        Db::open(dir.path(), &must_exist()).unwrap();
    }
}

#[test]
fn damage_to_current_is_noticed_and_to_identity_and_options_does_no_harm() {
    let (dir, all) = database(|_| ());
    let current = dir.path().join("CURRENT");
    let noticed = damage_file(dir.path(), &current, &all, false);
    assert_eq!(noticed, std::fs::read(&current).unwrap().len());
    for name in ["IDENTITY", "OPTIONS-"] {
        let file = file_starting(dir.path(), name);
        assert_eq!(damage_file(dir.path(), &file, &all, false), 0, "{name}");
        std::fs::remove_file(file).unwrap();
    }
    assert!(!survives(
        dir.path(),
        &all,
        None,
        "neither IDENTITY nor OPTIONS"
    ));
}

/// The names and sizes of a directory, to check that nothing was changed.
fn listing(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut listing: Vec<_> = files(dir)
        .into_iter()
        .map(|p| (p.clone(), p.metadata().unwrap().len()))
        .collect();
    listing.retain(|(p, _)| !p.ends_with("LOCK"));
    listing
}

#[test]
fn missing_files_are_never_taken_for_an_empty_database() {
    let (dir, _) = database(|_| ());
    for file in files(dir.path()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let needed = name == "CURRENT"
            || name.starts_with("MANIFEST")
            || name.ends_with(".sst")
            || name.ends_with(".blob");
        if !needed {
            continue;
        }
        let damaged = copy(dir.path());
        let path = damaged.path().join(name);
        std::fs::remove_file(&path).unwrap();
        let before = listing(damaged.path());
        for create in [false, true] {
            let mut options = options();
            options.db.create_if_missing = create;
            let e = Db::open(damaged.path(), &options).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "{name}: {e}");
            let named = if name == "CURRENT" {
                damaged.path()
            } else {
                &path
            };
            assert_eq!(e.path(), Some(named), "{name}: {e}");
            assert_eq!(listing(damaged.path()), before, "{name} is missing");
        }
        // With the file back in place the database opens again.
        std::fs::copy(dir.path().join(name), &path).unwrap();
        Db::open(damaged.path(), &options()).unwrap();
    }
}

#[test]
fn a_file_of_another_kind_in_the_place_of_a_table_is_named() {
    let (dir, all) = database(|db| db.flush_all().unwrap());
    let table = files_ending(dir.path(), ".sst").remove(0);
    let content = std::fs::read(&table).unwrap();
    for (magic, kind) in [
        (0x1122_3344_5566_7788_u64, ErrorKind::Corruption),
        (0x8242_2296_63bf_9564, ErrorKind::Unsupported),
    ] {
        let mut bytes = content.clone();
        let end = bytes.len() - 8;
        bytes[end..].copy_from_slice(&magic.to_le_bytes());
        std::fs::write(&table, bytes).unwrap();
        let db = Db::open(dir.path(), &small()).unwrap();
        let errors = read_all(&db, &all, "wrong magic number");
        assert!(!errors.is_empty());
        for e in errors {
            assert_eq!(e.kind(), kind, "{e}");
            assert_eq!(e.path(), Some(table.as_path()), "{e}");
        }
    }
}
