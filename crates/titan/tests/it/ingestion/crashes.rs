//! Crashes of the machine and of the process at each operation of an ingestion.

use titan::{Db, FileTransfer, IngestOptions, WriteBatch, WriteOptions};
use titan_testkit::sim::{Loss, SimVfs};

use super::{Change, MADE, family, made, manually, put, rows};
use crate::crash_states::{History, State};
use crate::support::{DIR, value};

fn state(db: &Db) -> State<Vec<u8>> {
    let families = db.column_families();
    let of_family = |family: &titan::ColumnFamily| {
        let name = family.name().to_owned();
        let found = rows(family).into_iter();
        found
            .map(move |(key, value)| (format!("{name} {key}"), value))
            .collect::<Vec<_>>()
    };
    families.iter().flat_map(of_family).collect()
}

#[test]
fn after_any_crash_all_files_of_a_call_are_there_with_all_writes_before_or_none() {
    for transfer in [FileTransfer::Copy, FileTransfer::Link, FileTransfer::Move] {
        let settings = IngestOptions {
            transfer,
            ..IngestOptions::default()
        };
        crashes(&settings, None);
        // WAL files may be elsewhere.
        if transfer == FileTransfer::Link {
            crashes(&settings, Some("/wal"));
        }
    }
}

/// Another program wrote it, and did not sync it.
#[test]
fn the_content_of_a_file_that_nobody_has_synced_is_durable_once_it_is_ingested() {
    for transfer in [FileTransfer::Copy, FileTransfer::Link, FileTransfer::Move] {
        let vfs = SimVfs::new();
        let options = manually(&vfs);
        let db = Db::open(DIR, &options).unwrap();
        let file = made(&options, "1.sst", &[put("a", "x"), put("b", "y")]);
        let bytes = vfs.read_all(&file).unwrap();
        let unsynced = format!("{MADE}/2.sst");
        let mut written = options.db.vfs.create(unsynced.as_ref()).unwrap();
        written.append(&bytes).unwrap();
        drop(written);
        let settings = IngestOptions {
            transfer,
            ..IngestOptions::default()
        };
        db.ingest(&[&unsynced], &settings).unwrap();
        vfs.mark(1u64);
        let journal = vfs.journal();
        let mut found = 0;
        let points = journal.crash_points();
        for point in points.filter(|point| point.acknowledged() == 1) {
            for seed in 0..8 {
                let image = point.crash(&Loss::Random(seed));
                let db = Db::open(DIR, &manually(&image)).unwrap();
                assert_eq!(rows(&db).len(), 2, "{transfer:?}");
                found += 1;
            }
        }
        assert!(found > 0);
    }
}

fn crashes(settings: &IngestOptions, wal_dir: Option<&str>) {
    let vfs = SimVfs::new();
    let with_logs = |vfs: &SimVfs| {
        let mut options = manually(vfs);
        options.db.wal_dir = wal_dir.map(Into::into);
        options
    };
    let options = with_logs(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    let other = db.create_column_family("other", family()).unwrap();
    let third = db.create_column_family("third", family()).unwrap();
    let write = |seed: usize| {
        // Not synced, and in both families.
        let mut batch = WriteBatch::new();
        batch.put(&*db, "a", value(seed, 200)).unwrap();
        batch.put(&other, "b", value(seed, 200)).unwrap();
        db.write(batch, &WriteOptions::default()).unwrap();
    };
    let ingest = |seed: usize| {
        let large = Change::Put("c", value(seed, 1000));
        let first = made(
            &options,
            "1.sst",
            &[Change::Put("a", value(seed, 90)), large],
        );
        let changes = [Change::DeleteRange("a", "bb"), put("x", &format!("{seed}"))];
        let second = made(&options, "2.sst", &changes);
        let both = [(&*db, &[first][..]), (&other, &[second][..])];
        db.ingest_all(&both, settings).unwrap();
    };
    write(0);
    db.sync_wal().unwrap();
    let mut history = History::begin(&vfs, &db, state);
    history.unsynced(|| write(1));
    history.durable(|| ingest(101));
    history.unsynced(|| write(2));
    history.durable(|| ingest(102));
    // In a family that gets no file. The memtables of the others are empty.
    history.unsynced(|| third.put("t", "unsynced").unwrap());
    history.durable(|| ingest(103));
    history.unsynced(|| write(3));
    // Numbers are not used twice afterwards.
    history.crash_everywhere(&format!("{settings:?}"), with_logs, |db, options| {
        db.put("a", "after").unwrap();
        let file = made(options, "3.sst", &[put("d", "after")]);
        db.ingest(&[file], settings).unwrap();
        ["default a", "default d"]
            .map(|key| (key.to_owned(), b"after".to_vec()))
            .into()
    });
}
