//! Rules of operations that a mount does not show well: references, reclaiming, accounts.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use titan_testkit::clock::SimClock;

use super::truncate::PIECE;
use super::usage::count;
use super::{HostSpace, Volume, VolumeOptions};
use crate::check::check;
use crate::error::Result;
use crate::file_system::{
    Allocate, Attributes, Caller, Changes, Existing, FileSystem, Rename, SIZE_MAX, Seek,
    WriteContext,
};
use crate::kv::{Commit, Kv, MemoryKv, Scan, Space};
use crate::schema::{InodeNumber, Key};

const ROOT: InodeNumber = InodeNumber::ROOT;
const CALLER: Caller = Caller { uid: 0, gid: 0 };

struct Fixture {
    kv: Arc<MemoryKv>,
    volume: Volume,
}

impl Fixture {
    fn new() -> Self {
        Fixture::with(&VolumeOptions::default())
    }

    fn with(options: &VolumeOptions) -> Self {
        let kv = Arc::new(MemoryKv::new());
        Volume::make(&*kv, options).unwrap();
        let volume = Volume::open(Arc::clone(&kv) as _, options.clone()).unwrap();
        Fixture { kv, volume }
    }

    fn reopen(self) -> Self {
        let kv = self.kv;
        let volume = Volume::open(Arc::clone(&kv) as _, VolumeOptions::default()).unwrap();
        Fixture { kv, volume }
    }

    fn file(&self, name: &str) -> InodeNumber {
        let made = self
            .volume
            .make_node(&CALLER, ROOT, name.as_bytes(), 0o100644, 0, 0);
        made.unwrap().number
    }

    fn directory(&self, parent: InodeNumber, name: &str) -> InodeNumber {
        let made = self
            .volume
            .make_directory(&CALLER, parent, name.as_bytes(), 0o755, 0);
        made.unwrap().number
    }

    fn write(&self, file: InodeNumber, offset: u64, data: &[u8]) {
        let context = WriteContext::default();
        self.volume.write(file, offset, data, context).unwrap();
    }

    fn resize(&self, file: InodeNumber, size: u64) -> Attributes {
        let changes = Changes {
            size: Some(size),
            ..Changes::default()
        };
        self.volume.set_attributes(&CALLER, file, &changes).unwrap()
    }

    fn names(&self, directory: InodeNumber) -> Vec<String> {
        let handle = self.volume.open_directory(directory).unwrap();
        let mut names = Vec::new();
        let mut add = |entry: &crate::file_system::ListedEntry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        };
        self.volume.list(handle, 0, &mut add).unwrap();
        self.volume.close_directory(handle);
        names
    }

    fn stored_blocks(&self) -> usize {
        self.kv
            .scan(&Scan::prefix(Space::Data, b"B"))
            .unwrap()
            .len()
    }

    /// The counters are what a count finds.
    fn check_usage(&self) {
        assert_eq!(self.volume.usage(), count(&*self.kv).unwrap());
    }
}

fn errno<T: std::fmt::Debug>(result: Result<T>) -> Errno {
    result.unwrap_err().errno()
}

#[test]
fn a_file_without_names_exists_until_it_is_forgotten() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    fixture.write(file, 0, &[7; 100_000]);
    fixture.volume.unlink(ROOT, b"f").unwrap();
    assert_eq!(errno(fixture.volume.lookup(ROOT, b"f")), Errno::NOENT);
    fixture.volume.reclaim_all().unwrap();
    assert_eq!(fixture.volume.attributes(file).unwrap().inode.links, 0);
    assert_eq!(fixture.volume.read(file, 99_999, 10).unwrap(), [7][..]);
    assert_eq!(
        errno(fixture.volume.link(file, ROOT, b"again")),
        Errno::NOENT
    );
    fixture.volume.forget(file, 1);
    fixture.volume.reclaim_all().unwrap();
    assert_eq!(errno(fixture.volume.attributes(file)), Errno::STALE);
    assert_eq!(fixture.stored_blocks(), 0);
    fixture.check_usage();
}

