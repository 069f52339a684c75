//! Which directory entries survive a crash.

use titan::ErrorKind;
use titan::vfs::Vfs;

use super::{ANY, crash, fresh, names, outcomes, p, put, set, settled};
use crate::sim::{Errno, Fault, Loss, OpKind, SimVfs};

#[test]
fn a_rename_without_sync_dir_is_old_or_new() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/CURRENT", b"1"));
    drop(settled(&vfs, "/db/temp", b"2"));
    vfs.rename(p("/db/temp"), p("/db/CURRENT")).unwrap();
    let look = |image: &SimVfs| (names(image), image.read_all("/db/CURRENT").unwrap());
    assert_eq!(
        look(&crash(&vfs, Loss::All)),
        ("CURRENT temp".into(), b"1".to_vec())
    );
    let both = [
        ("CURRENT".into(), b"2".to_vec()),
        ("CURRENT temp".into(), b"1".to_vec()),
    ];
    assert_eq!(outcomes(&vfs, look), both.into());
    vfs.sync_dir(p("/db")).unwrap();
    assert_eq!(
        look(&crash(&vfs, Loss::All)),
        ("CURRENT".into(), b"2".to_vec())
    );
}

#[test]
fn changes_of_different_names_are_independent_and_of_one_name_in_order() {
    let vfs = fresh();
    drop(put(&vfs, "/db/a", b""));
    drop(put(&vfs, "/db/b", b""));
    assert_eq!(outcomes(&vfs, names), set(["", "a", "a b", "b"]));
    vfs.rename(p("/db/a"), p("/db/c")).unwrap();
    drop(put(&vfs, "/db/a", b""));
    // The second `a` exists only with `c`: the rename came between.
    let seen = outcomes(&vfs, names);
    assert_eq!(seen, set(["", "a", "a b", "a b c", "a c", "b", "b c", "c"]));
    let twice = ANY.filter(|seed| {
        let image = crash(&vfs, Loss::Random(*seed));
        image.exists(p("/db/a")).unwrap() && image.exists(p("/db/c")).unwrap()
    });
    assert!(twice.count() > 0);
}

#[test]
fn a_rename_between_directories_is_atomic_and_either_sync_suffices() {
    for synced in ["/db", "/other"] {
        let vfs = fresh();
        vfs.create_dir_all(p("/other")).unwrap();
        drop(settled(&vfs, "/db/f", b"x"));
        vfs.sync_all().unwrap();
        vfs.rename(p("/db/f"), p("/other/g")).unwrap();
        let look = |image: &SimVfs| {
            (
                image.list("/db").unwrap().join(" "),
                image.list("/other").unwrap().join(" "),
            )
        };
        let (old, new) = (("f".into(), "".into()), ("".into(), "g".into()));
        assert_eq!(outcomes(&vfs, look), [old, new.clone()].into());
        vfs.sync_dir(p(synced)).unwrap();
        assert_eq!(look(&crash(&vfs, Loss::All)), new);
    }
}

#[test]
fn a_link_is_a_name_of_its_own() {
    let vfs = fresh();
    let mut f = settled(&vfs, "/db/a", b"x");
    drop(put(&vfs, "/another", b""));
    vfs.link(p("/db/a"), p("/db/b")).unwrap();
    assert_eq!(vfs.link_count(p("/db/a")).unwrap(), 2);
    assert_eq!(outcomes(&vfs, names), set(["a", "a b"]));
    assert_eq!(
        vfs.link(p("/db/a"), p("/db/b")).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    // Renaming one name of a file to another of its names does nothing.
    vfs.rename(p("/db/a"), p("/db/b")).unwrap();
    assert_eq!(names(&vfs), "a b");
    f.append(b"y").unwrap();
    assert_eq!(vfs.read_all("/db/b").unwrap(), b"xy");
    vfs.remove(p("/db/a")).unwrap();
    assert_eq!(vfs.link_count(p("/db/b")).unwrap(), 1);
    // Neither change is durable: except for the case of "removed, not linked", the file
    // exists.
    assert_eq!(outcomes(&vfs, names), set(["", "a", "a b", "b"]));
    vfs.sync_dir(p("/db")).unwrap();
    let image = crash(&vfs, Loss::All);
    assert_eq!(
        (names(&image), image.read_all("/db/b").unwrap()),
        ("b".into(), b"x".to_vec())
    );
    assert!(vfs.link(p("/db"), p("/db/d")).is_err());
    assert!(vfs.link(p("/db/a"), p("/db/d")).unwrap_err().is_not_found());
    assert_eq!(vfs.count(OpKind::Link, ""), 1);
    vfs.inject(Fault::on([OpKind::Link]).error(Errno::CROSS_DEVICE));
    let e = vfs.link(p("/db/b"), p("/db/d")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
}

#[test]
fn removing_is_not_durable_until_the_directory_is() {
    let vfs = fresh();
    drop(settled(&vfs, "/db/f", b"x"));
    vfs.remove(p("/db/f")).unwrap();
    assert_eq!(crash(&vfs, Loss::All).read_all("/db/f").unwrap(), b"x");
    assert_eq!(outcomes(&vfs, names), set(["", "f"]));
    vfs.sync_dir(p("/db")).unwrap();
    assert_eq!(outcomes(&vfs, names), set([""]));
}

#[test]
fn a_directory_not_synced_in_its_parent_goes_with_all_in_it() {
    let vfs = SimVfs::new();
    vfs.create_dir_all(p("/db")).unwrap();
    drop(settled(&vfs, "/db/f", b"x"));
    assert!(!crash(&vfs, Loss::All).exists(p("/db")).unwrap());
    vfs.sync_dir(p("/")).unwrap();
    assert_eq!(crash(&vfs, Loss::All).read_all("/db/f").unwrap(), b"x");
}
