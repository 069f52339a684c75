//! Names: renaming and listing.

use super::*;

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
    // Room that was found before is used up.
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

/// Lists so many entries from a place on, and returns the next place; `None` at the end.
fn list_some(volume: &Volume, from: u64, count: usize, seen: &mut Vec<Vec<u8>>) -> Option<u64> {
    let (before, mut next) = (seen.len(), None);
    let mut add = |entry: &crate::file_system::ListedEntry| {
        let full = seen.len() - before == count;
        if !full {
            seen.push(entry.name.to_vec());
            next = Some(entry.next);
        }
        !full
    };
    volume.list(ROOT, from, &mut add).unwrap();
    next
}

#[test]
fn a_listing_keeps_its_places_while_names_come_and_go() {
    let fixture = Fixture::new();
    let count = 3000;
    for number in 0..count {
        fixture.file(&format!("f{number:05}"));
    }
    let mut seen = Vec::new();
    let mut next = 0;
    loop {
        let before = seen.len();
        let Some(place) = list_some(&fixture.volume, next, 100, &mut seen) else {
            break;
        };
        next = place;
        for name in &seen[before..] {
            if name.len() > 2 {
                fixture.volume.unlink(ROOT, name).unwrap();
            }
        }
    }
    assert_eq!(seen.len(), count + 2);
    // Names that are gone are not listed with attributes, which the kernel would keep.
    let mut shown = 0;
    let mut add = |_: &crate::file_system::ListedEntry, _: &Attributes| {
        shown += 1;
        true
    };
    fixture
        .volume
        .list_with_attributes(ROOT, 2, &mut add)
        .unwrap();
    assert_eq!(shown, 0);
    assert_eq!(fixture.names(ROOT), [".", ".."]);
}

/// Names come and go between the pieces of several listings at once; some stay. Now and then the
/// volume is opened anew, when the last name that a listing had is still there.
#[test]
fn each_name_that_stays_is_listed_once_by_every_listing() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20 {
        let mut fixture = Fixture::new();
        let staying: Vec<String> = (0..random.usize(1..400))
            .map(|n| format!("s{n}!"))
            .collect();
        for name in &staying {
            fixture.file(name);
        }
        let mut others: Vec<String> = Vec::new();
        let mut made = 0;
        let mut listings: Vec<(u64, Vec<Vec<u8>>)> = vec![(0, Vec::new()); 4];
        while !listings.is_empty() {
            for _ in 0..random.usize(..20) {
                if random.bool() || others.is_empty() {
                    let name = format!("{}{made}", random.alphanumeric());
                    made += 1;
                    fixture.file(&name);
                    others.push(name);
                } else {
                    let name = others.swap_remove(random.usize(..others.len()));
                    if random.bool() {
                        fixture.volume.unlink(ROOT, name.as_bytes()).unwrap();
                    } else {
                        let new = format!("{name}~");
                        let to = (ROOT, new.as_bytes());
                        let from = (ROOT, name.as_bytes());
                        fixture
                            .volume
                            .rename(&CALLER, from, to, Rename::Replace)
                            .unwrap();
                        others.push(new);
                    }
                }
            }
            let is_there = |(_, seen): &(u64, Vec<Vec<u8>>)| {
                let last = seen
                    .last()
                    .map(|name| String::from_utf8_lossy(name).into_owned());
                last.is_none_or(|last| {
                    last.starts_with('.') || staying.contains(&last) || others.contains(&last)
                })
            };
            if random.u8(..8) == 0 && listings.iter().all(is_there) {
                fixture = fixture.reopen();
            }
            let which = random.usize(..listings.len());
            let (from, seen) = &mut listings[which];
            match list_some(&fixture.volume, *from, random.usize(1..40), seen) {
                Some(next) => *from = next,
                None => {
                    let (_, seen) = listings.swap_remove(which);
                    for name in &staying {
                        let times = seen.iter().filter(|seen| &seen[..] == name.as_bytes());
                        assert_eq!(times.count(), 1, "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_no_place_of_a_directory_is_refused() {
    let fixture = Fixture::new();
    let file = fixture.file("f");
    let list = |directory, from| fixture.volume.list(directory, from, &mut |_| true);
    assert_eq!(errno(list(ROOT, 12345)), Errno::INVAL);
    assert_eq!(errno(list(file, 0)), Errno::NOTDIR);
}

#[test]
fn an_inode_is_found_by_its_number_as_long_as_it_has_names() {
    let mut fixture = Fixture::new();
    let directory = fixture.directory(ROOT, "d");
    let file = fixture.file("f");
    fixture.volume.forget(file, 1);
    fixture = fixture.reopen();
    for (number, name, found) in [
        (file, &b"."[..], file),
        (directory, b".", directory),
        (directory, b"..", ROOT),
        (ROOT, b"..", ROOT),
    ] {
        assert_eq!(fixture.volume.lookup(number, name).unwrap().number, found);
    }
    assert_eq!(errno(fixture.volume.lookup(file, b"..")), Errno::NOTDIR);
    // The reference keeps it, but a caller without one gets none.
    fixture.volume.unlink(ROOT, b"f").unwrap();
    assert_eq!(fixture.volume.attributes(file).unwrap().inode.links, 0);
    assert_eq!(errno(fixture.volume.lookup(file, b".")), Errno::STALE);
    fixture.volume.forget(file, 1);
    fixture.volume.reclaim_all().unwrap();
    assert_eq!(errno(fixture.volume.lookup(file, b".")), Errno::STALE);
}