#[test]
fn a_truncation_does_not_delete_an_orphan_in_use() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    fixture.write(file, 0, &[7; 100_000]);
    fixture.write(file, 1 << 30, &[7]);
    fixture.resize(file, 50_000);
    fixture.volume.unlink(ROOT, b"f").unwrap();
    fixture.volume.reclaim_all().unwrap();
    assert_eq!(fixture.volume.read(file, 49_999, 10).unwrap(), [7][..]);
    // The blocks that were cut are gone nevertheless.
    assert_eq!(fixture.volume.attributes(file).unwrap().inode.stale_end, 0);
    fixture.volume.forget(file, 1);
    fixture.volume.reclaim_all().unwrap();
    assert_eq!(fixture.stored_blocks(), 0);
    fixture.check_usage();
}

#[test]
fn what_a_truncation_left_is_deleted_piece_by_piece() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    for block in 0..=2 * PIECE as u64 {
        fixture.write(file, 5000 + (block << 14), b"x");
    }
    fixture.resize(file, 0);
    let mut left = Vec::new();
    while fixture.volume.reclaim_batch().unwrap() {
        left.push(fixture.stored_blocks());
    }
    assert_eq!(left, [PIECE + 1, 1]);
    assert_eq!(fixture.stored_blocks(), 0);
    fixture.check_usage();
}

#[test]
fn a_truncation_counts_what_it_cuts_piece_by_piece() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    for block in 0..=2 * PIECE as u64 {
        fixture.write(file, 5000 + (block << 14), b"x");
    }
    let units = fixture.resize(file, 1 << 14).inode.blocks;
    assert_eq!(units, 5001_u64.div_ceil(512));
    fixture.volume.reclaim_all().unwrap();
    assert_eq!(fixture.stored_blocks(), 1);
    fixture.check_usage();
}

#[test]
fn a_large_hole_is_made_piece_by_piece() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    for block in 0..=2 * PIECE as u64 {
        fixture.write(file, 5000 + (block << 14), b"x");
    }
    let end = fixture.volume.attributes(file).unwrap().inode.size;
    let piece = fixture.volume.change(|change| {
        let mut inode = change.inode(file)?;
        let next = change.punch(file, &mut inode, 0, end)?;
        change.put_inode(file, &inode)?;
        Ok(next)
    });
    assert_eq!(piece.unwrap(), Some((PIECE as u64) << 14));
    assert_eq!(fixture.stored_blocks(), PIECE + 1);
    fixture.check_usage();
    let punch = |what| fixture.volume.allocate(file, 0, 2 * end, what).unwrap();
    punch(Allocate::PunchHole);
    assert_eq!(fixture.stored_blocks(), 0);
    assert_eq!(fixture.volume.attributes(file).unwrap().inode.size, end);
    fixture.write(file, 0, &[1; 100]);
    punch(Allocate::ZeroRange);
    assert_eq!(fixture.volume.attributes(file).unwrap().inode.size, 2 * end);
    assert_eq!(fixture.stored_blocks(), 0);
    fixture.check_usage();
}

/// Two reads can find that the time of the access is due before one of them changes it.
#[test]
fn the_time_of_an_access_is_changed_by_one_of_several_reads() {
    let clock = SimClock::with_seed(1);
    let options = VolumeOptions {
        clock: Arc::new(clock.clone()),
        ..VolumeOptions::default()
    };
    let fixture = Fixture::with(&options);
    let file = fixture.file("f");
    let before = fixture.volume.attributes(file).unwrap().inode;
    let accessed = || {
        clock.advance(Duration::from_secs(1));
        fixture.volume.note_access(file, &before).unwrap();
        fixture.volume.attributes(file).unwrap().inode.accessed
    };
    let first = accessed();
    assert!(first > before.accessed);
    assert_eq!(accessed(), first);
}

#[test]
fn a_rename_that_leaves_a_whiteout_needs_room() {
    let available = Arc::new(AtomicU64::new(1 << 30));
    let asked = Arc::clone(&available);
    let options = VolumeOptions {
        host_space: Arc::new(move || {
            let available = asked.load(Ordering::Relaxed);
            Ok(HostSpace {
                total: 1 << 31,
                free: available,
                available,
            })
        }),
        ..VolumeOptions::default()
    };
    let fixture = Fixture::with(&options);
    fixture.file("f");
    available.store(0, Ordering::Relaxed);
    let rename = |how| {
        fixture
            .volume
            .rename(&CALLER, (ROOT, b"f"), (ROOT, b"g"), how)
    };
    // What was found before is used up.
    let create = |i: u32| {
        let name = i.to_string();
        fixture
            .volume
            .make_node(&CALLER, ROOT, name.as_bytes(), 0o100644, 0, 0)
    };
    assert!((0..).any(|i| create(i).is_err()));
    assert_eq!(errno(rename(Rename::Whiteout)), Errno::NOSPC);
    rename(Rename::Replace).unwrap();
}

