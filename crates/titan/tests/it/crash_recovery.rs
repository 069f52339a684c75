//! Single ways to lose data that random crashes rarely reach.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

use titan::vfs::Vfs;
use titan::{CompactRangeOptions, Db, ErrorKind, WriteBatch, WriteOptions};
use titan_campaigns::settings::Settings;
use titan_campaigns::store::{DIR, Store, file, power_cut};
use titan_testkit::apply::named;
use titan_testkit::ledger::End;
use titan_testkit::ops::Ops;
use titan_testkit::reads::contents;
use titan_testkit::sim::{Call, Fault, FsOp, Loss, OpKind, SimVfs};
use titan_tools::{Loss as Lost, RepairTo, check, repair};

use crate::directory::scan;
use crate::support::files;

fn is(call: &Call<'_>, kind: OpKind, extension: &str) -> bool {
    call.kind == kind && call.path.extension().is_some_and(|e| e == extension)
}

fn apply(store: &mut Store, text: &str) {
    for op in Ops::parse(text).unwrap().0 {
        store.apply(&op).unwrap();
    }
}

/// The first flush, which waits before it writes anything until this is dropped; others do not
/// wait.
struct HeldFlush {
    waits: mpsc::Receiver<()>,
    _release: mpsc::Sender<()>,
}

impl HeldFlush {
    fn of(vfs: &SimVfs) -> Self {
        let (started, waits) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let (started, held) = (Mutex::new(Some(started)), Mutex::new(held));
        vfs.set_hook(move |call| {
            if is(call, OpKind::Create, "sst") && started.lock().unwrap().take().is_some() {
                let _ = held.lock().unwrap().recv();
            }
        });
        HeldFlush {
            waits,
            _release: release,
        }
    }

    /// Blocks until the flush waits.
    fn wait(&self) {
        assert!(self.waits.recv().is_err(), "the hook lets go of its end");
    }
}

#[test]
fn a_wal_without_operations_does_not_hide_that_the_one_before_it_is_lost() {
    let vfs = SimVfs::new();
    let mut store = Store::open(&vfs, Settings::jobs(4)).unwrap();
    apply(&mut store, "create-cf cf1\n");
    apply(
        &mut store,
        "batch [put default a 1*10; put cf1 a 1*10]\nput cf1 b 2*10\n",
    );
    // From now on no WAL becomes durable: the flushes wait before they write anything.
    let (started, wals) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let (started, held) = (Mutex::new(started), Mutex::new(held));
    vfs.set_hook(move |call| {
        if is(call, OpKind::Create, "log") {
            let _ = started.lock().unwrap().send(());
        } else if is(call, OpKind::Create, "sst") {
            let _ = held.lock().unwrap().recv();
        }
    });
    let journal = std::thread::scope(|scope| {
        for name in ["default", "cf1"] {
            let family = named(&store.db, name).unwrap();
            scope.spawn(move || family.flush().unwrap());
            wals.recv().unwrap();
        }
        // In the queue after the second switch, so in the third WAL; the second has no operation.
        apply(&mut store, "put default c 3*10\n");
        let journal = vfs.journal();
        drop(release);
        journal
    });
    let mut outcomes = Vec::new();
    for seed in 0..400 {
        let image = journal.crash_at(journal.len(), &Loss::Random(seed));
        let db = Db::open(DIR, &Settings::jobs(2).options(&image)).unwrap();
        let found = contents(&db).unwrap();
        let allowed = store
            .ledger
            .allows(&found, End::Machine, store.ledger.now());
        allowed.unwrap_or_else(|diff| panic!("seed {seed}: {diff}"));
        if !outcomes.contains(&found) {
            outcomes.push(found);
        }
    }
    assert!(outcomes.len() >= 3, "only {outcomes:?}");
}

#[test]
fn a_directory_that_a_killed_process_made_is_made_durable_by_the_next() {
    let first = SimVfs::new();
    Db::open(DIR, &Settings::jobs(1).options(&first)).unwrap();
    let journal = first.journal();
    for point in journal.crash_points() {
        let vfs = point.crash(&Loss::None);
        let db = Db::open(DIR, &Settings::jobs(1).options(&vfs)).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&*db, b"k", b"v").unwrap();
        db.write(batch, &WriteOptions::synced()).unwrap();
        let cut = power_cut(&vfs);
        let db = Db::open(DIR, &Settings::jobs(1).options(&cut)).unwrap();
        let found = db.get(b"k").unwrap();
        assert_eq!(
            found.as_deref(),
            Some(&b"v"[..]),
            "killed at {}\n{journal}",
            point.index()
        );
    }
}

