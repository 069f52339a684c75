//! A volume on etcd, with blocks in a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tifs::file_system::{Caller, FileSystem, WriteContext};
use tifs::kv::{Commit, EtcdKv, Kv, RemoteKv, RemoteUrl, Space};
use tifs::schema::{InodeNumber, block_key};
use tifs::volume::{Volume, VolumeOptions};
use tifs_testkit::etcd::Etcd;
use tifs_testkit::failure::seeds;
use tifs_testkit::lockstep::run;
use tifs_testkit::ops::{Generator, Shape};
use tifs_testkit::place::Place;

use crate::command::tifs;

#[test]
fn a_volume_on_etcd_does_what_the_model_does() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    for seed in seeds(4100, 2) {
        let url = RemoteUrl::parse(&etcd.url(&format!("v{seed}"), "")).unwrap();
        let place = Place::Opened(Arc::new(move || Ok(Arc::new(EtcdKv::open(&url)?) as _)));
        let ops = Generator::with_seed(seed, Shape::default()).ops(200);
        run(place, &ops).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{ops}"));
    }
}

#[test]
fn commands_make_check_dump_and_load_volumes_of_etcd() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let (url, copy) = (etcd.url("files", ""), etcd.url("copy", ""));
    tifs(["fsck", &url]).failed_with(&["no volume files", "tifs mkfs"]);
    tifs(["mkfs", &url]).succeeded();
    tifs(["mkfs", &url]).failed_with(&["has a volume files already"]);
    for command in ["fsck", "stats"] {
        tifs([command, &url]).succeeded();
    }
    // From a directory with files, and back.
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (dump, again, back) = (path("dump"), path("again"), path("back"));
    tifs(["dump", &url, &dump]).succeeded();
    tifs(["load", &copy, &dump]).succeeded();
    tifs(["load", &copy, &dump]).failed_with(&["has a volume copy already"]);
    tifs(["clone", &copy, &back]).succeeded();
    tifs(["fsck", &back, "--content"]).succeeded();
    let third = etcd.url("third", "");
    tifs(["clone", &back, &third]).succeeded();
    tifs(["dump", &third, &again]).succeeded();
    assert_eq!(
        std::fs::read(&again).unwrap(),
        std::fs::read(&dump).unwrap()
    );
    // A dump that ends early leaves nothing.
    let whole = std::fs::read(&dump).unwrap();
    std::fs::write(&dump, &whole[..whole.len() - 1]).unwrap();
    let fourth = etcd.url("fourth", "");
    tifs(["load", &fourth, &dump]).failed_with(&["no volume was made"]);
    let store = EtcdKv::open_read_only(&RemoteUrl::parse(&fourth).unwrap()).unwrap();
    assert_eq!(store.holder().unwrap(), None);
    tifs(["mkfs", &fourth]).succeeded();

    let held = RemoteUrl::parse(&etcd.url("files", "lease=1h")).unwrap();
    let holder = EtcdKv::open(&held).unwrap();
    tifs(["mkfs", &url]).failed_with(&["in use by process"]);
    holder.close().unwrap();
    tifs(["mkfs", "etcd://127.0.0.1:1/v?timeout=1s&blocks=memory:///"])
        .failed_with(&["cannot reach", "127.0.0.1:1"]);
    tifs(["fsck", "etcd://127.0.0.1:1/v"]).failed_with(&["object store is missing"]);
    let secret = "etcd://127.0.0.1:1/v?blocks=s3://id:secret@bucket";
    tifs(["fsck", secret]).failed_with(&["belong to the environment or a file"]);
}

#[test]
fn a_check_deletes_objects_that_nothing_names() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let url = etcd.url("files", "");
    tifs(["mkfs", &url]).succeeded();
    let store = EtcdKv::open(&RemoteUrl::parse(&url).unwrap()).unwrap();
    let change = |value: Option<&[u8]>| {
        let mut transaction = store.begin().unwrap();
        match value {
            Some(value) => transaction.put(Space::Data, b"block", value).unwrap(),
            None => transaction.delete(Space::Data, b"block").unwrap(),
        }
        assert_eq!(transaction.commit().unwrap(), Commit::Committed);
    };
    change(Some(b"content"));
    let written = file_below(&etcd.blocks(), "-626c6f636b").unwrap();
    let left = written.with_file_name("ffff-626c6f636b");
    std::fs::copy(&written, &left).unwrap();
    change(None);
    // A store that somebody has is left alone.
    tifs(["fsck", &url]).succeeded();
    store.close().unwrap();
    assert!(left.exists() && !written.exists());
    let checked = tifs(["fsck", &url]);
    assert!(
        checked.out.contains("1 object without a name"),
        "{checked:?}"
    );
    assert!(!left.exists());
}

#[test]
fn a_check_names_the_files_whose_content_is_lost() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let url = etcd.url("files", "timeout=4s");
    tifs(["mkfs", &url]).succeeded();
    let store = Arc::new(EtcdKv::open(&RemoteUrl::parse(&url).unwrap()).unwrap());
    let volume = Volume::open(store, VolumeOptions::default()).unwrap();
    let (caller, root) = (Caller { uid: 0, gid: 0 }, InodeNumber::ROOT);
    let dir = volume.make_directory(&caller, root, b"d", 0o755, 0);
    let dir = dir.unwrap().number;
    let context = WriteContext::default();
    let mut files = Vec::new();
    for name in [&b"kept"[..], b"lost", b"damaged"] {
        let made = volume.make_node(&caller, dir, name, 0o100644, 0, 0);
        let file = made.unwrap().number;
        volume.write(file, 0, &vec![7; 100_000], context).unwrap();
        files.push(file);
    }
    volume.close().unwrap();
    tifs(["fsck", &url, "--content"]).succeeded();
    let object = |file: InodeNumber| {
        let bytes = block_key(file, 0);
        let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        file_below(&etcd.blocks(), &format!("-{key}")).unwrap()
    };
    std::fs::remove_file(object(files[1])).unwrap();
    let lost = ["/d/lost, block 0", "is missing at file://", "1 problem\n"];
    tifs(["fsck", &url]).ended_with(4, &lost);
    std::fs::write(object(files[2]), "other").unwrap();
    let both = [lost[0], lost[1], "has not the content", "2 problems\n"];
    tifs(["fsck", &url, "--content"]).ended_with(4, &both);
}

/// A file below a directory, by the end of its name.
fn file_below(dir: &Path, end: &str) -> Option<PathBuf> {
    let mut paths = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    paths.find_map(|path| match path.is_dir() {
        true => file_below(&path, end),
        false => path.to_str()?.ends_with(end).then_some(path),
    })
}
