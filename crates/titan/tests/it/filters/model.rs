//! Random operations with a filter, compared with a map: at any time a key has its value or the one
//! that the filter makes of it, and after a compaction of everything exactly the latter.

use std::collections::BTreeMap;

use titan::ColumnFamilyOptions;
use titan_testkit::sim::SimVfs;

use super::{Filter, by_number, close_and_check, compact, expected};
use crate::support::{key, manual, open, options, value};

fn run(seed: u64, at_flush: bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let vfs = SimVfs::new();
    let filter = Filter::new(by_number);
    let filter = if at_flush { filter.at_flush() } else { filter };
    let family = ColumnFamilyOptions {
        disable_auto_compactions: random.bool(),
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 2048,
        target_file_size_base: 1024,
        ..manual()
    };
    let options = options(&vfs, filter.of(family));
    let mut db = open(&options);
    let mut model: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for step in 0..300 {
        let n = random.usize(0..60);
        match random.usize(0..40) {
            0..25 => {
                let value = value(step, random.usize(1..400));
                db.put(&key(n), &value).unwrap();
                model.insert(n, value);
            }
            25..30 => {
                db.delete(&key(n)).unwrap();
                model.remove(&n);
            }
            30..32 => {
                let end = n + random.usize(1..20);
                db.delete_range(&key(n), &key(end)).unwrap();
                model.retain(|k, _| !(n..end).contains(k));
            }
            32..37 => db.flush().unwrap(),
            37 => {
                close_and_check(db, &options);
                db = open(&options);
            }
            _ => compact(&db),
        }
        db.wait_idle().unwrap();
        let n = random.usize(0..60);
        let found = db.get(&key(n)).unwrap().map(|v| v.to_vec());
        let before = model.get(&n).cloned();
        let filtered = before.as_ref().and_then(|v| expected(n, v));
        assert!(
            found == before || found == filtered,
            "{n} at step {step}, seed {seed}"
        );
    }
    compact(&db);
    let snapshot = db.snapshot();
    for n in 0..60 {
        let filtered = model.get(&n).and_then(|v| expected(n, v));
        assert_eq!(
            db.get(&key(n)).unwrap().map(|v| v.to_vec()),
            filtered,
            "{n}, seed {seed}"
        );
    }
    drop(snapshot);
    close_and_check(db, &options);
}

#[test]
fn random_operations_with_a_filter_match_a_map() {
    let seed = fastrand::u64(..1 << 32);
    println!("seed {seed}");
    for round in 0..8 {
        run(seed + round, round % 2 == 0);
    }
}
