//! Writes at any offset, and sizes.

use super::{crash, fresh, outcomes, p, settled};
use crate::sim::{Loss, SimVfs};

#[test]
fn opening_creates_and_empties_as_its_flags_say() {
    let vfs = fresh();
    let refused = vfs.open_for_calls(p("/db/f"), false, true).err().unwrap();
    assert!(refused.is_not_found(), "{refused}");
    let file = vfs.open_for_calls(p("/db/f"), true, false).unwrap();
    file.write_at(0, b"abc").unwrap();
    vfs.open_for_calls(p("/db/f"), true, false).unwrap();
    assert_eq!(vfs.read_all("/db/f").unwrap(), b"abc");
    vfs.open_for_calls(p("/db/f"), false, true).unwrap();
    assert_eq!(vfs.read_all("/db/f").unwrap(), b"");
    file.write_at(2, b"c").unwrap();
    assert_eq!(vfs.read_all("/db/f").unwrap(), b"\0\0c");
}

#[test]
fn only_a_sync_makes_an_overwritten_block_and_a_size_durable() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/f", &[1; 3 * 4096]));
    let now = |vfs: &SimVfs| vfs.read_all("/db/f").unwrap();
    let synced = now(&vfs);
    let file = vfs.open_for_calls(p("/db/f"), false, false).unwrap();
    file.write_at(4096, &[2; 4096]).unwrap();
    file.set_len(2 * 4096 + 10).unwrap();
    let written = now(&vfs);
    assert_eq!(written.len(), 2 * 4096 + 10);
    assert_eq!(now(&crash(&vfs, Loss::All)), synced);
    assert_eq!(now(&crash(&vfs, Loss::None)), written);
    let seen = outcomes(&vfs, |image| (now(image)[4096], now(image).len()));
    for possible in [
        (1, 3 * 4096),
        (2, 3 * 4096),
        (1, 2 * 4096 + 10),
        (2, 2 * 4096 + 10),
    ] {
        assert!(seen.contains(&possible), "{possible:?} never happened");
    }
    file.sync().unwrap();
    assert_eq!(outcomes(&vfs, now), [written].into());
}

#[test]
fn what_was_cut_off_is_zero_if_the_file_grows_again() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/f", &[1; 3 * 4096]));
    let file = vfs.open_for_calls(p("/db/f"), false, false).unwrap();
    file.set_len(100).unwrap();
    file.set_len(2 * 4096).unwrap();
    let old_bytes_reappear = outcomes(&vfs, |image| {
        let bytes = image.read_all("/db/f").unwrap();
        bytes.len() == 2 * 4096 && bytes[4096] == 1
    });
    assert!(old_bytes_reappear.contains(&true), "it was not synced");
    file.sync().unwrap();
    let mut expected = vec![0; 2 * 4096];
    expected[..100].fill(1);
    let after = crash(&vfs, Loss::All).read_all("/db/f").unwrap();
    assert!(after == expected);
}
