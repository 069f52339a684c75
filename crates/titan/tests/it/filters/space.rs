//! A filter gives space back without reading a value.

use titan::{CollectGarbageOptions, Decision};
use titan_testkit::sim::SimVfs;

use super::{Filter, close_and_check, compact, number};
use crate::support::{collecting, key, open, options, value};

#[test]
fn the_space_of_half_of_the_values_is_given_back() {
    let vfs = SimVfs::new();
    let plain = options(&vfs, collecting());
    let db = open(&plain);
    for n in 0..1000 {
        db.put(&key(n), &value(n, 4096)).unwrap();
    }
    compact(&db);
    db.close().unwrap();
    drop(db);
    let filter = Filter::new(|entry| {
        Ok(match number(entry.key()) % 2 {
            0 => Decision::Remove,
            _ => Decision::Keep,
        })
    });
    let options = options(&vfs, filter.of(collecting()));
    let db = open(&options);
    compact(&db);
    let usage = || db.space_report().unwrap().total;
    let record = 32 + 9 + 4096;
    assert_eq!(usage().live_blob_bytes, 500 * record, "exact at once");
    db.collect_garbage(None, None, &CollectGarbageOptions::default())
        .unwrap();
    db.wait_idle().unwrap();
    let bytes = usage().blob_bytes + usage().sst_bytes + usage().map_bytes;
    let live = usage().live_blob_bytes;
    assert!(bytes as f64 <= live as f64 * 1.05, "{bytes} of {live}");
    assert_eq!(db.statistics().filter_blob_reads(), 0);
    assert_eq!(db.statistics().filter_removed(), 500);
    close_and_check(db, &options);
}
