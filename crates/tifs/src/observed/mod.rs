//! A file system that counts and times the operations of another one.
//!
//! Each operation costs two looks at the clock more. The counts are part of the
//! [statistics](crate::volume::STATISTICS) of a mount; operations that take long are reported one
//! by one.

mod operations;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use self::operations::{Operation, Operations};
use crate::error::{Error, Result};
use crate::file_system::{
    Allocate, Attributes, Caller, Capacity, Changes, Existing, FileSystem, Inodes, ListedEntry,
    Rename, Seek, WriteContext, Written, call, calls,
};
use crate::schema::InodeNumber;
use crate::volume::STATISTICS;

/// An operation that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowOperation {
    /// The name of the operation.
    pub name: &'static str,
    /// The inode, or the directory that has the name. None for the whole volume.
    pub inode: Option<InodeNumber>,
    /// Its duration.
    pub took: Duration,
    /// Whether it returned an error.
    pub failed: bool,
}

/// The decorated file system.
pub struct Observed {
    inner: Arc<dyn FileSystem>,
    operations: Operations,
    slow: Duration,
    report: Box<dyn Fn(&SlowOperation) + Send + Sync>,
}

impl Observed {
    /// Observes a file system, and calls `report` after each operation that takes `slow` or longer,
    /// in the thread that did it.
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
        inode: Option<InodeNumber>,
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
                inode,
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

macro_rules! observe {
    (forget $args:tt) => {
        call! { forget $args, |self, inode, references| self.inner.forget(inode, references) }
    };
    (extended_attribute $args:tt $result:ty) => {
        call! { extended_attribute $args $result, |self, inode, name| {
            let operation = Operation::extended_attribute;
            let read = |inner: &dyn FileSystem| inner.extended_attribute(inode, name);
            let value = self.observe(operation, Some(inode), read)?;
            match name == STATISTICS.as_bytes() {
                true => self.with_operations(&value),
                false => Ok(value),
            }
        } }
    };
    ($name:ident ($($arg:ident: $type:ty),*) $result:ty) => {
        fn $name(&self $(, $arg: $type)*) -> $result {
            let inode = None$(.or($arg.inode()))*;
            self.observe(Operation::$name, inode, |inner| inner.$name($($arg),*))
        }
    };
}

macro_rules! implement {
    ($($(#[$_:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl FileSystem for Observed {
            $(observe! { $name ($($arg: $type),*) $($result)? })*
        }
    };
}

calls!(implement);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use parking_lot::Mutex;

    use super::*;
    use crate::kv::MemoryKv;
    use crate::volume::{Volume, VolumeOptions};

    /// The root of a new volume, and the operations reported as slow.
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
