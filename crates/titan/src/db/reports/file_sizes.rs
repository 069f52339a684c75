//! The lengths of a database's files, as a list of its directory has them.

use std::collections::BTreeMap;

use crate::format::file_name::FileKind;
use crate::gc::disk_usage::ListedFile;
use crate::gc::report::FileSum;

/// The lengths of the engine's files.
pub(super) struct FileSizes {
    pub(super) files: BTreeMap<FileKind, u64>,
}

impl FileSizes {
    pub(super) fn of(listed: &[ListedFile]) -> Self {
        let ours = listed
            .iter()
            .filter_map(|file| Some((file.kind?, file.bytes)));
        FileSizes {
            files: ours.collect(),
        }
    }

    pub(super) fn of_file(&self, file: FileKind) -> u64 {
        self.files.get(&file).copied().unwrap_or(0)
    }

    pub(super) fn sum<'a>(&self, files: impl IntoIterator<Item = &'a FileKind>) -> FileSum {
        let mut sum = FileSum::default();
        for bytes in files.into_iter().filter_map(|file| self.files.get(file)) {
            sum.files += 1;
            sum.bytes += bytes;
        }
        sum
    }
}
