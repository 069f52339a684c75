//! A volume on a store that fails, conflicts or does not answer: operations have no effect or all
//! of it, nothing waits that need not, and what is left to do is not forgotten.

use std::sync::{Arc, mpsc};

use rustix::io::Errno;
use tifs::file_system::{Changes, FileSystem, WriteContext};
use tifs::kv::{Kv, Space};
use tifs::schema::{Inode, InodeNumber, Key};
use tifs_testkit::calls::{World, caller};
use tifs_testkit::failure::seeds;
use tifs_testkit::fickle::{FAILURE, Shared};
use tifs_testkit::lockstep::{Lockstep, clean};
use tifs_testkit::moods::fail_each_call;
use tifs_testkit::ops::{Generator, Shape};
use tifs_testkit::place::Place;

#[test]
fn a_failure_of_any_call_leaves_no_trace_of_the_operation() {
    let mut failures = 0;
    for seed in seeds(8000, 10) {
        let ops = Generator::with_seed(seed, Shape::small()).ops(150);
        let failed = fail_each_call(&ops);
        failures += failed.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{ops}"));
    }
    println!("{failures} failures");
    assert!(failures > 5000, "{failures} failures");
}

#[test]
fn operations_that_conflict_are_tried_again() {
    for seed in seeds(8100, 10) {
        let kv = Shared::default();
        kv.0.conflict_one_in(2);
        let ops = Generator::with_seed(seed, Shape::small()).ops(300);
        let mut lockstep = Lockstep::new(Place::Fickle(kv)).unwrap();
        for step in &ops.0 {
            let done = lockstep.step(step);
            done.unwrap_or_else(|e| panic!("seed {seed}, {step}: {e}\n{ops}"));
        }
        lockstep
            .finish()
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{ops}"));
    }
}

#[test]
fn operations_that_conflict_again_and_again_end() {
    let kv = Shared::default();
    let world = World::new(Place::Fickle(kv.clone())).unwrap();
    let made = |name: &[u8]| {
        let root = InodeNumber::ROOT;
        world
            .volume
            .make_node(&caller(0), root, name, 0o100_644, 0, 0)
    };
    kv.0.conflict_one_in(1);
    assert_eq!(made(b"a").unwrap_err().errno(), Errno::AGAIN);
    kv.0.conflict_one_in(0);
    let file = made(b"a").unwrap().number;
    kv.0.conflict_one_in(1);
    assert_eq!(made(b"b").unwrap_err().errno(), Errno::AGAIN);
    let write = world.volume.write(file, 0, b"x", WriteContext::default());
    assert_eq!(write.unwrap_err().errno(), Errno::AGAIN);
    clean(&kv).unwrap();
}

/// The kernel asks for the attributes of a file after each close, since it does not count blocks
/// itself. The volume answers from memory, so a store that fails does not fail the answer.
#[test]
fn attributes_of_a_file_in_use_are_answered_without_the_store() {
    let kv = Shared::default();
    let world = World::new(Place::Fickle(kv.clone())).unwrap();
    let (volume, root) = (&world.volume, InodeNumber::ROOT);
    let made = volume.make_node(&caller(0), root, b"a", 0o100_644, 0, 0);
    let file = made.unwrap().number;
    let answered = |what: &str| {
        kv.0.fail_after(0);
        let attributes = volume.attributes(file).unwrap();
        assert!(kv.0.spare(), "the store was asked after {what}");
        let key = Key::Inode(file).encode();
        let stored = kv.get(Space::Meta, &key).unwrap().unwrap();
        assert_eq!(attributes.inode, Inode::decode(&stored).unwrap(), "{what}");
    };
    for from_cache in [false, true] {
        let context = WriteContext {
            from_cache,
            ..WriteContext::default()
        };
        volume.write(file, 0, &[7; 9000], context).unwrap();
        answered("a write");
    }
    volume.read(file, 0, 100).unwrap();
    answered("a read");
    let shorter = Changes {
        size: Some(1000),
        ..Changes::default()
    };
    volume.set_attributes(&caller(0), file, &shorter).unwrap();
    answered("a truncation");
    volume.link(file, root, b"b").unwrap();
    answered("a link");
    volume.unlink(root, b"a").unwrap();
    answered("an unlink");
    // The store answers the next lookup, and memory the requests after it.
    volume.forget(file, 2);
    assert_eq!(volume.lookup(root, b"b").unwrap().number, file);
    volume.attributes(file).unwrap();
    answered("a lookup");
}

/// A listing of many pages fails at any call. What it has given counts, and no more.
#[test]
fn a_listing_that_fails_gives_no_references() {
    const FILES: u64 = 100;
    let kv = Shared::default();
    let world = World::new(Place::Fickle(kv.clone())).unwrap();
    let (volume, root) = (&world.volume, InodeNumber::ROOT);
    let name = |n: u64| format!("{n}").into_bytes();
    for n in 0..FILES {
        let made = volume
            .make_node(&caller(0), root, &name(n), 0o100_644, 0, 0)
            .unwrap();
        volume.forget(made.number, 1);
    }
    for call in 0.. {
        let mut given = Vec::new();
        kv.0.fail_after(call);
        let listed = volume.list_with_attributes(root, 0, &mut |entry, _| {
            given.push((entry.name.clone(), entry.inode));
            true
        });
        // The kernel gets nothing of an answer that is an error.
        for (name, inode) in given.iter().filter(|_| listed.is_ok()) {
            if !name.starts_with(b".") {
                volume.forget(*inode, 1);
            }
        }
        if kv.0.spare() {
            assert_eq!(given.len() as u64, FILES + 2);
            break;
        }
    }
    for n in 0..FILES {
        volume.unlink(root, &name(n)).unwrap();
    }
    volume.reclaim_all().unwrap();
    assert_eq!((clean(&kv).unwrap().orphans, volume.usage().inodes), (0, 1));
}

