//! Databases that share an `Env`.

mod budgets;
mod families;
mod isolation;
mod options;
mod sharing;

use std::sync::Arc;

use titan::{Db, Env, Options};
use titan_testkit::sim::SimVfs;

use crate::support::{manual, options};

/// Options of databases in an `Env`, in a file system in memory.
fn in_env(env: &Env, vfs: &SimVfs) -> Options {
    let mut options = options(vfs, manual());
    options.db.env = Some(env.clone());
    options
}

/// So many databases in one file system.
fn open_many(options: &Options, databases: usize) -> Vec<Db> {
    let open = |n| Db::open(format!("/db{n}"), options).unwrap();
    (0..databases).map(open).collect()
}

/// Options with another file system.
fn elsewhere(options: &Options, vfs: &SimVfs) -> Options {
    let mut options = options.clone();
    options.db.vfs = Arc::new(vfs.clone());
    options
}
