//! Brings separated values back into tables, in families that separate no more.
//!
//! A job hands its survivors to an [`Inliner`]. This reads the values to which they point, many at
//! once, and hands them on in order. A pointer stays if its value cannot be read or is too large
//! for a table: damage to one value is its readers' concern. A record brought back is garbage of
//! its blob file, as is everything that a job reads and does not write again (BLOB-3).

use std::sync::Arc;

use bytes::Bytes;

use super::output::OutputWriter;
use crate::blob::ValueFetcher;
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::entity::with_values;
use crate::format::internal_key::{
    ParsedInternalKey, ValueType, append_internal_key, is_storable, user_key,
};
use crate::format::pointers::each_pointer;
use crate::format::total;
use crate::open_files::OpenFiles;
use crate::options::ColumnFamilyOptions;
use crate::stats::Statistics;
use crate::version::Version;

/// The most entries that wait for their values to be fetched together.
const MAX_ENTRIES: usize = 1024;
/// The most stored bytes of values that are fetched together, but for the last one.
const MAX_BYTES: u64 = 4 << 20;

/// See the module.
pub(crate) struct Inliner {
    fetcher: ValueFetcher,
    /// Has the values.
    version: Arc<Version>,
    /// Entries from the first one on whose value is not fetched yet.
    waiting: Vec<Waiting>,
    /// Stored bytes of their values.
    waiting_bytes: u64,
    brought_back: u64,
}

/// An entry: internal key and value.
struct Waiting {
    key: Vec<u8>,
    value: Vec<u8>,
    /// Several for an entity.
    pointers: Vec<BlobIndex>,
}

impl Inliner {
    /// For a job whose inputs point to values of `version`; `None` if the family separates values.
    pub(crate) fn new(
        options: &ColumnFamilyOptions,
        version: &Arc<Version>,
        open_files: &Arc<OpenFiles>,
    ) -> Option<Self> {
        let stay = mutant!(values_not_brought_back);
        if options.enable_blob_files || stay {
            return None;
        }
        let readers = Arc::clone(open_files) as Arc<_>;
        Some(Inliner {
            fetcher: ValueFetcher::new(readers, Arc::new(Statistics::default())),
            version: Arc::clone(version),
            waiting: Vec::new(),
            waiting_bytes: 0,
            brought_back: 0,
        })
    }

    /// Adds a survivor to the output, now or later.
    ///
    /// # Errors
    /// Those of the writer; failures of the device to read values, but not damage to them.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        output: &mut OutputWriter,
    ) -> Result<()> {
        let mut pointers = Vec::new();
        each_pointer(ParsedInternalKey::parse(key)?.value_type, value, |index| {
            pointers.push(index);
            Ok(())
        })?;
        if pointers.is_empty() && self.waiting.is_empty() {
            return output.add(key, value);
        }
        let separated = total(pointers.iter().map(|index| index.size));
        self.waiting_bytes = total([self.waiting_bytes, separated, value.len() as u64]);
        self.waiting.push(Waiting {
            key: key.to_vec(),
            value: value.to_vec(),
            pointers,
        });
        match self.waiting.len() >= MAX_ENTRIES || self.waiting_bytes >= MAX_BYTES {
            true => self.write(output),
            false => Ok(()),
        }
    }

    /// Adds the waiting entries to the output. To be called after the last survivor.
    ///
    /// # Errors
    /// As [`Inliner::add`].
    pub(crate) fn write(&mut self, output: &mut OutputWriter) -> Result<()> {
        let wanted = self.waiting.iter().flat_map(|entry| {
            let pointers = entry.pointers.iter();
            pointers.map(|pointer| (user_key(&entry.key), *pointer))
        });
        let wanted: Vec<_> = wanted.collect();
        let version = &*self.version;
        // One value after the other is decompressed: together they may take much more than stored.
        let mut reads = self.fetcher.read_ahead(version, &wanted, true).into_iter();
        let mut inline_key = Vec::new();
        for entry in &self.waiting {
            let parsed = ParsedInternalKey::parse(&entry.key)?;
            let user_key = parsed.user_key;
            let mut values = Vec::new();
            let mut failure = None;
            for pointer in &entry.pointers {
                let value = match reads.next().flatten() {
                    Some(read) => self.fetcher.fetch_ahead(version, &read, user_key, pointer),
                    None => self.fetcher.fetch(version, user_key, pointer),
                };
                match value {
                    Ok(value) => values.push(value),
                    Err(e) => failure = Some(e),
                }
            }
            match failure {
                Some(e) if !e.is_unreadable() => return Err(e),
                None if !entry.pointers.is_empty() => {}
                Some(_) | None => {
                    output.add(&entry.key, &entry.value)?;
                    continue;
                }
            }
            let (value_type, value) = match parsed.value_type {
                ValueType::WideColumnEntity => {
                    let entity = with_values(&entry.value, values)?;
                    (ValueType::WideColumnEntity, Bytes::from(entity))
                }
                _ => (ValueType::Value, values.pop().unwrap_or_default()),
            };
            if !is_storable(user_key, &value) {
                output.add(&entry.key, &entry.value)?;
                continue;
            }
            inline_key.clear();
            append_internal_key(&mut inline_key, user_key, parsed.sequence, value_type as u8);
            output.add(&inline_key, &value)?;
            let records = entry.pointers.iter().map(|p| p.record_len(user_key.len()));
            self.brought_back = total([self.brought_back, total(records)]);
        }
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }

    /// Bytes of the blob records whose values were brought back.
    pub(crate) fn brought_back(&self) -> u64 {
        self.brought_back
    }
}
