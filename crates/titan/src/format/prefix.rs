//! Prefixes of keys: the ends of their ranges, and filters of tables that know them.

use std::fmt;
use std::sync::Arc;

use super::bytes::append_prefix_end;
use super::key_text::KeyText;
use crate::error::{Error, Result};
use crate::panics::contain;

/// Says which part of a key is its prefix. Keys with the same prefix must be neighbours in the
/// order of the family, and the prefix must depend on the key alone.
///
/// An extractor that panics when it is asked for its name is refused with `InvalidOption` by the
/// call that gives it. Where it panics at a key, an iterator fails with `Internal`, and a table is
/// written without prefixes in its filter.
pub trait PrefixExtractor: Send + Sync {
    /// The name that is recorded with the tables, as RocksDB records it. A filter with prefixes is
    /// used only by an extractor of the same name, so another rule needs another name.
    fn name(&self) -> &str;

    /// The length of the key's prefix in bytes, at most that of the key; `None` if the key has no
    /// prefix.
    fn prefix_len(&self, key: &[u8]) -> Option<usize>;

    /// Whether all keys that start with `prefix` have the same prefix, which is `prefix` itself or
    /// a beginning of it. The answers of filters about it then hold for all of these keys. `false`
    /// is always right.
    fn is_whole(&self, prefix: &[u8]) -> bool {
        let _ = prefix;
        false
    }

    /// False for the placeholder of an extractor that a database has recorded and that was not
    /// given.
    #[doc(hidden)]
    fn is_given(&self) -> bool {
        true
    }
}

impl dyn PrefixExtractor + '_ {
    /// The key's prefix.
    ///
    /// # Errors
    /// `Internal` if the extractor panics.
    pub(crate) fn prefix<'k>(&self, key: &'k [u8]) -> Result<Option<&'k [u8]>> {
        match contain(|| self.prefix_len(key)) {
            Ok(len) => Ok(len.and_then(|len| key.get(..len))),
            Err(panicked) => Err(Error::internal(format!(
                "the prefix extractor {} {panicked} at the key {}",
                self.name(),
                KeyText(key)
            ))),
        }
    }

    /// See [`PrefixExtractor::is_whole`]. An extractor that panics does not say so.
    pub(crate) fn is_surely_whole(&self, prefix: &[u8]) -> bool {
        contain(|| self.is_whole(prefix)).unwrap_or(false)
    }
}

/// The extractor with its name, for which it is not asked again.
///
/// # Errors
/// `InvalidOption` if it panics.
pub(crate) fn named(extractor: Arc<dyn PrefixExtractor>) -> Result<Arc<dyn PrefixExtractor>> {
    match contain(|| extractor.name().to_owned()) {
        Ok(name) => Ok(Arc::new(Named { extractor, name })),
        Err(panicked) => Err(Error::invalid_option(format!(
            "prefix_extractor {panicked} when it was asked for its name"
        ))),
    }
}

struct Named {
    extractor: Arc<dyn PrefixExtractor>,
    name: String,
}

impl PrefixExtractor for Named {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        self.extractor.prefix_len(key)
    }

    fn is_whole(&self, prefix: &[u8]) -> bool {
        self.extractor.is_whole(prefix)
    }

    fn is_given(&self) -> bool {
        self.extractor.is_given()
    }
}

impl fmt::Debug for dyn PrefixExtractor + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first `len` bytes of a key; a shorter key has no prefix. RocksDB's
/// `rocksdb.FixedPrefix.LEN`.
pub fn fixed(len: usize) -> Arc<dyn PrefixExtractor> {
    Arc::new(Fixed {
        len,
        name: format!("{FIXED}.{len}"),
    })
}

/// The first `len` bytes of a key, or all of a shorter one. RocksDB's `rocksdb.CappedPrefix.LEN`.
pub fn capped(len: usize) -> Arc<dyn PrefixExtractor> {
    Arc::new(Capped {
        len,
        name: format!("{CAPPED}.{len}"),
    })
}

