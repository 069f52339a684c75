//! Checks the tables of a column family and collects their pointers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use titan::internals::block_cache::BlockCache;
use titan::internals::collector::CollectedReport;
use titan::internals::format::{
    BlobIndex, FileKind, InternalKeyComparator, ParsedInternalKey, RangeTombstone, each_pointer,
    trailer, user_key,
};
use titan::internals::table::{
    TableCheck, TableProperties, TableReader, TableReaderOptions, TableVisitor, bounds,
};
use titan::internals::version::{FamilyVersions, NewFile, TableFacts, TableFile, VersionSet};
use titan::internals::vfs::open_live;
use titan::vfs::Access;
use titan::{BlobFileNumber, Error, FileNumber, Result, SequenceNumber};

use super::Check;
use crate::pointers::{FileReferences, Pointer};

/// The pointers of all tables of a family.
pub(super) struct References {
    tables: Vec<FileNumber>,
    pub(super) files: BTreeMap<BlobFileNumber, FileReferences>,
    /// Whether every table was read to its end, so that no pointer is missing here.
    pub(super) complete: bool,
    /// Whether Titan wrote all tables, so that no garbage is missing from the MANIFEST.
    pub(super) exact: bool,
}

impl References {
    pub(super) fn table_of(&self, pointer: &Pointer) -> FileNumber {
        let table = self.tables.get(pointer.table as usize);
        table.copied().unwrap_or_default()
    }

    fn add(&mut self, user_key: &[u8], index: &BlobIndex) {
        let table = self.tables.len().saturating_sub(1) as u32;
        let file = self.files.entry(index.file).or_default();
        file.add(user_key, index, table);
    }
}

impl Check<'_> {
    /// Checks every table of a family.
    pub(super) fn tables(&mut self, family: &FamilyVersions, versions: &VersionSet) -> References {
        let mut references = References {
            tables: Vec::new(),
            files: BTreeMap::new(),
            complete: true,
            exact: family.current.tables().all(|(_, t)| t.is_own()),
        };
        // Nothing is read twice, so nothing is cached.
        let cache = Arc::new(BlockCache::new(0));
        for (_, table) in family.current.tables() {
            self.report.tables += 1;
            let path = self.begin(FileKind::Table(table.number()));
            references.tables.push(table.number());
            let mut walk = Walk {
                path,
                meta: &table.meta,
                order: &family.comparator,
                last_sequence: versions.counters().last_sequence(),
                outside_keys: false,
                outside_sequences: false,
                points: (Vec::new(), Vec::new()),
                sequences: (SequenceNumber::MAX, SequenceNumber::ZERO),
                references: &mut references,
                check: self,
            };
            if let Err(e) = walk.table(table, family, &cache) {
                walk.damage(e);
                references.complete = false;
            }
            self.finish(table.size());
        }
        self.level0_order(family);
        references
    }

    /// A lookup takes the first entry it finds. So of two tables that share keys, the first
    /// must not have an entry older than one of the other. This does not
    /// apply to tables that RocksDB ingested.
    fn level0_order(&mut self, family: &FamilyVersions) {
        let version = &family.current;
        let tables = version.level(0);
        for (i, newer) in tables.iter().enumerate() {
            let older = tables.iter().skip(i + 1);
            let wrong = older.filter(|older| {
                newer.is_own()
                    && older.is_own()
                    && newer.meta.smallest_seq <= older.meta.largest_seq
                    && version.overlaps(older, Some(newer.smallest_user_key()), newer.end())
            });
            for older in wrong {
                let text = format!(
                    "level 0 has the table before {}, which has newer entries of the same keys",
                    older.number()
                );
                let path = self.begin(FileKind::Table(newer.number()));
                self.problem(Error::corruption(text).in_file(&path));
            }
        }
    }
}

/// Follows the check of one table and compares the table with the MANIFEST.
struct Walk<'w, 'c> {
    path: PathBuf,
    meta: &'w NewFile,
    order: &'w InternalKeyComparator,
    last_sequence: SequenceNumber,
    /// Whether a key or a sequence number out of bounds was reported: one report is enough.
    outside_keys: bool,
    outside_sequences: bool,
    /// The first and the last internal key.
    points: (Vec<u8>, Vec<u8>),
    /// The smallest and the largest sequence number.
    sequences: (SequenceNumber, SequenceNumber),
    references: &'w mut References,
    check: &'w mut Check<'c>,
}

impl TableVisitor for Walk<'_, '_> {
    fn entry(&mut self, key: ParsedInternalKey<'_>, ikey: &[u8], value: &[u8], block_offset: u64) {
        self.check.reached(block_offset);
        let within = self.order.compare(&self.meta.smallest, ikey).is_le()
            && self.order.compare(ikey, &self.meta.largest).is_le();
        if !within && !std::mem::replace(&mut self.outside_keys, true) {
            let text = format!(
                "key '{}' is outside the range that the MANIFEST gives the table",
                key.user_key.escape_ascii()
            );
            self.damage(Error::corruption(text).at(&self.path, block_offset));
        }
        self.sequence(key.sequence, block_offset);
        let (first, last) = &mut self.points;
        if first.is_empty() {
            first.extend_from_slice(ikey);
        }
        last.clear();
        last.extend_from_slice(ikey);
        // What is wrong with them was reported as damage.
        let _ = each_pointer(key.value_type, value, |index| {
            self.check.report.pointers += 1;
            self.references.add(key.user_key, &index);
            Ok(())
        });
    }

