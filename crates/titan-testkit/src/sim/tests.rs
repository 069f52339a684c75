//! The contract of `Vfs`, and each clause of the model in the module documentation.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use titan::ErrorKind;
use titan::vfs::{Access, Vfs, WritableFile};

use super::*;
use crate::clock::SimClock;

const ANY: std::ops::Range<u64> = 0..300;

fn p(path: &str) -> &Path {
    Path::new(path)
}

/// `/db`, durable, in a journal that starts here.
fn fresh() -> SimVfs {
    let vfs = SimVfs::new();
    vfs.create_dir_all(p("/db")).unwrap();
    vfs.sync_all().unwrap();
    vfs.restart_journal();
    vfs
}

fn put(vfs: &SimVfs, path: &str, data: &[u8]) -> Box<dyn WritableFile> {
    let mut file = vfs.create(p(path)).unwrap();
    file.append(data).unwrap();
    file
}

/// A file that is durable with its name.
fn settled(vfs: &SimVfs, path: &str, data: &[u8]) -> Box<dyn WritableFile> {
    let mut file = put(vfs, path, data);
    file.sync().unwrap();
    vfs.sync_dir(p("/db")).unwrap();
    file
}

fn crash(vfs: &SimVfs, loss: Loss) -> SimVfs {
    let journal = vfs.journal();
    journal.crash_at(journal.len(), &loss)
}

/// All outcomes of losing a random part now, as `look` sees them.
fn outcomes<T: Ord>(vfs: &SimVfs, look: impl Fn(&SimVfs) -> T) -> BTreeSet<T> {
    let journal = vfs.journal();
    let point = journal.crash_points().last().unwrap();
    ANY.map(|seed| look(&point.crash(&Loss::Random(seed))))
        .collect()
}

