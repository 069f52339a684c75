//! Objects, readers, and the times at which data is dropped.

use futures_util::StreamExt;

use super::*;

/// A reader that does not say again that it reads.
fn without_renewal(url: &RemoteUrl) -> EtcdKv {
    let reader = EtcdKv::open_read_only(url).unwrap();
    reader.upkeep.lock().take();
    reader
}

/// The objects in the directory of the blocks.
fn objects(etcd: &Etcd) -> usize {
    fn files(dir: &std::path::Path) -> usize {
        let count = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path) } else { 1 }
        };
        dir.read_dir().map_or(0, |entries| entries.map(count).sum())
    }
    files(&etcd.blocks()).saturating_sub(1)
}

#[test]
fn replaced_objects_go_when_nothing_reads_them() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = without_upkeep(&url(&etcd, "lease=1h"));
    let block = |value: &[u8]| put_in(&store, Space::Data, b"b", value).unwrap();
    assert_eq!(block(b"one"), Commit::Committed);
    let snapshot = store.snapshot().unwrap();
    let reader = EtcdKv::open_read_only(&url(&etcd, "")).unwrap();
    assert_eq!(block(b"two"), Commit::Committed);
    assert_eq!(objects(&etcd), 2);
    let drop_replaced = || {
        let shared = &store.shared;
        shared.base.moments.droppable(std::time::Duration::ZERO);
        let revision = shared.base.moments.droppable(std::time::Duration::ZERO);
        let revision = revision.min(readers::oldest(&shared.base).unwrap());
        collection::delete_some(shared, revision).unwrap();
    };
    drop_replaced();
    assert_eq!(objects(&etcd), 2);
    let value = snapshot.get(Space::Data, b"b").unwrap();
    assert_eq!(value.as_deref(), Some(&b"one"[..]));
    drop(snapshot);
    drop_replaced();
    assert_eq!(objects(&etcd), 2, "another process reads");
    reader.close().unwrap();
    drop_replaced();
    assert_eq!(objects(&etcd), 1);
    // A conflict leaves nothing.
    let mut loser = store.begin().unwrap();
    loser.put(Space::Data, b"b", b"lost").unwrap();
    assert_eq!(block(b"three"), Commit::Committed);
    assert_eq!(loser.commit().unwrap(), Commit::Conflict);
    drop_replaced();
    assert_eq!(objects(&etcd), 1);
    store.close().unwrap();
}

#[test]
fn objects_that_an_earlier_mount_left_are_collected() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "")).unwrap();
    assert_eq!(
        put_in(&store, Space::Data, b"b", b"kept").unwrap(),
        Commit::Committed
    );
    let shared = &store.shared;
    let left = shared
        .objects
        .put(shared.objects_of(), b"b", Bytes::from_static(b"left"));
    shared
        .with_objects(shared.base.cluster.deadline(), left)
        .unwrap();
    // Its own may be named soon.
    assert_eq!(store.collect().unwrap(), 0);
    store.close().unwrap();
    assert_eq!(objects(&etcd), 2);
    let store = EtcdKv::open(&url(&etcd, "")).unwrap();
    assert_eq!(store.collect().unwrap(), 1);
    assert_eq!(objects(&etcd), 1);
    let value = store.get(Space::Data, b"b").unwrap();
    assert_eq!(value.as_deref(), Some(&b"kept"[..]));
    store.close().unwrap();
}

#[test]
fn another_object_store_is_refused_and_a_missing_object_is_named() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let mut url = url(&etcd, "");
    let store = EtcdKv::open(&url).unwrap();
    assert_eq!(
        put_in(&store, Space::Data, b"b", b"v").unwrap(),
        Commit::Committed
    );
    let blocks = etcd.blocks();
    let moved = blocks.with_extension("moved");
    std::fs::rename(&blocks, &moved).unwrap();
    let error = store.get(Space::Data, b"b").unwrap_err();
    assert_eq!(error.errno(), Errno::IO);
    assert!(
        error.to_string().contains("is missing at file://"),
        "{error}"
    );
    std::fs::rename(&moved, &blocks).unwrap();
    store.close().unwrap();
    url.blocks += "2";
    let error = EtcdKv::open(&url).err().unwrap();
    assert_eq!(error.errno(), Errno::INVAL);
    assert!(error.to_string().contains("has no blocks of"), "{error}");
}

#[test]
fn a_reader_that_began_before_the_first_block_reads_it() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "")).unwrap();
    let reader = EtcdKv::open_read_only(&url(&etcd, "")).unwrap();
    assert_eq!(
        put_in(&store, Space::Data, b"b", b"v").unwrap(),
        Commit::Committed
    );
    let value = reader.get(Space::Data, b"b").unwrap();
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
    reader.close().unwrap();
    store.close().unwrap();
}

#[test]
fn a_reader_that_nobody_knew_of_is_outdated_and_known_again() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = without_upkeep(&url(&etcd, "lease=1h"));
    assert_eq!(
        put_in(&store, Space::Data, b"b", b"one").unwrap(),
        Commit::Committed
    );
    let reader = without_renewal(&url(&etcd, "lease=1s"));
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(
        put_in(&store, Space::Data, b"b", b"two").unwrap(),
        Commit::Committed
    );
    let oldest = || readers::oldest(&store.shared.base).unwrap();
    eventually("the lease ends", || oldest() == i64::MAX);
    collection::delete_some(&store.shared, store.shared.base.moments.oldest()).unwrap();
    let shared = &reader.shared;
    shared.reader.as_ref().unwrap().renew(&shared.base).unwrap();
    assert_ne!(oldest(), i64::MAX);
    assert!(snapshot.get(Space::Data, b"b").unwrap_err().is_outdated());
    drop(snapshot);
    let value = reader.get(Space::Data, b"b").unwrap();
    assert_eq!(value.as_deref(), Some(&b"two"[..]));
    store.close().unwrap();
}

