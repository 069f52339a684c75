//! Content, its times and its privileges.

use super::*;

/// Two reads can find that the time of the access is due before one of them changes it.
#[cfg(workspace)]
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

/// The effect of `chown` with -1 and -1, by a user who is not the owner. A FIFO, since for a file
/// the kernel says in addition which time it wants.
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

#[cfg(workspace)]
#[test]
fn a_write_of_the_cache_leaves_the_times_that_the_kernel_has() {
    let clock = SimClock::with_seed(1);
    let options = VolumeOptions {
        clock: Arc::new(clock.clone()),
        ..VolumeOptions::default()
    };
    let fixture = Fixture::with(&options);
    let file = fixture.file("f");
    let now = || Time::from(titan::SystemClock::unix_time(&clock));
    let times = || {
        let inode = fixture.volume.attributes(file).unwrap().inode;
        (inode.modified, inode.changed)
    };
    let write = |from_cache| {
        let context = WriteContext {
            from_cache,
            ..WriteContext::default()
        };
        fixture.volume.write(file, 0, &[1; 6000], context).unwrap();
        times()
    };
    let tell = |modified, changed| {
        let told = Changes {
            modified: Some(NewTime::At(modified)),
            changed: Some(changed),
            ..Changes::default()
        };
        fixture.volume.set_attributes(&CALLER, file, &told).unwrap();
    };
    // A program writes as soon as it has created the file. The kernel has no other times to tell.
    let created = times();
    clock.advance(Duration::from_secs(35));
    assert_eq!(write(true), created);
    // It writes again, and the times arrive before the data.
    let written = now();
    clock.advance(Duration::from_secs(35));
    tell(written, written);
    assert_eq!(write(true), (written, written));
    // It sets an old time before the kernel has written the data.
    let old = Time {
        seconds: 77,
        nanoseconds: 1,
    };
    let set = now();
    tell(old, set);
    clock.advance(Duration::from_secs(35));
    assert_eq!(write(true), (old, set));
    // Past the cache, the volume stamps.
    let past = write(false);
    assert!(past.0 > set && past.0 == past.1, "{past:?}");
    // The times of data written long after that are still to be told. Should the process end
    // before, the file does not look unchanged.
    clock.advance(Duration::from_secs(3600));
    let arrived = write(true);
    assert!(arrived.0 > past.0 && arrived.0 == arrived.1, "{arrived:?}");
    tell(written, now());
    clock.advance(Duration::from_secs(5));
    assert_eq!(write(true).0, written);
}

#[test]
fn attributes_in_memory_are_those_in_the_store() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let fixture = Fixture::new();
    let volume = &fixture.volume;
    let directory = fixture.directory(ROOT, "d");
    let files: Vec<_> = (0..4).map(|n| fixture.file(&format!("{n}"))).collect();
    for _ in 0..2000 {
        let which = random.usize(..files.len());
        let (file, name) = (files[which], which.to_string());
        let context = WriteContext {
            from_cache: random.bool(),
            drop_privileges: random.bool(),
        };
        // Some of these fail, such as a link that is there already.
        let _ = match random.u8(..8) {
            0 => volume.read(file, random.u64(..9000), 100).map(drop),
            1 => volume.set_extended_attribute(file, b"user.a", b"1", Existing::Any),
            2 => volume.link(file, directory, name.as_bytes()).map(drop),
            3 => volume.unlink(directory, name.as_bytes()),
            4 => volume.allocate(file, 4096, 9000, Allocate::ZeroRange),
            5 => volume
                .copy_range((file, 0), (files[0], 5000), 100)
                .map(drop),
            6 => volume
                .write(file, random.u64(..9000), &[7; 300], context)
                .map(drop),
            _ => {
                fixture.resize(file, random.u64(..70_000));
                Ok(())
            }
        };
        for inode in files.iter().chain([&ROOT, &directory]) {
            let key = Key::Inode(*inode).encode();
            let stored = fixture.kv.get(Space::Meta, &key).unwrap().unwrap();
            let known = volume.attributes(*inode).unwrap().inode;
            assert_eq!(known, crate::schema::Inode::decode(&stored).unwrap());
            // From memory this time.
            assert_eq!(volume.attributes(*inode).unwrap().inode, known);
        }
    }
}

#[test]
fn an_extended_attribute_that_no_list_could_show_is_refused() {
    let fixture = Fixture::new();
    let (volume, file) = (&fixture.volume, fixture.file("f"));
    let set = |number: usize, length: usize| {
        let name = format!("user.{number:0>width$}", width = length - 5);
        volume.set_extended_attribute(file, name.as_bytes(), b"1", Existing::Any)
    };
    // 256 bytes each, as they are listed.
    for number in 0..255 {
        set(number, 255).unwrap();
    }
    assert_eq!(volume.extended_attributes(file).unwrap().len(), 255 * 256);
    set(999, 251).unwrap();
    assert_eq!(errno(set(1, 6)), Errno::NOSPC);
    // One that is there can be replaced.
    set(254, 255).unwrap();
    let name = format!("user.{:0>250}", 254);
    volume
        .remove_extended_attribute(file, name.as_bytes())
        .unwrap();
    set(255, 255).unwrap();
    assert_eq!(errno(set(1, 6)), Errno::NOSPC);
    assert!(volume.extended_attributes(file).unwrap().len() <= 64 << 10);
}