#[test]
fn writes_without_a_wal_are_kept_by_flushes_and_by_closing() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &Settings::jobs(2).options(&vfs)).unwrap();
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    let put = |db: &Db, i: u8, options: &WriteOptions| {
        let mut batch = WriteBatch::new();
        batch.put(&**db, [i], [i; 300]).unwrap();
        db.write(batch, options).unwrap();
    };
    let keys_after = |image: &SimVfs| -> Vec<u8> {
        let db = Db::open(DIR, &Settings::jobs(2).options(image)).unwrap();
        let found = contents(&db).unwrap();
        let pairs = found.family("default").unwrap();
        assert!(pairs.iter().all(|(key, value)| *value == [key[0]; 300]));
        pairs.keys().map(|key| key[0]).collect()
    };
    (0..10).for_each(|i| put(&db, i, &unlogged));
    db.flush().unwrap();
    let flushed: Vec<u8> = (0..10).collect();
    assert_eq!(keys_after(&power_cut(&vfs)), flushed);
    // Without a flush these may be lost; logged writes beside them may not.
    (10..20).for_each(|i| put(&db, i, &unlogged));
    put(&db, 20, &WriteOptions::synced());
    let kept = keys_after(&power_cut(&vfs));
    assert!(
        kept.starts_with(&flushed) && kept.ends_with(&[20]),
        "{kept:?}"
    );
    db.close().unwrap();
    assert_eq!(keys_after(&power_cut(&vfs)), (0..=20).collect::<Vec<u8>>());

    // A WAL file that was only ever current during such writes is followed by others.
    let db = Db::open(DIR, &Settings::jobs(2).options(&vfs)).unwrap();
    put(&db, 21, &unlogged);
    db.flush().unwrap();
    put(&db, 22, &WriteOptions::synced());
    assert_eq!(keys_after(&power_cut(&vfs)), (0..=22).collect::<Vec<u8>>());
}

#[test]
fn closing_waits_for_a_compaction_of_another_thread() {
    let vfs = SimVfs::new();
    let mut options = Settings::jobs(2).options(&vfs);
    options.default.disable_auto_compactions = true;
    let db = Db::open(DIR, &options).unwrap();
    for round in 0..3u8 {
        for i in 0..50u8 {
            db.put(&[i], &[round; 90]).unwrap();
        }
        db.flush().unwrap();
    }
    let (tell, reached) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let (tell, held, once) = (Mutex::new(tell), Mutex::new(held), AtomicBool::new(true));
    vfs.set_hook(move |call| {
        if is(call, OpKind::Create, "sst") && once.swap(false, Ordering::SeqCst) {
            tell.lock().unwrap().send(()).unwrap();
            let _ = held.lock().unwrap().recv();
        }
    });
    std::thread::scope(|scope| {
        let compaction =
            scope.spawn(|| db.compact_range(None, None, &CompactRangeOptions::default()));
        reached.recv().unwrap();
        let closing = scope.spawn(|| {
            db.close().unwrap();
            // The directory is unlocked: any change that the compaction makes from now on may
            // affect another process.
            vfs.journal().len()
        });
        while db.get(b"k").is_ok() {
            std::thread::yield_now();
        }
        drop(release);
        let closed_at = closing.join().unwrap();
        let outcome = compaction.join().unwrap();
        assert_eq!(vfs.journal().len(), closed_at, "{outcome:?}");
    });
    let refused = db.create_column_family("late", options.default.clone());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
    assert!(vfs.exists(&file("CURRENT")).unwrap());
}