fn names(vfs: &SimVfs) -> String {
    vfs.list("/db").unwrap().join(" ")
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn files_read_back_and_open_handles_outlive_their_names() {
    let vfs = fresh();
    let mut w = put(&vfs, "/db/f", b"hello ");
    let r = vfs.open(p("db/f"), Access::Random).unwrap();
    vfs.remove(p("/db/f")).unwrap();
    vfs.sync_dir(p("/db")).unwrap();
    assert!(
        vfs.open(p("/db/f"), Access::Random)
            .err()
            .unwrap()
            .is_not_found()
    );
    w.append(b"world").unwrap();
    w.sync().unwrap();
    drop(w);
    assert_eq!(r.size().unwrap(), 11);
    assert_eq!(&r.read_exact_at(6, 5).unwrap()[..], b"world");
    assert_eq!(r.read_at(9, &mut [0; 10]).unwrap(), 2);
    assert_eq!(r.read_at(99, &mut [0; 10]).unwrap(), 0);
    assert!(r.read_exact_at(9, 3).unwrap_err().is_corruption());
    // Replay has no handles: the operations on the nameless file must not disturb it.
    for point in vfs.journal().crash_points() {
        point.crash(&Loss::None);
        point.crash(&Loss::All);
    }
}

#[test]
fn directories_behave() {
    let vfs = fresh();
    vfs.create_dir_all(p("/db/a/b")).unwrap();
    vfs.create_dir_all(p("/db/a")).unwrap();
    assert_eq!(
        vfs.remove_dir(p("/db/a")).unwrap_err().kind(),
        ErrorKind::Io
    );
    drop(put(&vfs, "/db/a/b/f", b"x"));
    vfs.rename(p("/db/a"), p("/db/c")).unwrap();
    assert_eq!(vfs.read_all("/db/c/b/f").unwrap(), b"x");
    assert!(
        vfs.rename(p("/db/c"), p("/db/c/b/d")).is_err(),
        "a directory into itself"
    );
    assert!(vfs.create(p("/db/a/f")).err().unwrap().is_not_found());
    assert!(vfs.create(p("/db/c")).is_err());
    assert!(vfs.remove(p("/db/c")).is_err());
    vfs.remove(p("/db/c/b/f")).unwrap();
    vfs.remove_dir(p("/db/c/b")).unwrap();
    assert_eq!(vfs.read_dir(p("/db/c")).unwrap(), [""; 0]);
    assert!(!vfs.exists(p("/db/a")).unwrap() && vfs.exists(p("/db/c")).unwrap());
}

#[test]
fn a_lock_excludes_until_dropped_and_does_not_outlive_a_crash() {
    let vfs = fresh();
    let guard = vfs.lock(p("/db/LOCK")).unwrap();
    assert_eq!(
        vfs.clone().lock(p("db/LOCK")).err().unwrap().kind(),
        ErrorKind::Locked
    );
    crash(&vfs, Loss::None).lock(p("/db/LOCK")).unwrap();
    drop(guard);
    vfs.lock(p("/db/LOCK")).unwrap();
    assert_eq!(names(&vfs), "LOCK");
}

#[test]
fn unsynced_bytes_go_and_synced_ones_stay() {
    let vfs = fresh();
    let mut f = settled(&vfs, "/db/f", b"synced");
    f.append(b"-not").unwrap();
    assert_eq!(crash(&vfs, Loss::All).read_all("/db/f").unwrap(), b"synced");
    assert_eq!(
        crash(&vfs, Loss::None).read_all("/db/f").unwrap(),
        b"synced-not"
    );
    let seen = outcomes(&vfs, |image| image.read_all("/db/f").unwrap());
    assert!(seen.iter().all(|data| data.starts_with(b"synced")));
    for possible in [
        &b"synced"[..],
        b"synced-not",
        b"synced\0\0\0\0",
        b"synced-n",
        b"synced-n\0\0",
    ] {
        assert!(seen.contains(possible), "{possible:?} never happened");
    }
}

#[test]
fn synced_bytes_under_an_unsynced_name_may_be_missing_but_never_damaged() {
    let vfs = fresh();
    let mut f = put(&vfs, "/db/f", b"data");
    f.sync().unwrap();
    assert_eq!(names(&crash(&vfs, Loss::All)), "");
    assert_eq!(outcomes(&vfs, names), set(["", "f"]));
    let data = outcomes(&vfs, |image| image.read_all("/db/f").ok());
    assert_eq!(data, [None, Some(b"data".to_vec())].into());
}

#[test]
fn a_synced_name_of_an_unsynced_file_may_be_empty() {
    let vfs = fresh();
    let _f = put(&vfs, "/db/f", b"data");
    vfs.sync_dir(p("/db")).unwrap();
    assert_eq!(crash(&vfs, Loss::All).read_all("/db/f").unwrap(), b"");
}

#[test]
fn a_rename_without_sync_dir_is_old_or_new() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/CURRENT", b"1"));
    drop(settled(&vfs, "/db/temp", b"2"));
    vfs.rename(p("/db/temp"), p("/db/CURRENT")).unwrap();
    let look = |image: &SimVfs| (names(image), image.read_all("/db/CURRENT").unwrap());
    assert_eq!(
        look(&crash(&vfs, Loss::All)),
        ("CURRENT temp".into(), b"1".to_vec())
    );
    let both = [
        ("CURRENT".into(), b"2".to_vec()),
        ("CURRENT temp".into(), b"1".to_vec()),
    ];
    assert_eq!(outcomes(&vfs, look), both.into());
    vfs.sync_dir(p("/db")).unwrap();
    assert_eq!(
        look(&crash(&vfs, Loss::All)),
        ("CURRENT".into(), b"2".to_vec())
    );
}

#[test]
fn changes_of_different_names_are_independent_and_of_one_name_in_order() {
    let vfs = fresh();
    drop(put(&vfs, "/db/a", b""));
    drop(put(&vfs, "/db/b", b""));
    assert_eq!(outcomes(&vfs, names), set(["", "a", "a b", "b"]));
    vfs.rename(p("/db/a"), p("/db/c")).unwrap();
    drop(put(&vfs, "/db/a", b""));
    // The second `a` is there only with `c`: the rename came between.
    let seen = outcomes(&vfs, names);
    assert_eq!(seen, set(["", "a", "a b", "a b c", "a c", "b", "b c", "c"]));
    let twice = ANY.filter(|seed| {
        let image = crash(&vfs, Loss::Random(*seed));
        image.exists(p("/db/a")).unwrap() && image.exists(p("/db/c")).unwrap()
    });
    assert!(twice.count() > 0);
}

#[test]
fn a_rename_between_directories_is_atomic_and_either_sync_suffices() {
    for synced in ["/db", "/other"] {
        let vfs = fresh();
        vfs.create_dir_all(p("/other")).unwrap();
        drop(settled(&vfs, "/db/f", b"x"));
        vfs.sync_all().unwrap();
        vfs.rename(p("/db/f"), p("/other/g")).unwrap();
        let look = |image: &SimVfs| {
            (
                image.list("/db").unwrap().join(" "),
                image.list("/other").unwrap().join(" "),
            )
        };
        let (old, new) = (("f".into(), "".into()), ("".into(), "g".into()));
        assert_eq!(outcomes(&vfs, look), [old, new.clone()].into());
        vfs.sync_dir(p(synced)).unwrap();
        assert_eq!(look(&crash(&vfs, Loss::All)), new);
    }
}