    fn damage(&mut self, error: Error) {
        self.check.problem(error.in_file(&self.path));
    }
}

impl Walk<'_, '_> {
    fn table(
        &mut self,
        table: &TableFile,
        family: &FamilyVersions,
        cache: &Arc<BlockCache>,
    ) -> Result<()> {
        let vfs = self.check.vfs;
        let file = open_live(vfs, &self.path, Access::Sequential)?;
        let options = TableReaderOptions {
            identity: self.meta.identity(),
            comparator: family.comparator.clone(),
            block_cache: Arc::clone(cache),
        };
        let reader = TableReader::open(file, &self.path, options)?;
        let owner = reader.properties().column_family_id;
        if let Some(owner) = owner.filter(|id| *id != family.current.column_family) {
            // Legal if RocksDB imported the file, suspicious otherwise.
            self.check.note(format!(
                "table {} was written for column family {owner} and belongs to {}",
                table.number(),
                family.current.column_family
            ));
        }
        let found = reader.verify(self);
        self.check.report.entries += found.entries;
        self.references.complete &= found.complete;
        if found.complete {
            self.compare(&found, table.facts(), reader.range_tombstones());
            let facts = table.facts().filter(|facts| !facts.foreign);
            if let Some(facts) = facts {
                self.compare_collected(&facts.collected, reader.properties());
            }
        }
        Ok(())
    }

    fn sequence(&mut self, sequence: SequenceNumber, block_offset: u64) {
        let (smallest, largest) = self.sequences;
        self.sequences = (smallest.min(sequence), largest.max(sequence));
        let within = self.meta.may_have(sequence) && sequence <= self.last_sequence;
        if !within && !std::mem::replace(&mut self.outside_sequences, true) {
            let text = format!(
                "sequence number {sequence} is outside the MANIFEST's {}..={}, or beyond the \
                 last, {}",
                self.meta.smallest_seq, self.meta.largest_seq, self.last_sequence
            );
            self.damage(Error::corruption(text).at(&self.path, block_offset));
        }
    }

    /// Compares what the MANIFEST says that collectors reported with what the table says.
    fn compare_collected(&mut self, recorded: &CollectedReport, properties: &TableProperties) {
        match properties.collected() {
            Ok(found) if found == *recorded => {}
            Ok(found) => {
                let text = format!("collectors reported {found:?}, the MANIFEST says {recorded:?}");
                self.damage(Error::corruption(text));
            }
            Err(e) => self.damage(e),
        }
    }

    /// Compares a table that was read to its end with the MANIFEST.
    fn compare(
        &mut self,
        found: &TableCheck,
        facts: Option<&TableFacts>,
        tombstones: &[RangeTombstone],
    ) {
        for tombstone in tombstones {
            self.sequence(tombstone.sequence, 0);
        }
        let oldest = found.blob_refs.first().map(|refs| refs.file);
        if oldest != self.meta.oldest_blob_file {
            let text = format!(
                "the oldest blob file the table points to is {}, the MANIFEST says {}",
                or_none(oldest),
                or_none(self.meta.oldest_blob_file)
            );
            self.damage(Error::corruption(text));
        }
        let Some(facts) = facts else {
            return;
        };
        // Titan's own tables have exactly the bounds in the MANIFEST. RocksDB may leave
        // tombstones that extend past them, and bounds for sequence numbers that no longer
        // exist.
        let points = std::mem::take(&mut self.points);
        let (smallest, largest) = bounds(points, tombstones, self.order);
        let meta = self.meta;
        for (what, found, recorded) in [
            ("smallest", &smallest, &meta.smallest),
            ("largest", &largest, &meta.largest),
        ] {
            if !facts.foreign && found != recorded {
                let text = format!(
                    "the {what} key is {}, the MANIFEST says {}",
                    key_text(found),
                    key_text(recorded)
                );
                self.damage(Error::corruption(text));
            }
        }
        if !facts.foreign && self.sequences != (meta.smallest_seq, meta.largest_seq) {
            let text = format!(
                "the sequence numbers are {} to {}, the MANIFEST says {} to {}",
                self.sequences.0, self.sequences.1, meta.smallest_seq, meta.largest_seq
            );
            self.damage(Error::corruption(text));
        }
        let found_facts = TableFacts::of(facts.table, found);
        let actual = TableFacts {
            num_shadowed: match facts.num_shadowed {
                // Not counted.
                0 => 0,
                _ => found_facts.num_shadowed,
            },
            // An estimate: the shadowed entries are in other tables.
            shadowed_bytes: facts.shadowed_bytes,
            // Compared with the properties.
            collected: facts.collected.clone(),
            foreign: facts.foreign,
            ..found_facts
        };
        if actual != *facts {
            let text = format!("the table has {actual:?}, the MANIFEST says {facts:?}");
            self.damage(Error::corruption(text));
        }
    }
}

fn key_text(ikey: &[u8]) -> String {
    let trailer = trailer(ikey);
    format!(
        "'{}' @ {} of type {:#x}",
        user_key(ikey).escape_ascii(),
        trailer >> 8,
        trailer as u8
    )
}

fn or_none(number: Option<BlobFileNumber>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}
