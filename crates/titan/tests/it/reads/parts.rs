//! Values that are read in parts.

use std::io::{Read, Seek, SeekFrom};

use titan::merge::builtin;
use titan::{ColumnFamilyOptions, CompressionType, Db, LazyValue, Options};
use titan_testkit::sim::SimVfs;

use crate::support::{key, manual, open, options, value};

/// Reads a value in random parts by each way, beside the whole.
fn assert_parts(value: &LazyValue, whole: &[u8], what: &str) {
    assert_eq!(value.fetch().unwrap(), whole, "{what}");
    let rng = &mut fastrand::Rng::with_seed(whole.len() as u64);
    let mut reader = value.reader();
    for _ in 0..40 {
        let offset = rng.usize(0..whole.len() + whole.len() / 8 + 2);
        let mut buf = vec![0; [0, 1, 100, 70_000, 3 << 20][rng.usize(0..5)]];
        let left = whole.get(offset..).unwrap_or_default();
        let wanted = &left[..left.len().min(buf.len())];
        let read = value.read_at(offset as u64, &mut buf).unwrap();
        assert_eq!(&buf[..read], wanted, "{what}, at {offset}");
        reader.seek(SeekFrom::Start(offset as u64)).unwrap();
        let mut part = vec![0; wanted.len()];
        reader.read_exact(&mut part).unwrap();
        assert_eq!(part, wanted, "{what}, at {offset}");
    }
    assert_eq!(value.read_at(u64::MAX, &mut [0; 8]).unwrap(), 0, "{what}");
    assert_eq!(
        reader.seek(SeekFrom::End(-1)).unwrap(),
        whole.len() as u64 - 1
    );
    let mut last = Vec::new();
    reader.read_to_end(&mut last).unwrap();
    assert_eq!(last, whole[whole.len() - 1..], "{what}");
    assert!(
        reader
            .seek(SeekFrom::Current(-(whole.len() as i64) - 1))
            .is_err(),
        "{what}"
    );
}

#[test]
fn parts_of_a_value_are_those_of_the_whole() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        merge_operator: builtin::by_name("stringappend"),
        ..manual()
    };
    let db = open(&options(&vfs, family));
    let compressed = ColumnFamilyOptions {
        blob_compression_type: CompressionType::Lz4,
        ..manual()
    };
    let compressed = db.create_column_family("compressed", compressed).unwrap();
    let sizes = [1, 99, 100, 1 << 20, (1 << 20) + 1, 5_000_000];
    for (n, size) in sizes.into_iter().enumerate() {
        for family in [&*db, &compressed] {
            family.put(key(n), value(n, size)).unwrap();
        }
    }
    db.put("merged", value(7, 2 << 20)).unwrap();
    db.merge("merged", "more").unwrap();
    let check = |what: &str| {
        for (n, size) in sizes.into_iter().enumerate() {
            for family in [&*db, &compressed] {
                let lazy = family.get_lazy(key(n)).unwrap().unwrap();
                assert_parts(&lazy, &value(n, size), &format!("{what}: {size} bytes"));
            }
        }
        let merged = db.get_lazy("merged").unwrap().unwrap();
        assert_parts(&merged, &[&value(7, 2 << 20), &b",more"[..]].concat(), what);
    };
    check("in memtables");
    db.flush_all().unwrap();
    check("in blob files");
    // A value that is read in parts stays readable while its record moves, verified or not.
    let [read, unread] = [(); 2].map(|()| db.get_lazy(key(5)).unwrap().unwrap());
    let mut buf = [0; 10];
    read.read_at(0, &mut buf).unwrap();
    db.delete(key(4)).unwrap();
    db.flush().unwrap();
    db.collect_garbage(None, None, &Default::default()).unwrap();
    assert_parts(&read, &value(5, 5_000_000), "moved");
    assert_parts(&unread, &value(5, 5_000_000), "moved");
}

#[test]
fn no_part_of_a_damaged_value_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        default: manual(),
        ..Options::default()
    };
    let db = Db::open(dir.path(), &options).unwrap();
    db.put("film", value(1, 3 << 20)).unwrap();
    db.flush().unwrap();
    let files = std::fs::read_dir(dir.path()).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let blobs = files.find(|path| path.extension().is_some_and(|found| found == "blob"));
    let blobs = blobs.unwrap();
    let whole = std::fs::read(&blobs).unwrap();
    let film = db.get_lazy("film").unwrap().unwrap();
    // A length, the key, each end of the value.
    for at in [30, 62, 66, whole.len() - 33] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&blobs, damaged).unwrap();
        let mut buf = [0; 10];
        let error = film.read_at(1 << 20, &mut buf).unwrap_err();
        assert!(error.is_corruption(), "{at}: {error}");
        assert!(
            error.path().is_some() && error.offset().is_some(),
            "{error}"
        );
        assert_eq!(buf, [0; 10]);
        let error = std::io::copy(&mut film.reader(), &mut std::io::sink()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    }
    std::fs::write(&blobs, whole).unwrap();
    assert_parts(&film, &value(1, 3 << 20), "whole again");
}
