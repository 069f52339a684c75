//! Iterators of transactions against a map: every mixture of own writes and entries of the
//! database, moved about in both directions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::vfs::MemoryVfs;
use crate::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, Options, ReadOptions,
    ReverseBytewiseComparator, TransactionIterator, TransactionOptions,
};

fn open() -> Db {
    let options = Options {
        db: DbOptions {
            vfs: Arc::new(MemoryVfs::default()),
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            min_blob_size: 20,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    Db::open("/db", &options).unwrap()
}

/// The value that a key has in the database, or in a transaction; some are separated.
fn value(by: &str, key: u8) -> Vec<u8> {
    let mut value = format!("{by}{key}").into_bytes();
    if key.is_multiple_of(3) {
        value.resize(60, b'.');
    }
    value
}

type Expected = BTreeMap<u8, Vec<u8>>;

/// A position in a map that has the order of the family.
struct Model<'a> {
    entries: &'a Expected,
    reverse: bool,
    at: Option<u8>,
}

impl Model<'_> {
    fn first(&self, range: (Bound<u8>, Bound<u8>)) -> Option<u8> {
        self.entries.range(range).next().map(|(key, _)| *key)
    }

    fn last(&self, range: (Bound<u8>, Bound<u8>)) -> Option<u8> {
        self.entries.range(range).next_back().map(|(key, _)| *key)
    }

    /// The nearest key from `key` on, or after it, in the order of the family.
    fn forward(&self, key: u8, included: bool) -> Option<u8> {
        let bound = if included {
            Bound::Included(key)
        } else {
            Bound::Excluded(key)
        };
        match self.reverse {
            false => self.first((bound, Bound::Unbounded)),
            true => self.last((Bound::Unbounded, bound)),
        }
    }

    fn backward(&self, key: u8, included: bool) -> Option<u8> {
        let bound = if included {
            Bound::Included(key)
        } else {
            Bound::Excluded(key)
        };
        match self.reverse {
            false => self.last((Bound::Unbounded, bound)),
            true => self.first((bound, Bound::Unbounded)),
        }
    }

    fn ends(&self) -> [Option<u8>; 2] {
        let all = (Bound::Unbounded, Bound::Unbounded);
        match self.reverse {
            false => [self.first(all), self.last(all)],
            true => [self.last(all), self.first(all)],
        }
    }
}

fn assert_at(iter: &mut TransactionIterator, model: &Model<'_>, about: &str) {
    assert_eq!(iter.valid(), model.at.is_some(), "{about}");
    match model.at {
        None => {
            assert!(iter.key().is_empty(), "{about}");
            assert!(
                iter.value().is_err() && iter.lazy_value().is_err(),
                "{about}"
            );
        }
        Some(key) => {
            assert_eq!(iter.key(), [key], "{about}");
            let expected = &model.entries[&key];
            assert_eq!(&*iter.value().unwrap(), expected, "{about}");
            let lazy = iter.lazy_value().unwrap();
            assert_eq!(&*lazy.fetch().unwrap(), expected, "{about}");
        }
    }
}

fn walk(
    iter: &mut TransactionIterator,
    model: &mut Model<'_>,
    rng: &mut fastrand::Rng,
    about: &str,
) {
    for _ in 0..60 {
        let target = rng.u8(..34);
        match rng.u8(..12) {
            0 => {
                iter.seek_to_first().unwrap();
                model.at = model.ends()[0];
            }
            1 => {
                iter.seek_to_last().unwrap();
                model.at = model.ends()[1];
            }
            2 | 3 => {
                iter.seek(&[target]).unwrap();
                model.at = model.forward(target, true);
            }
            4 | 5 => {
                iter.seek_for_prev(&[target]).unwrap();
                model.at = model.backward(target, true);
            }
            6..=8 => {
                iter.next().unwrap();
                model.at = model.at.and_then(|at| model.forward(at, false));
            }
            _ => {
                iter.prev().unwrap();
                model.at = model.at.and_then(|at| model.backward(at, false));
            }
        }
        assert_at(iter, model, about);
    }
}

fn fill(family: &ColumnFamily, rng: &mut fastrand::Rng) -> Expected {
    let mut entries = Expected::new();
    for key in (0..32).filter(|_| rng.bool()).collect::<Vec<u8>>() {
        family.put(&[key], &value("db", key)).unwrap();
        entries.insert(key, value("db", key));
    }
    if rng.bool() {
        family.flush().unwrap();
    }
    entries
}

#[test]
fn own_writes_hide_the_database_in_both_directions_and_orders() {
    let db = open();
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let reverse = rng.bool();
        let mut options = ColumnFamilyOptions {
            min_blob_size: 20,
            ..ColumnFamilyOptions::default()
        };
        if reverse {
            options.comparator = Arc::new(ReverseBytewiseComparator);
        }
        let family = db
            .create_column_family(&format!("{seed}"), options)
            .unwrap();
        let mut entries = fill(&family, &mut rng);
        let transaction = db.begin(&TransactionOptions::default()).unwrap();
        for key in (0..32).filter(|_| rng.u8(..3) == 0).collect::<Vec<u8>>() {
            if rng.bool() {
                transaction.put(&family, [key], value("own", key)).unwrap();
                entries.insert(key, value("own", key));
            } else {
                transaction.delete(&family, [key]).unwrap();
                entries.remove(&key);
            }
        }
        let mut read = ReadOptions::default();
        if rng.bool() {
            let (lower, upper) = (rng.u8(..32), rng.u8(..32));
            read.lower_bound = rng.bool().then(|| vec![lower]);
            read.upper_bound = rng.bool().then(|| vec![upper]);
            if !reverse && rng.u8(..4) == 0 {
                read.prefix = Some(vec![lower]);
            }
            let order = &family.options().comparator;
            let after = |key: u8, bound: &Option<Vec<u8>>| {
                let bound = bound.as_ref();
                bound.map(|bound| order.compare(&[key], bound).is_ge())
            };
            entries.retain(|key, _| {
                after(*key, &read.lower_bound) != Some(false)
                    && after(*key, &read.upper_bound) != Some(true)
                    && read.prefix.as_ref().is_none_or(|prefix| prefix == &[*key])
            });
        }
        let mut iter = transaction.iter(&family, &read).unwrap();
        let mut model = Model {
            entries: &entries,
            reverse,
            at: None,
        };
        let about = format!("seed {seed}");
        walk(&mut iter, &mut model, &mut rng, &about);
        // Later writes do not disturb it, nor does the end of the transaction.
        for key in 0..32 {
            transaction.put(&family, [key], "later").unwrap();
            family.delete(&[key]).unwrap();
        }
        walk(&mut iter, &mut model, &mut rng, &about);
        transaction.rollback();
        walk(&mut iter, &mut model, &mut rng, &about);
        drop(iter);
        db.drop_column_family(&family).unwrap();
    }
}

#[test]
fn a_prefix_needs_the_bytewise_order() {
    let db = open();
    let options = ColumnFamilyOptions {
        comparator: Arc::new(ReverseBytewiseComparator),
        ..ColumnFamilyOptions::default()
    };
    let family = db.create_column_family("reverse", options).unwrap();
    let transaction = db.begin(&TransactionOptions::default()).unwrap();
    let read = ReadOptions {
        prefix: Some(b"a".to_vec()),
        ..ReadOptions::default()
    };
    assert!(transaction.iter(&family, &read).is_err());
}
