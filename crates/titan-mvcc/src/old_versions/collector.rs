//! The count of a table's versions while it is written.

use titan::{
    CollectorContext, EntryKind, ErrorKind, GarbageByMoment, TableEntry, TablePropertiesCollector,
    TablePropertiesCollectorFactory, TableReport,
};

use super::properties::TableVersions;
use crate::format::Kind;
use crate::format::version::split;
use crate::timestamp::Timestamp;

/// Makes the collectors.
pub(crate) struct CollectorFactory;

impl TablePropertiesCollectorFactory for CollectorFactory {
    fn name(&self) -> &str {
        "titan.mvcc.Versions"
    }

    fn create(&self, _: &CollectorContext<'_>) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(Collector::default()))
    }
}

#[derive(Default)]
struct Collector {
    found: TableVersions,
    /// Bytes by the timestamp at which they become droppable.
    bytes: GarbageByMoment,
    /// The encoded key of the last version, and the number of its versions so far.
    key: Vec<u8>,
    of_key: u64,
    /// The oldest put or deletion of the key so far, which supersedes the versions that follow.
    newer: Option<Timestamp>,
}

impl Collector {
    /// The timestamp at which a version becomes droppable, if the table alone proves it.
    fn droppable_from(&self, kind: Kind, commit: Timestamp) -> Option<Timestamp> {
        let own = mutant!(superseded_from_its_own_commit);
        match kind {
            Kind::Put if own => Some(commit),
            Kind::Put => self.newer,
            // A deletion may be dropped by itself once no older version is left.
            _ => Some(commit),
        }
    }
}

impl TablePropertiesCollector for Collector {
    fn add(&mut self, entry: &TableEntry<'_>) -> titan::Result<()> {
        if entry.kind != EntryKind::Value {
            // A deletion of the engine, which a filter left in place of a version.
            return Ok(());
        }
        let (encoded, version) = split(entry.key)
            .map_err(|e| titan::Error::new(ErrorKind::Corruption, e.to_string()))?;
        let commit = version.commit;
        if self.key != encoded || self.found.versions == 0 {
            self.key.clear();
            self.key.extend_from_slice(encoded);
            self.of_key = 0;
            self.newer = None;
            self.found.rows += 1;
        }
        let from = self.droppable_from(version.kind, commit);
        let found = &mut self.found;
        self.of_key += 1;
        found.versions += 1;
        found.row_versions = found.row_versions.max(self.of_key);
        found.oldest = earlier(found.oldest, commit);
        found.newest = found.newest.max(Some(commit));
        match version.kind {
            Kind::Put => found.puts += 1,
            Kind::Delete => {
                found.deletes += 1;
                found.oldest_delete = earlier(found.oldest_delete, commit);
            }
            _ => found.locks += 1,
        }
        if let Some(from) = from {
            found.first_droppable = earlier(found.first_droppable, from);
            found.last_droppable = found.last_droppable.max(Some(from));
            found.droppable.add(from.0, 1);
            let bytes = (entry.key.len() as u64).saturating_add(entry.stored_len);
            self.bytes.add(from.0, bytes);
        }
        if matches!(version.kind, Kind::Put | Kind::Delete) {
            self.newer = Some(commit);
        }
        Ok(())
    }

    fn finish(&mut self) -> titan::Result<TableReport> {
        Ok(TableReport {
            properties: self.found.encode(),
            garbage: std::mem::take(&mut self.bytes),
        })
    }
}

fn earlier(known: Option<Timestamp>, other: Timestamp) -> Option<Timestamp> {
    Some(known.map_or(other, |known| known.min(other)))
}
