//! Rules of operations that a mount does not show well.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
#[cfg(workspace)]
use titan_testkit::clock::SimClock;

use super::content::truncate::PIECE;
use super::state::usage::count;
use super::{HostSpace, Volume, VolumeOptions};
use crate::check::check;
use crate::error::Result;
use crate::file_system::{
    Allocate, Attributes, Caller, Changes, Existing, NewTime, Rename, SIZE_MAX, Seek, WriteContext,
};
use crate::kv::{Commit, Kv, MemoryKv, Scan, Space};
use crate::schema::{InodeNumber, Key, Time};

mod content;
mod deletion;
mod names;

const ROOT: InodeNumber = InodeNumber::ROOT;
const CALLER: Caller = Caller { uid: 0, gid: 0 };

struct Fixture {
    kv: Arc<MemoryKv>,
    volume: Volume,
}

impl Fixture {
    fn new() -> Self {
        Fixture::with(&VolumeOptions::default())
    }

    fn with(options: &VolumeOptions) -> Self {
        let kv = Arc::new(MemoryKv::new());
        Volume::make(&*kv, options).unwrap();
        let volume = Volume::open(Arc::clone(&kv) as _, options.clone()).unwrap();
        Fixture { kv, volume }
    }

    fn reopen(self) -> Self {
        let kv = self.kv;
        let volume = Volume::open(Arc::clone(&kv) as _, VolumeOptions::default()).unwrap();
        Fixture { kv, volume }
    }

    fn file(&self, name: &str) -> InodeNumber {
        let made = self
            .volume
            .make_node(&CALLER, ROOT, name.as_bytes(), 0o100644, 0, 0);
        made.unwrap().number
    }

    fn directory(&self, parent: InodeNumber, name: &str) -> InodeNumber {
        let made = self
            .volume
            .make_directory(&CALLER, parent, name.as_bytes(), 0o755, 0);
        made.unwrap().number
    }

    fn write(&self, file: InodeNumber, offset: u64, data: &[u8]) {
        let context = WriteContext::default();
        self.volume.write(file, offset, data, context).unwrap();
    }

    fn resize(&self, file: InodeNumber, size: u64) -> Attributes {
        let changes = Changes {
            size: Some(size),
            ..Changes::default()
        };
        self.volume.set_attributes(&CALLER, file, &changes).unwrap()
    }

    fn names(&self, directory: InodeNumber) -> Vec<String> {
        let mut names = Vec::new();
        let mut add = |entry: &crate::file_system::ListedEntry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        };
        self.volume.list(directory, 0, &mut add).unwrap();
        names
    }

    fn stored_blocks(&self) -> usize {
        self.kv
            .scan(&Scan::prefix(Space::Data, b"B"))
            .unwrap()
            .len()
    }

    /// The counters agree with a count.
    fn check_usage(&self) {
        assert_eq!(self.volume.usage(), count(&*self.kv).unwrap());
    }
}

fn errno<T: std::fmt::Debug>(result: Result<T>) -> Errno {
    result.unwrap_err().errno()
}
