//! A process that runs out of file descriptors: reads work or say so, jobs are retried, and nothing
//! stops for good.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use titan::vfs::Resources;
use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, Error, ErrorKind, EventListener, Options,
    ReadOptions, Secondary, TransactionOptions, WriteBatch, WriteOptions,
};
use titan_testkit::sim::{Errno, Fault, Loss, OpKind, SimVfs};

use crate::support::{DIR, files, key, manual, open, options, value};

/// Lets the process have this many files open, and says so.
fn limit(vfs: &SimVfs, files: u64) {
    vfs.set_max_open_files(Some(files as usize));
    vfs.set_resources(Resources {
        open_files: Some(files),
        ..Resources::default()
    });
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A database with this many blob files, over all of which neighbouring keys are spread.
fn spread(vfs: &SimVfs, blob_files: usize) -> (Options, Model) {
    let options = options(vfs, manual());
    let db = open(&options);
    let mut model = Model::new();
    for file in 0..blob_files {
        for n in 0..3 {
            let n = n * blob_files + file;
            db.put(&key(n), &value(n, 500)).unwrap();
            model.insert(key(n), value(n, 500));
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.close().unwrap();
    assert_eq!(files(vfs, DIR, ".blob").len(), blob_files);
    (options, model)
}

fn put(db: &Db, key: &[u8], value: &[u8], synced: bool) -> titan::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(&**db, key, value)?;
    let options = match synced {
        true => WriteOptions::synced(),
        false => WriteOptions::default(),
    };
    db.write(batch, &options)
}

fn scanned(db: &Db) -> titan::Result<Model> {
    let mut it = db.iter(&ReadOptions::default())?;
    let mut found = Model::new();
    // Twice, since an iterator learns from its scans how far to read ahead.
    for _ in 0..2 {
        found.clear();
        it.seek_to_first()?;
        while it.valid() {
            found.insert(it.key().to_vec(), it.value()?.to_vec());
            it.next()?;
        }
    }
    Ok(found)
}

#[test]
fn many_values_are_read_from_more_files_than_may_be_open() {
    let vfs = SimVfs::new();
    let (options, model) = spread(&vfs, 300);
    limit(&vfs, 48);
    let db = open(&options);
    assert_eq!(scanned(&db).unwrap(), model);
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let values = db.multi_get(&keys);
    for (key, value) in keys.iter().zip(values) {
        assert_eq!(
            value.unwrap().as_deref(),
            model.get(*key).map(Vec::as_slice)
        );
    }
    // A scan that is under way, with all that it has read ahead, leaves jobs the descriptors that
    // they need.
    let flush = |n: usize| {
        db.put(b"written", &value(n, 500)).unwrap();
        db.flush().unwrap();
    };
    let mut it = db.iter(&ReadOptions::default()).unwrap();
    it.seek_to_first().unwrap();
    for n in 0..model.len() {
        assert_eq!(it.value().unwrap(), model[it.key()], "{n}");
        it.next().unwrap();
        if n % 90 == 0 {
            flush(n);
        }
    }
    drop(it);
    // And that of a transaction, with writes of its own among the others.
    let mut model = model;
    let transaction = db.begin(&TransactionOptions::default()).unwrap();
    for n in (0..model.len()).step_by(100) {
        transaction.put(&db, key(n), b"own").unwrap();
        model.insert(key(n), b"own".to_vec());
    }
    let mut it = transaction.iter(&db, &ReadOptions::default()).unwrap();
    // Twice, since an iterator learns from its scans how far to read ahead.
    for _ in 0..2 {
        it.seek_to_first().unwrap();
        for (n, (key, value)) in model.iter().enumerate() {
            assert_eq!(it.key(), key);
            assert_eq!(it.value().unwrap(), value, "{n}");
            it.next().unwrap();
            if n % 90 == 0 {
                flush(n);
            }
        }
        assert_eq!(it.key(), b"written");
    }
    assert_eq!(db.background_error().map(|e| e.to_string()), None);
}

/// Files that the database may still keep open when another part of the process needs descriptors.
#[test]
fn files_that_are_only_kept_open_are_closed_for_those_that_are_needed() {
    let vfs = SimVfs::new();
    let (options, model) = spread(&vfs, 100);
    // The engine is not told, as if the rest of the process had taken them.
    let db = open(&options);
    assert_eq!(scanned(&db).unwrap(), model);
    assert!(db.metrics().open_files > 100);
    for left in (12..=60).rev().step_by(12) {
        vfs.set_max_open_files(Some(left));
        db.put(b"written", &value(left, 500)).unwrap();
        db.flush().unwrap();
        put(&db, b"synced", b"too", true).unwrap();
        assert_eq!(db.get(&key(7)).unwrap().unwrap(), model[&key(7)]);
    }
    assert_eq!(db.background_error().map(|e| e.to_string()), None);
}

#[test]
fn iterators_that_hold_too_many_tables_are_told_and_take_nothing_from_jobs() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        level0_slowdown_writes_trigger: 1000,
        level0_stop_writes_trigger: 1000,
        enable_blob_files: false,
        ..manual()
    };
    let mut options = options(&vfs, family);
    // The files that one iterator needs are not subject to the limit of those kept open for speed.
    options.db.max_open_files = 16;
    let db = open(&options);
    for n in 0..30 {
        db.put(&key(n), b"v").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    limit(&vfs, 48);
    let db = open(&options);
    let seek = |db: &Db| {
        let mut it = db.iter(&ReadOptions::default())?;
        it.seek_to_first()?;
        assert!(it.valid());
        Ok::<_, Error>(it)
    };
    let held = seek(&db).unwrap();
    // Others share its tables.
    let others = [seek(&db).unwrap(), seek(&db).unwrap()];
    let mut held_later = Vec::new();
    let refused = loop {
        let n = 30 + held_later.len();
        db.put(&key(n), b"v").unwrap();
        db.flush().unwrap();
        match seek(&db) {
            Ok(it) => held_later.push(it),
            Err(e) => break e,
        }
    };
    assert_eq!(held_later.len(), 36 - 30, "three quarters of 48");
    assert_eq!(refused.kind(), ErrorKind::TooManyOpenFiles, "{refused}");
    assert!(
        refused.to_string().contains("drop some iterators"),
        "{refused}"
    );
    // Lookups hold nothing, so they go on, and so do jobs.
    for n in 0..37 {
        assert!(db.contains_key(&key(n)).unwrap(), "{n}");
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.put(b"written", b"yes").unwrap();
    db.flush().unwrap();
    drop((held, others, held_later));
    let it = seek(&db).unwrap();
    drop(it);
    assert!(db.metrics().open_files <= 16, "{}", db.metrics().open_files);
}

#[derive(Default)]
struct Postponed(AtomicU64);

impl EventListener for Postponed {
    fn job_postponed(&self, error: &Error) {
        assert_eq!(error.kind(), ErrorKind::TooManyOpenFiles, "{error}");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The limit is exceeded from one moment on, regardless of the files open then.
#[test]
fn writers_get_an_error_while_nothing_can_be_opened_and_go_on_afterwards() {
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        max_write_buffer_number: 2,
        ..manual()
    };
    let told = Arc::new(Postponed::default());
    let mut options = options(&vfs, family);
    options.db.listeners = vec![Arc::clone(&told) as Arc<_>];
    let db = open(&options);
    let mut model = Model::new();
    let mut refused = 0;
    for round in 0..6 {
        // Every other time only the output of jobs cannot be opened.
        let fault = match round % 2 {
            0 => Fault::on([OpKind::Create, OpKind::Open, OpKind::SyncDir]),
            _ => Fault::on([OpKind::Create]).path("*.blob"),
        };
        vfs.inject(fault.error(Errno::TOO_MANY_FILES).forever());
        for n in 0..400 {
            let (key, value) = (key(n), value(round * 400 + n, 900));
            match put(&db, &key, &value, n % 50 == 49) {
                Ok(()) => drop(model.insert(key, value)),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::TooManyOpenFiles, "{e}");
                    refused += 1;
                    break;
                }
            }
        }
        let error = db.flush().expect_err(&format!("round {round}"));
        assert_eq!(error.kind(), ErrorKind::TooManyOpenFiles, "{error}");
        let found = db.iter(&ReadOptions::default()).and_then(|mut it| {
            let mut found = Model::new();
            it.seek_to_first()?;
            while it.valid() {
                found.insert(it.key().to_vec(), it.value()?.to_vec());
                it.next()?;
            }
            Ok(found)
        });
        match found {
            Ok(found) => assert_eq!(found, model),
            Err(e) => assert_eq!(e.kind(), ErrorKind::TooManyOpenFiles, "{e}"),
        }
        vfs.clear_faults();
        db.put(&key(round), b"again").unwrap();
        model.insert(key(round), b"again".to_vec());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.background_error().map(|e| e.to_string()), None);
        assert_eq!(scanned(&db).unwrap(), model, "round {round}");
    }
    assert!(refused >= 3, "{refused}");
    assert!(told.0.load(Ordering::Relaxed) >= 3);
    db.close().unwrap();
    let db = open(&options);
    assert_eq!(scanned(&db).unwrap(), model);
}

