//! Children that are forked while a volume is open.

use rustix::io::Errno;
use tifs::file_system::{Allocate, Changes, Existing, FileSystem, Rename, WriteContext};
use tifs::schema::InodeNumber;
use titan_testkit::child::in_child;

use tifs_testkit::calls::{World, caller};
use tifs_testkit::contents::Contents;
use tifs_testkit::place::Place;

fn refused<T>(what: &str, outcome: tifs::Result<T>) {
    match outcome {
        Ok(_) => panic!("{what}: it succeeded"),
        Err(e) => assert_eq!(e.errno(), Errno::ROFS, "{what}: {e}"),
    }
}

#[test]
fn a_child_reads_the_volume_of_its_parent_and_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let world = World::new(Place::on_disk(place.path())).unwrap();
    let volume = &world.volume;
    let (root, user) = (InodeNumber::ROOT, caller(0));
    let make = |name: &[u8]| volume.make_node(&user, root, name, 0o100_644, 0, 0);
    let file = make(b"file").unwrap().number;
    let content = vec![7; 100_000];
    let context = WriteContext::default();
    volume.write(file, 0, &content, context).unwrap();
    volume
        .make_directory(&user, root, b"directory", 0o755, 0)
        .unwrap();
    let any = Existing::Any;
    volume
        .set_extended_attribute(file, b"user.kept", b"1", any)
        .unwrap();
    volume.sync().unwrap();
    let mut background = Some(volume.start_background(|e| panic!("{e}")).unwrap());
    let contents = || Contents::of_store(world.store.kv()).unwrap();
    let before = contents();
    in_child(60, || {
        assert_eq!(volume.read(file, 0, content.len()).unwrap(), content);
        assert!(contents() == before);
        refused("make", make(b"child"));
        refused("write", volume.write(file, 0, b"child", context));
        let changes = Changes::default();
        refused("change", volume.set_attributes(&user, file, &changes));
        refused("unlink", volume.unlink(root, b"file"));
        let made = volume.make_directory(&user, root, b"child", 0o755, 0);
        refused("make a directory", made);
        refused(
            "make a link",
            volume.make_symlink(&user, root, b"child", b"file"),
        );
        refused("link", volume.link(file, root, b"child"));
        refused("remove", volume.remove_directory(root, b"directory"));
        let (from, to) = ((root, &b"file"[..]), (root, &b"child"[..]));
        refused("rename", volume.rename(&user, from, to, Rename::Replace));
        let set = volume.set_extended_attribute(file, b"user.a", b"1", Existing::Any);
        refused("set an attribute", set);
        let removed = volume.remove_extended_attribute(file, b"user.kept");
        refused("remove an attribute", removed);
        let deleted = volume.allocate(file, 0, 50_000, Allocate::PunchHole);
        refused("punch", deleted);
        refused("copy", volume.copy_range((file, 0), (file, 200_000), 10));
        refused("sync", volume.sync());
        refused("close", volume.close());
        drop(background.take());
        Ok(())
    })
    .unwrap();
    assert!(contents() == before);
    make(b"parent").unwrap();
    drop(background);
    volume.close().unwrap();
}
