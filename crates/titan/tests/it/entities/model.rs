//! Entities among all other operations, compared with a model.

use titan::merge::builtin;
use titan::{CompactRangeOptions, Db, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use titan_testkit::sim::SimVfs;

use super::{Columns, Model, appending, assert_reads, close_and_check, default_of};
use crate::support::{key, open, options, scaled, value};

const KEYS: usize = 12;

/// Up to four columns; some are long.
fn columns(rng: &mut fastrand::Rng) -> Columns {
    let mut columns = Columns::new();
    for name in ["", "a", "bc", "d"] {
        if rng.u8(..10) < 6 {
            let len = [0, 5, 60, 300][rng.usize(..4)];
            columns.insert(name.as_bytes().to_vec(), value(rng.usize(..1000), len));
        }
    }
    columns
}

/// Writes a batch of random operations to both.
fn write(db: &Db, model: &mut Model, rng: &mut fastrand::Rng) {
    let operator = builtin::by_name("stringappend").unwrap();
    let mut batch = WriteBatch::new();
    for _ in 0..rng.usize(1..4) {
        let n = rng.usize(..KEYS);
        let key = key(n);
        match rng.u8(..12) {
            0 => {
                let end = crate::support::key(n + 3);
                model.retain(|k, _| *k < key || *k >= end);
                batch.delete_range(&**db, &key, &end).unwrap();
            }
            1 => {
                model.remove(&key);
                batch.delete(&**db, &key).unwrap();
            }
            2 => {
                let value = value(rng.usize(..1000), rng.usize(..250));
                batch.put(&**db, &key, &value).unwrap();
                model.insert(key, Columns::from([(Vec::new(), value)]));
            }
            3..7 => {
                let columns = columns(rng);
                batch.put_entity(&**db, &key, &columns).unwrap();
                model.insert(key, columns);
            }
            _ => {
                let operand = value(rng.usize(..1000), rng.usize(1..50));
                batch.merge(&**db, &key, &operand).unwrap();
                let base = model.get(&key).map(default_of);
                let merged = operator.full_merge(&key, base, &[&operand]).unwrap();
                model.entry(key).or_default().insert(Vec::new(), merged);
            }
        }
    }
    db.write(batch, &WriteOptions::default()).unwrap();
}

#[test]
fn whatever_happens_reads_find_what_a_model_has() {
    let keys: Vec<Vec<u8>> = (0..KEYS + 3).map(key).collect();
    for seed in 0..scaled(12) {
        let vfs = SimVfs::new();
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = options(&vfs, appending());
        let mut db = open(&options);
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..120 {
            let what = format!("seed {seed}, step {step}");
            match rng.u8(..20) {
                0 => db.flush().unwrap(),
                1 => {
                    let all = CompactRangeOptions {
                        force_bottommost: rng.bool(),
                    };
                    db.compact_range(None, None, &all).unwrap();
                }
                2 => snapshots.push((db.snapshot(), model.clone())),
                3 if !snapshots.is_empty() => {
                    snapshots.swap_remove(rng.usize(..snapshots.len()));
                }
                4 if rng.bool() => {
                    snapshots.clear();
                    db.close().unwrap();
                    db = open(&options);
                }
                5 => {
                    db.collect_garbage(None, None, &Default::default()).unwrap();
                }
                _ => write(&db, &mut model, &mut rng),
            }
            if step % 10 == 9 {
                assert_reads(&db, &ReadOptions::default(), &model, &keys, &what);
                for (snapshot, model) in &snapshots {
                    let options = ReadOptions {
                        snapshot: Some(snapshot.clone()),
                        ..ReadOptions::default()
                    };
                    assert_reads(&db, &options, model, &keys, &format!("{what}, snapshot"));
                }
            }
        }
        snapshots.clear();
        close_and_check(db, &options);
        let db = open(&options);
        assert_reads(
            &db,
            &ReadOptions::default(),
            &model,
            &keys,
            &format!("seed {seed}"),
        );
    }
}
