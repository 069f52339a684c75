//! A value that was found, and the ways to read it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::error::Result;
use crate::format::CompressionType;
use crate::format::blob_index::BlobIndex;
use crate::merge::{MergeOperator, Operands};

/// Reads values from the blob files of one version, and pins them.
pub(crate) trait ValueSource: Send + Sync {
    /// The value of `user_key` to which `index` points.
    fn fetch(&self, user_key: &[u8], index: &BlobIndex) -> Result<Bytes>;

    /// Verifies a value that is not compressed. Reads it in pieces of at most 1 MiB.
    fn verify(&self, user_key: &[u8], index: &BlobIndex) -> Result<()>;

    /// Fills `buf` with a part of a value that is not compressed, from `offset` on, which is not
    /// verified again.
    fn read_part(
        &self,
        user_key: &[u8],
        index: &BlobIndex,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<()>;
}

/// The longest value that is read as a whole for a part of it, in bytes.
const READ_WHOLE: u64 = 1 << 20;

/// Finds a value of a store on the engine that was not looked up yet: see [`LazyValue::deferred`].
pub trait FindValue: Send + Sync {
    /// Looks the value up. Every call finds the same one.
    ///
    /// # Errors
    /// Those of a point read; `Corruption` if there is none.
    fn find(&self) -> Result<LazyValue>;
}

/// A value that was found but, if it is in a blob file, not read yet. It stays readable for as long
/// as it is alive. Writes, compactions and deletions do not change it.
#[derive(Clone)]
pub struct LazyValue(pub(super) Kind);

#[derive(Clone)]
pub(super) enum Kind {
    Inline(Bytes),
    Blob {
        key: Bytes,
        index: BlobIndex,
        source: Arc<dyn ValueSource>,
        verified: Verified,
    },
    Merged(Arc<Parts>),
    Deferred(Arc<Deferred>),
}

/// A value that was not looked up yet.
pub(super) struct Deferred {
    finder: Arc<dyn FindValue>,
    /// The value, once parts of it are read: it knows that it was verified.
    found: OnceLock<LazyValue>,
}

impl Deferred {
    /// The value, looked up unless it is kept.
    pub(super) fn find(&self) -> Result<LazyValue> {
        match self.found.get() {
            Some(found) => Ok(found.clone()),
            None => self.finder.find(),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if let Some(found) = self.found.get() {
            return found.read_at(offset, buf);
        }
        let found = self.finder.find()?;
        match found.is_read_in_parts() {
            true => self.found.get_or_init(|| found).read_at(offset, buf),
            false => found.read_at(offset, buf),
        }
    }
}

/// Whether a value was verified, so that parts of it may be given.
#[derive(Default)]
pub(super) struct Verified(AtomicBool);

impl Clone for Verified {
    fn clone(&self) -> Self {
        Verified(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}

/// Parts of which a merge operator makes a value.
pub(super) struct Parts {
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
        LazyValue(Kind::Deferred(Arc::new(Deferred {
            finder,
            found: OnceLock::new(),
        })))
    }

    pub(crate) fn blob(key: Bytes, index: BlobIndex, source: Arc<dyn ValueSource>) -> Self {
        let verified = Verified::default();
        LazyValue(Kind::Blob {
            key,
            index,
            source,
            verified,
        })
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
            Kind::Blob {
                key, index, source, ..
            } => source.fetch(key, index),
            Kind::Merged(parts) => parts.merge(),
            Kind::Deferred(deferred) => deferred.find()?.fetch(),
        }
    }

    /// Copies a part of the value to `buf`, from byte `offset` on. Returns how many bytes these
    /// are: less than `buf` has room for only at the end of the value.
    ///
    /// Cost: of a value of more than 1 MiB in a blob file that is not compressed, one read of the
    /// part; but first, once for this lazy value, one of the whole, in pieces of 1 MiB, to verify
    /// its checksum. So however large the value is, it takes 1 MiB of memory. Every other value is
    /// [fetched](LazyValue::fetch) for each part.
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// db.put("film", vec![7; 5_000_000])?;
    /// db.flush()?;
    /// let film = db.get_lazy("film")?.unwrap();
    /// let mut second = vec![0; 100_000];
    /// assert_eq!(film.read_at(4_950_000, &mut second)?, 50_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`LazyValue::fetch`].
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match &self.0 {
            Kind::Blob {
                key,
                index,
                source,
                verified: Verified(verified),
            } if self.is_read_in_parts() => {
                let left = index.size.saturating_sub(offset);
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
                let part = buf.get_mut(..len).unwrap_or_default();
                if part.is_empty() {
                    return Ok(0);
                }
                if !verified.load(Ordering::Relaxed) {
                    source.verify(key, index)?;
                    verified.store(true, Ordering::Relaxed);
                }
                source.read_part(key, index, offset, part)?;
                Ok(len)
            }
            Kind::Deferred(deferred) => deferred.read_at(offset, buf),
            _ => Ok(copy_part(&self.fetch()?, offset, buf)),
        }
    }

    /// Whether a part of the value is read without the rest.
    pub(super) fn is_read_in_parts(&self) -> bool {
        match &self.0 {
            Kind::Blob { index, .. } => {
                index.compression == CompressionType::None && index.size > READ_WHOLE
            }
            _ => false,
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
            Kind::Deferred(deferred) => deferred.find().map_or(0, |value| value.stored_len()),
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

/// Copies the part of `value` from `offset` on for which there is room. Returns its length.
pub(super) fn copy_part(value: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let left = value.get(from..).unwrap_or_default();
    let copied = left.iter().zip(buf);
    copied.map(|(from, to)| *to = *from).count()
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::format::BlobFileNumber;

    /// Finds a large value in a blob file, and counts the requests to both.
    #[derive(Default)]
    struct Counting {
        finds: AtomicUsize,
        verifications: AtomicUsize,
    }

    struct Finder(Arc<Counting>);

    const SIZE: u64 = 4 * READ_WHOLE;

    impl FindValue for Finder {
        fn find(&self) -> Result<LazyValue> {
            self.0.finds.fetch_add(1, Ordering::Relaxed);
            let index = BlobIndex {
                file: BlobFileNumber(1),
                offset: 0,
                size: SIZE,
                compression: CompressionType::None,
            };
            let source = Arc::clone(&self.0);
            Ok(LazyValue::blob(Bytes::from("key"), index, source))
        }
    }

    impl ValueSource for Counting {
        fn fetch(&self, _: &[u8], _: &BlobIndex) -> Result<Bytes> {
            Ok(vec![7; SIZE as usize].into())
        }

        fn verify(&self, _: &[u8], _: &BlobIndex) -> Result<()> {
            self.verifications.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn read_part(&self, _: &[u8], _: &BlobIndex, _: u64, buf: &mut [u8]) -> Result<()> {
            buf.fill(7);
            Ok(())
        }
    }

    #[test]
    fn a_deferred_value_is_found_and_verified_once_for_all_parts() {
        let counting = Arc::new(Counting::default());
        let value = LazyValue::deferred(Arc::new(Finder(Arc::clone(&counting))));
        let mut part = vec![0; 64 << 10];
        for value in [value.clone(), value] {
            for offset in (0..SIZE).step_by(part.len()) {
                assert_eq!(value.read_at(offset, &mut part).unwrap(), part.len());
            }
        }
        assert_eq!(counting.finds.load(Ordering::Relaxed), 1);
        assert_eq!(counting.verifications.load(Ordering::Relaxed), 1);
    }
}
