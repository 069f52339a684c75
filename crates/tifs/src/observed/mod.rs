//! A file system that counts and times the operations of another one.
//!
//! Each operation costs two looks at the clock more. The counts are part of the
//! [statistics](crate::volume::STATISTICS) of a mount; operations that take long are reported one by
//! one.

mod operations;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use self::operations::{Operation, Operations};
use crate::error::{Error, Result};
use crate::file_system::{
    Allocate, Attributes, Caller, Capacity, Changes, Existing, FileSystem, ListedEntry, Rename,
    Seek, WriteContext, Written,
};
use crate::schema::InodeNumber;
use crate::volume::STATISTICS;

/// An operation that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowOperation {
    /// What was done.
    pub name: &'static str,
    /// To what: the inode, or the directory that has the name. None for the whole volume.
    pub inode: Option<InodeNumber>,
    /// How long it took.
    pub took: Duration,
    /// Whether it returned an error.
    pub failed: bool,
}

/// See the [module](self).
pub struct Observed {
    inner: Arc<dyn FileSystem>,
    operations: Operations,
    slow: Duration,
    report: Box<dyn Fn(&SlowOperation) + Send + Sync>,
}

impl Observed {
    /// Observes a file system, and calls `report` after each operation that takes `slow` or longer, in
    /// the thread that did it.
    pub fn new(
        inner: Arc<dyn FileSystem>,
        slow: Duration,
        report: impl Fn(&SlowOperation) + Send + Sync + 'static,
    ) -> Self {
        Observed {
            inner,
            operations: Operations::default(),
            slow,
            report: Box::new(report),
        }
    }

    fn observe<T>(
        &self,
        operation: Operation,
        inode: impl Into<Option<InodeNumber>>,
        call: impl FnOnce(&dyn FileSystem) -> Result<T>,
    ) -> Result<T> {
        let began = Instant::now();
        let result = call(&*self.inner);
        let took = began.elapsed();
        let failed = result.as_ref().is_err_and(Error::is_failure);
        self.operations.add(operation, took, failed);
        if took >= self.slow {
            (self.report)(&SlowOperation {
                name: operation.name(),
                inode: inode.into(),
                took,
                failed: result.is_err(),
            });
        }
        result
    }

    /// Adds the operations to the statistics.
    fn with_operations(&self, statistics: &[u8]) -> Result<Bytes> {
        let corrupt = |e: serde_json::Error| Error::corrupt(e.to_string());
        let mut value: Value = serde_json::from_slice(statistics).map_err(corrupt)?;
        value["operations"] = self.operations.report();
        Ok(serde_json::to_vec(&value).map_err(corrupt)?.into())
    }
}

impl FileSystem for Observed {
    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes> {
        self.observe(Operation::Lookup, directory, |inner| {
            inner.lookup(directory, name)
        })
    }

    fn forget(&self, inode: InodeNumber, references: u64) {
        self.inner.forget(inode, references);
    }

    fn attributes(&self, inode: InodeNumber) -> Result<Attributes> {
        self.observe(Operation::Attributes, inode, |inner| {
            inner.attributes(inode)
        })
    }

