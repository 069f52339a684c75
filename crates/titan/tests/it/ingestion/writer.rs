//! Files that a writer makes.

use titan::{Db, ErrorKind, IngestOptions, SstFileWriter};
use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};

use super::{MADE, get, manually};
use crate::support::{DIR, key, value};

#[test]
fn keys_come_in_order_each_once_and_a_refused_one_adds_nothing() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    options.db.vfs.create_dir_all(MADE.as_ref()).unwrap();
    let path = format!("{MADE}/a.sst");
    let mut file = SstFileWriter::create(&path, &options).unwrap();
    file.put("b", "1").unwrap();
    for (refused, why) in [("b", "key 'b' is added after key 'b'"), ("a", "key 'a'")] {
        for result in [
            file.put(refused, "2"),
            file.delete(refused),
            file.merge(refused, "2"),
        ] {
            let e = result.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidArgument);
            assert!(e.message().contains(why), "{e}");
            assert!(e.message().contains("ascending order"), "{e}");
        }
    }
    let e = file.delete_range("d", "c").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    file.delete_range("c", "c").unwrap();
    file.put("c", "3").unwrap();
    let info = file.finish().unwrap();
    assert_eq!((info.entries, info.range_deletions), (2, 0));
    assert_eq!(
        (&*info.smallest_key, &*info.largest_key),
        (&b"b"[..], &b"c"[..])
    );
    assert_eq!(info.file_size, vfs.read_all(&path).unwrap().len() as u64);
    let db = Db::open(DIR, &options).unwrap();
    db.ingest(&[&path], &IngestOptions::default()).unwrap();
    assert_eq!(get(&db, "b").as_deref(), Some("1"));
    assert_eq!(get(&db, "c").as_deref(), Some("3"));
}

#[test]
fn a_writer_that_is_dropped_or_fails_leaves_no_file() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    options.db.vfs.create_dir_all(MADE.as_ref()).unwrap();
    let path = format!("{MADE}/a.sst");
    let there = || vfs.list(MADE).unwrap();
    let mut file = SstFileWriter::create(&path, &options).unwrap();
    file.put("a", "1").unwrap();
    drop(file);
    assert!(there().is_empty());
    // Nothing was added.
    let e = SstFileWriter::create(&path, &options).unwrap().finish();
    assert_eq!(e.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(there().is_empty());
    for kind in [OpKind::Append, OpKind::Sync, OpKind::SyncDir] {
        let mut file = SstFileWriter::create(&path, &options).unwrap();
        for n in 0..100 {
            file.put(key(n), value(n, 1000)).unwrap();
        }
        let fault = vfs.inject(Fault::on([kind]).times(1).error(Errno::NO_SPACE));
        let e = file.finish().unwrap_err();
        assert_eq!(
            (fault.hits(), e.kind()),
            (1, ErrorKind::NoSpace),
            "{kind:?}: {e}"
        );
        vfs.clear_faults();
        assert!(there().is_empty(), "{kind:?}");
    }
}
