//! The names of a database's files.

use std::path::{Path, PathBuf};

use crate::format::numbers::{BlobFileNumber, FileNumber};

/// No file has this number or a larger one: it is far beyond the numbers that any database uses up,
/// and far enough from 2^64 that numbers counted on from a file name cannot wrap.
pub(crate) const MAX_FILE_NUMBER: u64 = 1 << 60;

/// A number found in a file name must be smaller, unless the MANIFEST names the file: numbers that
/// are counted on from it then stay below [`MAX_FILE_NUMBER`].
pub(crate) const MAX_FOUND_NUMBER: u64 = MAX_FILE_NUMBER / 2;

/// Meaning of a file name in a database directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    Wal(FileNumber),
    Table(FileNumber),
    Blob(BlobFileNumber),
    /// The relocation map of a blob file that a collection wrote.
    BlobMap(FileNumber),
    Manifest(FileNumber),
    Options(FileNumber),
    Current,
    Identity,
    Lock,
    /// A file that is being written and becomes another file by a rename, or that a crash left.
    Temp(FileNumber),
}

impl FileKind {
    /// The file's name within the database directory.
    pub fn name(self) -> String {
        match self {
            FileKind::Wal(n) => format!("{:06}.log", n.0),
            FileKind::Table(n) => format!("{:06}.sst", n.0),
            FileKind::Blob(n) => format!("{:06}.blob", n.0),
            FileKind::BlobMap(n) => format!("{:06}.blobmap", n.0),
            FileKind::Manifest(n) => format!("MANIFEST-{:06}", n.0),
            FileKind::Options(n) => format!("OPTIONS-{:06}", n.0),
            FileKind::Current => "CURRENT".to_owned(),
            FileKind::Identity => "IDENTITY".to_owned(),
            FileKind::Lock => "LOCK".to_owned(),
            FileKind::Temp(n) => format!("{:06}.dbtmp", n.0),
        }
    }

    /// The file's path in the database at `dir`.
    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.name())
    }

    /// The number in the name, for kinds that carry one.
    pub fn number(self) -> Option<u64> {
        match self {
            FileKind::Wal(n)
            | FileKind::Table(n)
            | FileKind::BlobMap(n)
            | FileKind::Manifest(n)
            | FileKind::Options(n)
            | FileKind::Temp(n) => Some(n.0),
            FileKind::Blob(n) => Some(n.0),
            FileKind::Current | FileKind::Identity | FileKind::Lock => None,
        }
    }

    /// Meaning of `name`; `None` for files that are not the engine's.
    pub fn parse(name: &str) -> Option<FileKind> {
        let number = |s: &str| -> Option<u64> {
            let digits = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            digits
                .then(|| s.parse().ok())?
                .filter(|n| *n < MAX_FILE_NUMBER)
        };
        match name {
            "CURRENT" => return Some(FileKind::Current),
            "IDENTITY" => return Some(FileKind::Identity),
            "LOCK" => return Some(FileKind::Lock),
            _ => {}
        }
        if let Some(n) = name.strip_prefix("MANIFEST-") {
            return number(n).map(|n| FileKind::Manifest(FileNumber(n)));
        }
        if let Some(n) = name.strip_prefix("OPTIONS-") {
            if let Some(n) = n.strip_suffix(".dbtmp") {
                return number(n).map(|n| FileKind::Temp(FileNumber(n)));
            }
            return number(n).map(|n| FileKind::Options(FileNumber(n)));
        }
        let (stem, extension) = name.rsplit_once('.')?;
        let n = number(stem)?;
        Some(match extension {
            "log" => FileKind::Wal(FileNumber(n)),
            // LevelDB's tables are found under the names of others; see `LevelDbNames`.
            "sst" | "ldb" => FileKind::Table(FileNumber(n)),
            "blob" => FileKind::Blob(BlobFileNumber(n)),
            "blobmap" => FileKind::BlobMap(FileNumber(n)),
            "dbtmp" => FileKind::Temp(FileNumber(n)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_foreign_ones_are_nobody_s() {
        let n = FileNumber(12);
        for kind in [
            FileKind::Wal(n),
            FileKind::Table(FileNumber(12_345_678)),
            FileKind::Blob(BlobFileNumber(3)),
            FileKind::BlobMap(n),
            FileKind::Manifest(n),
            FileKind::Options(n),
            FileKind::Current,
            FileKind::Identity,
            FileKind::Lock,
            FileKind::Temp(n),
        ] {
            assert_eq!(FileKind::parse(&kind.name()), Some(kind));
        }
        assert_eq!(FileKind::parse("000012.ldb"), Some(FileKind::Table(n)));
        for foreign in [
            "",
            "LOG",
            "LOG.old.1",
            "x.sst",
            "12.txt",
            "MANIFEST-",
            "MANIFEST-+1",
            ".sst",
        ] {
            assert_eq!(FileKind::parse(foreign), None, "{foreign}");
        }
    }
}
