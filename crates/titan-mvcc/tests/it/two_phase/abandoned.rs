//! Transactions whose owners stop between the phases, and the callers that end their locks.

use super::*;

/// A transaction of the store cannot outlive it, that of a client of the Percolator calls can.
#[test]
fn an_opening_ends_at_once_what_no_living_owner_can_have_and_nothing_else() {
    for crashes in [false, true] {
        let mut place = Place::new(16);
        let store = open(&mut place, false);
        put(&store, b"a", b"old");
        // Stopped before the commit, after that of the primary key, and a pessimistic one.
        drop(writes(&store, KEYS, b"lost").prewrite().unwrap());
        let committed = writes(&store, &["d", "e", "f"], b"new").prewrite().unwrap();
        drop(committed.commit_primary().unwrap());
        let mut pessimistic = store.begin_pessimistic().unwrap();
        pessimistic.put(b"g", b"lost").unwrap();
        pessimistic.put(b"h", b"lost").unwrap();
        pessimistic.abandon();
        store.close().unwrap();
        // Async commits: whole, and stopped before the last piece.
        place.options.transactions.async_commit = true;
        place.options.transactions.one_batch_bytes = 1 << 20;
        let store = place.open();
        drop(writes(&store, &["i", "j"], b"new").prewrite().unwrap());
        let start = store.oracle().next().unwrap();
        let of_client = [Mutation::Put {
            key: b"k",
            value: b"client",
        }];
        let request = Prewrite {
            ttl: TTL,
            ..crate::percolator::request(start, b"k", &of_client)
        };
        store.percolator().prewrite(&request).unwrap();
        match crashes {
            // Nobody closes it, and the directory is as it is now.
            true => {
                place.options.db.vfs = Arc::new(
                    place
                        .vfs
                        .journal()
                        .crash_at(place.vfs.journal().len(), &titan_testkit::sim::Loss::None),
                )
            }
            false => store.close().unwrap(),
        }
        let read_only = Store::open_read_only(DIR, &place.options).unwrap();
        assert_eq!(locks(&read_only), 3);
        drop(read_only);
        let store = place.open();
        assert_eq!(locks(&store), 1);
        assert_eq!(
            store
                .holds()
                .iter()
                .filter(|hold| hold.name.contains("lock"))
                .count(),
            1
        );
        let expected = ["a=old", "d=new", "e=new", "f=new", "i=new", "j=new"];
        assert_eq!(scan(&store, Direction::Forward), expected);
        // The value that was there and five that were committed: no record of a rollback is left,
        // because no late call can come.
        assert_eq!(crate::setup::stored_versions(&store), 6);
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        writes(&store, &keys, b"next").commit().unwrap();
        let blocked = writes(&store, &["k"], b"").commit().unwrap_err();
        assert!(matches!(blocked, Error::KeyIsLocked(_)), "{blocked}");
        let commit = store.oracle().next().unwrap();
        store.percolator().commit(&[b"k"], start, commit).unwrap();
        assert_eq!(values(&store, &["k"]), some(&["client"]));
        assert_eq!(store.check(&mut |_| {}).unwrap().problems, []);
    }
}

/// A transaction that an opening cannot end, since the disk is full or fails, is nobody's, and the
/// first who meets it ends it.
#[test]
fn what_an_opening_could_not_end_is_ended_by_the_first_who_meets_it() {
    let mut place = Place::new(17);
    let store = open(&mut place, false);
    let prewritten = writes(&store, KEYS, b"new").prewrite().unwrap();
    drop(prewritten.commit_primary().unwrap());
    drop(writes(&store, &["x", "y"], b"lost").prewrite().unwrap());
    let family = store.db().column_family("locks").unwrap();
    // The value of the key c.
    let mut batch = titan::WriteBatch::new();
    batch.delete(&family, b"c\0\0\0\0\0\0\0\xf8V").unwrap();
    let write = titan::WriteOptions::default();
    store.db().write(batch, &write).unwrap();
    store.close().unwrap();
    let store = place.open();
    let left = store.percolator().scan_locks(Timestamp::MAX, b"", 9);
    let left: Vec<_> = left.iter().map(|lock| &*lock.key).collect();
    assert_eq!(left, [b"c"]);
    assert_eq!(values(&store, &["b", "x"]), [Some("new".into()), None]);
    let lost = writes(&store, &["c"], b"").commit().unwrap_err();
    assert!(matches!(lost, Error::Corruption { .. }), "{lost}");
}

/// Number of groups of writes that the engine has published.
#[derive(Default)]
struct Groups(AtomicU64);

impl CommitHook for Groups {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
}

#[test]
fn all_locks_of_a_dead_transaction_are_ended_at_once() {
    const LOCKED: u32 = 2_000;
    for one_batch_bytes in [16 << 20, 1 << 10] {
        let mut place = Place::new(18);
        let groups = Arc::new(Groups::default());
        place.options.db.commit_hook = Some(Arc::clone(&groups) as Arc<dyn CommitHook>);
        place.options.transactions.one_batch_bytes = 1 << 16;
        place.options.transactions.async_commit = false;
        place.options.transactions.lock_ttl = TTL;
        place.options.transactions.lock_wait = Duration::ZERO;
        let store = place.open();
        let fill = |store: &Store| {
            let mut transaction = store.begin();
            (0..LOCKED).for_each(|key| transaction.put(&key.to_be_bytes(), b"value"));
            transaction
        };
        drop(fill(&store).prewrite().unwrap());
        let calls = store.percolator();
        assert_eq!(
            calls.scan_locks(Timestamp::MAX, b"", usize::MAX).len(),
            2_000
        );
        place.clock.advance(TTL + Duration::from_secs(1));
        let before = groups.0.load(Ordering::SeqCst);
        // The one that is made again writes in one batch, or in pieces.
        let mut again = fill(&store);
        if one_batch_bytes == 1 << 10 {
            again.put(b"large", &vec![0; 1 << 16]);
        }
        again.commit().unwrap();
        let groups = groups.0.load(Ordering::SeqCst) - before;
        assert!(groups < 40, "{groups} groups for {LOCKED} locks");
        assert_eq!(locks(&store), 0);
    }
}
