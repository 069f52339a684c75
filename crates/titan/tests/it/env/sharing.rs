//! Threads, open files and cached blocks of several databases together.

use titan::{Db, Env, EnvOptions, ReadOptions};
use titan_testkit::sim::SimVfs;

use super::{in_env, open_many};
use crate::support::{key, value};

fn fill(db: &Db) {
    for n in 0..100 {
        db.put(&key(n), &value(n, 1000)).unwrap();
    }
    db.flush().unwrap();
}

fn assert_filled(db: &Db) {
    for n in 0..100 {
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 1000));
    }
}

#[test]
fn threads_are_as_many_as_those_of_one_database_and_end_with_the_last() {
    let env = Env::new(EnvOptions {
        max_background_jobs: 3,
        ..EnvOptions::default()
    })
    .unwrap();
    assert_eq!((env.usage().databases, env.usage().threads), (0, 0));
    for _ in 0..2 {
        let vfs = SimVfs::new();
        let dbs = open_many(&in_env(&env, &vfs), 30);
        assert_eq!(env.usage().databases, 30);
        // And the one that collects garbage.
        assert_eq!(env.usage().threads, 4);
        for db in &dbs {
            fill(db);
        }
        for db in &dbs {
            db.wait_idle().unwrap();
            assert_filled(db);
        }
        for (closed, db) in dbs.iter().enumerate() {
            assert_eq!(env.usage().databases, 30 - closed);
            db.close().unwrap();
        }
        assert_eq!((env.usage().databases, env.usage().threads), (0, 0));
    }
}

#[test]
fn open_files_and_blocks_are_bounded_over_all_databases_and_kept_apart() {
    let env = Env::new(EnvOptions {
        max_open_files: 16,
        block_cache_size: 64 << 10,
        ..EnvOptions::default()
    })
    .unwrap();
    let vfs = SimVfs::new();
    let dbs = open_many(&in_env(&env, &vfs), 20);
    // File numbers are the same in all of them, contents are not.
    for (n, db) in dbs.iter().enumerate() {
        db.put(b"inline", n.to_string()).unwrap();
        db.put(b"separated", value(n, 500)).unwrap();
        db.flush().unwrap();
    }
    for _ in 0..2 {
        for (n, db) in dbs.iter().enumerate() {
            assert_eq!(db.get(b"inline").unwrap().unwrap(), n.to_string());
            assert_eq!(db.get(b"separated").unwrap().unwrap(), value(n, 500));
            let usage = env.usage();
            // One in use may be beyond the bound.
            assert!(usage.open_files <= 17, "{usage:?}");
            assert!(usage.block_cache_bytes <= 64 << 10, "{usage:?}");
        }
    }
    let open: usize = dbs.iter().map(|db| db.metrics().open_files).sum();
    assert_eq!(open, env.usage().open_files, "each counts its own");
    drop(dbs);
    assert_eq!(env.usage().open_files, 0);
}

#[test]
fn an_env_lives_on_while_databases_are_open_with_it() {
    let env = Env::new(EnvOptions::default()).unwrap();
    let vfs = SimVfs::new();
    let options = in_env(&env, &vfs);
    let dbs = open_many(&options, 2);
    drop((env, options));
    for db in &dbs {
        fill(db);
        db.wait_idle().unwrap();
        assert_filled(db);
        assert_eq!(db.statistics().flushes(), 1);
    }
    let iter = dbs[0].iter(&ReadOptions::default()).unwrap();
    drop(dbs);
    drop(iter);
}

#[test]
fn a_database_that_is_opened_for_reading_shares_caches_and_no_threads() {
    let env = Env::new(EnvOptions::default()).unwrap();
    let vfs = SimVfs::new();
    let options = in_env(&env, &vfs);
    let db = Db::open("/db", &options).unwrap();
    fill(&db);
    db.close().unwrap();
    let reader = Db::open_read_only("/db", &options).unwrap();
    assert_filled(&reader);
    let usage = env.usage();
    assert_eq!((usage.databases, usage.threads), (0, 0));
    assert!(usage.open_files > 0 && usage.block_cache_bytes > 0);
}

/// The part of the threads that a database may have follows its own option.
#[test]
fn the_threads_of_an_env_stay_when_a_database_changes_its_part() {
    let env = Env::new(EnvOptions {
        max_background_jobs: 5,
        ..EnvOptions::default()
    })
    .unwrap();
    let vfs = SimVfs::new();
    let dbs = open_many(&in_env(&env, &vfs), 2);
    for jobs in ["1", "200", "2"] {
        dbs[0]
            .set_options(&[("max_background_jobs", jobs)])
            .unwrap();
        assert_eq!(env.usage().threads, 6);
        fill(&dbs[0]);
        dbs[0].wait_idle().unwrap();
    }
}
