//! Checkpoints show one moment, are complete or do not exist, and do not depend on later changes of
//! the database.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::TryRecvError;

use titan::vfs::Vfs;
use titan::{ColumnFamily, ColumnFamilyOptions, Db, ErrorKind, Options, WriteBatch, WriteOptions};
use titan_testkit::sim::{Errno, Fault, Loss, OpKind, SimVfs};
use titan_tools::check;

use crate::directory::{Rows, contents};
use crate::support::{DIR, collecting, eventually, files, key, open, options, scaled, value};

const COPY: &str = "/backups/copy";
const KEYS: usize = 200;
const LEN: usize = 1000;

fn two_families(vfs: &SimVfs) -> Options {
    let mut options = options(vfs, collecting());
    options.families.insert("second".to_owned(), collecting());
    options
}

/// Overwrites a part of the keys, others in each round, so that older files are collected.
fn overwrite(db: &Db, round: usize) {
    let mut rng = fastrand::Rng::with_seed(round as u64);
    for family in db.column_families() {
        for n in (0..KEYS).filter(|_| round == 0 || rng.bool()) {
            let value = value(round * KEYS + n, LEN);
            family.put(&key(n), &value).unwrap();
        }
        family.flush().unwrap();
        let all = Default::default();
        family.compact_range(None, None, &all).unwrap();
    }
    db.wait_idle().unwrap();
}

