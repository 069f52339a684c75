//! References, later deletions, and accounts.

use super::*;

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
    while fixture.volume.reclaim_queue.len() > 1 {
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
