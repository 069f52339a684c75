//! All stored versions of a key.

use titan::{ColumnFamily, DbIterator, LazyValue, ReadOptions};

use crate::error::Result;
use crate::format::version::split;
use crate::format::{Kind, encode_key};
use crate::timestamp::Timestamp;

/// A stored version.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoredVersion {
    /// The commit timestamp.
    pub commit: Timestamp,
    /// The start timestamp.
    pub start: Timestamp,
    /// The effect on the key.
    pub kind: Kind,
    /// The value of a put; `None` for other kinds.
    pub value: Option<LazyValue>,
}

impl std::fmt::Debug for StoredVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredVersion")
            .field("commit", &self.commit)
            .field("start", &self.start)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// The versions of a key, the newest first, from [`Store::versions`](crate::Store::versions). Ends
/// after the first error.
pub struct KeyVersions {
    cursor: DbIterator,
    has_failed: bool,
}

impl KeyVersions {
    pub(crate) fn new(versions: &ColumnFamily, key: &[u8]) -> Result<Self> {
        let mut cursor = versions.iter(&ReadOptions {
            prefix: Some(encode_key(key)),
            ..ReadOptions::default()
        })?;
        cursor.seek_to_first()?;
        Ok(KeyVersions {
            cursor,
            has_failed: false,
        })
    }

    fn read(&mut self) -> Result<StoredVersion> {
        let (_, version) = split(self.cursor.key())?;
        let value = match version.kind {
            Kind::Put => Some(self.cursor.lazy_value()?),
            _ => None,
        };
        self.cursor.next()?;
        Ok(StoredVersion {
            commit: version.commit,
            start: version.start,
            kind: version.kind,
            value,
        })
    }
}

impl Iterator for KeyVersions {
    type Item = Result<StoredVersion>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed || !self.cursor.valid() {
            return None;
        }
        let version = self.read();
        self.has_failed = version.is_err();
        Some(version)
    }
}

impl std::fmt::Debug for KeyVersions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyVersions").finish_non_exhaustive()
    }
}
