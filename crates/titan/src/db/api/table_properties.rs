//! Properties of the tables of a range, and the moment up to which their reported garbage counts.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::column_family::ColumnFamily;
use crate::collector::{CollectedReport, GarbageByMoment};
use crate::error::Result;
use crate::format::FileNumber;
use crate::sync::atomic::Ordering;
use crate::version::TableFile;

/// A table as [`ColumnFamily::table_properties`] describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableMetadata {
    /// Its file.
    pub file: FileNumber,
    /// Its level.
    pub level: usize,
    /// Bytes of the file. Values in blob files do not count.
    pub size: u64,
    /// The smallest user key.
    pub smallest: Vec<u8>,
    /// The largest user key, or the end of a range deletion.
    pub largest: Vec<u8>,
    /// Entries of all kinds but range deletions; `None` if another program wrote the table and it
    /// was not counted.
    pub entries: Option<u64>,
    /// Reports of [collectors](crate::TablePropertiesCollectorFactory) of any program, by name.
    pub properties: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The garbage that collectors reported.
    pub garbage: GarbageByMoment,
}

impl ColumnFamily {
    /// The tables that may have keys of `begin..=end`, level by level; absent bounds are infinite.
    /// Entries in memory are in none of them. Cost: none but memory for tables that Titan wrote; a
    /// table of another program is opened.
    ///
    /// # Errors
    /// Those of reads.
    pub fn table_properties(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<Vec<TableMetadata>> {
        self.check_usable()?;
        let super_version = self.family.super_version.load();
        let version = &super_version.version;
        let end = end.map_or(Bound::Unbounded, Bound::Included);
        let tables = version.tables();
        let tables = tables.filter(|(_, table)| version.overlaps(table, begin, end));
        let described = tables.map(|(level, table)| {
            let report = match table.is_own() {
                true => table.facts().map(|facts| facts.collected.clone()),
                false => Some(self.read_report(table)?),
            };
            let report = report.unwrap_or_default();
            Ok(TableMetadata {
                file: table.number(),
                level,
                size: table.size(),
                smallest: table.smallest_user_key().to_vec(),
                largest: table.largest_user_key().to_vec(),
                entries: table.entry_counts().map(|counts| counts.entries),
                properties: report.properties,
                garbage: report.garbage,
            })
        });
        described.collect()
    }

    fn read_report(&self, table: &TableFile) -> Result<CollectedReport> {
        let files = &self.core.shared.files;
        let reader = files
            .open
            .table(table.meta.identity(), &self.family.comparator)?;
        reader.properties().collected()
    }

    /// Says that bytes that collectors report as garbage from `moment` on, or an earlier one, are
    /// garbage now. Moments only advance: an earlier one than before changes nothing. After an
    /// opening the moment is 0.
    ///
    /// Garbage counts towards compactions as overwritten values do: when a family has more of it
    /// than `max_space_amp` leaves room for, the tables that have most are compacted, at the last
    /// level too. The [compaction filter](crate::CompactionFilterFactory) drops it there. Garbage
    /// that a compaction at this moment leaves is not waited for again; garbage of later moments
    /// is.
    pub fn advance_garbage_moment(&self, moment: u64) {
        let before = self
            .family
            .garbage_moment
            .fetch_max(moment, Ordering::Relaxed);
        if before < moment {
            self.core.shared.signals.work.raise();
        }
    }

    /// Bytes of its tables that collectors reported as garbage, at the moment that was
    /// [set](Self::advance_garbage_moment), and that no compaction could drop yet. Cost: O(tables).
    pub fn reported_garbage(&self) -> u64 {
        let version = &self.family.super_version.load().version;
        let moment = self.family.garbage_moment();
        let levels = (0..version.num_levels()).map(|n| version.reported_garbage(n, moment));
        crate::format::total(levels)
    }
}
