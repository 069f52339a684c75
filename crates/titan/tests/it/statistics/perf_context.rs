//! The steps of the calls of one thread.

use titan::{PerfContext, PerfLevel, ReadOptions, StatsLevel, WriteOptions};
use titan_testkit::sim::SimVfs;

use super::{at_level, filled};
use crate::support::key;

#[test]
fn a_lookup_tells_its_steps() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::Off));
    let mut recorder = PerfContext::start(PerfLevel::EnableCount);
    let mut steps = |n: usize| {
        db.get(key(n)).unwrap().unwrap();
        recorder.take()
    };
    let of_memtable = steps(61);
    assert_eq!(of_memtable.memtable_hit_count, 1);
    assert_eq!(of_memtable.get_from_memtable_count, 1);
    assert_eq!(of_memtable.bloom_sst_hit_count, 0);
    // A pointer in level 0, whose value is in a blob file.
    let of_blob = steps(30);
    assert_eq!(
        (of_blob.memtable_hit_count, of_blob.get_from_memtable_count),
        (0, 1)
    );
    assert_eq!((of_blob.blob_read_count, of_blob.blob_read_byte), (1, 200));
    assert_eq!(of_blob.bloom_filter_full_true_positive, 1);
    assert_eq!(
        (of_blob.block_read_count, of_blob.block_cache_hit_count),
        (1, 0)
    );
    assert!(of_blob.block_read_byte > 0);
    // A value in the same block.
    let inline = steps(31);
    assert_eq!(
        (inline.block_read_count, inline.block_cache_hit_count),
        (0, 1)
    );
    assert_eq!((inline.blob_read_count, inline.block_read_time), (0, 0));
    assert!(inline.to_string().contains("block_cache_hit_count = 1"));
    assert_eq!(recorder.take(), PerfContext::default());
}

#[test]
fn deleted_keys_are_counted_where_an_iterator_passes_them() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::Off));
    for n in 61..71 {
        db.delete(key(n)).unwrap();
    }
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek(key(60)).unwrap();
    let mut recorder = PerfContext::start(PerfLevel::EnableCount);
    iter.next().unwrap();
    assert_eq!(iter.key(), key(71));
    let passed = recorder.take();
    assert_eq!(passed.internal_delete_skipped_count, 10);
    // The older version of the first key, and of each deleted key both versions.
    assert_eq!(passed.internal_key_skipped_count, 20);
    iter.prev().unwrap();
    assert_eq!(iter.key(), key(60));
    assert_eq!(recorder.take().internal_delete_skipped_count, 10);
}

#[test]
fn times_are_taken_if_they_are_wanted() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::Off));
    let mut recorder = PerfContext::start(PerfLevel::EnableTime);
    let mut batch = titan::WriteBatch::new();
    batch.put(&db, "key", "value").unwrap();
    db.write(batch, &WriteOptions::synced()).unwrap();
    db.get(key(30)).unwrap();
    let taken = recorder.take();
    for (name, nanos) in [
        ("write_wal_time", taken.write_wal_time),
        ("wal_sync_time", taken.wal_sync_time),
        ("write_memtable_time", taken.write_memtable_time),
        ("block_read_time", taken.block_read_time),
        ("blob_read_time", taken.blob_read_time),
    ] {
        assert!(nanos > 0, "{name}");
    }
    assert_eq!(taken.write_delay_time, 0);
}

#[test]
fn keys_that_are_skipped_by_their_prefix_are_counted() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::Off));
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    // Neighbours in one block are stepped over.
    iter.seek(key(30)).unwrap();
    let mut recorder = PerfContext::start(PerfLevel::EnableCount);
    let passed = iter.skip_prefixes(|k| (k <= &key(33)[..]).then_some(k.len()));
    assert_eq!(iter.key(), key(34));
    let counted = recorder.take().internal_key_skipped_count;
    // All but the one that was shown.
    assert_eq!((passed.unwrap(), counted), (4, 3));
}
