//! The examples run as described.

use std::path::Path;

use crate::directory::copy;

#[path = "../../examples/backup.rs"]
mod backup;
#[path = "../../examples/basic.rs"]
mod basic;
#[path = "../../examples/batch.rs"]
mod batch;
#[path = "../../examples/counters.rs"]
mod counters;
#[path = "../../examples/documents.rs"]
mod documents;
#[path = "../../examples/iterate.rs"]
mod iterate;
#[path = "../../examples/large_files.rs"]
mod large_files;
#[path = "../../examples/many_databases.rs"]
mod many_databases;
#[path = "../../examples/queue.rs"]
mod queue;
#[path = "../../examples/rocksdb.rs"]
#[expect(dead_code, reason = "`main` takes the directory from the command line")]
mod rocksdb;
#[path = "../../examples/secondary_index.rs"]
mod secondary_index;
#[path = "../../examples/sessions.rs"]
mod sessions;
#[path = "../../examples/tenants.rs"]
mod tenants;
#[path = "../../examples/time_series.rs"]
mod time_series;
#[path = "../../examples/transaction.rs"]
mod transaction;
#[path = "../../examples/viewer.rs"]
mod viewer;

/// The tests, each of which runs the example of its name.
macro_rules! run {
    ($($example:ident)*) => {
        $(
            #[test]
            fn $example() {
                self::$example::main().unwrap();
            }
        )*
    };
}

run! {
    backup basic batch counters documents iterate large_files
    many_databases queue secondary_index sessions tenants time_series transaction viewer
}

#[test]
fn rocksdb() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let database = copy(&fixtures.join("rocksdb-7.8-default"));
    let disk = self::rocksdb::move_and_return(database.path()).unwrap();
    assert!(disk.blob_bytes > 0);
}