#[test]
fn a_full_manifest_is_used_on_while_no_other_can_be_started() {
    let no_descriptor = [
        (OpKind::Create, "MANIFEST-*"),
        (OpKind::Create, "*.dbtmp"),
        (OpKind::SyncDir, "/db"),
    ]
    .map(|(kind, path)| (kind, path, Errno::TOO_MANY_FILES));
    let no_room = [
        (OpKind::Create, "MANIFEST-*"),
        (OpKind::Append, "MANIFEST-*"),
        (OpKind::Sync, "MANIFEST-*"),
        (OpKind::SyncDir, "/db"),
        (OpKind::Create, "*.dbtmp"),
        (OpKind::Append, "*.dbtmp"),
        (OpKind::Sync, "*.dbtmp"),
        (OpKind::Rename, "*.dbtmp"),
    ]
    .map(|(kind, path)| (kind, path, Errno::NO_SPACE));
    for (kind, failing, errno) in no_descriptor.into_iter().chain(no_room) {
        let vfs = SimVfs::new();
        let mut options = options(&vfs, manual());
        options.db.max_manifest_file_size = 4096;
        let db = open(&options);
        let mut hits = 0;
        for n in 0..30 {
            db.put(&key(n), &value(n, 300)).unwrap();
            let fault = Fault::on([kind]).path(failing).forever();
            // Of those that come before and after, too, the one that fails is within a start.
            let fault = match (kind, failing) {
                (OpKind::SyncDir, _) => fault.after(1, [OpKind::Sync], "MANIFEST-*").times(1),
                (OpKind::Append | OpKind::Sync, "MANIFEST-*") => {
                    fault.after(1, [OpKind::Create], "MANIFEST-*").times(1)
                }
                _ => fault,
            };
            let fault = vfs.inject(fault.error(errno));
            db.flush().unwrap();
            hits += fault.hits();
            vfs.clear_faults();
        }
        assert!(hits > 0, "{kind:?} of {failing}");
        db.wait_idle().unwrap();
        // What was left of a start would stay until the next opening.
        let left = || files(&vfs, DIR, "");
        let is_of_start = |name: &&String| name.starts_with("MANIFEST-") || name.ends_with("tmp");
        assert_eq!(left().iter().filter(is_of_start).count(), 1, "{:?}", left());
        holds(&vfs, 30);
        db.close().unwrap();
        let db = open(&options);
        for n in 0..30 {
            assert_eq!(
                db.get(&key(n)).unwrap().unwrap(),
                value(n, 300),
                "{failing}"
            );
        }
    }
}

