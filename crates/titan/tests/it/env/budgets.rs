//! The memory of memtables, over families and over databases.

use titan::{ColumnFamily, ColumnFamilyOptions, Db, Env, EnvOptions};
use titan_testkit::sim::SimVfs;

use super::{in_env, open_many};
use crate::support::{key, manual, options, value};

const BUDGET: u64 = 1 << 20;

/// Its memtables take about as much memory as the values in them: each has a chunk of its own.
fn family() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        write_buffer_size: 2 << 20,
        ..manual()
    }
}

fn put(family: &ColumnFamily, keys: std::ops::Range<usize>) {
    for n in keys {
        family.put(&key(n), &value(n, 100_000)).unwrap();
    }
}

#[test]
fn the_largest_memtable_of_any_database_is_flushed() {
    let env = Env::new(EnvOptions {
        db_write_buffer_size: BUDGET,
        ..EnvOptions::default()
    })
    .unwrap();
    let mut options = in_env(&env, &SimVfs::new());
    options.default = family();
    let dbs = open_many(&options, 3);
    put(&dbs[0], 0..5);
    put(&dbs[1], 0..2);
    let flushes = || dbs.iter().map(|db| db.statistics().flushes());
    let used = env.usage().write_buffer_bytes;
    assert!((700_000..BUDGET * 7 / 8).contains(&used), "{used}");
    assert!(flushes().eq([0, 0, 0]));

    // Nobody writes to the first any more.
    put(&dbs[2], 0..3);
    dbs[0].wait_idle().unwrap();
    assert!(flushes().eq([1, 0, 0]));
    let used = env.usage().write_buffer_bytes;
    assert!((500_000..700_000).contains(&used), "{used}");
    for (db, keys) in dbs.iter().zip([5, 2, 3]) {
        for n in 0..keys {
            assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 100_000));
        }
    }
    drop(dbs);
    assert_eq!(env.usage().write_buffer_bytes, 0);
}

#[test]
fn the_budget_of_a_single_database_is_shared_by_its_families() {
    let mut options = options(&SimVfs::new(), family());
    options.db.db_write_buffer_size = BUDGET;
    let db = Db::open("/db", &options).unwrap();
    let large = db.create_column_family("large", family()).unwrap();
    put(&large, 0..6);
    // The last one finds that the budget was exceeded by the one before.
    put(&db, 0..5);
    db.wait_idle().unwrap();
    let metrics = db.metrics().families;
    let tables = |n: usize| metrics[n].levels[0].files;
    assert_eq!((tables(0), tables(1)), (0, 1), "the larger one was flushed");
    let memory: u64 = metrics.iter().map(|family| family.memtable_bytes).sum();
    assert!(memory < BUDGET, "{memory}");
}
