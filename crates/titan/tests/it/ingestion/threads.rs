//! Threads that ingest files, write, compact and read at once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, IngestOptions, WriteBatch, WriteOptions,
};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use super::{family, get, made_of};
use crate::support::{DIR, options, scaled};

const KEYS: [&str; 3] = ["a", "m", "z"];

/// Each change, by files or by a batch, gives all keys of both families one value. So all keys have
/// one value at each moment.
#[test]
fn a_reader_sees_all_files_of_a_call_or_none_beside_writes_and_compactions() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        disable_auto_compactions: false,
        level0_file_num_compaction_trigger: 2,
        ..family()
    };
    let options = options(&vfs, family.clone());
    let db = Db::open(DIR, &options).unwrap();
    let other = db.create_column_family("other", family).unwrap();
    let rounds = u32::try_from(scaled(60)).unwrap();
    let (next, ended) = (AtomicU32::new(0), AtomicBool::new(false));
    let ingest = |thread: usize| {
        for _ in 0..rounds {
            let value = next.fetch_add(1, Ordering::Relaxed).to_string();
            let own = made_of(&options, &format!("{thread}-own.sst"), &KEYS, &value);
            let of_other = made_of(&options, &format!("{thread}-other.sst"), &KEYS, &value);
            let both = [(&*db, &[&own][..]), (&other, &[&of_other][..])];
            db.ingest_all(&both, &IngestOptions::default()).unwrap();
        }
    };
    let write = || {
        for _ in 0..rounds * 4 {
            let value = next.fetch_add(1, Ordering::Relaxed).to_string();
            let mut batch = WriteBatch::new();
            for key in KEYS {
                batch.put(&*db, key, &value).unwrap();
                batch.put(&other, key, &value).unwrap();
            }
            db.write(batch, &WriteOptions::default()).unwrap();
        }
    };
    let compact = || {
        while !ended.load(Ordering::Relaxed) {
            let all = CompactRangeOptions::default();
            db.compact_range(None, None, &all).unwrap();
            other.compact_range(None, None, &all).unwrap();
        }
    };
    let read = || {
        while !ended.load(Ordering::Relaxed) {
            let snapshot = db.snapshot();
            let mut values = Vec::new();
            for key in KEYS {
                values.push(snapshot.get(&db, key).unwrap());
                values.push(snapshot.get(&other, key).unwrap());
            }
            assert!(
                values.windows(2).all(|pair| pair[0] == pair[1]),
                "{values:?}"
            );
        }
    };
    thread::scope(|scope| {
        let beside = [scope.spawn(compact), scope.spawn(read)];
        let changing = [
            scope.spawn(|| ingest(0)),
            scope.spawn(|| ingest(1)),
            scope.spawn(write),
        ];
        for thread in changing {
            thread.join().unwrap();
        }
        ended.store(true, Ordering::Relaxed);
        for thread in beside {
            thread.join().unwrap();
        }
    });
    let last = get(&db, "a");
    for key in KEYS {
        assert_eq!(
            [get(&db, key), get(&other, key)],
            [last.clone(), last.clone()]
        );
    }
    drop(other);
    db.close().unwrap();
    let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    let db = Db::open(DIR, &options).unwrap();
    assert_eq!(get(&db, "z"), last);
}
