//! One operation of the file system fails: nothing acknowledged is lost, reads continue, writes are
//! refused with the reason, and `resume` or reopening heals the database.

use std::sync::Arc;

use titan::{
    CompactRangeOptions, Db, DbOptions, Error, ErrorKind, EventListener, Options, Result,
    StallEvent, WriteBatch, WriteOptions,
};
use titan_campaigns::recovery::{misplaced_files, recover};
use titan_campaigns::settings::Settings;
use titan_campaigns::store::{DIR, Store, file, power_cut};
use titan_testkit::apply::named;
use titan_testkit::failure::CheckFailure;
use titan_testkit::ledger::{End, Ledger};
use titan_testkit::ops::{Op, Ops};
use titan_testkit::reads::contents;
use titan_testkit::sim::{Errno, Fault, Loss, OpKind, SimVfs};

/// Two families with 100 keys each, inline and in blob files; a part is in tables, a part only in
/// memtables and in an unsynced WAL.
fn filled(vfs: &SimVfs, jobs: usize) -> Store {
    let mut store = Store::open(vfs, Settings::jobs(jobs)).unwrap();
    let mut text = "create-cf cf1\n".to_owned();
    for i in 0..100 {
        let size = if i % 3 == 0 { 30 } else { 300 };
        let sync = if i == 60 { "sync " } else { "" };
        text += &format!(
            "{sync}batch [put default k{i:03} {i}*{size}; put cf1 k{i:03} {}*{size}]\n",
            i + 1000
        );
        if i == 50 {
            text += "flush default\n";
        }
    }
    for op in &Ops::parse(&text).unwrap().0 {
        store.apply(op).unwrap();
    }
    store.db.wait_idle().unwrap();
    store
}

/// A batch over both families. `sync` makes it durable.
fn batch(i: usize, sync: bool) -> Op {
    let sync = if sync { "sync " } else { "" };
    let text = format!("{sync}batch [put default r{i:03} {i}*400; put cf1 r{i:03} {i}*400]\n");
    Ops::parse(&text).unwrap().0.remove(0)
}

/// Step that triggers the fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trigger {
    Write,
    SyncedWrite,
    Flush,
    Compact,
    /// Writes and flushes until something fails.
    Rounds,
}

impl Trigger {
    /// Does it. Returns the error.
    fn pull(self, store: &mut Store) -> Option<Error> {
        let written = |store: &mut Store, op: Op| match store.apply(&op) {
            Ok(()) => None,
            Err(CheckFailure::Failed(e)) => Some(e),
            Err(wrong) => panic!("{op}: {wrong}"),
        };
        match self {
            Trigger::Write => written(store, batch(900, false)),
            Trigger::SyncedWrite => written(store, batch(900, true)),
            Trigger::Flush => store.db.flush_all().err(),
            Trigger::Compact => {
                let force = CompactRangeOptions {
                    force_bottommost: true,
                };
                let outcome = store.db.compact_range(None, None, &force);
                outcome.err()
            }
            Trigger::Rounds => (0..120).find_map(|i| {
                written(store, batch(i, false)).or_else(|| store.db.flush_all().err())
            }),
        }
    }
}

/// Opens the files that the end of the process or of the machine left; the ledger must allow their
/// state.
fn recovers(image: &SimVfs, ledger: &Ledger, end: End) -> Result<(), CheckFailure> {
    recover(image, &Settings::jobs(2), ledger, end, ledger.now()).map(drop)
}

fn expect_stopped(store: &Store, what: &str) {
    let refused = store.db.put(b"refused", b"").unwrap_err();
    assert_eq!(
        refused.kind(),
        ErrorKind::WritesStopped,
        "{what}: {refused}"
    );
    assert!(
        refused.to_string().contains("os error"),
        "{what}: {refused}"
    );
    assert!(store.db.background_error().is_some(), "{what}");
    let flush = store.db.flush_all().unwrap_err();
    assert_eq!(flush.kind(), ErrorKind::WritesStopped, "{what}: {flush}");
}