/// A power failure now leaves so many values.
fn holds(vfs: &SimVfs, values: usize) {
    let journal = vfs.journal();
    let image = journal.crash_points().last().unwrap().crash(&Loss::All);
    let db = open(&options(&image, manual()));
    for n in 0..values {
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 300));
    }
}

/// After a start that failed behind the renaming of CURRENT, the former MANIFEST is not appended
/// to, though the next start fails in a way that changes nothing.
#[test]
fn a_manifest_that_current_may_not_name_any_more_is_not_used_on() {
    for errno in [Errno::IO, Errno::NO_SPACE, Errno::TOO_MANY_FILES] {
        let vfs = SimVfs::new();
        let mut options = options(&vfs, manual());
        options.db.max_manifest_file_size = 4096;
        let db = open(&options);
        let renamed = Fault::on([OpKind::SyncDir]).path("/db");
        let renamed = renamed.after(1, [OpKind::Rename], "*.dbtmp");
        let fault = vfs.inject(renamed.error(errno));
        let mut written = 0;
        while fault.hits() == 0 {
            db.put(&key(written), &value(written, 300)).unwrap();
            written += 1;
            let _ = db.flush();
            assert!(written < 1000);
        }
        vfs.clear_faults();
        let no_descriptor = Fault::on([OpKind::Create]).path("MANIFEST-*").forever();
        let fault = vfs.inject(no_descriptor.error(Errno::TOO_MANY_FILES));
        let resumed = db.resume();
        assert!(
            resumed.is_err() && fault.hits() > 0,
            "{errno:?}: {resumed:?}"
        );
        vfs.clear_faults();
        db.resume().unwrap();
        for _ in 0..30 {
            db.put(&key(written), &value(written, 300)).unwrap();
            written += 1;
            db.flush().unwrap();
        }
        db.wait_idle().unwrap();
        let names = files(&vfs, DIR, "").into_iter();
        assert_eq!(
            names.filter(|name| name.starts_with("MANIFEST-")).count(),
            1
        );
        holds(&vfs, written);
    }
}

