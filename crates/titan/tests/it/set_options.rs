//! Options that change while the database is open.

use titan::{ColumnFamilyOptions, Db, DbOptions, ErrorKind, Options, Stated};
use titan_testkit::sim::{Loss, SimVfs};

use crate::support::{DIR, files, key, manual, open, options, value};

fn options_files(vfs: &SimVfs) -> usize {
    let files = files(vfs, DIR, "");
    files.iter().filter(|name| name.contains("OPTIONS")).count()
}

#[test]
fn a_change_applies_is_kept_and_is_all_or_nothing() {
    let vfs = SimVfs::new();
    // Openings take over what is kept.
    let plain = options(&vfs, ColumnFamilyOptions::default());
    let db = open(&plain);
    db.set_options(&[("min_blob_size", "100"), ("compression", "kZSTD")])
        .unwrap();
    assert_eq!(db.options().min_blob_size, 100);
    let e = db
        .set_options(&[("min_blob_size", "200"), ("block_size", "1")])
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidOption);
    assert_eq!(db.options().min_blob_size, 100);
    for n in 0..20 {
        let bits = n.to_string();
        db.set_options(&[("bloom_bits_per_key", &bits)]).unwrap();
    }
    assert_eq!(options_files(&vfs), 2);
    let other = db
        .create_column_family("other", ColumnFamilyOptions::default())
        .unwrap();
    other.set_options(&[("write_buffer_size", "1M")]).unwrap();
    assert_eq!(db.options().write_buffer_size, 64 << 20);
    // The machine stops.
    let journal = vfs.journal();
    let crashed = journal.crash_at(journal.len(), &Loss::All);
    drop((db, other));
    let plain = options(&crashed, ColumnFamilyOptions::default());
    let db = open(&plain);
    let found = db.options();
    assert_eq!((found.min_blob_size, found.bloom_bits_per_key), (100, 19.0));
    assert_eq!(found.compression, titan::CompressionType::Zstd);
    let other = db.column_family("other").unwrap();
    assert_eq!(other.options().write_buffer_size, 1 << 20);
    db.drop_column_family(&other).unwrap();
    let e = other.set_options(&[("min_blob_size", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    db.close().unwrap();
    let e = db.set_options(&[("min_blob_size", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
    drop(other);
    drop(db);
    let db = Db::open_read_only(DIR, &plain).unwrap();
    let e = db.set_options(&[("min_blob_size", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ReadOnly, "{e}");
}

#[test]
fn a_change_that_is_not_to_be_kept_ends_with_the_opening() {
    let vfs = SimVfs::new();
    let plain = options(&vfs, ColumnFamilyOptions::default());
    drop(open(&plain));
    let passing = Options {
        db: DbOptions {
            keep_options: false,
            ..plain.db.clone()
        },
        ..plain.clone()
    };
    let db = open(&passing);
    db.set_options(&[("min_blob_size", "100")]).unwrap();
    assert_eq!(db.options().min_blob_size, 100);
    drop(db);
    assert_eq!(open(&plain).options().min_blob_size, 4096);
}

#[test]
fn jobs_and_writers_go_by_the_new_options() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        level0_file_num_compaction_trigger: 2,
        stated: Stated::all(),
        ..manual()
    };
    let db = open(&options(&vfs, family));
    let tables = || db.table_properties(None, None).unwrap().len();
    let fill = |from: usize| {
        for n in from..from + 2000 {
            db.put(&key(n), &value(n, 90)).unwrap();
        }
        db.wait_idle().unwrap();
    };
    // A write buffer has its new size when the next one begins.
    fill(0);
    assert_eq!(tables(), 0);
    db.set_options(&[("write_buffer_size", "64K")]).unwrap();
    db.flush().unwrap();
    fill(2000);
    assert!(tables() >= 3, "{} tables", tables());

    // Values are separated by their new size, and then not at all.
    db.put(b"a", &value(1, 50)).unwrap();
    db.set_options(&[("min_blob_size", "20")]).unwrap();
    db.flush().unwrap();
    let separated = || db.metrics().families[0].blob_files;
    assert_eq!(separated(), 1);
    db.put(b"b", &value(2, 50)).unwrap();
    db.set_options(&[("enable_blob_files", "false")]).unwrap();
    db.flush().unwrap();
    assert_eq!(separated(), 1);

    // Compactions begin when they are allowed.
    assert!(tables() > 3);
    db.wait_idle().unwrap();
    assert!(tables() > 3);
    db.set_options(&[("disable_auto_compactions", "false")])
        .unwrap();
    db.wait_idle().unwrap();
    assert!(tables() <= 2, "{} tables", tables());
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&*value(1, 50)));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&*value(2, 50)));
}
