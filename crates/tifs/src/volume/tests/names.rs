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
