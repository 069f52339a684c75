//! Merge operators: reads, flushes and compactions against a model, with separated values,
//! snapshots, range deletions and reopenings; the effect of an operator that is missing, other or
//! broken.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use titan::merge::{MergeOperator, builtin};
use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, LoadedOptions, ReadOptions, Snapshot,
    Stated, WriteBatch, WriteOptions,
};
use titan_testkit::sim::SimVfs;

use crate::directory::{Rows, assert_same, contents};
use crate::rocksdb_tools::{ldb_scan, run, table_properties};
use crate::support::{DIR, RECORD_HEADER, files, key, manual, open, options, scaled, value};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn operator(name: &str) -> Option<Arc<dyn MergeOperator>> {
    Some(builtin::by_name(name).unwrap())
}

fn with(name: &str) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        merge_operator: operator(name),
        min_blob_size: 100,
        ..manual()
    }
}

fn force(db: &Db) {
    let bottommost = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &bottommost).unwrap();
}

/// Every way of reading finds the content of the model.
fn assert_reads(db: &Db, options: &ReadOptions, model: &Model, what: &str) {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let many = db.multi_get_with(&keys, options);
    for (key, found) in keys.iter().zip(many) {
        let expected = model.get(key).map(Vec::as_slice);
        assert_eq!(found.unwrap().as_deref(), expected, "{what}");
        let found = db.get_with(key, options).unwrap();
        assert_eq!(found.as_deref(), expected, "{what}");
        let lazy = db.get_lazy_with(key, options).unwrap();
        let lazy = lazy.map(|lazy| lazy.fetch().unwrap());
        assert_eq!(lazy.as_deref(), expected, "{what}");
    }
    let mut iter = db.iter(options).unwrap();
    iter.seek_to_first().unwrap();
    for (key, value) in model {
        assert_eq!(iter.key(), key, "{what}");
        assert_eq!(iter.lazy_value().unwrap().fetch().unwrap(), value, "{what}");
        assert_eq!(iter.value().unwrap(), value, "{what}");
        iter.next().unwrap();
    }
    assert!(!iter.valid(), "{what}");
    iter.seek_to_last().unwrap();
    for (key, value) in model.iter().rev() {
        assert_eq!(iter.key(), key, "{what}");
        assert_eq!(iter.value().unwrap(), value, "{what}");
        iter.prev().unwrap();
    }
    assert!(!iter.valid(), "{what}");
}

const KEYS: usize = 12;

/// Writes a random operation to both.
fn write(db: &Db, operator: &dyn MergeOperator, model: &mut Model, rng: &mut fastrand::Rng) {
    let mut batch = WriteBatch::new();
    for _ in 0..rng.usize(1..4) {
        let n = rng.usize(..KEYS);
        let key = key(n);
        let written = value(rng.usize(..1000), rng.usize(1..150));
        match rng.u8(..10) {
            0 => {
                let end = crate::support::key(n + 3);
                model.retain(|k, _| *k < key || *k >= end);
                batch.delete_range(&**db, &key, &end).unwrap();
            }
            1 => {
                model.remove(&key);
                batch.delete(&**db, &key).unwrap();
            }
            2 | 3 => {
                batch.put(&**db, &key, &written).unwrap();
                model.insert(key, written);
            }
            _ => {
                let base = model.get(&key).map(Vec::as_slice);
                let merged = operator.full_merge(&key, base, &[&written]).unwrap();
                batch.merge(&**db, &key, &written).unwrap();
                model.insert(key, merged);
            }
        }
    }
    db.write(batch, &WriteOptions::default()).unwrap();
}