/// One fault in the life of a database; see the module.
fn survives(what: &str, fault: Fault, trigger: Trigger) {
    let what = &format!("{what}, {trigger:?}");
    let vfs = SimVfs::new();
    let mut store = filled(&vfs, 2);
    if trigger == Trigger::Compact {
        store.db.flush_all().unwrap();
        store.db.wait_idle().unwrap();
    }
    let handle = vfs.inject(fault);
    let error = trigger
        .pull(&mut store)
        .unwrap_or_else(|| panic!("{what}: nothing failed"));
    assert!(handle.hits() > 0, "{what}: {error}");
    vfs.clear_faults();

    // Reads continue, with everything that was acknowledged and without the failed writes.
    assert!(
        contents(&store.db).unwrap() == *store.ledger.present(),
        "{what}"
    );
    expect_stopped(&store, what);

    // Either the machine or the process stops now.
    let possible = store.ledger.clone();
    let journal = vfs.journal();
    let end = journal.len();
    for seed in 0..4 {
        let image = journal.crash_at(end, &Loss::Random(seed));
        recovers(&image, &possible, End::Machine)
            .unwrap_or_else(|why| panic!("{what}, power cut {seed}: {why}"));
    }
    recovers(&journal.crash_at(end, &Loss::All), &possible, End::Machine)
        .unwrap_or_else(|why| panic!("{what}, power cut: {why}"));
    recovers(&journal.crash_at(end, &Loss::None), &possible, End::Process)
        .unwrap_or_else(|why| panic!("{what}, process killed: {why}"));

    // Or the user resumes; the machine may stop at any point meanwhile.
    store.db.resume().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(store.db.background_error().is_none(), "{what}");
    // The failed writes are not there, and those that are there are durable.
    store.ledger.abandon(0);
    store.ledger.push(&Op::FlushAll);
    let journal = vfs.journal();
    for point in journal.crash_points().skip(end) {
        for loss in [Loss::All, Loss::Random(7)] {
            let last = point.index() == journal.len();
            let allowed = if last { &store.ledger } else { &possible };
            recovers(&point.crash(&loss), allowed, End::Machine).unwrap_or_else(|why| {
                let resuming: Vec<_> = journal.ops()[end..point.index()]
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                panic!(
                    "{what}, {loss:?} while resuming: {why}\n{}",
                    resuming.join("\n")
                )
            });
        }
    }
    store.db.resume().unwrap();
    assert!(
        contents(&store.db).unwrap() == *store.ledger.present(),
        "{what}"
    );
    for i in 910..930 {
        store.apply(&batch(i, i == 929)).unwrap();
    }
    recovers(&power_cut(&vfs), &store.ledger, End::Machine)
        .unwrap_or_else(|why| panic!("{what}, after resuming: {why}"));
    store.db.flush_all().unwrap();
    store.apply(&Op::Reopen).unwrap();
    assert!(
        contents(&store.db).unwrap() == *store.ledger.present(),
        "{what}"
    );
    let wrong = misplaced_files(&store.db, &vfs).unwrap();
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
}

#[test]
fn what_a_failed_manifest_may_name_goes_when_writes_go_on() {
    let vfs = SimVfs::new();
    let mut store = filled(&vfs, 2);
    for trigger in [Trigger::Flush, Trigger::Compact] {
        vfs.inject(on(OpKind::Append, "MANIFEST-*").error(Errno::NO_SPACE));
        trigger.pull(&mut store).unwrap();
        vfs.clear_faults();
        store.db.resume().unwrap();
    }
    // A flush in the background may have met the fault: it waits for room for a second.
    store.db.flush_all().unwrap();
    store.db.wait_idle().unwrap();
    let wrong = misplaced_files(&store.db, &vfs).unwrap();
    // A WAL file that was closed during the flush goes with the next one. The list of all files is
    // last.
    let is_of_wals = |wrong: &String| wrong.contains("WAL files") || wrong.starts_with('{');
    assert!(wrong.iter().all(is_of_wals), "{wrong:?}");
    store.apply(&Op::Reopen).unwrap();
    assert!(contents(&store.db).unwrap() == *store.ledger.present());
}