#[test]
fn the_lock_outlives_no_process_and_no_failed_opening() {
    let vfs = SimVfs::new();
    let db = Db::open(DIR, &Settings::jobs(1).options(&vfs)).unwrap();
    let second = Db::open(DIR, &Settings::jobs(1).options(&vfs)).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Locked);
    db.put(b"k", b"v").unwrap();
    drop(db);
    let handle = vfs.inject(titan_testkit::sim::Fault::on([OpKind::Create]).path("*.sst"));
    Db::open(DIR, &Settings::jobs(1).options(&vfs)).unwrap_err();
    assert_eq!(handle.hits(), 1);
    let db = Db::open(DIR, &Settings::jobs(1).options(&vfs)).unwrap();
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_resume_takes_effect_in_all_families_or_in_none() {
    let vfs = SimVfs::new();
    let mut store = Store::open(&vfs, Settings::jobs(2)).unwrap();
    let text = "create-cf cf1\nsync batch [put default a 1*10; put cf1 a 1*10]\n";
    store.apply_all(&Ops::parse(text).unwrap().0).unwrap();
    // Acknowledged, but not durable: after a failed sync the WAL will never make it durable.
    let batch = "batch [put default b 2*300; put cf1 b 2*300]\n";
    store.apply_all(&Ops::parse(batch).unwrap().0).unwrap();
    let fault = vfs.inject(Fault::on([OpKind::Sync]).path("*.log"));
    store.db.sync_wal().unwrap_err();
    assert_eq!(fault.hits(), 1);
    let before = vfs.journal().len();
    store.db.resume().unwrap();
    let journal = vfs.journal();
    let (mut with, mut without) = (0, 0);
    for point in journal.crash_points().skip(before) {
        for seed in 0..40 {
            let image = point.crash(&Loss::Random(seed));
            let db = Db::open(DIR, &Settings::jobs(2).options(&image)).unwrap();
            let found = contents(&db).unwrap();
            let has = |family, key: &[u8]| found.get(family, key).is_some();
            assert!(has("default", b"a") && has("cf1", b"a"));
            let whole = has("default", b"b");
            let at = point.index();
            assert_eq!(
                whole,
                has("cf1", b"b"),
                "crash at {at}, seed {seed}\n{journal}"
            );
            *if whole { &mut with } else { &mut without } += 1;
        }
    }
    assert!(with > 40 && without > 40, "{with} with, {without} without");
    store.verify().unwrap();
}

#[test]
fn a_manifest_may_end_in_an_append_of_which_any_page_is_lost() {
    let vfs = SimVfs::new();
    let mut options = Settings::jobs(1).options(&vfs);
    options.db.max_manifest_file_size = 1 << 20;
    options.default.disable_auto_compactions = true;
    let db = Db::open(DIR, &options).unwrap();
    let long = [b'k'; 900];
    for i in 0..12u8 {
        db.put(&[&[i], &long[..]].concat(), b"v").unwrap();
        db.flush().unwrap();
    }
    let journal = vfs.journal();
    let (mut opened, mut holes) = (0, 0);
    for point in journal.crash_points() {
        let Some(FsOp::Append { path, .. }) = point.last_op() else {
            continue;
        };
        if !path.to_string_lossy().contains("MANIFEST-") {
            continue;
        }
        for seed in 0..60 {
            let image = point.crash(&Loss::Random(seed));
            if !vfs_has(&image, "CURRENT") {
                continue;
            }
            let size = image.size(path).unwrap_or(0);
            let bytes = image.read_all(path).unwrap_or_default();
            let page = size.saturating_sub(1) / 4096 * 4096;
            let before = bytes[..page as usize].iter().rev().take(200);
            let lost = page > 0 && before.copied().all(|b| b == 0);
            let current = image.read_all(file("CURRENT")).unwrap_or_default();
            let in_force = path.ends_with(String::from_utf8_lossy(&current).trim());
            let hole = in_force && lost && bytes[page as usize..].iter().any(|b| *b != 0);
            holes += usize::from(hole);
            let mut options = options.clone();
            options.db.vfs = std::sync::Arc::new(image);
            if hole {
                // The tools treat it as an opening does: as an edit that never took effect.
                let checked = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
                assert_eq!(checked.problems.len(), 0, "{:?}", checked.problems);
                assert!(
                    checked.notes.iter().any(|note| note.contains("cut short")),
                    "{:?}",
                    checked.notes
                );
                let to = RepairTo::Directory("/repaired".into());
                let repaired = repair(DIR.as_ref(), &to, &options, &mut |_| {}).unwrap();
                let damaged = |lost: &Lost| lost.reason.contains("damaged");
                assert!(!repaired.lost.iter().any(damaged), "{:?}", repaired.lost);
            }
            let opening = Db::open(DIR, &options);
            opening.unwrap_or_else(|e| panic!("crash at {}, seed {seed}: {e}", point.index()));
            opened += 1;
        }
    }
    assert!(opened > 100 && holes > 5, "{opened} opened, {holes} holes");
}

fn vfs_has(vfs: &SimVfs, name: &str) -> bool {
    vfs.exists(&file(name)).is_ok_and(|there| there)
}