fn checked(dir: &str, options: &Options) {
    let report = check(Path::new(dir), options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{dir}: {:#?}", report.problems);
    assert!(report.notes.is_empty(), "{dir}: {:#?}", report.notes);
}

/// The content of a database, which is opened and closed for this.
fn look(dir: &str, options: &Options) -> Vec<(String, Rows)> {
    let db = Db::open(dir, options).unwrap();
    let found = contents(&db).unwrap();
    db.close().unwrap();
    found
}

fn bytes(vfs: &SimVfs, dir: &str) -> usize {
    let data = [".sst", ".blob", ".blobmap"];
    let names = data.iter().flat_map(|suffix| files(vfs, dir, suffix));
    let size = |name| vfs.read_all(format!("{dir}/{name}")).unwrap().len();
    names.map(size).sum()
}

#[test]
fn a_checkpoint_outlives_what_becomes_of_the_database() {
    let vfs = SimVfs::new();
    let options = two_families(&vfs);
    let db = open(&options);
    (0..4).for_each(|round| overwrite(&db, round));
    assert!(db.statistics().garbage_collections() > 0);
    // Memtables that only the checkpoint will flush; the entries of one are in no WAL.
    db.put(b"in memory", &value(1, LEN)).unwrap();
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    let mut batch = WriteBatch::new();
    let second = db.column_family("second").unwrap();
    batch.put(&second, "unlogged", value(2, LEN)).unwrap();
    db.write(batch, &unlogged).unwrap();
    let then = contents(&db).unwrap();

    let summary = db.checkpoint(COPY).unwrap();
    assert_eq!(summary.linked_bytes as usize, bytes(&vfs, COPY));
    assert_eq!(summary.copied_bytes, 0);
    assert!(
        !files(&vfs, COPY, ".blobmap").is_empty(),
        "nothing is moved"
    );
    assert_eq!(files(&vfs, "/backups", ""), ["copy"]);
    checked(COPY, &options);
    for name in files(&vfs, COPY, ".blob") {
        let path = Path::new(COPY).join(name);
        assert_eq!(vfs.link_count(&path).unwrap(), 2, "{}", path.display());
    }
    (4..8).for_each(|round| overwrite(&db, round));
    assert_eq!(look(COPY, &options), then, "overwritten");
    db.drop_column_family(&second).unwrap();
    let now = contents(&db).unwrap();
    db.close().unwrap();
    checked(DIR, &options);
    assert_eq!(look(COPY, &options), then, "dropped");
    // Changes of the checkpoint do not affect the database either.
    let copy = Db::open(COPY, &options).unwrap();
    (8..12).for_each(|round| overwrite(&copy, round));
    copy.close().unwrap();
    let mut without = options.clone();
    without.families.clear();
    assert_eq!(look(DIR, &without), now);
    checked(COPY, &options);

    let then = look(COPY, &options);
    Db::destroy(DIR, &options).unwrap();
    assert_eq!(look(COPY, &options), then, "destroyed");
}

#[test]
fn whatever_is_there_is_left_alone() {
    let vfs = SimVfs::new();
    let options = two_families(&vfs);
    let db = open(&options);
    overwrite(&db, 0);
    let refused = |dir: &str| db.checkpoint(dir).unwrap_err().kind();
    vfs.create_dir_all(Path::new("/there")).unwrap();
    assert_eq!(refused("/there"), ErrorKind::AlreadyExists);
    assert_eq!(refused(DIR), ErrorKind::AlreadyExists);
    assert_eq!(refused("/"), ErrorKind::AlreadyExists);
    vfs.write_all("/file", b"x").unwrap();
    assert_eq!(refused("/file"), ErrorKind::AlreadyExists);
    // Inside the database's directory, by any path.
    for dir in ["/db/in", "db/in", "/there/../db/in", "/new/../db/in"] {
        assert_eq!(refused(dir), ErrorKind::InvalidArgument, "{dir}");
    }
    db.checkpoint("/db/../beside").unwrap();
    checked("/beside", &options);
    // Another database has the name of the temporary directory.
    let other = Db::open("/other.tmp", &options).unwrap();
    overwrite(&other, 0);
    let expected = contents(&other).unwrap();
    other.close().unwrap();
    assert_eq!(refused("/other"), ErrorKind::AlreadyExists);
    assert_eq!(look("/other.tmp", &options), expected);
    // A checkpoint that another process is creating; and the remains of one that was not finished.
    vfs.create_dir_all(Path::new("/half.tmp")).unwrap();
    let lock = vfs.lock(Path::new("/half.tmp/LOCK")).unwrap();
    assert_eq!(refused("/half"), ErrorKind::Locked);
    drop(lock);
    for name in ["000000.dbtmp", "CURRENT", "000007.sst"] {
        vfs.write_all(format!("/half.tmp/{name}"), b"x").unwrap();
    }
    db.checkpoint("/half").unwrap();
    checked("/half", &options);
    assert!(!vfs.exists(Path::new("/half.tmp")).unwrap());
    db.close().unwrap();
    assert_eq!(refused("/late"), ErrorKind::Closed);
}

#[test]
fn what_is_collected_compacted_or_dropped_meanwhile_is_linked() {
    let vfs = SimVfs::new();
    let options = two_families(&vfs);
    let db = open(&options);
    (0..3).for_each(|round| overwrite(&db, round));
    let then = contents(&db).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let before = files(&vfs, DIR, ".blob");
    vfs.set_hook({
        let (db, vfs, done) = (db.clone(), vfs.clone(), Arc::clone(&done));
        move |call| {
            if call.kind == OpKind::Link && !done.swap(true, Ordering::SeqCst) {
                let collected = db.statistics().garbage_collections();
                (3..7).for_each(|round| overwrite(&db, round));
                assert!(db.statistics().garbage_collections() > collected);
                let second = db.column_family("second").unwrap();
                db.drop_column_family(&second).unwrap();
                db.wait_idle().unwrap();
                // The checkpoint pins them, and nothing newer.
                let after = files(&vfs, DIR, ".blob");
                assert!(before.iter().all(|name| after.contains(name)));
            }
        }
    });
    db.checkpoint(COPY).unwrap();
    vfs.clear_hook();
    assert!(done.load(Ordering::SeqCst));
    checked(COPY, &options);
    assert_eq!(look(COPY, &options), then);
    // The files that it pinned have been deleted.
    db.close().unwrap();
    checked(DIR, &options);
}

/// Puts the number `n` into both families, in one batch.
fn count(db: &Db, families: &[ColumnFamily; 2], n: u64, unlogged: bool) {
    let mut batch = WriteBatch::new();
    for family in families {
        let key = format!("counter {:03}", n % 50);
        let mut value = value(n as usize, 600);
        value[..8].copy_from_slice(&n.to_be_bytes());
        batch.put(family, key, &value).unwrap();
        // Garbage among live records.
        let key = format!("random {:03}", fastrand::Rng::with_seed(n).u64(..200));
        batch.put(family, key, value).unwrap();
    }
    let options = WriteOptions {
        disable_wal: unlogged,
        ..WriteOptions::default()
    };
    db.write(batch, &options).unwrap();
}

/// The counters of a family.
fn counted(rows: &Rows) -> BTreeSet<u64> {
    let counters = rows.iter().filter(|(key, _)| key.starts_with(b"counter"));
    let numbers = counters.map(|(_, value)| u64::from_be_bytes(value[..8].try_into().unwrap()));
    numbers.collect()
}

#[test]
fn a_batch_is_in_it_whole_or_not_at_all() {
    let vfs = SimVfs::new();
    let mut options = two_families(&vfs);
    // The families are flushed at different times, as one has the smaller buffer.
    let busy = ColumnFamilyOptions {
        disable_auto_compactions: false,
        write_buffer_size: 64 << 10,
        max_bytes_for_level_base: 64 << 10,
        ..collecting()
    };
    options.default = ColumnFamilyOptions {
        write_buffer_size: 256 << 10,
        ..busy.clone()
    };
    options.families.insert("second".to_owned(), busy);
    let db = open(&options);
    let families = [(*db).clone(), db.column_family("second").unwrap()];
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        // Dropped when the rounds end, also by a failure.
        let (_rounds, ended) = std::sync::mpsc::channel::<()>();
        let (db, families, written) = (&db, &families, &written);
        scope.spawn(move || {
            let goes_on = |n: &u64| {
                written.store(n - 1, Ordering::SeqCst);
                ended.try_recv() == Err(TryRecvError::Empty)
            };
            let numbers = (1..).take_while(goes_on);
            numbers.for_each(|n| count(db, families, n, n % 3 == 0));
        });
        for round in 0..scaled(30) {
            let dir = format!("/copy{round}");
            eventually("writes go on", || {
                written.load(Ordering::SeqCst) > 200 * (round + 1)
            });
            let before = written.load(Ordering::SeqCst);
            db.checkpoint(&dir).unwrap();
            let after = written.load(Ordering::SeqCst) + 1;
            checked(&dir, &options);
            let found = look(&dir, &options);
            let [first, second] = [0, 1].map(|family: usize| counted(&found[family].1));
            assert_eq!(first, second, "round {round}");
            let newest = first.last().copied().unwrap();
            assert!(
                (before..=after).contains(&newest),
                "{before} {newest} {after}"
            );
            // Counters are overwritten in turn: the newest one determines the others.
            assert_eq!(first, (newest - 49..=newest).collect(), "round {round}");
            Db::destroy(&dir, &options).unwrap();
        }
    });
    assert!(db.statistics().garbage_collections() > 0);
    db.close().unwrap();
    checked(DIR, &options);
}

