//! Keys and values of extreme sizes.

use titan::{Bytes, CompressionType, Db, Options, ReadOptions, WriteBatch, WriteOptions};

use super::small;

/// Bytes that depend on position and seed, so that they can be compared without a second copy.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(4099).collect();
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let rest = (len - bytes.len()).min(noise.len());
        bytes.extend_from_slice(&noise[..rest]);
    }
    bytes
}

fn is_pattern(bytes: &[u8], len: usize, seed: u64) -> bool {
    let noise = pattern(4099.min(len), seed);
    bytes.len() == len && bytes.chunks(4099).all(|chunk| noise.starts_with(chunk))
}

/// Reads a key from memory, from the replayed log, and from tables.
fn through_every_state(options: &Options, write: impl Fn(&Db), check: impl Fn(&Db, &str)) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options).unwrap();
    write(&db);
    check(&db, "in the memtable");
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), options).unwrap();
    check(&db, "replayed");
    write(&db);
    db.flush().unwrap();
    check(&db, "flushed");
    db.compact_range(None, None, &Default::default()).unwrap();
    check(&db, "compacted");
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), options).unwrap();
    check(&db, "reopened");
}

#[test]
fn empty_keys_and_values() {
    let write = |db: &Db| {
        db.put(b"", b"of the empty key").unwrap();
        db.put(b"a", b"").unwrap();
        db.put(b"\0", &[5; 200]).unwrap();
        db.put(b"gone", b"").unwrap();
        db.delete(b"gone").unwrap();
        db.put(b"\xff\xff", b"last").unwrap();
    };
    let check = |db: &Db, what: &str| {
        assert_eq!(db.get(b"").unwrap().unwrap(), "of the empty key", "{what}");
        assert_eq!(db.get(b"a").unwrap(), Some(Bytes::new()), "{what}");
        assert_eq!(db.get(b"gone").unwrap(), None, "{what}");
        let mut it = db.iter(&ReadOptions::default()).unwrap();
        let mut keys = Vec::new();
        it.seek(b"").unwrap();
        while it.valid() {
            keys.push(it.key().to_vec());
            it.next().unwrap();
        }
        assert_eq!(keys, [&b""[..], b"\0", b"a", b"\xff\xff"], "{what}");
        it.seek_for_prev(b"").unwrap();
        assert!(it.valid() && it.key().is_empty(), "{what}");
        it.prev().unwrap();
        assert!(!it.valid(), "{what}");
    };
    let mut all_blobs = small();
    all_blobs.default.min_blob_size = 0;
    for options in [Options::default(), small(), all_blobs] {
        through_every_state(&options, write, check);
    }
    // The empty key within ranges.
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    write(&db);
    db.delete_range(b"", b"\0").unwrap();
    assert_eq!(db.get(b"").unwrap(), None);
    assert!(db.contains_key(b"\0").unwrap());
    db.flush().unwrap();
    db.delete_range(b"", b"b").unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    assert!(!db.contains_key(b"\0").unwrap() && !db.contains_key(b"a").unwrap());
    assert_eq!(db.get(b"\xff\xff").unwrap().unwrap(), "last");
}

#[test]
fn ranges_that_hold_nothing_delete_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    for key in [b"a", b"b", b"c"] {
        db.put(key, b"v").unwrap();
    }
    db.delete_range(b"b", b"b").unwrap();
    // The range is refused or has no effect, as long as nothing is lost.
    let _ = db.delete_range(b"c", b"a");
    for step in ["in the memtable", "flushed", "compacted", "reopened"] {
        for key in [b"a", b"b", b"c"] {
            assert!(db.contains_key(key).unwrap(), "{step}");
        }
        match step {
            "in the memtable" => db.flush().unwrap(),
            _ => db.compact_range(None, None, &Default::default()).unwrap(),
        }
    }
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), &small()).unwrap();
    assert!(
        [b"a", b"b", b"c"]
            .iter()
            .all(|k| db.contains_key(*k).unwrap())
    );
}

#[test]
fn keys_of_8_mib() {
    const LEN: usize = 8 << 20;
    let key = |last: u8| {
        let mut key = pattern(LEN - 1, 1);
        key.push(last);
        key
    };
    let write = |db: &Db| {
        db.put(&key(1), b"small").unwrap();
        db.put(&key(2), &pattern(5000, 2)).unwrap();
        db.put(&key(3), b"gone").unwrap();
        db.delete(&key(3)).unwrap();
        db.put(&key(5), b"gone").unwrap();
        db.delete_range(&key(4), &key(6)).unwrap();
        db.put(b"short", b"s").unwrap();
    };
    let check = |db: &Db, what: &str| {
        assert_eq!(db.get(&key(1)).unwrap().unwrap(), "small", "{what}");
        assert!(
            is_pattern(&db.get(&key(2)).unwrap().unwrap(), 5000, 2),
            "{what}"
        );
        for gone in [0, 3, 5, 7] {
            assert!(!db.contains_key(&key(gone)).unwrap(), "{what}, {gone}");
        }
        assert_eq!(db.get(b"short").unwrap().unwrap(), "s", "{what}");
        let mut it = db.iter(&ReadOptions::default()).unwrap();
        it.seek(&key(2)).unwrap();
        assert!(it.valid() && it.key() == key(2), "{what}");
        it.prev().unwrap();
        assert!(it.valid() && it.key() == key(1), "{what}");
    };
    through_every_state(&small(), write, check);
}

#[test]
fn values_of_64_mib() {
    const LEN: usize = 64 << 20;
    let write = |db: &Db| db.put(b"large", &pattern(LEN, 3)).unwrap();
    let check = |db: &Db, what: &str| {
        let value = db.get(b"large").unwrap().unwrap();
        assert!(is_pattern(&value, LEN, 3), "{what}");
    };
    let mut inline = small();
    inline.default.enable_blob_files = false;
    let mut compressed = small();
    compressed.default.blob_compression_type = CompressionType::Zstd;
    for options in [small(), inline, compressed] {
        through_every_state(&options, write, check);
    }
}

#[test]
fn a_value_of_1_gib() {
    const LEN: usize = 1 << 30;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let mut batch = WriteBatch::with_capacity(LEN + 64);
    batch.put(&*db, b"large", pattern(LEN, 4)).unwrap();
    batch.put(&*db, b"small", b"beside it").unwrap();
    db.write(batch, &WriteOptions::default()).unwrap();
    db.flush().unwrap();
    assert!(is_pattern(&db.get(b"large").unwrap().unwrap(), LEN, 4));
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), &small()).unwrap();
    assert!(is_pattern(&db.get(b"large").unwrap().unwrap(), LEN, 4));
    assert_eq!(db.get(b"small").unwrap().unwrap(), "beside it");
    assert_eq!(db.metrics().families[0].blob_files, 1);
}
