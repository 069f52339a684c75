//! Counts pointers into blob files: those that a compaction read but did not write are garbage.

use crate::error::{Error, Result};
use crate::format::BlobFileNumber;
use crate::format::internal_key::ParsedInternalKey;
use crate::format::pointers::each_pointer;
use crate::number_map::NumberMap;
use crate::version::edit::BlobFileGarbage;

#[derive(Clone, Copy, Default)]
struct Flow {
    count: u64,
    bytes: u64,
}

/// Pointers into blob files that were counted at one place, per file.
#[derive(Default)]
pub(crate) struct ReferenceCounts {
    flows: NumberMap<BlobFileNumber, Flow>,
}

impl ReferenceCounts {
    /// Counts the pointers of an entry.
    #[inline]
    pub(crate) fn add(&mut self, key: &ParsedInternalKey<'_>, value: &[u8]) -> Result<()> {
        each_pointer(key.value_type, value, |index| {
            let flow = self.flows.get_or_default(index.file);
            flow.count += 1;
            let record = index.record_len(key.user_key.len());
            flow.bytes = flow.bytes.saturating_add(record);
            Ok(())
        })
    }

    /// Whether a pointer to this blob file was counted.
    pub(crate) fn has(&self, file: BlobFileNumber) -> bool {
        self.flows.contains_key(&file)
    }

    /// References that `self` counted in the input and `out` did not count in the output (BLOB-3).
    ///
    /// # Errors
    /// `Internal` if the output has more pointers than the input, which no sound input can cause.
    pub(crate) fn garbage(&self, out: &ReferenceCounts) -> Result<Vec<BlobFileGarbage>> {
        invariant!(
            out.flows.keys().all(|file| self.flows.contains_key(file)),
            "a compaction writes references to a blob file that it read none of"
        );
        let mut garbage = Vec::new();
        for (&number, inflow) in &self.flows {
            let mut out = out.flows.get(&number).copied().unwrap_or_default();
            if mutant!(garbage_counted_twice) {
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
            invariant!(
                count > 0 || bytes == 0,
                "blob file {number} has {bytes} bytes of garbage in no record"
            );
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
    use crate::format::blob_index::BlobIndex;
    use crate::format::internal_key::ValueType;
    use crate::format::{CompressionType, SequenceNumber};

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
        let key = |user_key| ParsedInternalKey {
            user_key,
            sequence: SequenceNumber(1),
            value_type: ValueType::BlobIndex,
        };
        let (mut read, mut carried_on) = <(ReferenceCounts, ReferenceCounts)>::default();
        read.add(&key(b"a"), &pointer(7, 1000)).unwrap();
        read.add(&key(b"bb"), &pointer(7, 500)).unwrap();
        read.add(&key(b"c"), &pointer(8, 9)).unwrap();
        carried_on.add(&key(b"a"), &pointer(7, 1000)).unwrap();
        carried_on.add(&key(b"c"), &pointer(8, 9)).unwrap();
        let garbage = read.garbage(&carried_on).unwrap();
        assert_eq!(garbage.len(), 1);
        assert_eq!(
            (garbage[0].number.0, garbage[0].count, garbage[0].bytes),
            (7, 1, 534)
        );
        carried_on.add(&key(b"c"), &pointer(8, 9)).unwrap();
        let error = read.garbage(&carried_on).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Internal);
    }
}
