//! Counts pointers into blob files: those that a compaction read but did not write are garbage.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format::BlobFileNumber;
use crate::format::blob_index::BlobIndex;
use crate::version::edit::BlobFileGarbage;

#[derive(Clone, Copy, Default)]
struct Flow {
    count: u64,
    bytes: u64,
}

/// Pointers into blob files that were counted at one place, per file.
#[derive(Default)]
pub(crate) struct ReferenceCounts {
    flows: BTreeMap<BlobFileNumber, Flow>,
}

impl ReferenceCounts {
    /// Counts an entry whose value is an encoded [`BlobIndex`].
    pub(crate) fn add(&mut self, user_key: &[u8], value: &[u8]) -> Result<()> {
        let index = BlobIndex::decode(value)?;
        let flow = self.flows.entry(index.file).or_default();
        flow.count += 1;
        flow.bytes = flow.bytes.saturating_add(index.record_len(user_key.len()));
        Ok(())
    }

    /// What `self` counted in the input and `out` did not count in the output (BLOB-3).
    ///
    /// # Errors
    /// `Internal` if the output has more pointers than the input, which no sound input can cause.
    pub(crate) fn garbage(&self, out: &ReferenceCounts) -> Result<Vec<BlobFileGarbage>> {
        let mut garbage = Vec::new();
        for (&number, inflow) in &self.flows {
            let mut out = out.flows.get(&number).copied().unwrap_or_default();
            // MUTANT: a compaction reports pointers that it carries on as garbage.
            if mutant!(
                "garbage-counted-twice",
                "-p titan-campaigns --test it metamorphic::"
            ) {
                (out.count, out.bytes) = (out.count / 2, out.bytes / 2);
            }
            let (Some(count), Some(bytes)) = (
                inflow.count.checked_sub(out.count),
                inflow.bytes.checked_sub(out.bytes),
            ) else {
                return Err(Error::internal(format!(
                    "a compaction would write more references to blob file {number} than it read"
                )));
            };
            if count > 0 {
                garbage.push(BlobFileGarbage {
                    number,
                    count,
                    bytes,
                    unknown: Vec::new(),
                });
            }
        }
        Ok(garbage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::CompressionType;

    #[test]
    fn garbage_is_the_difference_and_never_negative() {
        let pointer = |file, size| {
            let index = BlobIndex {
                file: BlobFileNumber(file),
                offset: 100,
                size,
                compression: CompressionType::None,
            };
            let mut out = Vec::new();
            index.encode(&mut out);
            out
        };
        let (mut read, mut carried_on) = <(ReferenceCounts, ReferenceCounts)>::default();
        read.add(b"a", &pointer(7, 1000)).unwrap();
        read.add(b"bb", &pointer(7, 500)).unwrap();
        read.add(b"c", &pointer(8, 9)).unwrap();
        carried_on.add(b"a", &pointer(7, 1000)).unwrap();
        carried_on.add(b"c", &pointer(8, 9)).unwrap();
        let garbage = read.garbage(&carried_on).unwrap();
        assert_eq!(garbage.len(), 1);
        assert_eq!(
            (garbage[0].number.0, garbage[0].count, garbage[0].bytes),
            (7, 1, 534)
        );
        carried_on.add(b"c", &pointer(8, 9)).unwrap();
        let error = read.garbage(&carried_on).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Internal);
    }
}
