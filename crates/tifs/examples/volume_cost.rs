//! Calls a volume on an embedded store, each call in a function of its own, for [`FILES`] files, so
//! that `cargo xtask instructions` can count what each costs.

#![allow(clippy::unwrap_used, missing_docs, reason = "a program for measuring")]

use std::hint::black_box;
use std::sync::Arc;

use tifs::file_system::{Caller, FileSystem, WriteContext};
use tifs::kv::{EngineKv, EngineOptions};
use tifs::schema::InodeNumber;
use tifs::volume::{Volume, VolumeOptions};

const FILES: u64 = 10_000;
const ROOT: InodeNumber = InodeNumber::ROOT;
const BLOCK: [u8; 4096] = [7; 4096];
const FILE_MODE: u32 = 0o100_644;

fn name(number: u64) -> Vec<u8> {
    format!("file{number:06}").into_bytes()
}

#[inline(never)]
fn measured_create(volume: &Volume) -> Vec<InodeNumber> {
    let caller = Caller { uid: 0, gid: 0 };
    let create = |n| volume.make_node(&caller, ROOT, black_box(&name(n)), FILE_MODE, 0, 0);
    (0..FILES).map(|n| create(n).unwrap().number).collect()
}

#[inline(never)]
fn measured_write(volume: &Volume, files: &[InodeNumber]) {
    for file in files {
        let written = volume.write(*file, 0, black_box(&BLOCK), WriteContext::default());
        black_box(written.unwrap());
    }
}

#[inline(never)]
fn measured_read(volume: &Volume, files: &[InodeNumber]) {
    for file in files {
        black_box(volume.read(*file, 0, BLOCK.len()).unwrap());
    }
}

#[inline(never)]
fn measured_lookup(volume: &Volume) {
    for n in 0..FILES {
        black_box(volume.lookup(ROOT, black_box(&name(n))).unwrap());
    }
}

#[inline(never)]
fn measured_attributes(volume: &Volume, files: &[InodeNumber]) {
    for file in files {
        black_box(volume.attributes(*file).unwrap());
    }
}

#[inline(never)]
fn measured_unlink(volume: &Volume) {
    for n in 0..FILES {
        volume.unlink(ROOT, black_box(&name(n))).unwrap();
    }
}

fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let kv = Arc::new(EngineKv::open(dir.path(), &EngineOptions::default()).unwrap());
    let options = VolumeOptions::default();
    Volume::make(&*kv, &options).unwrap();
    let volume = Volume::open(kv, options).unwrap();
    let files = measured_create(&volume);
    measured_write(&volume, &files);
    measured_read(&volume, &files);
    measured_lookup(&volume);
    measured_attributes(&volume, &files);
    measured_unlink(&volume);
}