#[test]
fn a_manifest_that_ends_within_its_first_state_is_damaged_and_costs_nothing() {
    let vfs = SimVfs::new();
    let options = Settings::jobs(1).options(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    for name in ["default", "second", "third"] {
        let family = match name {
            "default" => (*db).clone(),
            name => db
                .create_column_family(name, options.default.clone())
                .unwrap(),
        };
        for n in 0..20 {
            family
                .put(format!("{name}{n}").as_bytes(), &[n; 300])
                .unwrap();
        }
        family.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    // The MANIFEST has only its initial state.
    Db::open(DIR, &options).unwrap().close().unwrap();
    let name = vfs.list(DIR).unwrap();
    let name = name
        .into_iter()
        .find(|n| n.starts_with("MANIFEST"))
        .unwrap();
    let manifest = vfs.read_all(format!("{DIR}/{name}")).unwrap();
    let journal = vfs.journal();
    for len in 0..manifest.len() {
        let image = journal.crash_at(journal.len(), &Loss::None);
        image
            .write_all(format!("{DIR}/{name}"), &manifest[..len])
            .unwrap();
        let before = image.list(DIR).unwrap();
        let options = Settings::jobs(1).options(&image);
        let damaged = Db::open(DIR, &options).map(drop).unwrap_err();
        assert!(damaged.is_corruption(), "{len}: {damaged}");
        assert_eq!(image.list(DIR).unwrap(), before, "{len}");
        let report = titan_tools::check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
        assert!(!report.problems.is_empty(), "{len}");
    }
}

#[test]
fn a_log_that_only_a_dropped_family_needed_goes_with_it() {
    let vfs = SimVfs::new();
    let mut store = Store::open(&vfs, Settings::jobs(1)).unwrap();
    let ops =
        "create-cf cf1\nput cf1 a 1*10\nput default a 2*10\nflush default\nput default b 3*10\n";
    apply(&mut store, ops);
    let logs = files(&vfs, DIR, ".log");
    assert_eq!(logs.len(), 2, "the second was started by the flush");
    let dropped = named(&store.db, "cf1").unwrap();
    let before = vfs.journal().len();
    store.db.drop_column_family(&dropped).unwrap();
    assert_eq!(files(&vfs, DIR, ".log"), logs[1..]);

    let journal = vfs.journal();
    for at in before..=journal.len() {
        let image = journal.crash_at(at, &Loss::All);
        let db = Db::open(DIR, &Settings::jobs(1).options(&image)).unwrap();
        let families = db.column_families().len();
        match db.column_family("cf1") {
            Some(kept) => assert_eq!(scan(&kept).unwrap().len(), 1, "crash at {at}"),
            None => {
                assert_eq!(families, 1, "crash at {at}");
                assert_eq!(scan(&db).unwrap().len(), 2, "crash at {at}: written before");
            }
        }
    }
}

#[test]
fn a_memtable_that_stayed_empty_keeps_no_log() {
    let vfs = SimVfs::new();
    let mut store = Store::open(&vfs, Settings::jobs(4)).unwrap();
    apply(
        &mut store,
        "create-cf cf1\ncreate-cf cf2\nput default a 1*10\n",
    );
    // The first flush waits before it writes anything; others do not.
    let first = HeldFlush::of(&vfs);
    std::thread::scope(|scope| {
        let default = named(&store.db, "default").unwrap();
        let flush = scope.spawn(move || default.flush().unwrap());
        first.wait();
        // Into the WAL that this flush started, and then into another.
        apply(&mut store, "put cf2 a 2*10\nput cf1 a 3*10\nflush cf1\n");
        drop(first);
        flush.join().unwrap();
    });
    // The memtable of the default family is older than this WAL, but was empty when the flush
    // recorded which WAL it needs.
    apply(&mut store, "put default b 4*10\nflush cf2\n");
    store.db.wait_idle().unwrap();
    let logs = files(&vfs, DIR, ".log");
    store.db.close().unwrap();
    let options = Settings::jobs(4).options(&vfs);
    let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
    assert!(
        report.problems.is_empty() && report.notes.is_empty(),
        "{logs:?}: {report:?}"
    );
}

#[test]
fn a_synced_write_makes_durable_what_an_earlier_log_holds() {
    let vfs = SimVfs::new();
    let mut store = Store::open(&vfs, Settings::jobs(4)).unwrap();
    apply(
        &mut store,
        "create-cf cf1\nput default a 1*10\nput cf1 a 2*10\n",
    );
    // The flush starts a WAL, and waits before it writes anything.
    let first = HeldFlush::of(&vfs);
    let image = std::thread::scope(|scope| {
        let flushed = named(&store.db, "cf1").unwrap();
        scope.spawn(move || flushed.flush().unwrap());
        first.wait();
        apply(&mut store, "sync put default b 3*10\n");
        let image = power_cut(&vfs);
        drop(first);
        image
    });
    let db = Db::open(DIR, &Settings::jobs(2).options(&image)).unwrap();
    assert!(contents(&db).unwrap() == *store.ledger.present());
}