#[test]
fn an_opening_deletes_the_orphans_of_a_crash() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    fixture.write(file, 0, &[7; 300_000]);
    let directory = fixture.directory(ROOT, "d");
    fixture.volume.unlink(ROOT, b"f").unwrap();
    fixture.volume.remove_directory(ROOT, b"d").unwrap();
    let fixture = fixture.reopen();
    fixture.volume.reclaim_all().unwrap();
    assert_eq!(errno(fixture.volume.attributes(file)), Errno::STALE);
    assert_eq!(errno(fixture.volume.attributes(directory)), Errno::STALE);
    assert_eq!(fixture.stored_blocks(), 0);
    assert_eq!(fixture.volume.usage().inodes, 1);
    fixture.check_usage();
}

#[test]
fn orphans_of_all_kinds_are_deleted_together_and_a_damaged_one_keeps_no_other() {
    let fixture = Fixture::new();
    let mut files = Vec::new();
    for index in 0..300 {
        let file = fixture.file(&format!("f{index}"));
        match index % 5 {
            0 => {}
            1 => fixture.write(file, 0, &[7; 100]),
            2 => fixture.write(file, 0, &[7; 100_000]),
            3 => fixture.write(file, 4 << 30, &[7]),
            _ => {
                let set =
                    fixture
                        .volume
                        .set_extended_attribute(file, b"user.a", b"1", Existing::Any);
                set.unwrap();
            }
        }
        files.push(file);
    }
    let link = fixture.volume.make_symlink(&CALLER, ROOT, b"l", b"target");
    fixture.volume.unlink(ROOT, b"l").unwrap();
    fixture.volume.forget(link.unwrap().number, 1);
    for (index, file) in files.iter().enumerate() {
        let name = format!("f{index}");
        fixture.volume.unlink(ROOT, name.as_bytes()).unwrap();
        fixture.volume.forget(*file, 1);
    }
    let key = Key::Inode(files[42]).encode();
    let inode = fixture.kv.get(Space::Meta, &key).unwrap().unwrap();
    let put = |value: &[u8]| {
        let mut transaction = fixture.kv.begin().unwrap();
        transaction.put(Space::Meta, &key, value).unwrap();
        assert_eq!(transaction.commit().unwrap(), Commit::Committed);
    };
    put(&[1, 2]);
    assert_eq!(errno(fixture.volume.reclaim_all()), Errno::IO);
    while fixture.volume.reclaimer.len() > 1 {
        assert_eq!(errno(fixture.volume.reclaim_all()), Errno::IO);
    }
    put(&inode);
    assert_eq!(fixture.volume.usage().inodes, 2);
    fixture.volume.reclaim_all().unwrap();
    assert_eq!(fixture.stored_blocks(), 0);
    fixture.check_usage();
    let report = check(&*fixture.kv, false, &mut |_| true).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(
        (report.inodes, report.orphans, report.attributes),
        (1, 0, 0)
    );
}

