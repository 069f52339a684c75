//! Comparators other than the bytewise one.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use titan::{
    BytewiseComparator, CompactRangeOptions, Comparator, Db, ErrorKind, KeyOrder, Options,
    ReadOptions, ReverseBytewiseComparator,
};

use super::{must_exist, small};
use crate::directory::{Rows, check, check_all, contents};

fn ordered_by(comparator: Arc<dyn Comparator>) -> Options {
    let mut options = small();
    options.default.comparator = comparator;
    options
}

/// By length, then bytewise.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &'static str {
        "test.ByLength"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// Writes, deletes and compacts under a comparator, and compares with a model.
fn end_to_end(comparator: &Arc<dyn Comparator>, seed: u64) {
    let what = format!("{}, seed {seed}", comparator.name());
    let rng = &mut fastrand::Rng::with_seed(seed);
    let options = ordered_by(Arc::clone(comparator));
    let dir = tempfile::tempdir().unwrap();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let sorted = |model: &BTreeMap<Vec<u8>, Vec<u8>>| {
        let mut rows: Rows = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        rows.sort_by(|a, b| comparator.compare(&a.0, &b.0));
        rows
    };
    let key = |rng: &mut fastrand::Rng| format!("{:x}", rng.u32(0..600)).into_bytes();
    let mut db = Db::open(dir.path(), &options).unwrap();
    for round in 0..6 {
        let what = format!("{what}, round {round}");
        for _ in 0..400 {
            let k = key(rng);
            match rng.u32(0..12) {
                0 => {
                    db.delete(&k).unwrap();
                    model.remove(&k);
                }
                1 => {
                    let mut range = [k, key(rng)];
                    range.sort_by(|a, b| comparator.compare(a, b));
                    let [begin, end] = range;
                    if rng.u32(0..4) == 0 {
                        db.delete_range(&begin, &end).unwrap();
                        model.retain(|k, _| {
                            comparator.compare(k, &begin).is_lt()
                                || comparator.compare(k, &end).is_ge()
                        });
                    }
                }
                _ => {
                    let value = vec![rng.u8(..); rng.usize(0..400)];
                    db.put(&k, &value).unwrap();
                    model.insert(k, value);
                }
            }
        }
        check(&db, &sorted(&model), &format!("{what}, written"));
        match round % 3 {
            0 => db.flush().unwrap(),
            1 => {
                let everything = CompactRangeOptions {
                    force_bottommost: true,
                };
                db.compact_range(None, None, &everything).unwrap();
            }
            _ => {}
        }
        db.close().unwrap();
        drop(db);
        db = Db::open(dir.path(), &options).unwrap();
        let rows = sorted(&model);
        check(&db, &rows, &format!("{what}, reopened"));
        // Bounds are in the order of the family.
        let (lower, upper) = (&rows[rows.len() / 4].0, &rows[rows.len() / 2].0);
        let bounds = ReadOptions {
            lower_bound: Some(lower.clone()),
            upper_bound: Some(upper.clone()),
            ..ReadOptions::default()
        };
        let mut it = db.iter(&bounds).unwrap();
        it.seek_to_first().unwrap();
        for (k, _) in &rows[rows.len() / 4..rows.len() / 2] {
            assert_eq!(it.key(), k, "{what}");
            it.next().unwrap();
        }
        assert!(!it.valid(), "{what}");
    }
    let metrics = &db.metrics().families[0];
    assert!(metrics.blob_files > 0, "{what}: {metrics:?}");
}

#[test]
fn reverse_bytewise_and_own_orders_work_end_to_end() {
    let reverse: Arc<dyn Comparator> = Arc::new(ReverseBytewiseComparator);
    let by_length: Arc<dyn Comparator> = Arc::new(ByLength);
    for seed in [1, 2] {
        end_to_end(&reverse, seed);
        end_to_end(&by_length, seed);
    }
}

#[test]
fn a_reverse_family_opens_without_being_told() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &ordered_by(Arc::new(ReverseBytewiseComparator))).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", &[2; 500]).unwrap();
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), &small()).unwrap();
    let order = &db.options().comparator;
    assert_eq!(order.name(), ReverseBytewiseComparator.name());
    let rows = vec![
        (b"b".to_vec(), vec![2; 500]),
        (b"a".to_vec(), b"1".to_vec()),
    ];
    check(&db, &rows, "order from the MANIFEST");
    let with_prefix = ReadOptions {
        prefix: Some(b"a".to_vec()),
        ..ReadOptions::default()
    };
    let e = db.iter(&with_prefix).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}

#[test]
fn an_order_cannot_be_exchanged_nor_guessed() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    db.put(b"key", b"value").unwrap();
    let own = ordered_by(Arc::new(ByLength)).default;
    let family = db.create_column_family("own", own.clone()).unwrap();
    family.put(b"key", b"value").unwrap();
    db.close().unwrap();
    drop((db, family));

    let mut options = small();
    let e = Db::open(dir.path(), &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    assert!(e.message().contains("test.ByLength"), "{e}");
    assert!(e.message().contains("own"), "{e}");

    options.families.insert("own".to_owned(), own.clone());
    let db = Db::open(dir.path(), &options).unwrap();
    assert!(
        db.column_family("own")
            .unwrap()
            .contains_key(b"key")
            .unwrap()
    );
    drop(db);

    for wrong in [
        Arc::new(ByLength) as Arc<dyn Comparator>,
        Arc::new(ReverseBytewiseComparator),
    ] {
        let mut options = options.clone();
        options.default.comparator = wrong;
        let e = Db::open(dir.path(), &options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        assert!(e.message().contains(BytewiseComparator.name()), "{e}");
        assert!(e.message().contains("default"), "{e}");
    }
    let db = Db::open(dir.path(), &options).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
}

/// MyRocks and other programs have their own names for the bytewise orders.
#[test]
fn a_name_that_the_options_know_is_a_built_in_order() {
    struct Other(KeyOrder);
    impl Comparator for Other {
        fn name(&self) -> &str {
            match self.0 {
                KeyOrder::Bytewise => "RocksDB_SE_v3.10",
                _ => "rev:RocksDB_SE_v3.10",
            }
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            match self.0 {
                KeyOrder::Bytewise => a.cmp(b),
                _ => b.cmp(a),
            }
        }
    }
    for order in [KeyOrder::Bytewise, KeyOrder::Reverse] {
        let other = Arc::new(Other(order));
        let name = other.name().to_owned();
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &ordered_by(other)).unwrap();
        for i in 0..100_u8 {
            db.put(&[i], &[i; 200]).unwrap();
        }
        db.flush().unwrap();
        db.put(b"in the log", b"value").unwrap();
        let expected = contents(&db).unwrap();
        db.close().unwrap();
        drop(db);

        let mut options = must_exist();
        let e = Db::open(dir.path(), &options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        assert!(e.message().contains(&name), "{e}");
        options.db.comparator_aliases.insert(name.clone(), order);
        for _ in 0..2 {
            let db = Db::open(dir.path(), &options).unwrap();
            check_all(&db, &expected, &name);
            db.compact_range(None, None, &Default::default()).unwrap();
            check_all(&db, &expected, &name);
            db.close().unwrap();
            drop(db);
            let report = titan_tools::check(dir.path(), &options, &mut |_| {}).unwrap();
            assert_eq!(report.problems.len(), 0, "{:?}", report.problems);
        }
        // The name stays.
        let e = Db::open(dir.path(), &must_exist()).unwrap_err();
        assert!(e.message().contains(&name), "{e}");
    }
}
