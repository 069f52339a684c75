//! Sizes of ranges, and whether a key may exist.

use titan::{ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind};
use titan_testkit::sim::SimVfs;

use crate::support::{key, manual, open, options, value};

fn filled(vfs: &SimVfs, len: usize) -> Db {
    let family = ColumnFamilyOptions {
        target_file_size_base: 32 << 10,
        ..manual()
    };
    let db = open(&options(vfs, family));
    for n in 0..2000 {
        db.put(&key(2 * n), &value(n, len)).unwrap();
    }
    db.flush().unwrap();
    db
}

#[test]
fn sizes_count_what_is_in_tables_and_in_blob_files() {
    for (len, separated) in [(90, false), (1000, true)] {
        let vfs = SimVfs::new();
        let db = filled(&vfs, len);
        assert_eq!(db.metrics().families[0].blob_files > 0, separated);
        for compacted in [false, true] {
            if compacted {
                let forced = CompactRangeOptions {
                    force_bottommost: true,
                };
                db.compact_range(None, None, &forced).unwrap();
                assert!(db.table_properties(None, None).unwrap().len() > 3);
            }
            let size = |begin: usize, end: usize| {
                db.approximate_size(&key(begin), &key(end)).unwrap() as f64
            };
            let entry = (len + 9) as f64;
            for (begin, end) in [
                (0, 4000),
                (0, 2000),
                (1000, 3000),
                (3000, 4000),
                (500, 1500),
            ] {
                let entries = (end - begin) as f64 / 2.0;
                let (found, expected) = (size(begin, end), entries * entry);
                let off = (found - expected).abs();
                // Blocks, filters and headers are not keys and values; and the blocks at the two
                // ends count whole.
                let of_block = 4096.0 / if separated { 24.0 } else { entry } * entry;
                let allowed = 0.3 * expected + 2.0 * of_block;
                assert!(off < allowed, "{begin}..{end}: {found}, not {expected}");
            }
            let (whole, parts) = (size(0, 4000), size(0, 2000) + size(2000, 4000));
            assert!((whole / parts - 1.0).abs() < 0.1, "{whole}, {parts}");
            assert_eq!(size(5000, 6000), 0.0);
            assert_eq!(size(3000, 1000), 0.0, "it ends before it begins");
            assert_eq!(size(1000, 1000), 0.0);
        }
    }
}

#[test]
fn a_key_that_may_not_exist_does_not() {
    let vfs = SimVfs::new();
    let db = filled(&vfs, 50);
    let check = |what: &str| {
        let mut possible = 0;
        for n in 0..2000 {
            assert!(db.key_may_exist(&key(2 * n)).unwrap(), "{what}: {n}");
            possible += usize::from(db.key_may_exist(&key(2 * n + 1)).unwrap());
        }
        // Ten bits a key let one in a hundred pass.
        assert!(possible < 100, "{what}: {possible} of 2000");
    };
    check("at level 0");
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    check("in tables");
    // The newest entry is in a memtable.
    db.delete(&key(0)).unwrap();
    assert!(!db.key_may_exist(&key(0)).unwrap());
    db.put(&key(1), b"").unwrap();
    assert!(db.key_may_exist(&key(1)).unwrap());
    assert!(!db.key_may_exist(b"beyond all").unwrap());
    db.close().unwrap();
    let e = db.key_may_exist(&key(0)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed);
    let e = db.approximate_size(b"a", b"b").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed);
}
