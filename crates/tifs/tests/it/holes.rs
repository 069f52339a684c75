//! A hole of many blocks is made piece by piece, from its beginning. What a crash leaves is a
//! shorter hole.

use std::collections::BTreeSet;

use rustix::io::Errno;
use tifs::file_system::{Allocate, FileSystem, Seek, WriteContext};
use tifs::schema::InodeNumber;
use titan_testkit::clock::SimClock;
use titan_testkit::sim::{Loss, SimVfs};

use tifs_testkit::calls::{World, caller};
use tifs_testkit::lockstep::clean;
use tifs_testkit::place::Place;

const BLOCK: u64 = 16 << 10;

/// As many as three transactions delete.
const BLOCKS: u64 = 2500;

#[test]
fn a_crash_leaves_a_shorter_hole() {
    let vfs = SimVfs::new();
    let open = |vfs: &SimVfs| {
        let clock = SimClock::with_seed(7);
        World::with_clock(Place::simulated(vfs), clock).unwrap()
    };
    let world = open(&vfs);
    let (volume, root) = (&world.volume, InodeNumber::ROOT);
    let made = volume.make_node(&caller(0), root, b"f", 0o100_644, 0, 0);
    let file = made.unwrap().number;
    for block in 0..BLOCKS {
        // The first write is too long for content beside the attributes.
        let data = vec![1; if block == 0 { 5000 } else { 1 }];
        let context = WriteContext::default();
        volume.write(file, block * BLOCK, &data, context).unwrap();
    }
    volume.sync().unwrap();
    vfs.restart_journal();
    let size = volume.attributes(file).unwrap().inode.size;
    volume.allocate(file, 0, size, Allocate::PunchHole).unwrap();

    let mut holes = BTreeSet::new();
    for point in vfs.journal().crash_points() {
        let world = open(&point.crash(&Loss::None));
        clean(&*world.store.kv()).unwrap();
        let hole = match world.volume.seek(file, 0, Seek::Data) {
            Err(e) if e.errno() == Errno::NXIO => size,
            data => data.unwrap(),
        };
        // After the hole everything is there.
        if hole < size {
            assert_eq!(world.volume.seek(file, hole, Seek::Hole).unwrap(), size);
        }
        holes.insert(hole / BLOCK);
    }
    let holes: Vec<u64> = holes.into_iter().collect();
    assert_eq!(holes, [0, 1024, 2048, size / BLOCK]);
}