#[test]
fn whatever_happens_reads_find_what_a_model_has() {
    for (seed, name) in (0..scaled(12)).zip(
        ["stringappend", "bytesxor", "stringappendtest", "max"]
            .iter()
            .cycle(),
    ) {
        let vfs = SimVfs::new();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut options = options(&vfs, with(name));
        let merges = operator(name).unwrap();
        let mut db = open(&options);
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..150 {
            let what = format!("seed {seed}, {name}, step {step}");
            write(&db, &*merges, &mut model, &mut rng);
            match rng.u8(..20) {
                0 => db.flush().unwrap(),
                1 => db
                    .compact_range(None, None, &CompactRangeOptions::default())
                    .unwrap(),
                2 => force(&db),
                3 => snapshots.push((db.snapshot(), model.clone())),
                4 if !snapshots.is_empty() => {
                    drop(snapshots.swap_remove(rng.usize(..snapshots.len())));
                }
                5 => {
                    let collect = titan::CollectGarbageOptions::default();
                    db.collect_garbage(None, None, &collect).unwrap();
                }
                6 => {
                    snapshots.clear();
                    db.close().unwrap();
                    // A built-in operator need not be given again.
                    options.default.merge_operator = None;
                    db = open(&options);
                }
                _ => {}
            }
            if step % 5 == 0 {
                assert_reads(&db, &ReadOptions::default(), &model, &what);
                for (snapshot, model) in &snapshots {
                    let at = ReadOptions {
                        snapshot: Some(snapshot.clone()),
                        ..ReadOptions::default()
                    };
                    assert_reads(&db, &at, model, &what);
                }
            }
        }
        snapshots.clear();
        force(&db);
        assert_reads(
            &db,
            &ReadOptions::default(),
            &model,
            &format!("seed {seed}"),
        );
        // No operand is left, and exactly the values are live.
        let metrics = db.metrics();
        let large = model.iter().filter(|(_, value)| value.len() >= 100);
        let record =
            |(key, value): (&Vec<u8>, &Vec<u8>)| RECORD_HEADER + (key.len() + value.len()) as u64;
        let large: u64 = large.map(record).sum();
        let live: u64 = metrics.families.iter().map(|f| f.live_blob_bytes).sum();
        assert_eq!(live, large);
        db.close().unwrap();
    }
}

#[test]
fn an_own_operator_that_is_not_given_again_is_missed_where_operands_are() {
    /// Keeps the longest operand.
    struct Longest;

    impl MergeOperator for Longest {
        fn name(&self) -> &str {
            "own::longest"
        }

        fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
            let all = base.into_iter().chain(operands.iter().copied());
            all.max_by_key(|value| value.len()).map(<[u8]>::to_vec)
        }
    }

    let vfs = SimVfs::new();
    let mut options = options(&vfs, manual());
    options.default.merge_operator = Some(Arc::new(Longest));
    let db = open(&options);
    db.put(b"plain", b"v").unwrap();
    db.merge(b"k", b"short").unwrap();
    db.merge(b"k", b"longer").unwrap();
    db.close().unwrap();

    options.default.merge_operator = None;
    let db = open(&options);
    assert_eq!(db.get(b"plain").unwrap().unwrap(), "v");
    let missed = db.get(b"k").unwrap_err();
    assert_eq!(missed.kind(), ErrorKind::Unsupported);
    let why = "column family default has the merge operator own::longest, which was not given: set \
               ColumnFamilyOptions::merge_operator";
    assert!(missed.to_string().contains(why), "{missed}");
    assert!(missed.to_string().contains("the key 'k'"), "{missed}");
    let refused = db.merge(b"k", b"x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(refused.message(), why);
    // Nothing stands for it but its name.
    assert!(db.options().merge_operator.is_none());
    let loaded = LoadedOptions::load(Arc::new(vfs.clone()), DIR).unwrap();
    assert!(loaded.options.default.merge_operator.is_none());
    assert_eq!(loaded.recorded["default"]["merge_operator"], "own::longest");
    db.flush().unwrap();
    force(&db);
    assert!(db.get(b"k").is_err());
    db.close().unwrap();

    // Another one is refused, unless it is stated that it replaces the recorded one.
    options.default.merge_operator = operator("max");
    let other = Db::open(crate::support::DIR, &options).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidArgument);
    assert!(other.to_string().contains("longest"), "{other}");
    options.default.merge_operator = Some(Arc::new(Longest));
    let db = open(&options);
    assert_eq!(db.get(b"k").unwrap().unwrap(), "longer");
    force(&db);
    db.close().unwrap();
    options.default.merge_operator = operator("max");
    options.default.stated = Stated::fields(&["merge_operator"]);
    let db = open(&options);
    db.merge(b"k", b"zz").unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), "zz");
    db.close().unwrap();
}

