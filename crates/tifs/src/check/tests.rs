//! Every kind of problem is planted in a volume, and found.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;

use super::{Problem, Report, check};
use crate::file_system::{Caller, Existing, FileSystem, WriteContext};
use crate::kv::{Commit, Kv, MemoryKv, Space};
use crate::schema::{Inode, InodeNumber, Key, block_key, with_format};
use crate::volume::{Volume, VolumeOptions};

const ROOT: InodeNumber = InodeNumber::ROOT;
const FILE: InodeNumber = InodeNumber(2);
const LARGE: InodeNumber = InodeNumber(3);
const DIRECTORY: InodeNumber = InodeNumber(4);
const LINK: InodeNumber = InodeNumber(5);

/// A volume with a small file, a large one, a directory with a directory, and a symbolic link.
fn volume() -> Arc<MemoryKv> {
    let kv = Arc::new(MemoryKv::new());
    Volume::make(&*kv, &VolumeOptions::default()).unwrap();
    let volume = Volume::open(Arc::clone(&kv) as _, VolumeOptions::default()).unwrap();
    let caller = Caller { uid: 0, gid: 0 };
    let context = WriteContext::default();
    for (name, inode, length) in [(&b"file"[..], FILE, 100), (b"large", LARGE, 100_000)] {
        let made = volume
            .make_node(&caller, ROOT, name, 0o100644, 0, 0)
            .unwrap();
        assert_eq!(made.number, inode);
        volume.write(inode, 0, &vec![1; length], context).unwrap();
    }
    let made = volume.make_directory(&caller, ROOT, b"directory", 0o755, 0);
    assert_eq!(made.unwrap().number, DIRECTORY);
    volume
        .make_symlink(&caller, ROOT, b"link", b"target")
        .unwrap();
    volume
        .make_directory(&caller, DIRECTORY, b"inner", 0o755, 0)
        .unwrap();
    let any = Existing::Any;
    volume
        .set_extended_attribute(FILE, b"user.a", b"1", any)
        .unwrap();
    volume.close().unwrap();
    kv
}

fn report(kv: &MemoryKv) -> Report {
    check(kv, true, &mut |_| true).unwrap()
}

fn put(kv: &MemoryKv, space: Space, key: &[u8], value: Option<&[u8]>) {
    let mut transaction = kv.begin().unwrap();
    match value {
        Some(value) => transaction.put(space, key, value).unwrap(),
        None => transaction.delete(space, key).unwrap(),
    }
    assert_eq!(transaction.commit().unwrap(), Commit::Committed);
}

fn put_meta(kv: &MemoryKv, key: Key<'_>, value: Option<&[u8]>) {
    put(kv, Space::Meta, &key.encode(), value);
}

fn change(kv: &MemoryKv, number: InodeNumber, change: impl Fn(&mut Inode)) {
    let key = Key::Inode(number).encode();
    let mut inode = Inode::decode(&kv.get(Space::Meta, &key).unwrap().unwrap()).unwrap();
    change(&mut inode);
    put(kv, Space::Meta, &key, Some(&inode.encode()));
}

#[test]
fn a_volume_is_clean_and_counted() {
    let report = report(&volume());
    assert!(report.is_clean(), "{:?}", report.findings);
    let counts = (report.inodes, report.entries, report.attributes);
    assert_eq!(counts, (6, 5, 1));
    assert_eq!((report.blocks, report.bytes), (4, 100_106));
}

#[test]
fn a_check_can_be_interrupted() {
    let result = check(&*volume(), false, &mut |_| false);
    assert_eq!(result.unwrap_err().errno(), rustix::io::Errno::INTR);
}

/// The way to plant a problem.
type Plant = fn(&MemoryKv);

