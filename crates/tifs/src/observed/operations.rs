//! The operations, with their counts and times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::file_system::calls;

macro_rules! operations {
    ($($(#[$_:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        /// The calls of a [`FileSystem`](crate::file_system::FileSystem), by their names.
        #[allow(non_camel_case_types, reason = "the names are those of the calls")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Operation {
            $($name,)*
        }

        /// All operations with their names, in the order of the enum.
        const OPERATIONS: &[(Operation, &str)] =
            &[$((Operation::$name, stringify!($name)),)*];
    };
}

calls!(operations);

impl Operation {
    /// The name in logs and statistics.
    pub(super) fn name(self) -> &'static str {
        OPERATIONS[self as usize].1
    }
}

/// Counts and times of all operations.
#[derive(Debug, Default)]
pub(super) struct Operations([Counter; OPERATIONS.len()]);

#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
    failures: AtomicU64,
    nanoseconds: AtomicU64,
    slowest: AtomicU64,
}

impl Operations {
    /// Counts an operation that ended.
    pub(super) fn add(&self, operation: Operation, took: Duration, failed: bool) {
        let counter = &self.0[operation as usize];
        let nanoseconds = took.as_nanos() as u64;
        counter.count.fetch_add(1, Ordering::Relaxed);
        counter
            .failures
            .fetch_add(u64::from(failed), Ordering::Relaxed);
        counter
            .nanoseconds
            .fetch_add(nanoseconds, Ordering::Relaxed);
        counter.slowest.fetch_max(nanoseconds, Ordering::Relaxed);
    }

    /// Those that were done, by name, with times in seconds.
    pub(super) fn report(&self) -> Value {
        let seconds =
            |of: &AtomicU64| Duration::from_nanos(of.load(Ordering::Relaxed)).as_secs_f64();
        let mut report = Map::new();
        for &(operation, name) in OPERATIONS {
            let counter = &self.0[operation as usize];
            let count = counter.count.load(Ordering::Relaxed);
            if count > 0 {
                let value = json!({
                    "count": count,
                    "failures": counter.failures.load(Ordering::Relaxed),
                    "seconds": seconds(&counter.nanoseconds),
                    "slowest_seconds": seconds(&counter.slowest),
                });
                report.insert(name.to_owned(), value);
            }
        }
        Value::Object(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_what_was_done() {
        let operations = Operations::default();
        operations.add(Operation::rename, Duration::from_millis(250), false);
        operations.add(Operation::rename, Duration::from_millis(500), true);
        let report = operations.report();
        let expected = json!({
            "rename": { "count": 2, "failures": 1, "seconds": 0.75, "slowest_seconds": 0.5 }
        });
        assert_eq!(report, expected);
    }
}