#[test]
fn a_link_is_a_name_of_its_own() {
    let vfs = fresh();
    let mut f = settled(&vfs, "/db/a", b"x");
    drop(put(&vfs, "/another", b""));
    vfs.link(p("/db/a"), p("/db/b")).unwrap();
    assert_eq!(vfs.link_count(p("/db/a")).unwrap(), 2);
    assert_eq!(outcomes(&vfs, names), set(["a", "a b"]));
    assert_eq!(
        vfs.link(p("/db/a"), p("/db/b")).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    // Two names of one file: a rename of one to the other is nothing.
    vfs.rename(p("/db/a"), p("/db/b")).unwrap();
    assert_eq!(names(&vfs), "a b");
    f.append(b"y").unwrap();
    assert_eq!(vfs.read_all("/db/b").unwrap(), b"xy");
    vfs.remove(p("/db/a")).unwrap();
    assert_eq!(vfs.link_count(p("/db/b")).unwrap(), 1);
    // Neither change is durable: but for the case of "removed, not linked", the file is there.
    assert_eq!(outcomes(&vfs, names), set(["", "a", "a b", "b"]));
    vfs.sync_dir(p("/db")).unwrap();
    let image = crash(&vfs, Loss::All);
    assert_eq!(
        (names(&image), image.read_all("/db/b").unwrap()),
        ("b".into(), b"x".to_vec())
    );
    assert!(vfs.link(p("/db"), p("/db/d")).is_err());
    assert!(vfs.link(p("/db/a"), p("/db/d")).unwrap_err().is_not_found());
    assert_eq!(vfs.count(OpKind::Link, ""), 1);
    vfs.inject(Fault::on([OpKind::Link]).error(Errno::CROSS_DEVICE));
    let e = vfs.link(p("/db/b"), p("/db/d")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
}

#[test]
fn removing_is_not_durable_until_the_directory_is() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/f", b"x"));
    vfs.remove(p("/db/f")).unwrap();
    assert_eq!(crash(&vfs, Loss::All).read_all("/db/f").unwrap(), b"x");
    assert_eq!(outcomes(&vfs, names), set(["", "f"]));
    vfs.sync_dir(p("/db")).unwrap();
    assert_eq!(outcomes(&vfs, names), set([""]));
}

#[test]
fn a_directory_not_synced_in_its_parent_goes_with_all_in_it() {
    let vfs = SimVfs::new();
    vfs.create_dir_all(p("/db")).unwrap();
    drop(settled(&vfs, "/db/f", b"x"));
    assert!(!crash(&vfs, Loss::All).exists(p("/db")).unwrap());
    vfs.sync_dir(p("/")).unwrap();
    assert_eq!(crash(&vfs, Loss::All).read_all("/db/f").unwrap(), b"x");
}

#[test]
fn a_block_in_the_middle_may_be_lost_while_later_ones_are_there() {
    let vfs = fresh();
    let mut f = settled(&vfs, "/db/f", &[1; 4096]);
    f.append(&[2; 3 * 4096]).unwrap();
    let blocks = |image: &SimVfs| -> Vec<u8> {
        image
            .read_all("/db/f")
            .unwrap()
            .chunks(4096)
            .map(|block| block[0])
            .collect()
    };
    let seen = outcomes(&vfs, blocks);
    for possible in [
        &[1][..],
        &[1, 2],
        &[1, 0, 2, 2],
        &[1, 2, 0, 2],
        &[1, 0, 0, 0],
        &[1, 2, 2, 2],
    ] {
        assert!(seen.contains(possible), "{possible:?} never happened");
    }
    assert!(
        seen.iter().all(|blocks| blocks[0] == 1),
        "what was synced stays"
    );
    let torn = outcomes(&vfs, |image| {
        let data = image.read_all("/db/f").unwrap();
        data.chunks(4096)
            .any(|block| block[0] == 2 && block.len() == 4096 && block[4095] == 0)
    });
    assert!(torn.contains(&true), "no block was ever torn");
}

#[test]
fn a_failed_sync_loses_its_pages_for_good() {
    let vfs = fresh();
    let mut f = settled(&vfs, "/db/f", &[1; 4096]);
    f.append(&[2; 4096]).unwrap();
    let fault = vfs.inject(Fault::on([OpKind::Sync]).path("f").losing_pages());
    assert_eq!(f.sync().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(fault.hits(), 1);
    assert_eq!(
        vfs.read_all("/db/f").unwrap()[4096],
        2,
        "reads still see them"
    );
    f.append(&[3; 4096]).unwrap();
    f.sync().unwrap();
    let lost = |image: &SimVfs| -> Vec<u8> {
        image
            .read_all("/db/f")
            .unwrap()
            .chunks(4096)
            .map(|block| block[0])
            .collect()
    };
    assert_eq!(outcomes(&vfs, lost), [vec![1, 0, 3]].into());
    // The process's crash still leaves the pages in the cache, and the machine's takes them then.
    let after_process = crash(&vfs, Loss::None);
    assert_eq!(lost(&after_process), [1, 2, 3]);
    assert_eq!(lost(&crash(&after_process, Loss::All)), [1, 0, 3]);
}

#[test]
fn each_unsynced_hole_may_be_there_or_not() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/f", &[1; 4 * 4096 + 100]));
    let before = vfs.allocated_bytes(p("/db/f")).unwrap();
    assert_eq!(before, 5 * 4096);
    let mut f = vfs.open_to_punch(p("/db/f")).unwrap();
    // One block as a whole, a part of the next one; later the fourth.
    f.punch_hole(4096, 5000).unwrap();
    f.punch_hole(3 * 4096, 4096).unwrap();
    f.punch_hole(1 << 20, 4096).unwrap();
    let after = vfs.allocated_bytes(p("/db/f")).unwrap();
    assert_eq!(after, before - 2 * 4096);
    let starts = |image: &SimVfs| -> Vec<u8> {
        let data = image.read_all("/db/f").unwrap();
        assert_eq!(data.len(), 4 * 4096 + 100);
        for hole in [1, 3] {
            let block = &data[hole * 4096..(hole + 1) * 4096];
            assert!(block.iter().all(|byte| *byte == block[0]), "a torn hole");
        }
        data.chunks(4096).map(|block| block[0]).collect()
    };
    assert_eq!(starts(&vfs), [1, 0, 0, 0, 1]);
    assert_eq!(starts(&crash(&vfs, Loss::All)), [1; 5]);
    let seen = outcomes(&vfs, starts);
    for possible in [
        [1, 0, 1, 1, 1],
        [1, 1, 0, 1, 1],
        [1, 1, 1, 0, 1],
        [1, 0, 0, 0, 1],
    ] {
        assert!(seen.contains(&possible[..]), "{possible:?} never happened");
    }
    let size = |image: &SimVfs| image.allocated_bytes(p("/db/f")).unwrap();
    assert_eq!(size(&crash(&vfs, Loss::All)), before);
    f.sync().unwrap();
    assert_eq!(outcomes(&vfs, starts), [vec![1, 0, 0, 0, 1]].into());
    assert_eq!(outcomes(&vfs, size), [after].into());
    let journal = vfs.journal().to_string();
    assert!(
        journal.contains("punch-hole /db/f 4096 5000\n"),
        "{journal}"
    );
}

#[test]
fn holes_give_space_back_and_fail_like_anything_else() {
    let vfs = fresh();
    vfs.set_capacity(Some(3 * 4096));
    let mut f = settled(&vfs, "/db/f", &[1; 3 * 4096]);
    assert_eq!(f.append(b"x").unwrap_err().kind(), ErrorKind::NoSpace);
    let mut punched = vfs.open_to_punch(p("/db/f")).unwrap();
    vfs.inject(Fault::on([OpKind::PunchHole]).after_the_fact());
    let e = punched.punch_hole(0, 4096).unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::Io, Some(0)));
    f.append(&[2; 4096]).unwrap();
    assert_eq!(f.append(b"x").unwrap_err().kind(), ErrorKind::NoSpace);
    assert!(vfs.open_to_punch(p("/db/g")).err().unwrap().is_not_found());
    // Nothing can be punched out of what only the process has.
    let mut b = vfs.create_bulk(p("/db/b"), true).unwrap();
    vfs.set_capacity(None);
    b.append(&[1; 100]).unwrap();
    let mut punched = vfs.open_to_punch(p("/db/b")).unwrap();
    assert!(punched.punch_hole(0, 10).is_err());
    b.sync().unwrap();
    punched.punch_hole(0, 10).unwrap();
}

