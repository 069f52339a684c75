//! Pairs of a key and a value, and ranges of keys.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
}

impl Pair {
    /// The lengths of key and value, as they precede both in blocks and checksums. A length that
    /// exceeds 32 bits is cut; pairs of blocks are shorter.
    pub(crate) fn lengths(&self) -> [u8; 8] {
        let mut lengths = [0; 8];
        lengths[..4].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        lengths[4..].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        lengths
    }

    /// Bytes of key and value.
    pub(crate) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The keys from `from` to before `to`; without `to`, all keys from `from` on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Bytes,
    pub(crate) to: Option<Bytes>,
}

impl KeyRange {
    /// The keys with a prefix.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        let kept = prefix.iter().rposition(|byte| *byte != 0xff);
        let to = kept.map(|last| {
            let mut to = prefix[..=last].to_vec();
            to[last] += 1;
            Bytes::from(to)
        });
        KeyRange {
            from: Bytes::copy_from_slice(prefix),
            to,
        }
    }

    /// The part behind a key.
    pub(crate) fn behind(&self, key: &[u8]) -> Self {
        KeyRange {
            from: successor(key),
            to: self.to.clone(),
        }
    }

    /// The part up to a key of the range, with the key.
    pub(crate) fn through(&self, key: &[u8]) -> Self {
        KeyRange {
            from: self.from.clone(),
            to: Some(successor(key)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| self.from >= to)
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        key >= &*self.from && self.to.as_ref().is_none_or(|to| key < &**to)
    }
}

/// The next key after a key.
fn successor(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

/// Count and checksum of a run of pairs.
#[derive(Clone, Default)]
pub(crate) struct Totals {
    pub(crate) pairs: u64,
    /// Bytes of keys and values.
    pub(crate) bytes: u64,
    hash: Sha256,
}

impl Totals {
    pub(crate) fn add(&mut self, pair: &Pair) {
        self.pairs += 1;
        self.bytes += pair.bytes();
        self.hash.update(pair.lengths());
        self.hash.update(&pair.key);
        self.hash.update(&pair.value);
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary {
            pairs: self.pairs,
            bytes: self.bytes,
            checksum: self.hash.clone().finalize().into(),
        }
    }
}

/// Count and checksum of all pairs of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) pairs: u64,
    /// Bytes of keys and values.
    pub(crate) bytes: u64,
    /// SHA-256 of all pairs in their order: lengths of key and value as four bytes each, the least
    /// significant first; the key; the value.
    pub(crate) checksum: [u8; 32],
}

impl Summary {
    /// The checksum in hexadecimal.
    pub(crate) fn checksum_text(&self) -> String {
        let digits = self.checksum.iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_range_of_all_keys_with_it() {
        for (prefix, to) in [
            (&b""[..], None),
            (b"a", Some(&b"b"[..])),
            (b"a\xff", Some(b"b")),
            (b"\xff\xff", None),
            (b"a\xfe", Some(b"a\xff")),
        ] {
            let range = KeyRange::of_prefix(prefix);
            assert_eq!(range.from, prefix);
            assert_eq!(range.to.as_deref(), to);
            assert!(range.contains(prefix) && range.contains(&[prefix, b"\xff"].concat()));
        }
    }

    #[test]
    fn parts_of_a_range_meet_at_a_key() {
        let range = KeyRange::of_prefix(b"a");
        let (before, behind) = (range.through(b"ab"), range.behind(b"ab"));
        assert!(before.contains(b"ab") && !behind.contains(b"ab"));
        assert!(!before.contains(b"ab\0") && behind.contains(b"ab\0"));
        assert!(behind.contains(b"azz") && !behind.contains(b"b"));
    }
}
