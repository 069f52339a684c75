//! Facts about an SST in addition to RocksDB's fields, so that opening the database need not read
//! the SST.
//!
//! ```text
//! 2 (version) | SST number | entries | deletions | range deletions | raw key bytes
//!   | raw value bytes | shadowed bytes | n | n * { blob file, references, bytes }
//!                                                                          all varints
//! ```
//!
//! Version 4 is the same as 2, followed by the reports of collectors about the table
//! ([`CollectedReport`]); it is written only if they reported something.
//!
//! Version 5 is the same as 4, which may report nothing, followed by the number of shadowed
//! entries; it is written only if there are some.
//!
//! Version 1 is the same without the shadowed bytes. Version 3 is the same as 2, for a table that
//! another program wrote and that was counted later. Nothing else is certain about such a table,
//! for example that its bounds are those of its content.
//!
//! RocksDB drops this field when it rewrites a MANIFEST, and may keep it longer than the SST
//! exists. If it is absent, the facts are unknown and tables are opened instead. If it is present,
//! it is trusted: reads do not look for range tombstones in tables that have none according to it.
//! Its key is a file number, which is never reused, so an outdated field is about no live SST.

use crate::collector::CollectedReport;
use crate::error::{Error, Result};
use crate::format::blob_index::BlobRefs;
use crate::format::coding::{Decoder, put_varint};
use crate::format::numbers::{BlobFileNumber, FileNumber};
use crate::table::TableCheck;

const VERSION: u64 = 2;
const COUNTED_VERSION: u64 = 3;
const COLLECTED_VERSION: u64 = 4;
const SHADOWED_VERSION: u64 = 5;
/// The fewest bytes that the entry of a blob file takes.
const MIN_REFERENCE_LEN: usize = 3;

/// Facts about one SST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// The SST.
    pub table: FileNumber,
    /// Entries of all kinds but range deletions.
    pub num_entries: u64,
    /// Deletions among the entries.
    pub num_deletions: u64,
    pub num_range_deletions: u64,
    /// Entries other than tombstones, right below a newer one of their key that is no merge
    /// operand: kept for snapshots. 0 also if they were not counted, as in foreign tables.
    pub num_shadowed: u64,
    /// Bytes of all internal keys.
    pub raw_key_bytes: u64,
    /// Bytes of all values; a pointer to a blob counts as the pointer.
    pub raw_value_bytes: u64,
    /// An estimate of the bytes in blob files that entries and range deletions of this SST shadow
    /// for readers without a snapshot.
    pub shadowed_bytes: u64,
    /// Which blob files the SST points to.
    pub blob_refs: Vec<BlobRefs>,
    /// Reports of collectors on it.
    pub collected: CollectedReport,
    /// Whether another program wrote the SST, and it was counted later.
    pub foreign: bool,
}

impl TableFacts {
    /// Facts from a walk through a whole table. It does not know the data that the table shadows.
    pub fn of(table: FileNumber, found: &TableCheck) -> Self {
        TableFacts {
            table,
            num_entries: found.entries,
            num_deletions: found.deletions,
            num_range_deletions: found.range_tombstones,
            num_shadowed: found.shadowed,
            raw_key_bytes: found.raw_key_size,
            raw_value_bytes: found.raw_value_size,
            shadowed_bytes: 0,
            blob_refs: found.blob_refs.clone(),
            collected: CollectedReport::default(),
            foreign: false,
        }
    }

    /// Appends the encoding.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let version = match self.foreign {
            true => COUNTED_VERSION,
            false if self.num_shadowed > 0 => SHADOWED_VERSION,
            false if !self.collected.is_empty() && !mutant!(report_not_in_the_manifest) => {
                COLLECTED_VERSION
            }
            false => VERSION,
        };
        put_varint(out, version);
        put_varint(out, self.table.0);
        put_varint(out, self.num_entries);
        put_varint(out, self.num_deletions);
        put_varint(out, self.num_range_deletions);
        put_varint(out, self.raw_key_bytes);
        put_varint(out, self.raw_value_bytes);
        put_varint(out, self.shadowed_bytes);
        put_varint(out, self.blob_refs.len() as u64);
        for reference in &self.blob_refs {
            put_varint(out, reference.file.0);
            put_varint(out, reference.count);
            put_varint(out, reference.bytes);
        }
        if version >= COLLECTED_VERSION {
            self.collected.encode(out);
        }
        if version >= SHADOWED_VERSION {
            put_varint(out, self.num_shadowed);
        }
    }

    /// Reads the encoding; `None` if it is of a later version.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        let mut d = Decoder::new(bytes);
        let version = d.varint()?;
        if !(1..=SHADOWED_VERSION).contains(&version) {
            return Ok(None);
        }
        let mut facts = TableFacts {
            table: FileNumber(d.varint()?),
            num_entries: d.varint()?,
            num_deletions: d.varint()?,
            num_range_deletions: d.varint()?,
            num_shadowed: 0,
            raw_key_bytes: d.varint()?,
            raw_value_bytes: d.varint()?,
            shadowed_bytes: match version {
                1 => 0,
                _ => d.varint()?,
            },
            blob_refs: Vec::new(),
            collected: CollectedReport::default(),
            foreign: version == COUNTED_VERSION,
        };
        let n = d.varint()?;
        if n > (d.rest().len() / MIN_REFERENCE_LEN) as u64 {
            return Err(Error::corruption(
                "more blob references than bytes for them",
            ));
        }
        facts.blob_refs.reserve_exact(n as usize);
        for _ in 0..n {
            facts.blob_refs.push(BlobRefs {
                file: BlobFileNumber(d.varint()?),
                count: d.varint()?,
                bytes: d.varint()?,
            });
        }
        if version >= COLLECTED_VERSION {
            facts.collected = CollectedReport::decode(&mut d)?;
        }
        if version >= SHADOWED_VERSION {
            facts.num_shadowed = d.varint()?;
        }
        if !d.is_empty() {
            return Err(Error::corruption("bytes after the facts about a table"));
        }
        Ok(Some(facts))
    }
}
