//! Which bytes of a file survive a crash.

use titan::ErrorKind;
use titan::vfs::Vfs;

use super::{crash, fresh, names, outcomes, p, put, set, settled};
use crate::sim::{Fault, Loss, OpKind, SimVfs};

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

/// The first byte of each block of the file.
fn starts_of_blocks(image: &SimVfs) -> Vec<u8> {
    let data = image.read_all("/db/f").unwrap();
    data.chunks(4096).map(|block| block[0]).collect()
}

#[test]
fn a_block_in_the_middle_may_be_lost_while_later_ones_are_there() {
    let vfs = fresh();
    let mut f = settled(&vfs, "/db/f", &[1; 4096]);
    f.append(&[2; 3 * 4096]).unwrap();
    let seen = outcomes(&vfs, starts_of_blocks);
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
    assert_eq!(outcomes(&vfs, starts_of_blocks), [vec![1, 0, 3]].into());
    // After a crash of the process the pages are still in the cache; a later crash of the machine
    // loses them.
    let after_process = crash(&vfs, Loss::None);
    assert_eq!(starts_of_blocks(&after_process), [1, 2, 3]);
    let after_both = crash(&after_process, Loss::All);
    assert_eq!(starts_of_blocks(&after_both), [1, 0, 3]);
}

#[test]
fn each_unsynced_hole_may_be_there_or_not() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/f", &[1; 4 * 4096 + 100]));
    let before = vfs.allocated_bytes(p("/db/f")).unwrap();
    assert_eq!(before, 5 * 4096);
    let mut f = vfs.open_to_punch(p("/db/f")).unwrap();
    // One whole block and a part of the next; later the fourth block.
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
        starts_of_blocks(image)
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
    // A hole cannot be punched into bytes that only the process has.
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
