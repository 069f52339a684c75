//! Faults, limits, latency and hooks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use titan::ErrorKind;
use titan::vfs::{Access, Vfs};

use super::{crash, fresh, names, p, put};
use crate::clock::SimClock;
use crate::sim::{Errno, Fault, Latency, Loss, OpKind};

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
        "nothing after the bytes that were read"
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
    // The awaited operation itself is not affected.
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
    // Open files stay usable, and operations without a descriptor work.
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
