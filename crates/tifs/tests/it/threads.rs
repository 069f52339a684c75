//! Several threads on one volume.

use std::sync::Barrier;

use rustix::io::Errno;
use tifs::file_system::{FileSystem, Rename};
use tifs::schema::InodeNumber;
use tifs_testkit::calls::caller;
use tifs_testkit::failure::seeds;
use tifs_testkit::fickle::Shared;
use tifs_testkit::lockstep::{Lockstep, clean};
use tifs_testkit::place::Place;
use tifs_testkit::threads::{explained, survives_threads};
use titan_testkit::sim::SimVfs;

#[test]
fn what_threads_do_together_is_as_in_some_order() {
    for seed in seeds(9000, 1500) {
        let kv = Shared::default();
        kv.0.yield_now_and_then();
        if seed % 3 == 0 {
            kv.0.conflict_one_in(4);
        }
        explained(Place::Fickle(kv), seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn what_threads_do_together_in_the_engine_is_as_in_some_order() {
    for seed in seeds(9900, 60) {
        let place = Place::simulated(&SimVfs::new());
        explained(place, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn threads_find_what_they_left_and_the_tree_stays_one() {
    for seed in seeds(9500, 12) {
        let kv = Shared::default();
        kv.0.yield_now_and_then();
        kv.0.conflict_one_in(if seed % 2 == 0 { 10 } else { 0 });
        let survived = survives_threads(Place::Fickle(kv), seed, 400);
        survived.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn threads_in_the_engine_find_what_they_left_and_the_tree_stays_one() {
    for seed in seeds(9600, 6) {
        let place = Place::simulated(&SimVfs::new());
        let survived = survives_threads(place, seed, 1500);
        survived.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// Two directories move into each other's subdirectories at the same time. The locks of the two
/// moves have nothing in common, and yet one must see the other.
#[test]
fn two_moves_never_make_a_circle() {
    let kv = Shared::default();
    kv.0.yield_now_and_then();
    let lockstep = Lockstep::new(Place::Fickle(kv)).unwrap();
    let volume = &*lockstep.world.volume;
    let make = |directory, name: &[u8]| {
        let made = volume.make_directory(&caller(0), directory, name, 0o755, 0);
        made.unwrap().number
    };
    for round in 0..300 {
        let top = make(InodeNumber::ROOT, format!("{round}").as_bytes());
        let sides = [b"a", b"b"].map(|name| {
            let parent = make(top, name);
            let moved = make(parent, b"moved");
            (parent, make(moved, b"inner"))
        });
        let barrier = Barrier::new(2);
        let results = std::thread::scope(|scope| {
            let running = [(0, 1), (1, 0)].map(|(from, to): (usize, usize)| {
                let (barrier, sides) = (&barrier, &sides);
                scope.spawn(move || {
                    barrier.wait();
                    let (from, to) = ((sides[from].0, &b"moved"[..]), (sides[to].1, &b"new"[..]));
                    volume.rename(&caller(0), from, to, Rename::Replace)
                })
            });
            running.map(|thread| thread.join().unwrap())
        });
        match results {
            [Ok(()), Err(e)] | [Err(e), Ok(())] => assert_eq!(e.errno(), Errno::INVAL),
            other => panic!("round {round}: {other:?}"),
        }
    }
    clean(&*lockstep.world.store.kv()).unwrap();
}