#[test]
fn a_file_that_was_cut_and_grows_has_zeros() {
    for cut in [0, 1, 4095, 65_536, 100_000, 20 << 20] {
        for grow_by_write in [false, true] {
            let fixture = Fixture::new();
            let file = fixture.file("f");
            for chunk in 0..40 {
                fixture.write(file, chunk << 20, &vec![7; 1 << 20]);
            }
            fixture.resize(file, cut);
            if grow_by_write {
                fixture.write(file, (40 << 20) - 1, &[0]);
            } else {
                fixture.resize(file, 40 << 20);
            }
            let content = fixture.volume.read(file, 0, 40 << 20).unwrap();
            let cut = cut as usize;
            assert_eq!(content.len(), 40 << 20);
            assert!(content[..cut].iter().all(|byte| *byte == 7), "{cut}");
            assert!(content[cut..].iter().all(|byte| *byte == 0), "{cut}");
            fixture.volume.reclaim_all().unwrap();
            let again = fixture.volume.read(file, 0, 40 << 20).unwrap();
            assert_eq!(again, content);
            fixture.check_usage();
            let blocks = fixture.volume.attributes(file).unwrap().inode.blocks;
            // A file that was emptied gets the block size that the small write suggests.
            let block = if cut == 0 { 16 << 10 } else { 32 << 10 };
            let last = if grow_by_write { block / 512 } else { 0 };
            assert_eq!(
                blocks,
                cut.div_ceil(512) as u64 + last,
                "{cut} {grow_by_write}"
            );
        }
    }
}

#[test]
fn a_truncation_to_the_same_size_keeps_the_times() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    fixture.write(file, 0, b"content");
    let before = fixture.resize(file, 5).inode;
    let same = fixture.resize(file, 5).inode;
    assert_eq!(
        (same.modified, same.changed),
        (before.modified, before.changed)
    );
    let grown = fixture.resize(file, 6).inode;
    assert!(grown.modified > before.modified && grown.changed > before.changed);
}

/// What `chown` with -1 and -1 does, by someone who is not the owner. A FIFO, since for a file the
/// kernel says in addition which time it wants.
#[test]
fn others_may_keep_both_owners_only_if_that_drops_no_privileges() {
    let fixture = Fixture::new();
    let keep_owners = |name: &str, mode: u32| {
        let made = fixture
            .volume
            .make_node(&CALLER, ROOT, name.as_bytes(), 0o010_000 | mode, 0, 0);
        let other = Caller { uid: 7, gid: 7 };
        let changes = Changes::default();
        fixture
            .volume
            .set_attributes(&other, made.unwrap().number, &changes)
            .map(|attributes| attributes.inode.permissions)
    };
    assert_eq!(keep_owners("plain", 0o755).unwrap(), 0o755);
    assert_eq!(errno(keep_owners("user", 0o4755)), Errno::PERM);
    assert_eq!(errno(keep_owners("group", 0o2755)), Errno::PERM);
    // Without the right to execute it for the group, the bit does not mean privileges.
    assert_eq!(keep_owners("locks", 0o2745).unwrap(), 0o2745);
}

#[test]
fn the_kernel_drops_privileges_for_others_that_write() {
    let fixture = Fixture::new();
    let made = fixture
        .volume
        .make_node(&CALLER, ROOT, b"f", 0o104_777, 0, 0);
    let other = Caller { uid: 7, gid: 7 };
    let (file, changes) = (made.unwrap().number, Changes::default());
    let written = fixture.volume.set_attributes(&other, file, &changes);
    assert_eq!(written.unwrap().inode.permissions, 0o777);
}

#[test]
fn a_small_file_that_becomes_large_takes_what_is_stored() {
    for (offset, units) in [(0, 40), (1, 40), (20_000, 48)] {
        let fixture = Fixture::new();
        let file = fixture.file("f");
        fixture.write(file, 0, &[7; 100]);
        fixture.write(file, offset, &[8; 20_000]);
        let blocks = fixture.volume.attributes(file).unwrap().inode.blocks;
        assert_eq!(blocks, units, "{offset}");
        fixture.check_usage();
    }
}