#[test]
fn a_crash_leaves_the_whole_checkpoint_or_none() {
    crashes_at_every_operation(false);
}

#[test]
fn a_crash_leaves_the_whole_copy_or_none_where_nothing_can_be_linked() {
    crashes_at_every_operation(true);
}

/// Makes a checkpoint of links or of copies, and stops the machine at every operation.
fn crashes_at_every_operation(copies: bool) {
    let vfs = SimVfs::new();
    let original = two_families(&vfs);
    let db = open(&original);
    (0..3).for_each(|round| overwrite(&db, round));
    if copies {
        let links = Fault::on([OpKind::Link]).error(Errno::CROSS_DEVICE);
        vfs.inject(links.forever());
    }
    db.put(b"in memory", &value(1, LEN)).unwrap();
    db.sync_wal().unwrap();
    let then = contents(&db).unwrap();
    vfs.restart_journal();
    let made = db.checkpoint(COPY).unwrap();
    assert_eq!(made.copied_bytes > 0, copies);
    vfs.mark(1);
    let journal = vfs.journal();
    let mut outcomes = [0, 0];
    for point in journal.crash_points() {
        for loss in [Loss::All, Loss::None, Loss::Random(7), Loss::Random(8)] {
            let what = format!("crash {} {loss:?}", point.index());
            let found = point.crash(&loss);
            let mut options = original.clone();
            options.db.vfs = Arc::new(found.clone());
            let there = found.exists(Path::new(COPY)).unwrap();
            outcomes[usize::from(there)] += 1;
            assert!(there || point.acknowledged() == 0, "{what}: it is gone");
            let db = Db::open(DIR, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(contents(&db).unwrap(), then, "{what}");
            if !there {
                db.checkpoint(COPY)
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            db.close().unwrap();
            assert_eq!(look(COPY, &options), then, "{what}");
            checked(COPY, &options);
            assert_eq!(files(&found, "/backups", ""), ["copy"], "{what}");
        }
    }
    assert!(outcomes.iter().all(|n| *n > 3), "{outcomes:?}");
}

#[test]
fn an_error_leaves_nothing() {
    fails_at_every_operation(false);
}

#[test]
fn an_error_leaves_nothing_where_nothing_can_be_linked() {
    fails_at_every_operation(true);
}

/// Fails at each operation of a checkpoint of links or of copies.
fn fails_at_every_operation(copies: bool) {
    let vfs = SimVfs::new();
    let options = two_families(&vfs);
    let db = open(&options);
    (0..3).for_each(|round| overwrite(&db, round));
    let then = contents(&db).unwrap();
    let mut struck = 0;
    for n in 0.. {
        if copies {
            let links = Fault::on([OpKind::Link]).error(Errno::CROSS_DEVICE);
            vfs.inject(links.forever());
        }
        // A link that fails for another reason fails anyway.
        let left_out = |kind: &OpKind| match kind {
            OpKind::Remove => true,
            OpKind::Link => copies,
            _ => false,
        };
        let kinds = OpKind::ALL.iter().copied().filter(|kind| !left_out(kind));
        let fault = Fault::on(kinds).skip(n);
        let hit = vfs.inject(fault.path("/backups*").error(Errno::NO_SPACE));
        let made = db.checkpoint(COPY);
        vfs.clear_faults();
        if hit.hits() == 0 {
            assert_eq!(made.unwrap().copied_bytes > 0, copies);
            break;
        }
        struck += 1;
        assert_eq!(made.unwrap_err().kind(), ErrorKind::NoSpace, "{n}");
        if vfs.exists(Path::new("/backups")).unwrap() {
            let left = files(&vfs, "/backups", "");
            assert!(!left.contains(&"copy".to_owned()), "{n}: {left:?}");
        }
        assert!(db.background_error().is_none(), "{n}");
    }
    assert!(struck > 30, "{struck}");
    assert_eq!(look(COPY, &options), then);
    assert_eq!(contents(&db).unwrap(), then);
}

#[test]
fn where_nothing_can_be_linked_it_is_copied() {
    let vfs = SimVfs::new();
    let options = two_families(&vfs);
    let db = open(&options);
    (0..3).for_each(|round| overwrite(&db, round));
    let then = contents(&db).unwrap();
    let links = Fault::on([OpKind::Link]).error(Errno::CROSS_DEVICE);
    let hit = vfs.inject(links.forever());
    let summary = db.checkpoint(COPY).unwrap();
    assert_eq!(hit.hits() as usize, summary.files);
    assert_eq!(summary.copied_bytes as usize, bytes(&vfs, COPY));
    assert_eq!(summary.linked_bytes, 0);
    checked(COPY, &options);
    assert_eq!(look(COPY, &options), then);
}

#[test]
fn closing_ends_a_checkpoint() {
    let vfs = SimVfs::new();
    let options = two_families(&vfs);
    let db = open(&options);
    overwrite(&db, 0);
    let closing = Arc::new(AtomicBool::new(false));
    let (closing, outcome) = std::thread::scope(|scope| {
        let (reached, made) = std::sync::mpsc::channel();
        vfs.set_hook({
            let (db, vfs, closing) = (db.clone(), vfs.clone(), Arc::clone(&closing));
            move |call| {
                if call.kind == OpKind::Link && !closing.swap(true, Ordering::SeqCst) {
                    reached.send(()).unwrap();
                    let is_closed = || db.wait_idle().is_err_and(|e| e.kind() == ErrorKind::Closed);
                    eventually("the database closes", is_closed);
                    // But not before the checkpoint has ended: otherwise another opening could
                    // delete files.
                    for _ in 0..scaled(50_000) {
                        std::thread::yield_now();
                        let lock = Path::new(DIR).join("LOCK");
                        let e = vfs.lock(&lock).err().expect("the directory was given free");
                        assert_eq!(e.kind(), ErrorKind::Locked);
                    }
                }
            }
        });
        let checkpoint = scope.spawn(|| db.checkpoint(COPY));
        made.recv().unwrap();
        db.close().unwrap();
        (closing, checkpoint.join().unwrap())
    });
    vfs.clear_hook();
    assert!(closing.load(Ordering::SeqCst));
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Closed);
    assert!(files(&vfs, "/backups", "").is_empty());
}

#[test]
fn on_a_real_file_system_files_are_shared() {
    use std::os::unix::fs::MetadataExt;

    let place = tempfile::tempdir().unwrap();
    let (source, copy) = (place.path().join("db"), place.path().join("new/copy/"));
    let options = Options {
        default: collecting(),
        ..Options::default()
    };
    let db = Db::open(&source, &options).unwrap();
    (0..4).for_each(|round| overwrite(&db, round));
    let then = contents(&db).unwrap();
    db.checkpoint(&copy).unwrap();
    let again = db.checkpoint(&copy).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    for path in crate::directory::files_ending(&copy, ".blob") {
        let other = source.join(path.file_name().unwrap());
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&path), inode(&other));
    }
    // Both are open at once, and each can be changed independently.
    let second = Db::open(&copy, &options).unwrap();
    (4..6).for_each(|round| overwrite(&db, round));
    assert_eq!(contents(&second).unwrap(), then);
    drop(db);
    Db::destroy(&source, &options).unwrap();
    assert_eq!(contents(&second).unwrap(), then);
}