#[test]
fn an_operator_that_fails_or_panics_harms_its_key_alone() {
    #[derive(Default)]
    struct Broken {
        panics: AtomicBool,
    }

    impl MergeOperator for Broken {
        fn name(&self) -> &str {
            "broken"
        }

        fn full_merge(&self, key: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
            if key == b"good" {
                return operands.last().map(|operand| operand.to_vec());
            }
            assert!(!self.panics.load(Ordering::SeqCst), "the operator");
            None
        }
    }

    let vfs = SimVfs::new();
    let broken = Arc::new(Broken::default());
    let mut options = options(&vfs, manual());
    options.default.merge_operator = Some(broken.clone());
    let db = open(&options);
    for kind in [ErrorKind::Corruption, ErrorKind::Internal] {
        broken
            .panics
            .store(kind == ErrorKind::Internal, Ordering::SeqCst);
        db.merge(b"bad", b"1").unwrap();
        db.merge(b"good", b"2").unwrap();
        for compacted in [false, true] {
            if compacted {
                force(&db);
            }
            assert_eq!(db.get(b"bad").unwrap_err().kind(), kind);
            assert_eq!(db.get(b"good").unwrap().unwrap(), "2");
            let mut iter = db.iter(&ReadOptions::default()).unwrap();
            iter.seek_to_first().unwrap();
            assert_eq!(iter.key(), b"bad");
            assert_eq!(iter.value().unwrap_err().kind(), kind);
            iter.next().unwrap();
            assert_eq!(iter.value().unwrap(), "2");
        }
    }
    assert!(db.background_error().is_none());
    db.close().unwrap();
}

/// Panics when it is asked for its name, or for its id, while it is told to.
#[derive(Default)]
struct Nameless {
    name: AtomicBool,
    id: AtomicBool,
}

impl MergeOperator for Nameless {
    fn name(&self) -> &str {
        assert!(!self.name.load(Ordering::SeqCst), "the name");
        "nameless"
    }

    fn id(&self) -> String {
        assert!(!self.id.load(Ordering::SeqCst), "the id");
        "nameless".to_owned()
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        (operands[0] != b"bad").then(|| operands.concat())
    }
}

#[test]
fn an_operator_that_panics_at_its_name_is_refused_and_later_does_no_harm() {
    let vfs = SimVfs::new();
    let nameless = Arc::new(Nameless::default());
    let family = ColumnFamilyOptions {
        merge_operator: Some(nameless.clone()),
        ..manual()
    };
    let plain = options(&vfs, manual());
    let mut named = plain.clone();
    named.default = family.clone();
    for panics in [&nameless.name, &nameless.id] {
        panics.store(true, Ordering::SeqCst);
        let refused = Db::open(DIR, &named).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused}");
        assert!(refused.message().contains("merge_operator"), "{refused}");
        let db = open(&plain);
        let refused = db.create_column_family("c", family.clone()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused}");
        db.close().unwrap();
        panics.store(false, Ordering::SeqCst);
    }
    let db = open(&named);
    nameless.name.store(true, Ordering::SeqCst);
    nameless.id.store(true, Ordering::SeqCst);
    db.merge(b"k", b"1").unwrap();
    db.merge(b"b", b"bad").unwrap();
    let failed = db.get(b"b").unwrap_err();
    assert!(failed.is_corruption(), "{failed}");
    assert!(failed.to_string().contains("nameless"), "{failed}");
    db.flush().unwrap();
    db.set_options(&[("min_blob_size", "7")]).unwrap();
    force(&db);
    assert_eq!(db.get(b"k").unwrap().unwrap(), "1");
    assert!(format!("{:?}", db.options()).contains("merge_operator"));
    db.close().unwrap();
}

