//! The cost of a family among many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use titan::Db;
use titan_testkit::sim::SimVfs;

use crate::support::{manual, options};

/// Bytes and operations of the file system that a family takes to be created and dropped, beside so
/// many others.
fn cost_beside(others: usize) -> (u64, u64) {
    let vfs = SimVfs::new();
    let mut options = options(&vfs, manual());
    for n in 0..others {
        options.families.insert(format!("family {n:05}"), manual());
    }
    let db = Db::open("/db", &options).unwrap();
    db.wait_idle().unwrap();
    let operations = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&operations);
    let before = vfs.bytes_written("");
    vfs.set_hook(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let family = db.create_column_family("one more", manual()).unwrap();
    family.put("k", "v").unwrap();
    db.drop_column_family(&family).unwrap();
    vfs.clear_hook();
    let bytes = vfs.bytes_written("") - before;
    (bytes, operations.load(Ordering::SeqCst))
}

#[test]
fn a_family_among_thousands_costs_no_more_than_twice_that_of_one_among_five() {
    let (bytes, operations) = cost_beside(5);
    assert!(bytes > 0 && operations > 0);
    let (of_many, operations_of_many) = cost_beside(5000);
    println!("bytes: {bytes}, {of_many}; operations: {operations}, {operations_of_many}");
    assert!(of_many <= 2 * bytes, "{of_many} bytes");
    assert!(
        operations_of_many <= 2 * operations,
        "{operations_of_many} operations"
    );
}
