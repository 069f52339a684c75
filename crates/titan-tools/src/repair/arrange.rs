//! Finds the order of tables if no MANIFEST has it.
//!
//! A read takes the first entry it finds, level by level, so newer entries must be above older
//! ones. A table can be placed at level 0 if all its entries are newer than those of each table it
//! shares keys with: level 0 is ordered by sequence numbers, which must not overlap those of the
//! tables already there. Tables that share keys with no other remaining table can be placed at the
//! last level. The tables that remain cannot be ordered as a whole; they are merged, entry by
//! entry, into new tables of the last level. The merge also drops duplicates of entries, which
//! occur if both the inputs and the output of a compaction survive.

use std::sync::Arc;

use titan::internals::block_cache::BlockCache;
use titan::internals::compaction::{Grandparents, JobOutput, OutputWriter};
use titan::internals::format::{FileKind, InternalKeyComparator, ParsedInternalKey};
use titan::internals::iterator::{InternalIterator, MergingIterator};
use titan::internals::range_del::FragmentedTombstones;
use titan::internals::table::{TableIterOptions, TableReader, TableReaderOptions};
use titan::internals::version::within;
use titan::vfs::Access;
use titan::{ColumnFamilyId, Result, invariant};

use super::state::Repair;
use super::table::Placed;

/// Bytes of each table that a merge reads at once.
const READAHEAD: usize = 256 << 10;

impl Repair<'_> {
    /// Assigns a level to every table.
    pub(super) fn arrange(&mut self) -> Result<()> {
        if self.from.hint.trusted {
            return Ok(());
        }
        let ids: Vec<_> = self.families.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.arrange_family(id))
    }

    fn arrange_family(&mut self, id: ColumnFamilyId) -> Result<()> {
        let family = self.output_family(id)?;
        let order = &family.comparator;
        let last_level = family.options.num_levels - 1;
        let mut rest: Vec<Placed> = self
            .placed
            .extract_if(.., |placed| placed.family == id)
            .collect();
        for placed in &mut rest {
            // The epoch numbers that ordered level 0 before are no longer valid.
            placed.meta.epoch_number = None;
        }
        rest.sort_by_key(|placed| placed.meta.smallest_seq);
        let mut older = Vec::new();
        let mut level0: Vec<Placed> = Vec::new();
        // From the newest on: tables that are newer than all the remaining ones they overlap. In
        // level 0 each is newer than the next as a whole, which RocksDB requires also of tables
        // without a common key.
        while let Some(mut placed) = rest.pop() {
            let mut met = rest.iter().chain(&older).filter(|o| placed.meets(o, order));
            let follows = level0
                .last()
                .is_none_or(|above| above.is_newer_than(&placed));
            match met.next() {
                Some(first)
                    if follows
                        && placed.is_newer_than(first)
                        && met.all(|o| placed.is_newer_than(o)) =>
                {
                    placed.level = Some(0);
                    level0.push(placed);
                }
                _ => older.push(placed),
            }
        }
        self.placed.append(&mut level0);
        for mut group in groups(older, order) {
            match group.len() {
                0 => {}
                1 => {
                    group.iter_mut().for_each(|p| p.level = Some(last_level));
                    self.placed.append(&mut group);
                }
                _ => self.merge(id, group, last_level)?,
            }
        }
        invariant!(
            is_ordered(&self.placed, id, order),
            "tables of family {id} cannot be at the levels to which a repair assigns them"
        );
        Ok(())
    }

    /// Merges tables into new ones at `level`.
    fn merge(&mut self, id: ColumnFamilyId, mut group: Vec<Placed>, level: usize) -> Result<()> {
        let family = self.output_family(id)?;
        let order = family.comparator.clone();
        // Of two entries with the same sequence number the one in the newer file wins.
        group.sort_by_key(|placed| std::cmp::Reverse(placed.meta.number));
        let mut children: Vec<Box<dyn InternalIterator>> = Vec::new();
        let mut tombstones = Vec::new();
        for placed in &group {
            let reader = self.reader(placed, &order)?;
            tombstones.extend(within(&placed.meta, reader.range_tombstones(), &order));
            children.push(Box::new(reader.iter(TableIterOptions {
                fill_cache: false,
                readahead: READAHEAD,
            })));
        }
        let tombstones = FragmentedTombstones::build(tombstones, &order);
        let mut merged = MergingIterator::new(children, order.clone());
        let grandparents = Grandparents::none();
        let mut writer = OutputWriter::cut(self.env.clone(), family, tombstones, grandparents);
        let written = merge_into(&mut merged, &mut writer);
        let output = match written {
            Ok(output) => output,
            Err(e) => {
                self.env.discard(&writer.created());
                return Err(e);
            }
        };
        self.report.merged_tables += group.len();
        let replaced = group.iter().filter(|placed| placed.new);
        let replaced: Vec<_> = replaced
            .map(|placed| FileKind::Table(placed.meta.number))
            .collect();
        self.env.discard(&replaced);
        self.written(id, Some(level), output);
        Ok(())
    }

    fn reader(&self, placed: &Placed, order: &InternalKeyComparator) -> Result<Arc<TableReader>> {
        let dir = match placed.new {
            true => &*self.env.dir,
            false => self.from.dir,
        };
        let path = FileKind::Table(placed.meta.number).path(dir);
        let file = self.from.vfs.open(&path, Access::Sequential)?;
        TableReader::open(
            file,
            &path,
            TableReaderOptions {
                identity: placed.meta.identity(),
                comparator: order.clone(),
                block_cache: Arc::new(BlockCache::new(0)),
            },
        )
    }
}

/// Copies the entries; of those with equal keys and sequence numbers only the first.
fn merge_into(merged: &mut MergingIterator, writer: &mut OutputWriter) -> Result<JobOutput> {
    let mut last: Option<(Vec<u8>, titan::SequenceNumber)> = None;
    merged.seek_to_first()?;
    while merged.valid() {
        let key = ParsedInternalKey::parse(merged.key())?;
        let again = last
            .as_ref()
            .is_some_and(|(user, sequence)| *user == key.user_key && *sequence == key.sequence);
        if !again {
            last = Some((key.user_key.to_vec(), key.sequence));
            writer.add(merged.key(), merged.value())?;
        }
        merged.next()?;
    }
    writer.finish()
}

/// Whether in a family no two tables of a level share keys, and each of level 0 is newer than the
/// next.
fn is_ordered(placed: &[Placed], id: ColumnFamilyId, order: &InternalKeyComparator) -> bool {
    let own = || placed.iter().filter(|placed| placed.family == id);
    let level0: Vec<_> = own().filter(|placed| placed.level == Some(0)).collect();
    let mut below: Vec<_> = own().filter(|placed| placed.level != Some(0)).collect();
    below.sort_by(|a, b| order.compare(&a.meta.smallest, &b.meta.smallest));
    level0.is_sorted_by(|newer, older| newer.is_newer_than(older))
        && below.is_sorted_by(|one, next| !one.meets(next, order))
}

/// Groups tables that share keys, directly or through others.
fn groups(mut tables: Vec<Placed>, order: &InternalKeyComparator) -> Vec<Vec<Placed>> {
    tables.sort_by(|a, b| order.compare(&a.meta.smallest, &b.meta.smallest));
    let mut groups: Vec<Vec<Placed>> = Vec::new();
    for placed in tables {
        match groups.last_mut() {
            Some(group) if group.iter().any(|other| other.meets(&placed, order)) => {
                group.push(placed);
            }
            _ => groups.push(vec![placed]),
        }
    }
    groups
}