/// The smallest key after all that begin with `prefix`, in the bytewise order: where a range of
/// these keys ends. `None` if no key comes after them, since `prefix` is empty or has no byte but
/// 0xff: the range then goes to the last key. A read or a compaction of it takes no end;
/// [`delete_range`](crate::ColumnFamily::delete_range) needs one, such as the last key with a byte
/// appended.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
/// use titan::{Error, prefix};
///
/// db.put("user/7/name", "Ada")?;
/// db.put("user/8/name", "Grace")?;
/// let end = prefix::end("user/7/").ok_or_else(|| Error::invalid_argument("no end"))?;
/// db.delete_range("user/7/", end)?; // one entry, however many keys there are
/// assert_eq!(db.keys(..).count(), 1);
/// # Ok(())
/// # }
/// ```
pub fn end(prefix: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    let mut end = Vec::new();
    append_prefix_end(&mut end, prefix.as_ref()).then_some(end)
}

/// The extractor with a name under which RocksDB records those that it has:
/// `rocksdb.FixedPrefix.8`, or as its users write it, `fixed:8` and `capped:8`.
pub fn by_name(name: &str) -> Option<Arc<dyn PrefixExtractor>> {
    let at = name.rfind(['.', ':'])?;
    let (kind, len) = name.split_at_checked(at)?;
    let (separator, len) = len.split_at_checked(1)?;
    // A sign would be parsed, too.
    let len = len
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some(len)?;
    let len = len.parse().ok()?;
    match (kind, separator) {
        (FIXED, _) | ("fixed", ":") => Some(fixed(len)),
        (CAPPED, _) | ("capped", ":") => Some(capped(len)),
        _ => None,
    }
}

/// The extractor that a database has recorded under this name, for an opening that gives none: one
/// of those above, or a placeholder that keeps the name.
pub(crate) fn recorded(name: &str) -> Arc<dyn PrefixExtractor> {
    by_name(name).unwrap_or_else(|| {
        Arc::new(NotGiven {
            name: name.to_owned(),
        })
    })
}

const FIXED: &str = "rocksdb.FixedPrefix";
const CAPPED: &str = "rocksdb.CappedPrefix";

struct Fixed {
    len: usize,
    name: String,
}

impl PrefixExtractor for Fixed {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        (key.len() >= self.len).then_some(self.len)
    }

    fn is_whole(&self, prefix: &[u8]) -> bool {
        prefix.len() >= self.len
    }
}

struct Capped {
    len: usize,
    name: String,
}

impl PrefixExtractor for Capped {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        Some(key.len().min(self.len))
    }

    fn is_whole(&self, prefix: &[u8]) -> bool {
        prefix.len() >= self.len
    }
}

/// Stands for an extractor that is recorded and was not given.
struct NotGiven {
    name: String,
}

impl PrefixExtractor for NotGiven {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix_len(&self, _: &[u8]) -> Option<usize> {
        None
    }

    fn is_given(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_names_are_those_of_rocksdb() {
        let fixed = by_name("fixed:3").unwrap();
        assert_eq!(fixed.name(), "rocksdb.FixedPrefix.3");
        assert_eq!(fixed.prefix(b"abcd").unwrap(), Some(&b"abc"[..]));
        assert_eq!(fixed.prefix(b"ab").unwrap(), None);
        let capped = by_name("rocksdb.CappedPrefix.3").unwrap();
        assert_eq!(capped.name(), "rocksdb.CappedPrefix.3");
        assert_eq!(capped.prefix(b"abcd").unwrap(), Some(&b"abc"[..]));
        assert_eq!(capped.prefix(b"ab").unwrap(), Some(&b"ab"[..]));
        for whole in [fixed, capped] {
            assert!(whole.is_whole(b"abc") && whole.is_whole(b"abcd") && !whole.is_whole(b"ab"));
        }
        for unknown in [
            "", "fixed", "fixed:", "fixed:x", "fixed:-1", "fixed:+1", "fixed.1", "own.3",
        ] {
            assert!(by_name(unknown).is_none(), "{unknown}");
        }
    }
}