#[test]
fn random_writes_cuts_and_holes_read_as_in_memory() {
    let seed: u64 = 0x7153;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let fixture = Fixture::new();
    for round in 0..20 {
        let file = fixture.file(&format!("f{round}"));
        let mut model: Vec<u8> = Vec::new();
        for _ in 0..60 {
            let offset = random.usize(..300_000);
            let longest = if random.bool() { 5000 } else { 150_000 };
            let length = random.usize(1..=longest);
            let (from, end) = (offset as u64, offset + length);
            match random.u32(..6) {
                0 | 1 => {
                    let data = vec![random.u8(1..); length];
                    fixture.write(file, from, &data);
                    model.resize(model.len().max(end), 0);
                    model[offset..end].copy_from_slice(&data);
                }
                2 => {
                    fixture.resize(file, from);
                    model.resize(offset, 0);
                }
                3 => {
                    let hole = Allocate::PunchHole;
                    fixture
                        .volume
                        .allocate(file, from, length as u64, hole)
                        .unwrap();
                    let (from, to) = (offset.min(model.len()), end.min(model.len()));
                    model[from..to].fill(0);
                }
                4 => {
                    let zero = Allocate::ZeroRange;
                    fixture
                        .volume
                        .allocate(file, from, length as u64, zero)
                        .unwrap();
                    model.resize(model.len().max(end), 0);
                    model[offset..end].fill(0);
                }
                _ => {
                    let source = random.usize(..300_000);
                    if source < end && offset < source + length {
                        continue;
                    }
                    let range = (file, source as u64);
                    let copied = fixture
                        .volume
                        .copy_range(range, (file, from), length as u64);
                    let copied = copied.unwrap() as usize;
                    let expected = model.len().saturating_sub(source).min(length);
                    assert_eq!(copied, expected);
                    let data = model[source.min(model.len())..][..copied].to_vec();
                    if copied > 0 {
                        model.resize(model.len().max(offset + copied), 0);
                        model[offset..offset + copied].copy_from_slice(&data);
                    }
                }
            }
            let content = fixture.volume.read(file, 0, 1 << 20).unwrap();
            assert!(content == model, "round {round}");
        }
        check_holes(&fixture, file, &model);
    }
    fixture.volume.reclaim_all().unwrap();
    fixture.check_usage();
}

#[test]
fn only_ranges_that_can_be_are_copied() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    fixture.write(file, 0, &[7; 1000]);
    let copy = |from, to, length| errno(fixture.volume.copy_range(from, to, length));
    assert_eq!(copy((file, 0), (file, 99), 100), Errno::INVAL);
    assert_eq!(copy((file, 0), (file, u64::MAX), 100), Errno::FBIG);
    assert_eq!(copy((file, 0), (file, SIZE_MAX), 1), Errno::FBIG);
    let all = fixture.volume.copy_range((file, u64::MAX), (file, 0), 1);
    assert_eq!(all.unwrap(), 0);
    let link = fixture.volume.make_symlink(&CALLER, ROOT, b"l", b"target");
    let link = link.unwrap().number;
    assert_eq!(copy((link, 0), (file, 0), 1), Errno::INVAL);
    assert_eq!(copy((file, 0), (link, 0), 1), Errno::INVAL);
}

/// Data and holes alternate, and holes are zeros.
fn check_holes(fixture: &Fixture, file: InodeNumber, model: &[u8]) {
    let mut place = 0;
    while place < model.len() as u64 {
        let data = match fixture.volume.seek(file, place, Seek::Data) {
            Ok(data) => data,
            Err(e) => {
                assert_eq!(e.errno(), Errno::NXIO);
                model.len() as u64
            }
        };
        let hole = &model[place as usize..data as usize];
        assert!(hole.iter().all(|byte| *byte == 0));
        if data == model.len() as u64 {
            return;
        }
        place = fixture.volume.seek(file, data, Seek::Hole).unwrap();
        assert!(place > data);
    }
}

#[test]
fn a_directory_does_not_become_its_own_ancestor() {
    let fixture = Fixture::new();
    let a = fixture.directory(ROOT, "a");
    let b = fixture.directory(a, "b");
    let c = fixture.directory(b, "c");
    let rename = |from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), how| {
        fixture.volume.rename(&CALLER, from, to, how)
    };
    assert_eq!(
        errno(rename((ROOT, b"a"), (c, b"x"), Rename::Replace)),
        Errno::INVAL
    );
    assert_eq!(
        errno(rename((ROOT, b"a"), (a, b"x"), Rename::Replace)),
        Errno::INVAL
    );
    assert_eq!(
        errno(rename((ROOT, b"a"), (b, b"c"), Rename::Exchange)),
        Errno::INVAL
    );
    assert_eq!(
        errno(rename((b, b"c"), (ROOT, b"a"), Rename::Exchange)),
        Errno::INVAL
    );
    assert_eq!(
        errno(rename((b, b"c"), (ROOT, b"a"), Rename::Replace)),
        Errno::NOTEMPTY
    );
    rename((b, b"c"), (ROOT, b"c"), Rename::NoReplace).unwrap();
    let links = |number| fixture.volume.attributes(number).unwrap().inode.links;
    assert_eq!((links(ROOT), links(a), links(b), links(c)), (4, 3, 2, 2));
    assert_eq!(fixture.volume.attributes(c).unwrap().inode.parent, ROOT);
    assert_eq!(fixture.names(ROOT), [".", "..", "a", "c"]);
}