#[test]
fn emptying_a_file_is_durable_only_with_its_sync() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/f", b"old content"));
    let mut f = put(&vfs, "/db/f", b"new");
    assert_eq!(
        crash(&vfs, Loss::All).read_all("/db/f").unwrap(),
        b"old content"
    );
    f.sync().unwrap();
    assert_eq!(
        outcomes(&vfs, |i| i.read_all("/db/f").unwrap()),
        [b"new".to_vec()].into()
    );
}

#[test]
fn crash_points_agree_with_crashes_from_the_start() {
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = fresh();
        for n in 0..60 {
            let (a, b) = (
                format!("/db/{}", rng.u8(..5)),
                format!("/db/{}", rng.u8(..5)),
            );
            match rng.u8(..6) {
                0 => drop(vfs.rename(p(&a), p(&b))),
                1 => drop(vfs.remove(p(&a))),
                2 => vfs.sync_dir(p("/db")).unwrap(),
                _ => {
                    let mut f = put(&vfs, &a, &vec![n; rng.usize(..9000)]);
                    if rng.bool() {
                        f.sync().unwrap();
                    }
                }
            }
        }
        let journal = vfs.journal();
        let dump = |vfs: &SimVfs| -> Vec<_> {
            let names = vfs.list("/db").unwrap();
            names
                .iter()
                .map(|n| (n.clone(), vfs.read_all(p("/db").join(n)).unwrap()))
                .collect()
        };
        let points = journal.crash_points();
        assert_eq!(points.len(), journal.len() + 1);
        for point in points.step_by(7) {
            for loss in [
                Loss::None,
                Loss::All,
                Loss::Random(seed),
                Loss::Random(seed + 1),
            ] {
                let once = dump(&point.crash(&loss));
                let again = dump(&journal.crash_at(point.index(), &loss));
                assert!(
                    once == again,
                    "seed {seed} point {} {loss:?}",
                    point.index()
                );
            }
        }
        assert!(dump(&vfs) == dump(&crash(&vfs, Loss::None)), "seed {seed}");
    }
}

