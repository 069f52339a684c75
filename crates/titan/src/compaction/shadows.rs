//! How many bytes of values in blob files a flush hides: those of older versions of its keys, which
//! are garbage that no compaction has found yet.
//!
//! An estimate, from a sample of the keys that the filters of older tables are asked for. It
//! decides how soon tables are compacted, and how much of the space is taken to be alive; never
//! what is garbage.

use std::ops::Bound;

use crate::cache::OpenFiles;
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::internal_key::{ParsedInternalKey, ValueType};
use crate::format::total;
use crate::version::Version;

/// So many keys are all looked at.
const WHOLE: u64 = 1024;
/// Of those behind them, one in so many.
const STRIDE: u64 = 16;

/// The sample of a flush.
pub(crate) struct ShadowSample<'a> {
    version: &'a Version,
    open_files: &'a OpenFiles,
    min_blob_size: u64,
    /// What an older version of a deleted key is taken to measure.
    average: u64,
    seen: u64,
    bytes: u64,
}

impl<'a> ShadowSample<'a> {
    /// For a flush on top of `version`; `None` where nothing in blob files can be hidden.
    pub(crate) fn of(
        version: &'a Version,
        open_files: &'a OpenFiles,
        min_blob_size: u64,
    ) -> Option<Self> {
        let files = version.blob_files.values();
        let count = total(files.map(|meta| meta.live_count()));
        let bytes = version.blob_live_bytes();
        (count > 0).then(|| ShadowSample {
            version,
            open_files,
            min_blob_size,
            average: bytes / count,
            seen: 0,
            bytes: 0,
        })
    }

    /// Takes notice of an entry that is flushed.
    pub(crate) fn see(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        self.seen += 1;
        let weight = match self.seen {
            ..=WHOLE => 1,
            n if n % STRIDE == 0 => STRIDE,
            _ => return Ok(()),
        };
        let key = ParsedInternalKey::parse(ikey)?;
        // A large value is taken to replace one of its size.
        let hidden = match key.value_type {
            ValueType::Value if value.len() as u64 >= self.min_blob_size => value.len() as u64,
            ValueType::BlobIndex => BlobIndex::decode(value)?.size,
            ValueType::Deletion | ValueType::SingleDeletion => self.average,
            _ => return Ok(()),
        };
        if self.is_in_tables(key.user_key) {
            self.bytes = self.bytes.saturating_add(hidden.saturating_mul(weight));
        }
        Ok(())
    }

    /// Bytes hidden by everything that was seen.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a table has the key, as far as filters can tell. A table that cannot be opened has
    /// nothing to say here; those who need it will be told.
    fn is_in_tables(&self, user_key: &[u8]) -> bool {
        let version = self.version;
        let comparator = &version.comparator;
        let key = (Some(user_key), Bound::Included(user_key));
        let may_contain = |file: &crate::version::TableFile| {
            let table = self.open_files.table(file.meta.identity(), comparator);
            table.is_ok_and(|table| table.may_contain(user_key))
        };
        let level0 = version.level(0).iter();
        let mut level0 = level0.filter(|file| version.overlaps(file, key.0, key.1));
        let mut sorted =
            (1..version.num_levels()).flat_map(|level| version.sorted_level_files(level, user_key));
        level0.any(|file| may_contain(file)) || sorted.any(|file| may_contain(file))
    }
}