/// A truncated file is opened and loses its name just while the background looks whether it has
/// one.
#[test]
fn a_file_that_is_opened_and_unlinked_beside_reclaiming_stays() {
    let kv = Shared::default();
    let world = World::new(Place::Fickle(kv.clone())).unwrap();
    let (volume, root) = (Arc::clone(&world.volume), InodeNumber::ROOT);
    let made = volume.make_node(&caller(0), root, b"file", 0o100_644, 0, 0);
    let file = made.unwrap().number;
    for block in 0..300 {
        let written = volume.write(file, block << 14, &[7; 100], WriteContext::default());
        written.unwrap();
    }
    let cut = Changes {
        size: Some(100),
        ..Changes::default()
    };
    volume.set_attributes(&caller(0), file, &cut).unwrap();
    volume.forget(file, 1);
    kv.0.before_get(b'O', move || {
        assert_eq!(volume.lookup(root, b"file").unwrap().number, file);
        volume.unlink(root, b"file").unwrap();
    });
    world.volume.reclaim_all().unwrap();
    assert_eq!(&world.volume.read(file, 0, 200).unwrap()[..], &[7; 100]);
    world.volume.forget(file, 1);
    world.volume.reclaim_all().unwrap();
    assert_eq!(world.volume.usage().inodes, 1);
    clean(&kv).unwrap();
}

/// A deletion that failed in the background is tried again later.
#[test]
fn what_could_not_be_deleted_is_not_forgotten() {
    let kv = Shared::default();
    let world = World::new(Place::Fickle(kv.clone())).unwrap();
    let volume = &world.volume;
    let root = InodeNumber::ROOT;
    let file = volume
        .make_node(&caller(0), root, b"file", 0o100_644, 0, 0)
        .unwrap();
    volume
        .write(file.number, 0, &[7; 100_000], WriteContext::default())
        .unwrap();
    volume.unlink(root, b"file").unwrap();
    volume.forget(file.number, 1);
    let (failed, failures) = mpsc::channel();
    kv.0.fail_after(0);
    let background = volume
        .start_background(move |e| failed.send(e).unwrap())
        .unwrap();
    assert_eq!(failures.recv().unwrap().context(), FAILURE);
    drop(background);
    volume.reclaim_all().unwrap();
    assert_eq!(clean(&kv).unwrap().orphans, 0);
    assert_eq!((volume.usage().inodes, volume.usage().blocks), (1, 0));
}

/// The background syncs again what it could not sync.
#[test]
fn what_could_not_be_synced_is_synced_later() {
    let kv = Shared::default();
    let world = World::new(Place::Fickle(kv.clone())).unwrap();
    let root = InodeNumber::ROOT;
    world
        .volume
        .make_node(&caller(0), root, b"file", 0o100_644, 0, 0)
        .unwrap();
    kv.0.fail_after(0);
    assert_eq!(
        world.volume.sync_if_needed().unwrap_err().context(),
        FAILURE
    );
    kv.0.fail_after(0);
    assert_eq!(
        world.volume.sync_if_needed().unwrap_err().context(),
        FAILURE
    );
    world.volume.sync_if_needed().unwrap();
    kv.0.fail_after(0);
    world.volume.sync_if_needed().unwrap();
    assert!(kv.0.spare(), "nothing is left to sync");
}

/// While a store does not answer, only those wait that need its answer.
#[test]
fn a_store_that_does_not_answer_holds_up_no_reader() {
    let kv = Shared::default();
    let world = World::new(Place::Fickle(kv.clone())).unwrap();
    let volume = &world.volume;
    let root = InodeNumber::ROOT;
    let [one, two] = [b"one", b"two"].map(|name| {
        let made = volume
            .make_node(&caller(0), root, name, 0o100_644, 0, 0)
            .unwrap();
        volume
            .write(made.number, 0, name, WriteContext::default())
            .unwrap();
        made.number
    });
    // Or reading it would store when that was.
    world.tick();
    volume.read(two, 0, 3).unwrap();
    kv.0.stop_answering();
    std::thread::scope(|scope| {
        let cut = Changes {
            size: Some(1),
            ..Changes::default()
        };
        let waiting = scope.spawn(move || volume.set_attributes(&caller(0), one, &cut));
        kv.0.await_commit();
        assert_eq!(volume.attributes(one).unwrap().inode.size, 3);
        assert_eq!(&volume.read(two, 0, 3).unwrap()[..], b"two");
        assert_eq!(volume.lookup(root, b"one").unwrap().number, one);
        assert!(volume.capacity().unwrap().blocks > 0);
        volume.sync().unwrap();
        kv.0.answer();
        assert_eq!(waiting.join().unwrap().unwrap().inode.size, 1);
    });
    clean(&kv).unwrap();
}