#[test]
fn marks_keep_their_place_in_the_order() {
    let vfs = fresh();
    let mut f = put(&vfs, "/db/f", b"a");
    f.sync().unwrap();
    vfs.mark(1);
    vfs.mark("half way");
    f.append(b"b").unwrap();
    vfs.mark(2);
    let journal = vfs.journal();
    let text =
        "create /db/f\nappend /db/f 1\nsync /db/f\n-- 1\n-- half way\nappend /db/f 1\n-- 2\n";
    assert_eq!(journal.to_string(), text);
    assert_eq!(journal.marks_before(2), []);
    assert_eq!(
        journal.marks_before(3),
        [Mark::from(1), Mark::from("half way")]
    );
    let acknowledged: Vec<u64> = journal.crash_points().map(|p| p.acknowledged()).collect();
    assert_eq!(acknowledged, [0, 0, 0, 1, 2]);
}

#[test]
fn a_restarted_journal_goes_on_from_what_is_there() {
    let vfs = fresh();
    let mut f = put(&vfs, "/db/f", b"a");
    vfs.restart_journal();
    f.append(b"b").unwrap();
    let journal = vfs.journal();
    assert_eq!(journal.len(), 1);
    assert_eq!(
        journal.crash_at(0, &Loss::None).read_all("/db/f").unwrap(),
        b"a"
    );
    assert_eq!(
        journal.crash_at(1, &Loss::None).read_all("/db/f").unwrap(),
        b"ab"
    );
    assert_eq!(names(&journal.crash_at(1, &Loss::All)), "");
}