    fn set_attributes(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        changes: &Changes,
    ) -> Result<Attributes> {
        self.observe(Operation::SetAttributes, inode, |inner| {
            inner.set_attributes(caller, inode, changes)
        })
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Bytes> {
        self.observe(Operation::ReadLink, inode, |inner| inner.read_link(inode))
    }

    fn make_node(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        mode: u32,
        umask: u32,
        device: u32,
    ) -> Result<Attributes> {
        self.observe(Operation::MakeNode, directory, |inner| {
            inner.make_node(caller, directory, name, mode, umask, device)
        })
    }

    fn make_directory(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        mode: u32,
        umask: u32,
    ) -> Result<Attributes> {
        self.observe(Operation::MakeDirectory, directory, |inner| {
            inner.make_directory(caller, directory, name, mode, umask)
        })
    }

    fn make_symlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attributes> {
        self.observe(Operation::MakeSymlink, directory, |inner| {
            inner.make_symlink(caller, directory, name, target)
        })
    }

    fn link(&self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<Attributes> {
        self.observe(Operation::Link, inode, |inner| {
            inner.link(inode, directory, name)
        })
    }

    fn unlink(&self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.observe(Operation::Unlink, directory, |inner| {
            inner.unlink(directory, name)
        })
    }

    fn remove_directory(&self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.observe(Operation::RemoveDirectory, directory, |inner| {
            inner.remove_directory(directory, name)
        })
    }

    fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        how: Rename,
    ) -> Result<()> {
        self.observe(Operation::Rename, from.0, |inner| {
            inner.rename(caller, from, to, how)
        })
    }

    fn read(&self, inode: InodeNumber, offset: u64, size: usize) -> Result<Bytes> {
        self.observe(Operation::Read, inode, |inner| {
            inner.read(inode, offset, size)
        })
    }

    fn write(
        &self,
        inode: InodeNumber,
        offset: u64,
        data: &[u8],
        context: WriteContext,
    ) -> Result<Written> {
        self.observe(Operation::Write, inode, |inner| {
            inner.write(inode, offset, data, context)
        })
    }

    fn sync(&self) -> Result<()> {
        self.observe(Operation::Sync, None, |inner| inner.sync())
    }

    fn list(
        &self,
        directory: InodeNumber,
        from: u64,
        entry: &mut dyn FnMut(&ListedEntry) -> bool,
    ) -> Result<()> {
        self.observe(Operation::List, directory, |inner| {
            inner.list(directory, from, entry)
        })
    }

    fn list_with_attributes(
        &self,
        directory: InodeNumber,
        from: u64,
        entry: &mut dyn FnMut(&ListedEntry, &Attributes) -> bool,
    ) -> Result<()> {
        self.observe(Operation::ListWithAttributes, directory, |inner| {
            inner.list_with_attributes(directory, from, entry)
        })
    }

    fn capacity(&self) -> Result<Capacity> {
        self.observe(Operation::Capacity, None, |inner| inner.capacity())
    }

    fn set_extended_attribute(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        existing: Existing,
    ) -> Result<()> {
        self.observe(Operation::SetExtendedAttribute, inode, |inner| {
            inner.set_extended_attribute(inode, name, value, existing)
        })
    }

    fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Bytes> {
        let value = self.observe(Operation::ExtendedAttribute, inode, |inner| {
            inner.extended_attribute(inode, name)
        })?;
        if name == STATISTICS.as_bytes() {
            self.with_operations(&value)
        } else {
            Ok(value)
        }
    }

    fn extended_attributes(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.observe(Operation::ExtendedAttributes, inode, |inner| {
            inner.extended_attributes(inode)
        })
    }

    fn remove_extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.observe(Operation::RemoveExtendedAttribute, inode, |inner| {
            inner.remove_extended_attribute(inode, name)
        })
    }

    fn allocate(&self, inode: InodeNumber, offset: u64, length: u64, what: Allocate) -> Result<()> {
        self.observe(Operation::Allocate, inode, |inner| {
            inner.allocate(inode, offset, length, what)
        })
    }

    fn seek(&self, inode: InodeNumber, offset: u64, what: Seek) -> Result<u64> {
        self.observe(Operation::Seek, inode, |inner| {
            inner.seek(inode, offset, what)
        })
    }

    fn copy_range(
        &self,
        from: (InodeNumber, u64),
        to: (InodeNumber, u64),
        length: u64,
    ) -> Result<u64> {
        self.observe(Operation::CopyRange, from.0, |inner| {
            inner.copy_range(from, to, length)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use parking_lot::Mutex;

    use super::*;
    use crate::kv::MemoryKv;
    use crate::volume::{Volume, VolumeOptions};

    /// The root of a new volume, and what was reported as slow.
    fn observed(slow: Duration) -> (Observed, Arc<Mutex<Vec<SlowOperation>>>) {
        let kv = Arc::new(MemoryKv::new());
        let options = VolumeOptions::default();
        Volume::make(&*kv, &options).unwrap();
        let volume = Volume::open(kv, options).unwrap();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let reports = Arc::clone(&reported);
        let report = move |slow: &SlowOperation| reports.lock().push(*slow);
        (Observed::new(Arc::new(volume), slow, report), reported)
    }

    #[test]
    fn the_statistics_have_what_was_done_before() {
        let (observed, reported) = observed(Duration::MAX);
        let root = InodeNumber::ROOT;
        assert!(observed.lookup(root, b"a").is_err());
        observed.attributes(root).unwrap();
        observed.attributes(root).unwrap();
        let text = observed
            .extended_attribute(root, STATISTICS.as_bytes())
            .unwrap();
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["inodes"], 1);
        let operations = &value["operations"];
        assert_eq!(operations["attributes"]["count"], 2);
        // That a name does not exist is no failure of the volume.
        assert_eq!(operations["lookup"]["failures"], 0);
        assert!(reported.lock().is_empty());
    }

    #[test]
    fn slow_operations_are_reported() {
        let (observed, reported) = observed(Duration::ZERO);
        assert!(observed.unlink(InodeNumber::ROOT, b"a").is_err());
        observed.sync().unwrap();
        let reported = reported.lock();
        let seen: Vec<_> = reported
            .iter()
            .map(|slow| (slow.name, slow.inode, slow.failed))
            .collect();
        let root = Some(InodeNumber::ROOT);
        assert_eq!(seen, [("unlink", root, true), ("sync", None, false)]);
    }
}
