//! RocksDB's `ldb` reads a value from a reader, and writes after it.

use titan::{Db, Options};

use super::{LONG, Source, read};
use crate::rocksdb_tools::{ldb_scan, run};
use crate::support::{manual, value};

#[test]
fn rocksdb_continues_after_the_value() {
    if run("ldb", &["--version"]).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        default: manual(),
        ..Options::default()
    };
    for is_last in [true, false] {
        let db = Db::open(dir.path(), &options).unwrap();
        db.put("a", "1").unwrap();
        db.put_reader("k", Source::new(1, LONG)).unwrap();
        if !is_last {
            db.put("b", "2").unwrap();
        }
        db.close().unwrap();
        let rows = ldb_scan(dir.path(), "default");
        let found = rows.iter().find(|(key, _)| key == b"k");
        assert!(found.is_some_and(|(_, found)| *found == value(1, LONG)));
        let at = format!("--db={}", dir.path().display());
        for text in ["of RocksDB", "again"] {
            let put = run("ldb", &[&at, "put", "k", text]).unwrap();
            assert!(put.status.success(), "{put:?}");
        }
        let db = Db::open(dir.path(), &options).unwrap();
        assert_eq!(db.get("k").unwrap().unwrap(), "again", "{is_last}");
        db.put_reader("k", Source::new(2, LONG)).unwrap();
        assert!(read(&db.get_lazy("k").unwrap().unwrap()) == value(2, LONG));
        db.close().unwrap();
    }
}