#[test]
fn faults_strike_when_and_as_often_as_they_should() {
    let vfs = fresh();
    let fault = Fault::on([OpKind::Append])
        .path("*.blob")
        .skip(1)
        .times(2)
        .error(Errno::NO_SPACE);
    let fault = vfs.inject(fault.after_writing(3));
    let mut log = put(&vfs, "/db/1.log", b"log");
    let mut blob = put(&vfs, "/db/2.blob", b"one");
    for _ in 0..2 {
        assert_eq!(
            blob.append(b"second").unwrap_err().kind(),
            ErrorKind::NoSpace
        );
        log.append(b"log").unwrap();
    }
    blob.append(b"!").unwrap();
    assert_eq!(vfs.read_all("/db/2.blob").unwrap(), b"onesecsec!");
    assert_eq!((fault.hits(), vfs.count(OpKind::Append, ".blob")), (2, 2));
    assert_eq!(
        (vfs.bytes_written(".blob"), vfs.bytes_written(".log")),
        (4, 9)
    );

    vfs.inject(
        Fault::on([OpKind::Create, OpKind::Open])
            .error(Errno::TOO_MANY_FILES)
            .forever(),
    );
    for _ in 0..3 {
        assert!(vfs.create(p("/db/x")).is_err());
        assert!(vfs.open(p("/db/1.log"), Access::Random).is_err());
    }
    assert!(!vfs.exists(p("/db/x")).unwrap());
    vfs.clear_faults();
    drop(vfs.create(p("/db/x")).unwrap());

    vfs.inject(Fault::on([OpKind::Rename]).path("CURRENT").after_the_fact());
    assert!(vfs.rename(p("/db/x"), p("/db/CURRENT")).is_err());
    assert_eq!(names(&vfs), "1.log 2.blob CURRENT");
    assert_eq!(names(&crash(&vfs, Loss::None)), "1.log 2.blob CURRENT");

    vfs.inject(Fault::on([OpKind::Read]).when(|call| call.offset >= 3));
    let r = vfs.open(p("/db/1.log"), Access::Random).unwrap();
    assert_eq!(r.read_at(0, &mut [0; 3]).unwrap(), 3);
    assert_eq!(r.read_at(3, &mut [0; 3]).unwrap_err().offset(), Some(3));
    assert_eq!(vfs.bytes_read(".log"), 3);
}

#[test]
fn a_read_may_come_back_short() {
    let vfs = fresh();
    drop(put(&vfs, "/db/f", b"0123456789"));
    let fault = vfs.inject(Fault::on(OpKind::ALL.iter().copied()).skip(1).short(4));
    let r = vfs.open(p("/db/f"), Access::Random).unwrap();
    let mut buf = *b"----------";
    assert_eq!(r.read_at(2, &mut buf[..6]).unwrap(), 6);
    assert_eq!(r.read_at(3, &mut buf).unwrap(), 4);
    assert_eq!(
        &buf, b"345667----",
        "nothing behind the bytes that were read"
    );
    assert_eq!((fault.hits(), vfs.bytes_read("f")), (1, 10));
    vfs.inject(Fault::on([OpKind::Read]).short(4));
    assert!(r.read_exact_at(0, 5).unwrap_err().is_corruption());
}

#[test]
fn a_fault_may_wait_for_another_operation() {
    let vfs = fresh();
    let fault = "append on *.blob nth 3 after 2 sync on *.sst error ENOSPC";
    let fault = vfs.inject(Fault::parse(fault).unwrap());
    let mut blob = put(&vfs, "/db/1.blob", b"");
    let mut table = put(&vfs, "/db/2.sst", b"");
    for syncs in 0..2 {
        (0..9).for_each(|_| blob.append(b"x").unwrap());
        blob.sync().unwrap();
        assert_eq!(fault.hits(), 0, "after {syncs}");
        table.sync().unwrap();
    }
    table.sync().unwrap();
    (0..2).for_each(|_| blob.append(b"x").unwrap());
    assert_eq!(blob.append(b"x").unwrap_err().kind(), ErrorKind::NoSpace);
    blob.append(b"x").unwrap();
    assert_eq!(fault.hits(), 1);
    // The operation that is waited for does not count itself.
    let fault = vfs.inject(Fault::on([OpKind::Sync]).after(1, [OpKind::Sync], "*"));
    table.sync().unwrap();
    table.sync().unwrap_err();
    assert_eq!(fault.hits(), 1);
}

