//! An operation of the file system fails, or the device is full: nothing changes, and the room is
//! given back.

use titan::{Db, ErrorKind};
use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};

use super::{LONG, Source, blob_files, manually};
use crate::support::{DIR, files, value};

/// A database whose key has an old value, partly in the memtable.
fn filled(vfs: &SimVfs) -> Db {
    let db = Db::open(DIR, &manually(vfs)).unwrap();
    db.put("k", "older").unwrap();
    db.flush().unwrap();
    db.put("k", "old").unwrap();
    db.put("other", "x").unwrap();
    db.wait_idle().unwrap();
    db
}

/// Number of operations of a kind in one call.
fn operations(kind: OpKind) -> u64 {
    let vfs = SimVfs::new();
    let db = filled(&vfs);
    let before = vfs.count(kind, "");
    db.put_reader("k", Source::new(1, 3 * LONG)).unwrap();
    vfs.count(kind, "") - before
}

#[test]
fn whatever_operation_finds_the_device_full_nothing_changes_and_the_next_try_succeeds() {
    for kind in [
        OpKind::Create,
        OpKind::Append,
        OpKind::Overwrite,
        OpKind::Sync,
        OpKind::SyncDir,
    ] {
        let count = operations(kind);
        assert!(count > 0, "{kind:?}");
        for nth in 0..count {
            let what = format!("{kind:?} {nth}");
            let vfs = SimVfs::new();
            let db = filled(&vfs);
            let fault = Fault::on([kind]).skip(nth).times(1).error(Errno::NO_SPACE);
            let fault = vfs.inject(fault);
            let put = db.put_reader("k", Source::new(1, 3 * LONG));
            assert_eq!(fault.hits(), 1, "{what}");
            // Some are tried again at once.
            let Err(error) = put else {
                assert!(
                    db.get("k").unwrap().unwrap() == value(1, 3 * LONG),
                    "{what}"
                );
                continue;
            };
            // A failure at the MANIFEST stops writes, also one of the flush before.
            let kinds = [ErrorKind::NoSpace, ErrorKind::WritesStopped];
            assert!(kinds.contains(&error.kind()), "{what}: {error}");
            assert!(
                error.to_string().contains("No space left"),
                "{what}: {error}"
            );
            assert_eq!(db.get("k").unwrap().unwrap(), "old", "{what}");
            if db.put("after", "y").is_err() {
                db.resume().unwrap();
                db.put("after", "y").unwrap();
            }
            db.wait_idle().unwrap();
            assert_eq!(blob_files(&db), 0, "{what}");
            assert!(files(&vfs, DIR, ".blob").is_empty(), "{what}");
            db.put_reader("k", Source::new(2, 2 * LONG)).unwrap();
            db.close().unwrap();
            let db = Db::open(DIR, &manually(&vfs)).unwrap();
            assert!(
                db.get("k").unwrap().unwrap() == value(2, 2 * LONG),
                "{what}"
            );
            assert_eq!(db.get("other").unwrap().unwrap(), "x", "{what}");
            assert_eq!(db.get("after").unwrap().unwrap(), "y", "{what}");
        }
    }
}

#[test]
fn a_value_that_the_device_cannot_hold_leaves_it_as_it_was() {
    let vfs = SimVfs::new();
    let db = filled(&vfs);
    vfs.set_capacity(Some(64 << 20));
    let used = || {
        let names = vfs.list(DIR).unwrap();
        let sizes = names
            .iter()
            .map(|name| vfs.read_all(format!("{DIR}/{name}")).unwrap().len());
        sizes.sum::<usize>()
    };
    let before = used();
    let endless = std::io::repeat(7);
    let error = db.put_reader("k", endless).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(used(), before);
    assert_eq!(db.get("k").unwrap().unwrap(), "old");
    // Writes go on, and flushes have room.
    for n in 0..20 {
        db.put(format!("n{n}"), value(n, 1000)).unwrap();
    }
    db.flush().unwrap();
    db.put_reader("k", Source::new(1, LONG)).unwrap();
}
