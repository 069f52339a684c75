//! The order of user keys.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A total order over user keys. Its name is stored in the database and checked when it is
/// opened, because files sorted by one order cannot be read by another.
pub trait Comparator: Send + Sync + 'static {
    /// The name on disk; change it whenever the order changes.
    fn name(&self) -> &str;

    /// The order of two user keys. Keys that compare equal must be equal bytes.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Shortens `start`, in place, to a key `s` with `start <= s < limit`. Index blocks store the
    /// result. Doing nothing is correct.
    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _ = (start, limit);
    }

    /// Shortens `key`, in place, to a key not smaller than it. Doing nothing is correct.
    fn shorten_successor(&self, key: &mut Vec<u8>) {
        let _ = key;
    }

    /// The smallest key greater than `key`, where the order has one.
    fn immediate_successor(&self, key: &[u8]) -> Option<Vec<u8>> {
        let _ = key;
        None
    }
}

impl fmt::Debug for dyn Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Lexicographic order of unsigned bytes: the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseComparator;

impl Comparator for BytewiseComparator {
    fn name(&self) -> &'static str {
        "leveldb.BytewiseComparator"
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let shared = start.iter().zip(limit).take_while(|(a, b)| a == b).count();
        let (Some(&s), Some(&l)) = (start.get(shared), limit.get(shared)) else {
            return; // one is a prefix of the other
        };
        if s < l && s + 1 < l {
            start.truncate(shared);
            start.push(s + 1);
        }
    }

    fn shorten_successor(&self, key: &mut Vec<u8>) {
        if let Some(i) = key.iter().position(|&b| b != 0xff) {
            key.truncate(i + 1);
            if let Some(last) = key.last_mut() {
                *last += 1;
            }
        }
    }

    fn immediate_successor(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut next = Vec::with_capacity(key.len() + 1);
        next.extend_from_slice(key);
        next.push(0);
        Some(next)
    }
}

/// The reverse of [`BytewiseComparator`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReverseBytewiseComparator;

impl Comparator for ReverseBytewiseComparator {
    fn name(&self) -> &'static str {
        "rocksdb.ReverseBytewiseComparator"
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// A built-in order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(rename_all = "lowercase")
)]
#[non_exhaustive]
pub enum KeyOrder {
    /// As [`BytewiseComparator`].
    Bytewise,
    /// As [`ReverseBytewiseComparator`].
    Reverse,
}

impl KeyOrder {
    /// This order under the name that another program gave it.
    pub(crate) fn with_name(self, name: &str) -> Arc<dyn Comparator> {
        Arc::new(Named {
            name: name.to_owned(),
            order: match self {
                KeyOrder::Bytewise => Arc::new(BytewiseComparator),
                KeyOrder::Reverse => Arc::new(ReverseBytewiseComparator),
            },
        })
    }
}

/// An order under another name than its own.
struct Named {
    name: String,
    order: Arc<dyn Comparator>,
}

impl Comparator for Named {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.order.compare(a, b)
    }

    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        self.order.shorten_separator(start, limit);
    }

    fn shorten_successor(&self, key: &mut Vec<u8>) {
        self.order.shorten_successor(key);
    }

    fn immediate_successor(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.order.immediate_successor(key)
    }
}

/// The built-in comparator of that name.
///
/// # Errors
/// `Unsupported` for any other name: the order is unknown, so the files cannot be read.
pub(crate) fn by_name(name: &str) -> Result<Arc<dyn Comparator>> {
    if name == BytewiseComparator.name() {
        Ok(Arc::new(BytewiseComparator))
    } else if name == ReverseBytewiseComparator.name() {
        Ok(Arc::new(ReverseBytewiseComparator))
    } else {
        Err(Error::unsupported(format!("unknown comparator '{name}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_lie_between_and_successors_do_not_fall_behind() {
        let c = BytewiseComparator;
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..5_000 {
            let mut word = || {
                (0..rng.usize(..6))
                    .map(|_| rng.u8(0xfc..))
                    .collect::<Vec<u8>>()
            };
            let (a, b) = (word(), word());
            if a < b {
                let mut s = a.clone();
                c.shorten_separator(&mut s, &b);
                assert!(a <= s && s < b && s.len() <= a.len(), "{a:?} {s:?} {b:?}");
            }
            let mut s = a.clone();
            c.shorten_successor(&mut s);
            assert!(a <= s && s.len() <= a.len());
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(by_name("leveldb.BytewiseComparator").is_ok());
        let e = by_name("my.Order").unwrap_err();
        assert_eq!(e.kind(), crate::ErrorKind::Unsupported);
    }
}