#[test]
fn a_directory_that_is_another_one_now_takes_no_blocks() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "timeout=1s&lease=1h")).unwrap();
    let block = |value: &[u8]| put_in(&store, Space::Data, b"b", value);
    assert_eq!(block(b"one").unwrap(), Commit::Committed);
    let (blocks, moved) = (etcd.blocks(), etcd.blocks().with_extension("moved"));
    // As if a file system mounted there had been unmounted.
    std::fs::rename(&blocks, &moved).unwrap();
    std::fs::create_dir(&blocks).unwrap();
    assert_eq!(block(b"two").unwrap_err().errno(), Errno::TIMEDOUT);
    std::fs::remove_dir(&blocks).unwrap();
    std::fs::rename(&moved, &blocks).unwrap();
    assert_eq!(block(b"three").unwrap(), Commit::Committed);
    let value = store.get(Space::Data, b"b").unwrap();
    assert_eq!(value.as_deref(), Some(&b"three"[..]));
    store.close().unwrap();
}

#[test]
fn a_copy_of_a_directory_takes_no_blocks_of_a_mount_that_began_before() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let url = url(&etcd, "timeout=1s&lease=1h");
    let store = EtcdKv::open(&url).unwrap();
    let block = |value: &[u8]| put_in(&store, Space::Data, b"b", value);
    assert_eq!(block(b"one").unwrap(), Commit::Committed);
    let (blocks, moved) = (etcd.blocks(), etcd.blocks().with_extension("moved"));
    // With the sign of the volume, as of an older copy.
    std::fs::rename(&blocks, &moved).unwrap();
    std::fs::create_dir(&blocks).unwrap();
    for entry in moved.read_dir().unwrap() {
        let from = entry.unwrap().path();
        std::fs::rename(&from, blocks.join(from.file_name().unwrap())).unwrap();
    }
    let refused = block(b"two").unwrap_err();
    assert_eq!(refused.errno(), Errno::TIMEDOUT);
    assert!(
        refused.to_string().contains("mount the volume again"),
        "{refused}"
    );
    store.close().unwrap();
    let store = EtcdKv::open(&url).unwrap();
    let value = store.get(Space::Data, b"b").unwrap();
    assert_eq!(value.as_deref(), Some(&b"one"[..]));
    store.close().unwrap();
}

#[test]
fn lost_objects_are_found_without_reading_them() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "timeout=2s")).unwrap();
    let keys = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
    for key in &keys[..2] {
        let stored = put_in(&store, Space::Data, key, b"value").unwrap();
        assert_eq!(stored, Commit::Committed);
    }
    let lost = || {
        let reader = EtcdKv::open_read_only(&url(&etcd, "timeout=2s")).unwrap();
        let lost = reader.snapshot().unwrap().lost(Space::Data, &keys).unwrap();
        lost.into_iter()
            .map(|lost| lost.map(|lost| lost.to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(lost(), [None, None, None]);
    let mut listed = store.shared.objects.list(10);
    let all = { &store.shared }.with_objects_behind(async { Ok(listed.next().await) });
    let all: Vec<_> = all
        .unwrap()
        .unwrap()
        .into_iter()
        .map(|listed| listed.unwrap())
        .collect();
    let second = all.iter().find(|listed| listed.key == b"b").unwrap();
    std::fs::remove_file(etcd.blocks().join(second.path.as_ref())).unwrap();
    let found = lost();
    assert!(found[0].is_none() && found[2].is_none(), "{found:?}");
    assert!(
        found[1].as_ref().unwrap().contains("is missing at file://"),
        "{found:?}"
    );
    store.close().unwrap();
}

#[test]
fn replaced_values_make_room_before_a_volume_is_full() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "room=2MiB")).unwrap();
    for number in 0..500u16 {
        let value = [number as u8; 4096];
        assert_eq!(put(&store, b"k", &value).unwrap(), Commit::Committed);
    }
    let room = store.room().unwrap().unwrap();
    assert!(room.used < room.total / 2, "{room:?}");
    store.close().unwrap();
}

#[test]
fn a_full_etcd_has_no_space_and_says_what_to_do() {
    let Some(etcd) = Etcd::start(1, &["--quota-backend-bytes", "2097152"]) else {
        return;
    };
    let store = EtcdKv::open(&url(&etcd, "room=2MiB")).unwrap();
    let error = (0..2000u16)
        .find_map(|number| put(&store, &number.to_be_bytes(), &[1; 4096]).err())
        .unwrap();
    assert_eq!(error.errno(), Errno::NOSPC);
    assert!(error.to_string().contains("alarm disarm"), "{error}");
    let room = store.room().unwrap().unwrap();
    assert!(room.used > room.total / 2, "{room:?}");
    let value = store.get(Space::Meta, &0u16.to_be_bytes()).unwrap();
    assert_eq!(value.unwrap().len(), 4096);
    // It is given up all the same.
    store.close().unwrap();
    let reader = EtcdKv::open_read_only(&url(&etcd, "room=2MiB")).unwrap();
    assert!(reader.holder().unwrap().is_none());
}