#[test]
fn nothing_is_moved_to_a_directory_without_a_name() {
    let fixture = Fixture::new();
    let a = fixture.directory(ROOT, "a");
    let b = fixture.directory(a, "b");
    fixture.directory(ROOT, "c");
    fixture.volume.remove_directory(a, b"b").unwrap();
    fixture.volume.remove_directory(ROOT, b"a").unwrap();
    fixture.volume.forget(a, 1);
    fixture.volume.reclaim_all().unwrap();
    let how = Rename::Replace;
    let moved = fixture.volume.rename(&CALLER, (ROOT, b"c"), (b, b"c"), how);
    assert_eq!(errno(moved), Errno::NOENT);
}

#[test]
fn names_change_places_and_leave_whiteouts() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    let directory = fixture.directory(ROOT, "d");
    let inner = fixture.directory(directory, "i");
    let how = Rename::Exchange;
    fixture
        .volume
        .rename(&CALLER, (ROOT, b"f"), (directory, b"i"), how)
        .unwrap();
    assert_eq!(fixture.volume.lookup(ROOT, b"f").unwrap().number, inner);
    assert_eq!(fixture.volume.lookup(directory, b"i").unwrap().number, file);
    let links = |number| fixture.volume.attributes(number).unwrap().inode.links;
    assert_eq!((links(ROOT), links(directory)), (4, 2));
    let how = Rename::Whiteout;
    fixture
        .volume
        .rename(&CALLER, (directory, b"i"), (ROOT, b"g"), how)
        .unwrap();
    let whiteout = fixture.volume.lookup(directory, b"i").unwrap().inode;
    assert_eq!((whiteout.mode(), whiteout.device), (0o020000, 0));
    fixture.check_usage();
}

#[test]
fn a_listing_keeps_its_places_while_names_come_and_go() {
    let fixture = Fixture::new();
    let count = 3000;
    for number in 0..count {
        fixture.file(&format!("f{number:05}"));
    }
    let handle = fixture.volume.open_directory(ROOT).unwrap();
    let mut seen = Vec::new();
    let mut next = 0;
    loop {
        let (before, from) = (seen.len(), next);
        let mut add = |entry: &crate::file_system::ListedEntry| {
            let full = seen.len() - before == 100;
            if !full {
                seen.push(entry.name.clone());
                next = entry.next;
            }
            !full
        };
        fixture.volume.list(handle, from, &mut add).unwrap();
        if seen.len() == before {
            break;
        }
        for name in &seen[before..] {
            if name.len() > 2 {
                fixture.volume.unlink(ROOT, name).unwrap();
            }
        }
    }
    assert_eq!(seen.len(), count + 2);
    // What is gone is not listed with attributes, which the kernel would keep.
    let handle_again = handle;
    let mut shown = 0;
    let mut add = |_: &crate::file_system::ListedEntry, _: &Attributes| {
        shown += 1;
        true
    };
    fixture
        .volume
        .list_with_attributes(handle_again, 2, &mut add)
        .unwrap();
    assert_eq!(shown, 0);
    assert_eq!(fixture.names(ROOT), [".", ".."]);
}

#[test]
fn counters_survive_closing_and_are_counted_after_a_crash() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    fixture.write(file, 0, &[1; 10_000]);
    fixture.volume.close().unwrap();
    let fixture = fixture.reopen();
    fixture.check_usage();
    assert_eq!(fixture.volume.usage().inodes, 2);
    // Not closed: the counters were removed when it was opened.
    fixture.file("g");
    let fixture = fixture.reopen();
    fixture.check_usage();
    assert_eq!(fixture.volume.usage().inodes, 3);
    // A number is never given out twice.
    let new = fixture.file("h");
    assert!(new > file);
    assert!(fixture.volume.lookup(ROOT, b"g").unwrap().number < new);
}