#[test]
fn a_view_says_before_it_reads_how_many_files_it_needs() {
    let vfs = SimVfs::new();
    let options = options(&vfs, manual());
    let db = open(&options);
    for n in 0..30 {
        db.put(b"key", &value(n, 2000)).unwrap();
        db.flush().unwrap();
    }
    vfs.reset_counters();
    limit(&vfs, 67);
    let error = Secondary::open(DIR, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyOpenFiles, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("60 files") && text.contains("67 open"),
        "{text}"
    );
    assert_eq!(
        vfs.count(OpKind::Open, ".sst") + vfs.count(OpKind::Open, ".blob"),
        0
    );
    // The process has used its descriptors for something else.
    limit(&vfs, 1000);
    vfs.set_max_open_files(Some(40));
    let error = Secondary::open(DIR, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyOpenFiles, "{error}");
    assert!(error.to_string().contains("60 files"), "{error}");
    vfs.set_max_open_files(None);
    let view = Secondary::open(DIR, &options).unwrap();
    assert_eq!(view.db().get(b"key").unwrap().unwrap(), value(29, 2000));
    // Files that are held open already can be read all at once, under any limit.
    limit(&vfs, 16);
    let mut it = view.db().iter(&ReadOptions::default()).unwrap();
    it.seek_to_first().unwrap();
    assert_eq!(it.value().unwrap(), value(29, 2000));
}

/// A short history under every limit: each call succeeds or says that descriptors were missing,
/// writes never stop for good, and acknowledged writes are there once there are descriptors again.
#[test]
fn a_history_survives_every_number_of_descriptors() {
    let mut served = 0;
    for limit in 0..40 {
        let vfs = SimVfs::new();
        let family = ColumnFamilyOptions {
            enable_blob_garbage_collection: true,
            blob_file_size: 64 << 10,
            ..manual()
        };
        let options = options(&vfs, family);
        let db = open(&options);
        vfs.set_max_open_files(Some(limit));
        let mut model = Model::new();
        let mut clear = |outcome: titan::Result<()>| match outcome {
            Ok(()) => served += 1,
            Err(e) => assert_eq!(e.kind(), ErrorKind::TooManyOpenFiles, "limit {limit}: {e}"),
        };
        for step in 0..60_usize {
            let (key, value) = (key(step % 17), value(step, 700));
            match db.put(&key, &value) {
                Ok(()) => drop(model.insert(key, value)),
                Err(e) => clear(Err(e)),
            }
            match step % 6 {
                1 | 3 => clear(db.flush()),
                2 => clear(scanned(&db).map(|found| assert_eq!(found, model, "limit {limit}"))),
                4 if step % 12 == 4 => {
                    let everything = CompactRangeOptions::default();
                    clear(db.compact_range(None, None, &everything));
                }
                4 => clear(
                    db.collect_garbage(None, None, &Default::default())
                        .map(drop),
                ),
                5 if step % 12 == 5 => {
                    let copy = format!("/copy-{step}");
                    clear(db.checkpoint(Path::new(&copy)).map(drop));
                }
                5 => clear(db.sync_wal()),
                _ => clear(db.wait_idle()),
            }
            let stopped = db.background_error().map(|e| e.to_string());
            assert_eq!(stopped, None, "limit {limit}, step {step}");
        }
        vfs.set_max_open_files(None);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(scanned(&db).unwrap(), model, "limit {limit}");
        db.close().unwrap();
        for refusing in 0..12 {
            vfs.set_max_open_files(Some(refusing));
            match Db::open(DIR, &options) {
                Ok(db) => clear(scanned(&db).map(|found| assert_eq!(found, model))),
                Err(e) => clear(Err(e)),
            }
        }
        vfs.set_max_open_files(None);
        let db = open(&options);
        assert_eq!(scanned(&db).unwrap(), model, "limit {limit}, reopened");
    }
    assert!(served > 500, "{served}");
}