#[test]
fn a_merge_without_an_operator_is_refused_and_takes_nothing_with_it() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    let mut batch = WriteBatch::new();
    batch.put(&*db, b"a", b"1").unwrap();
    batch.merge(&*db, b"b", b"2").unwrap();
    let refused = db.write(batch, &WriteOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("merge operator"), "{refused}");
    assert_eq!(db.get(b"a").unwrap(), None);
    db.put(b"a", b"1").unwrap();
}

/// Lets RocksDB add operands to the keys of a directory.
fn merge_by_rocksdb(dir: &Path, operator: &str, seed: u32, more: bool) -> bool {
    let args = [
        &format!("--db={}", dir.display()),
        "--benchmarks=mergerandom",
        &format!("--merge_operator={operator}"),
        "--num=600",
        "--merge_keys=40",
        "--value_size=8",
        // Some operands are in tables, some in the WAL.
        "--write_buffer_size=16384",
        "--compression_type=none",
        &format!("--seed={seed}"),
        &format!("--use_existing_db={}", u8::from(more)),
    ];
    let Some(output) = run("db_bench", &args) else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "db_bench {args:?}: {text}");
    true
}

fn rows(db: &Db) -> Rows {
    contents(db).unwrap().remove(0).1
}

fn operator_name(db: &Db) -> String {
    let options = db.options();
    options.merge_operator.as_ref().unwrap().name().to_owned()
}

#[test]
fn operands_go_back_and_forth_between_rocksdb_and_titan() {
    for name in ["uint64add", "stringappend", "put", "max", "bytesxor"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        if !merge_by_rocksdb(&path, name, 1, false) {
            return;
        }
        for round in 0..3_u64 {
            let expected = ldb_scan(&path, "default");
            assert!(expected.len() >= 40, "{name}");
            // The operator is the one that OPTIONS names.
            let mut options = titan::Options::default();
            options.default.min_blob_size = 20;
            options.default.stated = Stated::fields(&["min_blob_size"]);
            let db = Db::open(&path, &options).unwrap();
            assert_same(&rows(&db), &expected, &format!("{name}, round {round}"));
            if round == 1 {
                force(&db);
                let named = format!("merge operator name: {}", operator_name(&db));
                let dumped = table_properties(&path).unwrap();
                assert!(dumped.contains(&named), "{named} in {dumped}");
                assert_same(&rows(&db), &expected, &format!("{name}, compacted"));
            }
            for (key, _) in expected.iter().step_by(3) {
                db.merge(key, &round.to_le_bytes()).unwrap();
            }
            if round < 2 {
                db.flush().unwrap();
            }
            let ours = rows(&db);
            db.close().unwrap();
            drop(db);
            assert_same(
                &ldb_scan(&path, "default"),
                &ours,
                &format!("{name}, RocksDB"),
            );
            merge_by_rocksdb(&path, name, 2, true);
        }
    }
}

#[test]
fn a_damaged_base_concerns_only_its_key() {
    let vfs = SimVfs::new();
    let options = options(&vfs, with("stringappend"));
    let db = open(&options);
    db.put(b"damaged", &value(1, 500)).unwrap();
    db.put(b"sound", &value(2, 500)).unwrap();
    db.flush().unwrap();
    let blobs = files(&vfs, DIR, ".blob");
    let path = std::path::Path::new(DIR).join(&blobs[0]);
    vfs.flip_bit(&path, 30 + RECORD_HEADER + 100).unwrap();
    for key in [&b"damaged"[..], b"sound"] {
        db.merge(key, b"x").unwrap();
        db.merge(key, b"y").unwrap();
    }
    db.flush().unwrap();
    force(&db);
    let expected = [value(2, 500), b",x,y".to_vec()].concat();
    assert_eq!(db.get(b"sound").unwrap().as_deref(), Some(&*expected));
    assert!(db.get(b"damaged").unwrap_err().is_corruption());
    // Writes go on, and make the key whole again.
    db.put(b"damaged", b"new").unwrap();
    db.merge(b"damaged", b"z").unwrap();
    force(&db);
    assert_eq!(db.get(b"damaged").unwrap().as_deref(), Some(&b"new,z"[..]));
    db.close().unwrap();
}
