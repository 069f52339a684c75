//! A value that is read when it is asked for.
//!
//! Owns [`LazyValue`]. Readers return it, and compaction filters get it. Assumes that the
//! [`ValueSource`] of a separated value pins the file that has it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::format::CompressionType;
use crate::format::blob_index::BlobIndex;
use crate::merge::{MergeOperator, Operands};

/// Reads values from the blob files of one version, and pins them.
pub(crate) trait ValueSource: Send + Sync {
    /// The value of `user_key` to which `index` points.
    fn fetch(&self, user_key: &[u8], index: &BlobIndex) -> Result<Bytes>;
}

/// Finds a value of a store on the engine that was not looked up yet: see [`LazyValue::deferred`].
pub trait FindValue: Send + Sync {
    /// Looks the value up. Every call finds the same one.
    ///
    /// # Errors
    /// Those of a point read; `Corruption` if there is none.
    fn find(&self) -> Result<LazyValue>;
}

/// A value that was found but, if it is in a blob file, not read yet. It stays readable for as long
/// as it is alive, whatever is written, compacted or deleted meanwhile.
#[derive(Clone)]
pub struct LazyValue(Kind);

#[derive(Clone)]
enum Kind {
    Inline(Bytes),
    Blob {
        key: Bytes,
        index: BlobIndex,
        source: Arc<dyn ValueSource>,
    },
    Merged(Arc<Parts>),
    Deferred(Arc<dyn FindValue>),
}

/// Parts of which a merge operator makes a value.
struct Parts {
    key: Bytes,
    base: Option<LazyValue>,
    /// Oldest first.
    operands: Operands,
    operator: Option<Arc<dyn MergeOperator>>,
}

impl Parts {
    fn merge(&self) -> Result<Bytes> {
        let base = self.base.as_ref().map(LazyValue::fetch).transpose()?;
        let operator = self.operator.as_deref();
        self.operands.merge(operator, &self.key, base.as_deref())
    }
}

impl From<Bytes> for LazyValue {
    /// A value that is in memory: for stores on the engine that return values of their own beside
    /// those of the database.
    fn from(value: Bytes) -> Self {
        LazyValue::inline(value)
    }
}

impl LazyValue {
    pub(crate) fn inline(value: Bytes) -> Self {
        LazyValue(Kind::Inline(value))
    }

    /// A value that is looked up when it is fetched: for stores on the engine that know from
    /// elsewhere that there is one. The store sees to it that it can be found for as long as the
    /// value is alive.
    pub fn deferred(finder: Arc<dyn FindValue>) -> Self {
        LazyValue(Kind::Deferred(finder))
    }

    pub(crate) fn blob(key: Bytes, index: BlobIndex, source: Arc<dyn ValueSource>) -> Self {
        LazyValue(Kind::Blob { key, index, source })
    }

    pub(crate) fn merged(
        key: Bytes,
        base: Option<LazyValue>,
        operands: Operands,
        operator: Option<Arc<dyn MergeOperator>>,
    ) -> Self {
        LazyValue(Kind::Merged(Arc::new(Parts {
            key,
            base,
            operands,
            operator,
        })))
    }

    /// The value. Cost: nothing if it is inline, else one read of the blob file, checksum verified;
    /// a point read before that if the value is deferred; and a call of the merge operator if the
    /// key has operands. The value is not kept: fetching again does all of that again.
    ///
    /// # Errors
    /// `Corruption` with file and offset if the stored record is damaged; `Io`; those of a merge
    /// and of a point read.
    pub fn fetch(&self) -> Result<Bytes> {
        match &self.0 {
            Kind::Inline(value) => Ok(value.clone()),
            Kind::Blob { key, index, source } => source.fetch(key, index),
            Kind::Merged(parts) => parts.merge(),
            Kind::Deferred(finder) => finder.find()?.fetch(),
        }
    }

    /// Bytes of the value as stored: after compression, where its blob file is compressed; with
    /// merge operands, of all parts. Free, but for a deferred value: that is looked up, and has
    /// zero bytes if it cannot be.
    pub fn stored_len(&self) -> u64 {
        match &self.0 {
            Kind::Inline(value) => value.len() as u64,
            Kind::Blob { index, .. } => index.size,
            Kind::Merged(parts) => {
                let base = parts.base.as_ref().map_or(0, LazyValue::stored_len);
                base + parts.operands.size_bytes() as u64
            }
            Kind::Deferred(finder) => finder.find().map_or(0, |value| value.stored_len()),
        }
    }

    /// Bytes of the value, where they are known without reading it: inline and in blob files
    /// that are not compressed, without merge operands, and not deferred. Free.
    #[expect(clippy::len_without_is_empty, reason = "the length may be unknown")]
    pub fn len(&self) -> Option<u64> {
        match &self.0 {
            Kind::Inline(value) => Some(value.len() as u64),
            Kind::Blob { index, .. } => {
                (index.compression == CompressionType::None).then_some(index.size)
            }
            Kind::Merged(_) | Kind::Deferred(_) => None,
        }
    }
}

impl fmt::Debug for LazyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Inline(value) => write!(f, "LazyValue(inline, {} bytes)", value.len()),
            Kind::Blob { index, .. } => write!(f, "LazyValue({index:?})"),
            Kind::Merged(parts) => write!(f, "LazyValue(merged, {:?})", parts.base),
            Kind::Deferred(_) => write!(f, "LazyValue(deferred)"),
        }
    }
}
