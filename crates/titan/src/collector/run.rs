//! Runs the collectors of one table.

use std::sync::Arc;

use super::{
    CollectedReport, CollectorContext, EntryKind, TableEntry, TablePropertiesCollector,
    TablePropertiesCollectorFactory,
};
use crate::error::{Error, Result};
use crate::format::internal_key::{ParsedInternalKey, ValueType};
use crate::format::pointers::each_pointer;
use crate::format::range_tombstone::RangeTombstone;
use crate::panics::{self, contain};

/// Properties that a table is to be written with.
#[derive(Default)]
pub(crate) struct TableContent {
    /// The report on it.
    pub(crate) report: CollectedReport,
    /// Why a collector reported nothing.
    pub(crate) failures: Vec<Error>,
}

/// The collectors of a table, in the order in which the family has them.
pub(crate) struct Collectors {
    running: Vec<(String, Option<Box<dyn TablePropertiesCollector>>)>,
    seen: Option<u64>,
    failures: Vec<Error>,
}

impl Collectors {
    /// `seen` is the moment up to which the job that writes the table could drop garbage.
    pub(crate) fn create(
        factories: &[Arc<dyn TablePropertiesCollectorFactory>],
        context: &CollectorContext<'_>,
        seen: Option<u64>,
    ) -> Self {
        let mut this = Collectors {
            running: Vec::new(),
            seen,
            failures: Vec::new(),
        };
        for factory in factories {
            let name = panics::name_of(|| factory.name());
            match guarded(|| Ok(factory.create(context))) {
                Ok(Some(collector)) => this.running.push((name, Some(collector))),
                Ok(None) => {}
                Err(e) => this.failures.push(failed(&name, e)),
            }
        }
        this
    }

    /// The property with their names, as RocksDB writes it.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.running.iter().map(|(name, _)| &**name).collect();
        format!("[{}]", names.join(","))
    }

    /// Shows an entry to all of them. Cost: their work.
    pub(crate) fn add(&mut self, key: &ParsedInternalKey<'_>, value: &[u8]) -> Result<()> {
        let kind = match key.value_type {
            ValueType::Value | ValueType::BlobIndex => EntryKind::Value,
            ValueType::Deletion => EntryKind::Deletion,
            ValueType::SingleDeletion => EntryKind::SingleDeletion,
            ValueType::Merge => EntryKind::Merge,
            ValueType::WideColumnEntity => EntryKind::WideColumns,
            ValueType::RangeDeletion => EntryKind::RangeDeletion,
        };
        let mut separated = 0_u64;
        each_pointer(key.value_type, value, |index| {
            separated = separated.saturating_add(index.size);
            Ok(())
        })?;
        let value = Some(value).filter(|_| key.value_type != ValueType::BlobIndex);
        let inline = value.map_or(0, <[u8]>::len) as u64;
        self.show(&TableEntry {
            key: key.user_key,
            kind,
            sequence: key.sequence,
            value,
            stored_len: separated.saturating_add(inline),
        });
        Ok(())
    }

    pub(crate) fn add_range_tombstone(&mut self, tombstone: &RangeTombstone) {
        self.show(&TableEntry {
            key: &tombstone.start,
            kind: EntryKind::RangeDeletion,
            sequence: tombstone.sequence,
            value: Some(&tombstone.end),
            stored_len: tombstone.end.len() as u64,
        });
    }

    fn show(&mut self, entry: &TableEntry<'_>) {
        for (name, running) in &mut self.running {
            let Some(collector) = running else {
                continue;
            };
            if let Err(e) = guarded(|| collector.add(entry)) {
                self.failures.push(failed(name, e));
                dropped(running);
            }
        }
    }

    /// Returns their reports.
    pub(crate) fn finish(mut self) -> TableContent {
        let mut report = CollectedReport::default();
        for (name, running) in &mut self.running {
            let Some(collector) = running else {
                continue;
            };
            let reported = guarded(|| collector.finish());
            if let Err(e) = reported.and_then(|reported| report.absorb(reported)) {
                self.failures.push(failed(name, e));
            }
            dropped(running);
        }
        if !report.is_empty() {
            report.seen = self.seen;
        }
        TableContent {
            report,
            failures: std::mem::take(&mut self.failures),
        }
    }
}

impl Drop for Collectors {
    fn drop(&mut self) {
        for (_, running) in &mut self.running {
            dropped(running);
        }
    }
}

/// Ends a collector, whose destructor may panic.
fn dropped(running: &mut Option<Box<dyn TablePropertiesCollector>>) {
    panics::end(running.take());
}

/// Calls code of the application.
fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    contain(call).unwrap_or_else(|panicked| Err(Error::internal(format!("it {panicked}"))))
}

fn failed(name: &str, error: Error) -> Error {
    error.context(format!("table properties collector '{name}'"))
}