fn on(kind: OpKind, path: &str) -> Fault {
    Fault::on([kind]).path(path)
}

#[test]
fn blob_files_that_fail_lose_nothing() {
    for trigger in [Trigger::Flush, Trigger::Rounds] {
        survives(
            "creating a blob file",
            on(OpKind::Create, "*.blob"),
            trigger,
        );
        survives(
            "appending to a blob file",
            on(OpKind::Append, "*.blob"),
            trigger,
        );
        survives(
            "appending part to a blob file",
            on(OpKind::Append, "*.blob").after_writing(100),
            trigger,
        );
        survives(
            "syncing a blob file",
            on(OpKind::Sync, "*.blob").losing_pages(),
            trigger,
        );
    }
}

#[test]
fn tables_that_fail_lose_nothing() {
    for trigger in [Trigger::Flush, Trigger::Compact, Trigger::Rounds] {
        survives("creating a table", on(OpKind::Create, "*.sst"), trigger);
        survives("appending to a table", on(OpKind::Append, "*.sst"), trigger);
        survives(
            "syncing a table",
            on(OpKind::Sync, "*.sst").losing_pages(),
            trigger,
        );
        survives("syncing the directory", on(OpKind::SyncDir, DIR), trigger);
    }
    survives(
        "reading a table",
        on(OpKind::Read, "*.sst"),
        Trigger::Compact,
    );
}

#[test]
fn a_manifest_that_fails_loses_nothing() {
    for trigger in [Trigger::Flush, Trigger::Compact] {
        survives("MANIFEST append", on(OpKind::Append, "MANIFEST-*"), trigger);
        let part = on(OpKind::Append, "MANIFEST-*").after_writing(20);
        survives("part of a MANIFEST append", part, trigger);
        let whole = on(OpKind::Append, "MANIFEST-*").after_the_fact();
        survives("MANIFEST append after the fact", whole, trigger);
        let sync = on(OpKind::Sync, "MANIFEST-*");
        survives("MANIFEST sync", sync.clone(), trigger);
        survives(
            "MANIFEST sync losing pages",
            sync.clone().losing_pages(),
            trigger,
        );
        survives(
            "MANIFEST sync after the fact",
            sync.after_the_fact(),
            trigger,
        );
    }
    let rename = on(OpKind::Rename, "CURRENT");
    survives("renaming to CURRENT", rename.clone(), Trigger::Rounds);
    survives(
        "renaming to CURRENT after the fact",
        rename.after_the_fact(),
        Trigger::Rounds,
    );
    survives(
        "creating a MANIFEST",
        on(OpKind::Create, "MANIFEST-*"),
        Trigger::Rounds,
    );
    survives(
        "creating CURRENT",
        on(OpKind::Create, "*.dbtmp"),
        Trigger::Rounds,
    );
}

#[test]
fn a_wal_that_fails_loses_nothing() {
    let append = on(OpKind::Append, "*.log");
    for trigger in [Trigger::Write, Trigger::SyncedWrite, Trigger::Flush] {
        survives("WAL append", append.clone(), trigger);
        survives(
            "part of a WAL append",
            append.clone().after_writing(9),
            trigger,
        );
        survives(
            "WAL append after the fact",
            append.clone().after_the_fact(),
            trigger,
        );
    }
    let sync = on(OpKind::Sync, "*.log");
    for trigger in [Trigger::SyncedWrite, Trigger::Flush] {
        survives("WAL sync", sync.clone(), trigger);
        survives(
            "WAL sync losing pages",
            sync.clone().losing_pages(),
            trigger,
        );
        survives(
            "WAL sync after the fact",
            sync.clone().after_the_fact(),
            trigger,
        );
    }
    survives(
        "starting a WAL",
        on(OpKind::Create, "*.log"),
        Trigger::Flush,
    );
}

