//! The disk usage of the files in a directory.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Bytes on disk by kind of file.
pub(crate) fn by_kind(dir: &Path) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for (file, bytes) in files(dir) {
        *kinds.entry(kind(&file)).or_insert(0) += bytes;
    }
    kinds
}

pub(crate) fn total(dir: &Path) -> u64 {
    files(dir).map(|(_, bytes)| bytes).sum()
}

/// Every file with its allocated bytes: holes take none, preallocation counts. Files that are
/// deleted in the meantime are omitted.
fn files(dir: &Path) -> impl Iterator<Item = (PathBuf, u64)> {
    let files = WalkDir::new(dir).into_iter().filter_map(Result::ok);
    let files = files.filter(|file| file.file_type().is_file());
    files.filter_map(|file| {
        let blocks = file.metadata().ok()?.blocks();
        Some((file.into_path(), blocks * 512))
    })
}

/// The extension of a file's name; without one, the start of its name, or its directory's name if
/// the file name is only a number.
fn kind(path: &Path) -> String {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    match text(path.extension()) {
        ending if ending.is_empty() => {}
        // `LOG.old.1795368748666001`
        ending if is_number(&ending) => return kind(&path.with_extension("")),
        ending => return ending,
    }
    let name = text(path.file_name());
    let beginning = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    match beginning.is_empty() {
        true => text(path.parent().and_then(Path::file_name)),
        false => beginning.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_what_names_say() {
        let kind = |path: &str| super::kind(Path::new(path));
        assert_eq!(kind("db/000012.sst"), "sst");
        assert_eq!(kind("db/MANIFEST-000001"), "MANIFEST");
        assert_eq!(kind("db/blobs/17"), "blobs");
        assert_eq!(kind("db/LOCK"), "LOCK");
        assert_eq!(kind("db/LOG.old.1795368748666001"), "old");
    }

    #[test]
    fn what_is_not_there_takes_nothing() {
        assert!(by_kind(Path::new("/nonexistent")).is_empty());
        assert_eq!(total(Path::new("/nonexistent")), 0);
    }
}
