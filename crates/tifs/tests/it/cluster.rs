//! A volume on a node that speaks TiKV's protocol, in this process.

use std::sync::Arc;

use tempfile::TempDir;
use tifs::check::check;
use tifs::dump::{dump, load};
use tifs::kv::{Kv, MemoryKv, RemoteKv, RemoteUrl, TikvKv};
use tifs::volume::{Volume, VolumeOptions};
use tifs_testkit::failure::seeds;
use tifs_testkit::lockstep::run;
use tifs_testkit::ops::{Generator, Shape};
use tifs_testkit::place::Place;
use titan_server::{Node, NodeOptions, RegionSizes};

use crate::command::tifs;

struct Running {
    node: Option<Node>,
    _dir: TempDir,
}

impl Running {
    fn new() -> Running {
        let dir = tempfile::tempdir().unwrap();
        let mut options = NodeOptions::new(([127, 0, 0, 1], 0).into());
        options.storage.sync = false;
        // So that most transactions have keys in several regions.
        options.regions = RegionSizes {
            bytes: 64 << 10,
            keys: 64,
        };
        let node = Node::start(dir.path().join("node"), &options).unwrap();
        Running {
            node: Some(node),
            _dir: dir,
        }
    }

    /// The address of a volume.
    fn url(&self, name: &str) -> String {
        format!("tikv://{}/{name}", self.node.as_ref().unwrap().address())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.stop().unwrap();
        }
    }
}

#[test]
fn a_volume_on_a_cluster_does_what_the_model_does() {
    let node = Running::new();
    for seed in seeds(4000, 2) {
        let url = RemoteUrl::parse(&node.url(&format!("v{seed}"))).unwrap();
        let place = Place::Opened(Arc::new(move || Ok(Arc::new(TikvKv::open(&url)?) as _)));
        let ops = Generator::with_seed(seed, Shape::default()).ops(200);
        run(place, &ops).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{ops}"));
    }
}

#[test]
fn commands_make_check_dump_and_load_volumes_of_a_cluster() {
    let node = Running::new();
    let (url, copy) = (node.url("files"), node.url("copy"));
    tifs(["fsck", &url]).failed_with(&["no volume files", "tifs mkfs"]);
    tifs(["mkfs", &url]).succeeded();
    tifs(["mkfs", &url]).failed_with(&["has a volume files already"]);
    for command in ["fsck", "stats"] {
        tifs([command, &url]).succeeded();
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dump");
    tifs(["dump", &url, file.to_str().unwrap()]).succeeded();
    tifs(["load", &copy, file.to_str().unwrap()]).succeeded();
    tifs(["load", &copy, file.to_str().unwrap()]).failed_with(&["has a volume copy already"]);
    tifs(["fsck", &copy]).succeeded();
    // Back to a directory, and nowhere twice.
    let back = dir.path().join("back");
    let back = back.to_str().unwrap();
    tifs(["clone", &copy, back]).succeeded();
    tifs(["fsck", back]).succeeded();
    tifs(["clone", back, &copy]).failed_with(&["has a volume copy already"]);
    let third = node.url("third");
    tifs(["clone", back, &third]).succeeded();
    let again = dir.path().join("again");
    tifs(["dump", &third, again.to_str().unwrap()]).succeeded();
    assert_eq!(
        std::fs::read(&again).unwrap(),
        std::fs::read(&file).unwrap()
    );
    // A dump that ends early leaves nothing.
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let fourth = node.url("fourth");
    tifs(["load", &fourth, file.to_str().unwrap()]).failed_with(&["no volume was made"]);
    let store = TikvKv::open_read_only(&RemoteUrl::parse(&fourth).unwrap()).unwrap();
    assert_eq!(store.holder().unwrap(), None);
    tifs(["mkfs", &fourth]).succeeded();

    let held = RemoteUrl::parse(&format!("{url}?lease=1h")).unwrap();
    let holder = TikvKv::open(&held).unwrap();
    tifs(["mkfs", &url]).failed_with(&["in use by process"]);
    holder.close().unwrap();
    tifs(["mkfs", "tikv://127.0.0.1:1/v?timeout=1s"]).failed_with(&["cannot reach", "127.0.0.1:1"]);
    tifs(["fsck", "tikv://127.0.0.1/v"]).failed_with(&["HOST:PORT"]);
}

#[test]
fn a_volume_of_a_later_version_is_refused_by_name() {
    let node = Running::new();
    let url = node.url("later");
    let store = Arc::new(TikvKv::open(&RemoteUrl::parse(&url).unwrap()).unwrap());
    Volume::make(&*store, &VolumeOptions::default()).unwrap();
    let mut superblock = store
        .get(tifs::kv::Space::Meta, b"S")
        .unwrap()
        .unwrap()
        .to_vec();
    *superblock.last_mut().unwrap() = 1;
    let mut transaction = store.begin().unwrap();
    transaction
        .put(tifs::kv::Space::Meta, b"S", &superblock)
        .unwrap();
    assert_eq!(transaction.commit().unwrap(), tifs::kv::Commit::Committed);
    store.close().unwrap();
    tifs(["stats", &url]).failed_with(&["later", "use a later version"]);
}

#[test]
fn a_volume_moves_between_a_cluster_and_other_stores() {
    let node = Running::new();
    let url = RemoteUrl::parse(&node.url("moved")).unwrap();
    let store = Arc::new(TikvKv::open(&url).unwrap());
    Volume::make(&*store, &VolumeOptions::default()).unwrap();
    let volume = Volume::open(Arc::clone(&store) as _, VolumeOptions::default()).unwrap();
    volume.close().unwrap();
    let reader = TikvKv::open_read_only(&url).unwrap();
    let mut stream = Vec::new();
    dump(&reader, &mut stream, &mut |_| true).unwrap();
    let memory = MemoryKv::new();
    load(&memory, &mut &stream[..], &mut |_| true).unwrap();
    assert!(check(&memory, true, &mut |_| true).unwrap().is_clean());
}