#[test]
fn a_compaction_that_separates_inline_values_may_fail() {
    for kind in [OpKind::Create, OpKind::Append, OpKind::Sync] {
        let vfs = SimVfs::new();
        let mut inline = Settings::jobs(2).options(&vfs);
        inline.default.enable_blob_files = false;
        let db = Db::open(DIR, &inline).unwrap();
        for i in 0..100u8 {
            db.put(&[b'k', i], &[i; 500]).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        let db = Db::open(DIR, &Settings::jobs(2).options(&vfs)).unwrap();
        let expected = contents(&db).unwrap();
        assert_eq!(db.metrics().families[0].blob_files, 0);
        let force = CompactRangeOptions {
            force_bottommost: true,
        };
        let handle = vfs.inject(on(kind, "*.blob"));
        let failed = db.compact_range(None, None, &force).unwrap_err();
        assert_eq!(handle.hits(), 1, "{kind:?}");
        assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
        assert!(contents(&db).unwrap() == expected, "{kind:?}");
        let refused = db.put(b"refused", b"").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WritesStopped);
        db.resume().unwrap();
        db.compact_range(None, None, &force).unwrap();
        assert!(db.metrics().families[0].blob_files > 0);
        assert!(contents(&db).unwrap() == expected, "{kind:?}");
        drop(db);
        let db = Db::open(DIR, &Settings::jobs(2).options(&vfs)).unwrap();
        assert!(contents(&db).unwrap() == expected, "{kind:?}");
        assert!(misplaced_files(&db, &vfs).unwrap().is_empty());
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let vfs = SimVfs::new();
    let mut store = filled(&vfs, 2);
    for room in [300, 3000, 30_000] {
        let used: u64 = vfs
            .list(DIR)
            .unwrap()
            .iter()
            .map(|name| vfs.read_all(file(name)).unwrap().len() as u64)
            .sum();
        vfs.set_capacity(Some(used + room));
        let error = Trigger::Rounds
            .pull(&mut store)
            .expect("the disk is not full");
        let text = error.to_string();
        assert!(text.contains("os error 28"), "{room}: {text}");
        assert!(
            contents(&store.db).unwrap() == *store.ledger.present(),
            "{room}"
        );
        // A flush that lacks room stops nothing; a write or an edit that fails does.
        if store.db.background_error().is_some() {
            expect_stopped(&store, "full disk");
        }
        // As long as the disk is full, resuming may fail or not, but nothing changes.
        let _ = store.db.resume();
        assert!(
            contents(&store.db).unwrap() == *store.ledger.present(),
            "{room}"
        );
        vfs.set_capacity(None);
        store.db.resume().unwrap();
        store.apply(&batch(999, true)).unwrap();
        recovers(&power_cut(&vfs), &store.ledger, End::Machine).unwrap();
        assert!(
            contents(&store.db).unwrap() == *store.ledger.present(),
            "{room}"
        );
    }
}

#[test]
fn resuming_may_fail_and_be_repeated() {
    for (kind, path) in [
        (OpKind::Create, "*.log"),
        (OpKind::Append, "*.log"),
        (OpKind::Create, "*.sst"),
        (OpKind::Sync, "*.blob"),
        (OpKind::SyncDir, DIR),
        (OpKind::Append, "MANIFEST-*"),
        (OpKind::Sync, "MANIFEST-*"),
        (OpKind::Rename, "CURRENT"),
    ] {
        let vfs = SimVfs::new();
        let mut store = filled(&vfs, 1);
        let first = vfs.inject(on(OpKind::Sync, "MANIFEST-*"));
        store.db.flush_all().unwrap_err();
        assert_eq!(first.hits(), 1);
        let second = vfs.inject(on(kind, path).times(2));
        for _ in 0..2 {
            store.db.resume().expect_err("the fault did not strike");
            assert!(contents(&store.db).unwrap() == *store.ledger.present());
            assert_eq!(
                store.db.put(b"refused", b"").unwrap_err().kind(),
                ErrorKind::WritesStopped
            );
            let cut = recovers(&power_cut(&vfs), &store.ledger, End::Machine);
            cut.unwrap_or_else(|why| panic!("{kind:?} {path}: {why}"));
        }
        assert_eq!(second.hits(), 2, "{kind:?} {path}");
        store.db.resume().unwrap();
        store.db.resume().unwrap();
        store.apply(&batch(1, true)).unwrap();
        recovers(&power_cut(&vfs), &store.ledger, End::Machine).unwrap();
        assert!(contents(&store.db).unwrap() == *store.ledger.present());
    }
}

#[test]
fn closing_after_a_failure_tells_it_and_opening_heals() {
    let vfs = SimVfs::new();
    let mut store = filled(&vfs, 2);
    vfs.inject(on(OpKind::Create, "*.blob"));
    store.db.flush_all().unwrap_err();
    let closed = store.db.close().unwrap_err();
    assert!(closed.to_string().contains("os error 5"), "{closed}");
    store.db = Db::open(DIR, &store.options).unwrap();
    assert!(contents(&store.db).unwrap() == *store.ledger.present());

    // A failure of closing itself.
    store.apply(&batch(1, false)).unwrap();
    store.db.wait_idle().unwrap();
    vfs.inject(on(OpKind::Sync, "*.log"));
    assert_eq!(store.db.close().unwrap_err().kind(), ErrorKind::Io);
    store.db.close().unwrap();
    store.db = Db::open(DIR, &store.options).unwrap();
    assert!(contents(&store.db).unwrap() == *store.ledger.present());

    // Writes without WAL cannot be kept if they cannot be flushed.
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    let mut unflushed = WriteBatch::new();
    unflushed.put(&*store.db, b"unlogged", [1; 300]).unwrap();
    store.db.write(unflushed, &unlogged).unwrap();
    store.db.wait_idle().unwrap();
    vfs.inject(on(OpKind::Create, "*.sst"));
    store.db.close().unwrap_err();
    store.db = Db::open(DIR, &store.options).unwrap();
    assert!(contents(&store.db).unwrap() == *store.ledger.present());
}

#[test]
fn the_default_family_cannot_be_dropped_and_everything_goes_on() {
    let vfs = SimVfs::new();
    let mut store = filled(&vfs, 2);
    let default = named(&store.db, "default").unwrap();
    let refused = store.db.drop_column_family(&default).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    store.apply(&batch(1, true)).unwrap();
    store.db.flush_all().unwrap();
    assert!(contents(&store.db).unwrap() == *store.ledger.present());
    store.apply(&Op::Reopen).unwrap();
    assert!(contents(&store.db).unwrap() == *store.ledger.present());
}

/// Signals when a stall stops writes.
struct Stalls(std::sync::mpsc::SyncSender<()>);

impl EventListener for Stalls {
    fn stall_changed(&self, _: titan::ColumnFamilyId, event: StallEvent) {
        if matches!(event, StallEvent::Stopped(_)) {
            let _ = self.0.try_send(());
        }
    }
}

#[test]
fn a_writer_that_waits_for_a_flush_learns_that_it_failed() {
    let vfs = SimVfs::new();
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let defaults = Settings::jobs(1).options(&vfs);
    let options = Options {
        db: DbOptions {
            listeners: vec![Arc::new(Stalls(tell))],
            ..defaults.db
        },
        ..defaults
    };
    let db = Db::open(DIR, &options).unwrap();
    let told = std::sync::Mutex::new(told);
    vfs.set_hook(move |call| {
        let is_table = call.path.extension().is_some_and(|e| e == "sst");
        if call.kind == OpKind::Create && is_table {
            // The flush continues, and fails, once a writer must wait.
            let _ = told.lock().unwrap().recv();
        }
    });
    vfs.inject(on(OpKind::Create, "*.sst"));
    let failed = (0..2000u32).find_map(|i| db.put(&i.to_be_bytes(), &[7; 300]).err());
    let failed = failed.expect("no write met the failure");
    assert_eq!(failed.kind(), ErrorKind::WritesStopped, "{failed}");
    assert!(failed.to_string().contains("os error 5"), "{failed}");
    vfs.clear_hook();
    db.resume().unwrap();
    db.put(b"on", b"it goes").unwrap();
    assert_eq!(db.get(&0u32.to_be_bytes()).unwrap().unwrap(), [7; 300][..]);
    db.close().unwrap();
}