#[test]
fn a_full_device_takes_what_fits_and_space_comes_back() {
    let vfs = fresh();
    vfs.set_capacity(Some(10));
    let mut f = put(&vfs, "/db/f", b"12345678");
    assert_eq!(f.append(b"90ab").unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(vfs.read_all("/db/f").unwrap(), b"1234567890");
    vfs.remove(p("/db/f")).unwrap();
    let mut g = vfs.create(p("/db/g")).unwrap();
    assert!(g.append(b"x").is_err(), "an open file holds its space");
    drop(f);
    g.append(b"x").unwrap();
}

#[test]
fn open_files_and_locks_are_limited_together() {
    let vfs = fresh();
    let mut f = put(&vfs, "/db/f", b"x");
    vfs.set_max_open_files(Some(3));
    let lock = vfs.lock(p("/db/LOCK")).unwrap();
    let r = vfs.open(p("/db/f"), Access::Random).unwrap();
    let raw = |e: titan::Error| e.to_string().contains("os error 24");
    assert!(raw(vfs.open(p("/db/f"), Access::Random).err().unwrap()));
    assert!(raw(vfs.create(p("/db/g")).err().unwrap()));
    assert!(raw(vfs.read_dir(p("/db")).unwrap_err()));
    assert!(raw(vfs.sync_dir(p("/db")).unwrap_err()));
    assert_eq!(names(&vfs), "LOCK f");
    // What is open stays usable, and what needs no descriptor works.
    f.append(b"y").unwrap();
    vfs.rename(p("/db/f"), p("/db/h")).unwrap();
    assert_eq!(r.read_at(0, &mut [0; 4]).unwrap(), 2);
    drop(lock);
    vfs.sync_dir(p("/db")).unwrap();
    vfs.set_max_open_files(None);
    drop([
        vfs.create(p("/db/g")).unwrap(),
        vfs.create(p("/db/i")).unwrap(),
    ]);
}

#[test]
fn operations_take_simulated_time_that_follows_from_a_seed() {
    let spent = |seed: u64| {
        let (vfs, clock) = (fresh(), SimClock::with_seed(1));
        vfs.set_latency(Latency::with_seed(seed), &clock);
        let mut steps = Vec::new();
        let mut f = put(&vfs, "/db/f", &[1; 8192]);
        for _ in 0..100 {
            let before = clock.elapsed();
            f.sync().unwrap();
            steps.push(clock.elapsed() - before);
        }
        // A failing operation takes time as well.
        vfs.inject(Fault::on([OpKind::Stat]));
        let before = clock.elapsed();
        vfs.size(p("/db/f")).unwrap_err();
        assert!(clock.elapsed() > before);
        steps
    };
    let (one, two) = (spent(1), spent(2));
    assert_eq!(one, spent(1));
    assert_ne!(one, two);
    let mean = one.iter().sum::<Duration>() / 100;
    let expected = Duration::from_micros(520);
    assert!(mean > expected / 2 && mean < expected * 2, "{mean:?}");
}

#[test]
fn a_hook_can_hold_one_thread_while_another_goes_on() {
    let vfs = fresh();
    let (reached, at_sync) = mpsc::channel();
    let (release, go_on) = mpsc::channel();
    let go_on = parking_lot::Mutex::new(go_on);
    vfs.set_hook(move |call| {
        if call.kind == OpKind::Sync {
            reached.send(()).unwrap();
            go_on.lock().recv().unwrap();
        }
    });
    let done = Arc::new(AtomicBool::new(false));
    let thread = std::thread::spawn({
        let (vfs, done) = (vfs.clone(), Arc::clone(&done));
        move || {
            put(&vfs, "/db/f", b"x").sync().unwrap();
            done.store(true, Ordering::SeqCst);
        }
    });
    at_sync.recv().unwrap();
    drop(put(&vfs, "/db/g", b"y"));
    assert!(!done.load(Ordering::SeqCst));
    assert_eq!(vfs.count(OpKind::Sync, ""), 0);
    release.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(vfs.count(OpKind::Sync, ""), 1);
    vfs.clear_hook();
}

#[test]
fn damage_is_seen_by_open_handles_and_survives_crashes() {
    let vfs = fresh();
    drop(put(&vfs, "/db/f", b"abc"));
    let r = vfs.open(p("/db/f"), Access::Random).unwrap();
    vfs.flip_bit("/db/f", 1).unwrap();
    assert_eq!(&r.read_exact_at(0, 3).unwrap()[..], b"acc");
    vfs.truncate("/db/f", 2).unwrap();
    vfs.write_all("/db/new", b"n").unwrap();
    let image = crash(&vfs, Loss::All);
    assert_eq!(image.read_all("/db/f").unwrap(), b"ac");
    assert_eq!(image.read_all("/db/new").unwrap(), b"n");
    assert!(vfs.flip_bit("/db/f", 2).is_err());
}

#[test]
fn directories_go_out_and_come_back() {
    let temp = tempfile::tempdir().unwrap();
    let vfs = fresh();
    vfs.create_dir_all(p("/db/sub")).unwrap();
    drop(put(&vfs, "/db/a", &[7; 5000]));
    drop(put(&vfs, "/db/sub/b", b"b"));
    vfs.copy_out_to("/db", temp.path().join("out")).unwrap();
    let back = SimVfs::new();
    back.copy_in_from(temp.path().join("out"), "/x/y").unwrap();
    let image = crash(&back, Loss::All);
    assert_eq!(image.list("/x/y").unwrap(), ["a", "sub"]);
    assert_eq!(image.read_all("/x/y/a").unwrap(), [7; 5000]);
    assert_eq!(image.read_all("/x/y/sub/b").unwrap(), b"b");
}

fn bulk(vfs: &SimVfs, data: &[u8]) -> Box<dyn WritableFile> {
    let mut file = vfs.create_bulk(p("/db/b"), true).unwrap();
    file.append(data).unwrap();
    vfs.sync_dir(p("/db")).unwrap();
    file
}

#[test]
fn unsynced_bytes_of_a_bulk_file_cannot_be_read() {
    let vfs = fresh();
    let mut w = bulk(&vfs, b"hello ");
    let r = vfs.open(p("/db/b"), Access::Random).unwrap();
    assert!(r.read_at(0, &mut [0; 1]).is_err());
    assert!(r.size().is_err() && vfs.size(p("/db/b")).is_err());
    w.sync().unwrap();
    assert_eq!(&r.read_exact_at(0, 6).unwrap()[..], b"hello ");
    w.append(b"world").unwrap();
    assert_eq!(&r.read_exact_at(2, 4).unwrap()[..], b"llo ");
    let error = r.read_exact_at(5, 2).unwrap_err().to_string();
    assert!(error.contains("only 6 of 11 bytes"), "{error}");
    // A sync that fails hands nothing over, and neither does the end of the handle.
    vfs.inject(Fault::on([OpKind::Sync]));
    w.sync().unwrap_err();
    drop(w);
    assert!(r.read_exact_at(5, 2).is_err());
    assert!(vfs.size(p("/db/b")).is_err());
}

#[test]
fn a_crash_of_the_process_takes_what_a_bulk_file_had_not_synced() {
    let vfs = fresh();
    let mut w = bulk(&vfs, &[1; 5000]);
    assert_eq!(crash(&vfs, Loss::None).size(p("/db/b")).unwrap(), 0);
    w.sync().unwrap();
    w.append(&[2; 9000]).unwrap();
    let image = crash(&vfs, Loss::None);
    assert_eq!(image.read_all("/db/b").unwrap(), [1; 5000]);
    // What was synced is durable in the image, too.
    assert_eq!(outcomes(&image, |v| v.read_all("/db/b").unwrap()).len(), 1);
    // The file is an ordinary one now.
    let read = image.open(p("/db/b"), Access::Random).unwrap();
    assert_eq!(read.size().unwrap(), 5000);
    let lens = outcomes(&vfs, |v| v.read_all("/db/b").unwrap().len());
    assert!(lens.contains(&5000) && lens.contains(&14000), "{lens:?}");
}

#[test]
fn zeros_stand_behind_a_log_after_a_crash() {
    const EXTENSION: usize = 256 << 10;
    let vfs = fresh();
    let mut w = vfs.create_log(p("/db/l")).unwrap();
    vfs.sync_dir(p("/db")).unwrap();
    let content = |v: &SimVfs| v.read_all("/db/l").unwrap();
    assert!(content(&crash(&vfs, Loss::None)).is_empty());

    w.append(&[1; 5000]).unwrap();
    w.sync().unwrap();
    w.append(&[1; 100]).unwrap();
    // Extended at the first append, overwritten by the second.
    let killed = content(&crash(&vfs, Loss::None));
    assert_eq!(killed.len(), 5000 + EXTENSION);
    assert!(killed[..5100].iter().all(|b| *b == 1));
    assert!(killed[5100..].iter().all(|b| *b == 0));
    w.append(&vec![1; EXTENSION]).unwrap();
    let killed = content(&crash(&vfs, Loss::None));
    assert_eq!(killed.len(), 5100 + 2 * EXTENSION);

    assert_eq!(content(&crash(&vfs, Loss::All)), [1; 5000]);
    // The living see what they wrote.
    assert_eq!(vfs.size(p("/db/l")).unwrap(), 5100 + EXTENSION as u64);
    w.sync().unwrap();
    let written = content(&vfs);
    let zeros = |v: &SimVfs| {
        let content = content(v);
        assert!(content.starts_with(&written));
        let zeros = &content[written.len()..];
        assert!(zeros.iter().all(|b| *b == 0) && zeros.len() <= EXTENSION);
        zeros.len()
    };
    let counts = outcomes(&vfs, zeros);
    assert!(counts.contains(&0) && counts.len() > 50, "{counts:?}");

    // Closing cuts them, which nothing makes durable.
    drop(w);
    assert_eq!(zeros(&crash(&vfs, Loss::None)), 0);
    assert!(outcomes(&vfs, zeros).len() > 50);
    let close = vfs.journal().ops().last().map(ToString::to_string);
    assert_eq!(close.as_deref(), Some("close /db/l"));
}
