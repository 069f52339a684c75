//! Overlap of an output table with the level below.

use std::sync::Arc;

use crate::format::internal_key::InternalKeyComparator;
use crate::version::{TableFile, Version};

/// The tables one level below the output, walked in parallel to bound the bytes that an output
/// table overlaps.
pub struct Grandparents {
    files: Vec<Arc<TableFile>>,
    position: usize,
    overlapped: u64,
}

impl Grandparents {
    pub(crate) fn new(version: &Version, output_level: usize) -> Self {
        let files = version.level(output_level + 1).to_vec();
        Grandparents {
            files,
            position: 0,
            overlapped: 0,
        }
    }

    pub fn none() -> Self {
        Grandparents {
            files: Vec::new(),
            position: 0,
            overlapped: 0,
        }
    }

    /// Starts an output table at `user_key`: files that end before it do not count.
    pub(super) fn start_at(&mut self, user_key: &[u8], comparator: &InternalKeyComparator) {
        self.overlapped_at(user_key, comparator);
        self.overlapped = 0;
    }

    /// Bytes overlapped since the table was started, once `user_key` is reached.
    pub(super) fn overlapped_at(
        &mut self,
        user_key: &[u8],
        comparator: &InternalKeyComparator,
    ) -> u64 {
        while let Some(file) = self.files.get(self.position)
            && comparator
                .compare_user(file.largest_user_key(), user_key)
                .is_lt()
        {
            self.overlapped += file.logical_size();
            self.position += 1;
        }
        self.overlapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::internal_key::{ValueType, internal_key};
    use crate::format::{BytewiseComparator, FileNumber, SequenceNumber};
    use crate::version::ObsoleteFiles;
    use crate::version::edit::NewFile;

    #[test]
    fn a_table_overlaps_only_what_lies_behind_its_start() {
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let queue = Arc::new(ObsoleteFiles::default());
        let boundary =
            |key: &str| internal_key(key.as_bytes(), SequenceNumber(1), ValueType::Value as u8);
        let file = |number, smallest, largest| {
            let meta = NewFile {
                number: FileNumber(number),
                size: 100,
                smallest: boundary(smallest),
                largest: boundary(largest),
                ..NewFile::default()
            };
            Arc::new(TableFile::new(meta, None, &queue))
        };
        let mut grandparents = Grandparents {
            files: vec![file(1, "a", "b"), file(2, "c", "f"), file(3, "g", "h")],
            ..Grandparents::none()
        };
        grandparents.start_at(b"d", &comparator);
        assert_eq!(grandparents.overlapped_at(b"e", &comparator), 0);
        assert_eq!(grandparents.overlapped_at(b"g", &comparator), 100);
        grandparents.start_at(b"g", &comparator);
        assert_eq!(grandparents.overlapped_at(b"z", &comparator), 100);
    }
}