#[test]
fn every_problem_is_found() {
    let plants: &[(Problem, Plant)] = &[
        (Problem::Superblock, |kv| {
            put_meta(kv, Key::Superblock, None)
        }),
        (Problem::Superblock, |kv| {
            put_meta(kv, Key::Superblock, Some(&[9]))
        }),
        (Problem::Damaged, |kv| {
            put_meta(kv, Key::Inode(FILE), Some(&[1, 2]))
        }),
        (Problem::Damaged, |kv| {
            put_meta(kv, Key::Entry(ROOT, b"file"), Some(&[1]))
        }),
        (Problem::Damaged, |kv| put_meta(kv, Key::Usage, Some(&[1]))),
        (Problem::Damaged, |kv| {
            put(kv, Space::Data, &block_key(LARGE, 0), Some(&[7]))
        }),
        (Problem::UnknownKey, |kv| {
            put(kv, Space::Data, b"Z", Some(b"1"))
        }),
        (Problem::UnknownKey, |kv| {
            put(kv, Space::Meta, b"I1", Some(b"1"))
        }),
        (Problem::InodeNumber, |kv| {
            put_meta(kv, Key::NextInode, None)
        }),
        (Problem::UnknownInode, |kv| {
            put_meta(kv, Key::Inode(FILE), None)
        }),
        (Problem::UnknownInode, |kv| {
            put_meta(kv, Key::Orphan(InodeNumber(99)), Some(&[1]))
        }),
        (Problem::UnknownInode, |kv| {
            put(
                kv,
                Space::Data,
                &block_key(InodeNumber(99), 0),
                Some(&[1, 1]),
            )
        }),
        (Problem::NoDirectory, |kv| {
            let entry = kv.get(Space::Meta, &Key::Entry(ROOT, b"file").encode());
            put_meta(kv, Key::Entry(FILE, b"x"), entry.unwrap().as_deref());
        }),
        (Problem::Name, |kv| {
            let entry = kv.get(Space::Meta, &Key::Entry(ROOT, b"file").encode());
            put_meta(kv, Key::Entry(ROOT, b"a/b"), entry.unwrap().as_deref());
        }),
        (Problem::Kind, |kv| {
            change(kv, FILE, |inode| inode.kind = crate::schema::FileKind::Fifo);
        }),
        (Problem::Links, |kv| {
            change(kv, FILE, |inode| inode.links = 2)
        }),
        (Problem::Links, |kv| {
            change(kv, DIRECTORY, |inode| inode.links = 2)
        }),
        (Problem::Orphan, |kv| {
            put_meta(kv, Key::Orphan(FILE), Some(&[1]))
        }),
        (Problem::Orphan, |kv| {
            put_meta(kv, Key::Entry(ROOT, b"file"), None);
            change(kv, FILE, |inode| inode.links = 0);
        }),
        (Problem::Parent, |kv| {
            change(kv, DIRECTORY, |inode| inode.parent = FILE)
        }),
        (Problem::Parent, |kv| {
            let entry = kv.get(Space::Meta, &Key::Entry(ROOT, b"directory").encode());
            put_meta(kv, Key::Entry(ROOT, b"again"), entry.unwrap().as_deref());
        }),
        (Problem::Unreachable, |kv| {
            // The directory is moved into the one that it has.
            let inner = InodeNumber(6);
            let entry = kv.get(Space::Meta, &Key::Entry(ROOT, b"directory").encode());
            put_meta(
                kv,
                Key::Entry(inner, b"directory"),
                entry.unwrap().as_deref(),
            );
            put_meta(kv, Key::Entry(ROOT, b"directory"), None);
            change(kv, DIRECTORY, |inode| inode.parent = inner);
        }),
        (Problem::Content, |kv| {
            change(kv, FILE, |inode| inode.size = 50)
        }),
        (Problem::Content, |kv| put_meta(kv, Key::Inline(LINK), None)),
        (Problem::Content, |kv| {
            put(kv, Space::Data, &block_key(FILE, 0), Some(&[1, 1]))
        }),
        (Problem::Content, |kv| {
            put(kv, Space::Data, &block_key(LARGE, 7), Some(&[1, 1]));
        }),
        (Problem::Blocks, |kv| {
            change(kv, LARGE, |inode| inode.blocks += 1)
        }),
        (Problem::Blocks, |kv| {
            put(kv, Space::Data, &block_key(LARGE, 0), None)
        }),
        (Problem::Truncation, |kv| {
            change(kv, LARGE, |inode| inode.stale_end = 9)
        }),
        (Problem::Truncation, |kv| {
            put_meta(kv, Key::Reclaim(LARGE), Some(&[1]))
        }),
        (Problem::Attributes, |kv| {
            change(kv, FILE, |inode| inode.has_attributes = false)
        }),
        (Problem::Acl, |kv| {
            let name = crate::volume::ACCESS_ACL;
            put_meta(kv, Key::Attribute(FILE, name), Some(&with_format(b"none")));
        }),
        (Problem::Counters, |kv| {
            let usage = crate::schema::Usage {
                blocks: 1,
                inodes: 6,
            };
            put_meta(kv, Key::Usage, Some(&usage.encode()));
        }),
    ];
    for (index, (problem, plant)) in plants.iter().enumerate() {
        let kv = volume();
        plant(&kv);
        let report = report(&kv);
        let found = report
            .findings
            .iter()
            .any(|finding| finding.problem == *problem);
        assert!(found, "plant {index}, {problem:?}: {:?}", report.findings);
    }
}
