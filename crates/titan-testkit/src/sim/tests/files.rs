//! Files, directories and locks as running programs see them, and the tools for tests.

use titan::ErrorKind;
use titan::vfs::{Access, Vfs};

use super::{crash, fresh, names, p, put};
use crate::sim::{Loss, SimVfs};

#[test]
fn files_read_back_and_open_handles_outlive_their_names() {
    let vfs = fresh();
    let mut w = put(&vfs, "/db/f", b"hello ");
    let r = vfs.open(p("db/f"), Access::Random).unwrap();
    vfs.remove(p("/db/f")).unwrap();
    vfs.sync_dir(p("/db")).unwrap();
    assert!(
        vfs.open(p("/db/f"), Access::Random)
            .err()
            .unwrap()
            .is_not_found()
    );
    w.append(b"world").unwrap();
    w.sync().unwrap();
    drop(w);
    assert_eq!(r.size().unwrap(), 11);
    assert_eq!(&r.read_exact_at(6, 5).unwrap()[..], b"world");
    assert_eq!(r.read_at(9, &mut [0; 10]).unwrap(), 2);
    assert_eq!(r.read_at(99, &mut [0; 10]).unwrap(), 0);
    assert!(r.read_exact_at(9, 3).unwrap_err().is_corruption());
    // Replay has no handles: the operations on the nameless file must not disturb it.
    for point in vfs.journal().crash_points() {
        point.crash(&Loss::None);
        point.crash(&Loss::All);
    }
}

#[test]
fn directories_behave() {
    let vfs = fresh();
    vfs.create_dir_all(p("/db/a/b")).unwrap();
    vfs.create_dir_all(p("/db/a")).unwrap();
    assert_eq!(
        vfs.remove_dir(p("/db/a")).unwrap_err().kind(),
        ErrorKind::Io
    );
    drop(put(&vfs, "/db/a/b/f", b"x"));
    vfs.rename(p("/db/a"), p("/db/c")).unwrap();
    assert_eq!(vfs.read_all("/db/c/b/f").unwrap(), b"x");
    assert!(
        vfs.rename(p("/db/c"), p("/db/c/b/d")).is_err(),
        "a directory into itself"
    );
    assert!(vfs.create(p("/db/a/f")).err().unwrap().is_not_found());
    assert!(vfs.create(p("/db/c")).is_err());
    assert!(vfs.remove(p("/db/c")).is_err());
    vfs.remove(p("/db/c/b/f")).unwrap();
    vfs.remove_dir(p("/db/c/b")).unwrap();
    assert_eq!(vfs.read_dir(p("/db/c")).unwrap(), [""; 0]);
    assert!(!vfs.exists(p("/db/a")).unwrap() && vfs.exists(p("/db/c")).unwrap());
}

#[test]
fn a_lock_excludes_until_dropped_and_does_not_outlive_a_crash() {
    let vfs = fresh();
    let guard = vfs.lock(p("/db/LOCK")).unwrap();
    assert_eq!(
        vfs.clone().lock(p("db/LOCK")).err().unwrap().kind(),
        ErrorKind::Locked
    );
    crash(&vfs, Loss::None).lock(p("/db/LOCK")).unwrap();
    drop(guard);
    vfs.lock(p("/db/LOCK")).unwrap();
    assert_eq!(names(&vfs), "LOCK");
}

#[test]
fn damage_is_seen_by_open_handles_and_survives_crashes() {
    let vfs = fresh();
    drop(put(&vfs, "/db/f", b"abc"));
    let r = vfs.open(p("/db/f"), Access::Random).unwrap();
    vfs.flip_bit("/db/f", 1).unwrap();
    assert_eq!(&r.read_exact_at(0, 3).unwrap()[..], b"acc");
    vfs.truncate("/db/f", 2).unwrap();
    vfs.write_all("/db/new", b"n").unwrap();
    let image = crash(&vfs, Loss::All);
    assert_eq!(image.read_all("/db/f").unwrap(), b"ac");
    assert_eq!(image.read_all("/db/new").unwrap(), b"n");
    assert!(vfs.flip_bit("/db/f", 2).is_err());
}

#[test]
fn directories_go_out_and_come_back() {
    let temp = tempfile::tempdir().unwrap();
    let vfs = fresh();
    vfs.create_dir_all(p("/db/sub")).unwrap();
    drop(put(&vfs, "/db/a", &[7; 5000]));
    drop(put(&vfs, "/db/sub/b", b"b"));
    vfs.copy_out_to("/db", temp.path().join("out")).unwrap();
    let back = SimVfs::new();
    back.copy_in_from(temp.path().join("out"), "/x/y").unwrap();
    let image = crash(&back, Loss::All);
    assert_eq!(image.list("/x/y").unwrap(), ["a", "sub"]);
    assert_eq!(image.read_all("/x/y/a").unwrap(), [7; 5000]);
    assert_eq!(image.read_all("/x/y/sub/b").unwrap(), b"b");
}
