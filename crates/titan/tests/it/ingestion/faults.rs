//! An operation of the file system fails, or the device is full: nothing changes, and the room is
//! given back.

use titan::{Db, ErrorKind, FileTransfer, IngestOptions, Options};
use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};
use titan_tools::check;

use super::{Change, get, made, manually, put, rows};
use crate::support::{DIR, files, value};

/// A database with a key in a table and in the memtable, and a file.
fn filled(vfs: &SimVfs) -> (Options, Db, String) {
    let options = manually(vfs);
    let db = Db::open(DIR, &options).unwrap();
    db.put("k", "older").unwrap();
    db.flush().unwrap();
    db.put("k", "old").unwrap();
    db.wait_idle().unwrap();
    let file = made(
        &options,
        "1.sst",
        &[put("k", "new"), Change::Put("l", value(1, 1000))],
    );
    (options, db, file)
}

const KINDS: [OpKind; 9] = [
    OpKind::Create,
    OpKind::Open,
    OpKind::Read,
    OpKind::Append,
    OpKind::Sync,
    OpKind::SyncDir,
    OpKind::Link,
    OpKind::Remove,
    OpKind::Rename,
];

#[test]
fn a_failure_of_any_operation_changes_nothing_or_all_and_the_next_try_succeeds() {
    let mut tried = 0;
    for settings in
        [FileTransfer::Copy, FileTransfer::Link, FileTransfer::Move].map(|transfer| IngestOptions {
            transfer,
            ..IngestOptions::default()
        })
    {
        for kind in KINDS {
            for errno in [Errno::NO_SPACE, Errno::IO] {
                for nth in 0.. {
                    let what = format!("{settings:?}, {kind:?} {nth}, {errno:?}");
                    if !fails(&settings, kind, errno, nth, &what) {
                        break;
                    }
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

/// Returns false if there was no such operation.
fn fails(settings: &IngestOptions, kind: OpKind, errno: Errno, nth: u64, what: &str) -> bool {
    let vfs = SimVfs::new();
    let (options, db, file) = filled(&vfs);
    let fault = vfs.inject(Fault::on([kind]).skip(nth).times(1).error(errno));
    let ingested = db.ingest(&[&file], settings);
    if fault.hits() == 0 {
        assert!(ingested.is_ok(), "{what}");
        return false;
    }
    vfs.clear_faults();
    let is_new = get(&db, "k").as_deref() == Some("new");
    let count = rows(&db).len();
    match &ingested {
        // Some are tried again at once, and a file that stays does no harm.
        Ok(()) => assert!(is_new && count == 2, "{what}"),
        Err(e) => {
            assert!(!is_new && count == 1, "{what}: {e}");
            let kinds = [ErrorKind::NoSpace, ErrorKind::Io, ErrorKind::WritesStopped];
            assert!(kinds.contains(&e.kind()), "{what}: {e}");
        }
    }
    if db.put("after", "y").is_err() {
        if db.resume().is_err() {
            // A database that cannot be resumed is opened again.
            drop(db);
            let db = Db::open(DIR, &options).unwrap();
            assert!(rows(&db).len() <= 2, "{what}");
            return true;
        }
        db.put("after", "y").unwrap();
    }
    db.wait_idle().unwrap();
    // No file is left that nothing names.
    let family = &db.metrics().families[0];
    let tables: usize = family.levels.iter().map(|level| level.files).sum();
    if kind != OpKind::Remove {
        assert_eq!(files(&vfs, DIR, ".sst").len(), tables, "{what}");
        assert_eq!(files(&vfs, DIR, ".blob").len(), family.blob_files, "{what}");
    }
    let file = made(&options, "2.sst", &[put("k", "newer")]);
    db.ingest(&[&file], settings).unwrap();
    db.close().unwrap();
    let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{what}: {report:?}");
    let db = Db::open(DIR, &options).unwrap();
    assert_eq!(get(&db, "k").as_deref(), Some("newer"), "{what}");
    assert_eq!(get(&db, "after").as_deref(), Some("y"), "{what}");
    true
}

#[test]
fn a_file_for_which_there_is_no_room_is_refused_and_writes_go_on() {
    let vfs = SimVfs::new();
    let (options, db, _) = filled(&vfs);
    let changes: Vec<String> = (0..200).map(|n| format!("m{n:03}")).collect();
    let changes: Vec<_> = changes
        .iter()
        .map(|key| Change::Put(key, value(1, 20_000)))
        .collect();
    let file = made(&options, "2.sst", &changes);
    let before = files(&vfs, DIR, ".sst");
    vfs.set_capacity(Some(vfs.used() + (2 << 20)));
    let e = db.ingest(&[&file], &IngestOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
    db.put("after", "y").unwrap();
    assert_eq!(files(&vfs, DIR, ".sst"), before);
    // A link takes no room.
    let linked = IngestOptions {
        transfer: FileTransfer::Link,
        ..IngestOptions::default()
    };
    vfs.set_capacity(None);
    db.ingest(&[&file], &linked).unwrap();
    assert_eq!(rows(&db).len(), 202);
}
