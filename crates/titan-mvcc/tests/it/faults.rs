//! The disk fails while transactions are committed.

use std::time::Duration;

use titan_mvcc::Error;
use titan_testkit::sim::{Fault, OpKind};

use super::setup::{Place, put};
use super::sweeps::{by_hand, open_by_hand};
use super::two_phase::{locks, open, values, writes};

const KEYS: &[&str] = &["a", "b", "c"];

#[test]
fn a_write_that_fails_in_either_phase_leaves_all_of_a_transaction_or_nothing() {
    let mut outcomes = [0; 2];
    for async_commit in [false, true] {
        for kind in [OpKind::Append, OpKind::Sync] {
            for variant in 0..3 {
                for skip in 0..12 {
                    let mut place = Place::new(skip);
                    place.options.write.sync = true;
                    let store = open(&mut place, async_commit);
                    writes(&store, KEYS, b"old").commit().unwrap();
                    let fault = Fault::on([kind]).path("*.log").skip(skip);
                    let fault = match variant {
                        0 => fault,
                        1 => fault.after_the_fact(),
                        _ => fault.losing_pages(),
                    };
                    let what = format!("{fault}, async commit: {async_commit}");
                    let fault = place.vfs.inject(fault);
                    let result = writes(&store, KEYS, b"new").commit();
                    let hits = fault.hits();
                    place.vfs.clear_faults();
                    let old = vec![Some("old".to_owned()); 3];
                    let new = vec![Some("new".to_owned()); 3];
                    let expected = match &result {
                        Ok(_) => &new,
                        Err(Error::Engine(_)) => {
                            assert_eq!(hits, 1, "{what}");
                            &old
                        }
                        Err(e) => panic!("{what}: {e}"),
                    };
                    assert_eq!(values(&store, KEYS), *expected, "{what}");
                    outcomes[usize::from(result.is_ok())] += 1;
                    drop(store);
                    // A later opening may find what had failed, but as a whole.
                    let store = place.open();
                    place.clock.advance(Duration::from_secs(1 << 30));
                    put(&store, b"other", b"");
                    let found = values(&store, KEYS);
                    assert!(found == new || found == *expected, "{what}: {found:?}");
                    store.advance_safe_point(store.now()).unwrap();
                    assert_eq!(locks(&store), 0, "{what}");
                    assert_eq!(values(&store, KEYS), found, "{what}");
                }
            }
        }
    }
    assert!(outcomes.iter().all(|n| *n > 20), "{outcomes:?}");
}

#[test]
fn after_commits_of_several_threads_have_failed_together_no_later_one_waits_for_them() {
    const THREADS: u8 = 4;
    for kind in [OpKind::Append, OpKind::Sync] {
        for skip in [3, 17, 40] {
            let mut place = Place::new(skip);
            place.options.write.sync = true;
            let store = place.open();
            let fault = Fault::on([kind]).path("*.log").skip(skip);
            let what = format!("{fault}");
            let fault = place.vfs.inject(fault);
            let acknowledged: Vec<Option<u8>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let store = &store;
                        scope.spawn(move || {
                            let mut last = None;
                            for n in 0..100 {
                                let mut transaction = store.begin();
                                transaction.put(&[thread], &[n]);
                                match transaction.commit() {
                                    Ok(_) => last = Some(n),
                                    Err(Error::Engine(_)) => {}
                                    Err(e) => panic!("{e}"),
                                }
                            }
                            last
                        })
                    })
                    .collect();
                threads.into_iter().map(|it| it.join().unwrap()).collect()
            });
            assert_eq!(fault.hits(), 1, "{what}");
            assert!(acknowledged.iter().any(|last| *last != Some(99)), "{what}");
            place.vfs.clear_faults();
            store.db().resume().unwrap();
            for (thread, last) in (0..).zip(acknowledged) {
                let found = store.snapshot().get(&[thread]).unwrap();
                assert_eq!(found.map(|value| value[0]), last, "{what}");
                let commit = put(&store, &[thread], b"!");
                assert_eq!(store.now(), commit, "{what}");
            }
        }
    }
}

#[test]
fn a_sweep_that_could_not_write_the_safe_point_is_made_up_for_by_the_next_one() {
    let place = by_hand(1, Duration::ZERO);
    let store = open_by_hand(&place);
    put(&store, b"a", b"1");
    let last = put(&store, b"a", b"2");
    place.clock.advance(Duration::from_secs(10));
    let fault = place.vfs.inject(Fault::on([OpKind::Sync]).path("*.log"));
    let failed = store.sweep().unwrap_err();
    assert!(matches!(failed, Error::Engine(_)), "{failed}");
    assert_eq!(fault.hits(), 1);
    place.vfs.clear_faults();
    store.db().resume().unwrap();
    assert_eq!(store.sweep().unwrap().safe_point, last);
    store.drop_old_versions().unwrap();
    assert_eq!(super::setup::stored_versions(&store), 1);
}

/// The value below a lock is only an aid to reads. So a damaged row does not keep its lock, nor the
/// safe point.
#[test]
fn a_lock_ends_though_the_row_below_it_cannot_be_read() {
    for is_client in [false, true] {
        let place = Place::new(30);
        let store = place.open();
        put(&store, b"k", b"v");
        store.db().flush_all().unwrap();
        let start = store.oracle().next().unwrap();
        if is_client {
            let mutations = [titan_mvcc::Mutation::Lock { key: b"k" }];
            let request = super::percolator::request(start, b"k", &mutations);
            store.percolator().prewrite(&request).unwrap();
        }
        store.close().unwrap();
        drop(store);
        // Nothing is cached.
        let store = place.open();
        let unreadable = Fault::on([OpKind::Read]).path("*.sst").forever();
        let commit = store.oracle().next().unwrap();
        let fault = place.vfs.inject(unreadable);
        if is_client {
            store.percolator().commit(&[b"k"], start, commit).unwrap();
        } else {
            let mut transaction = store.begin();
            transaction.lock(b"k");
            transaction.commit().unwrap();
        }
        assert_ne!(fault.hits(), 0);
        place.vfs.clear_faults();
        let newest = store.versions(b"k").unwrap().next().unwrap().unwrap();
        assert_eq!(newest.kind, titan_mvcc::VersionKind::Lock);
        assert_eq!(store.snapshot().get(b"k").unwrap().unwrap(), "v");
        let now = store.now();
        assert_eq!(store.advance_safe_point(now).unwrap(), now);
        assert_eq!(store.check(&mut |_| {}).unwrap().problems, []);
    }
}
