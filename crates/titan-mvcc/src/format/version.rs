//! The engine's key of a version.
//!
//! ```text
//! encoded key | !commit timestamp (8 bytes, big-endian) | kind (1) | commit - start (varint)
//! ```
//!
//! The inverted timestamp sorts the newest version of a key first. The value of a put is the
//! application's, that of a deletion is empty, that of a lock records the last change of the key
//! ([`LockValue`](super::LockValue)), and that of a rollback record its protection. So a reader
//! knows everything but the value without reading a blob file.

use titan::invariant;

use super::families::VERSIONS;
use super::key;
use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// The effect of a version on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The key has the value of the entry from then on.
    Put,
    /// The key has no value from then on.
    Delete,
    /// The key keeps its value, but the transaction conflicts with others that write or lock it.
    Lock,
    /// None: a record that a transaction was rolled back, so that its late calls fail.
    Rollback,
}

impl Kind {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Put => "put",
            Kind::Delete => "delete",
            Kind::Lock => "lock",
            Kind::Rollback => "rollback",
        }
    }

    fn byte(self) -> u8 {
        match self {
            Kind::Put => b'P',
            Kind::Delete => b'D',
            Kind::Lock => b'L',
            Kind::Rollback => b'R',
        }
    }

    fn of_byte(byte: u8) -> Option<Kind> {
        match byte {
            b'P' => Some(Kind::Put),
            b'D' => Some(Kind::Delete),
            b'L' => Some(Kind::Lock),
            b'R' => Some(Kind::Rollback),
            _ => None,
        }
    }
}

/// A version, without its key and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The commit timestamp.
    pub(crate) commit: Timestamp,
    /// The start timestamp, at most `commit`.
    pub(crate) start: Timestamp,
    /// The effect on the key.
    pub(crate) kind: Kind,
}

impl Version {
    /// Appends the suffix that makes an encoded key the engine's key of this version.
    pub(crate) fn put_after(&self, encoded: &mut Vec<u8>) {
        let Version { commit, start, .. } = *self;
        invariant!(
            start <= commit,
            "a version of {start} is committed at {commit}"
        );
        put_timestamp(encoded, commit);
        encoded.push(self.kind.byte());
        put_varint(encoded, commit.0 - start.0);
    }

    #[cfg(test)]
    pub(crate) fn engine_key(&self, encoded: &[u8]) -> Vec<u8> {
        let mut out = encoded.to_vec();
        self.put_after(&mut out);
        out
    }
}

/// The seek key of the newest version of an encoded key that was committed at `at` or before.
pub(crate) fn newest_at(encoded: &[u8], at: Timestamp) -> Vec<u8> {
    let mut out = Vec::with_capacity(encoded.len() + size_of::<Timestamp>());
    out.extend_from_slice(encoded);
    put_timestamp(&mut out, at);
    out
}

/// Appends a timestamp to an encoded key, which makes it such a seek key.
pub(crate) fn put_timestamp(encoded: &mut Vec<u8>, at: Timestamp) {
    encoded.extend_from_slice(&(!at.0).to_be_bytes());
}

/// Splits an engine's key into the encoded key and the version.
///
/// # Errors
/// `Corruption` if [`Version::put_after`] cannot have made it.
pub(crate) fn split(engine_key: &[u8]) -> Result<(&[u8], Version)> {
    let wrong = |what| Error::corrupt_entry(VERSIONS, engine_key, what);
    let len = key::encoded_len(engine_key).ok_or_else(|| wrong("its key has no end"))?;
    let (encoded, rest) = engine_key.split_at(len);
    let (inverted, rest) = rest
        .split_first_chunk()
        .ok_or_else(|| wrong("it has no timestamp"))?;
    let commit = Timestamp(!u64::from_be_bytes(*inverted));
    let (kind, rest) = rest.split_first().ok_or_else(|| wrong("it has no kind"))?;
    let kind = Kind::of_byte(*kind).ok_or_else(|| wrong("its kind is unknown"))?;
    let start = varint(rest)
        .and_then(|age| commit.0.checked_sub(age))
        .map(Timestamp)
        .ok_or_else(|| wrong("the start of its transaction is damaged"))?;
    let version = Version {
        commit,
        start,
        kind,
    };
    Ok((encoded, version))
}

/// Appends the varint of a number.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Decodes a varint, or returns `None` if `bytes` are not exactly one in its shortest form.
pub(crate) fn varint(bytes: &[u8]) -> Option<u64> {
    let (last, before) = bytes.split_last()?;
    let is_whole = *last < 0x80 && before.iter().all(|byte| *byte >= 0x80);
    if !is_whole || (*last == 0 && !before.is_empty()) {
        return None;
    }
    bytes.iter().rev().try_fold(0_u64, |number, byte| {
        Some(number.checked_mul(0x80)? | u64::from(byte & 0x7f))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{decode_key, encode_key};

    fn some_number(rng: &mut fastrand::Rng) -> u64 {
        rng.u64(..) >> rng.u32(..64)
    }

    fn some_version(rng: &mut fastrand::Rng) -> Version {
        let commit = some_number(rng);
        Version {
            commit: Timestamp(commit),
            start: Timestamp(rng.u64(..=commit)),
            kind: [Kind::Put, Kind::Delete, Kind::Lock, Kind::Rollback][rng.usize(..4)],
        }
    }

    #[test]
    fn an_entry_has_these_bytes() {
        let version = Version {
            commit: Timestamp(0x102),
            start: Timestamp(2),
            kind: Kind::Put,
        };
        let expected = b"k\0\0\0\0\0\0\0\xf8\xff\xff\xff\xff\xff\xff\xfe\xfdP\x80\x02";
        assert_eq!(version.engine_key(&encode_key(b"k")), expected);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a version of 9 is committed at 8")]
    fn a_version_that_is_committed_before_its_start_is_a_bug() {
        let (commit, start) = (Timestamp(8), Timestamp(9));
        let kind = Kind::Put;
        let version = Version {
            commit,
            start,
            kind,
        };
        version.engine_key(b"");
    }

    #[test]
    fn what_is_put_together_comes_apart_again() {
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let key: Vec<u8> = (0..rng.usize(..30)).map(|_| rng.u8(..)).collect();
            let version = some_version(&mut rng);
            let bytes = version.engine_key(&encode_key(&key));
            let (encoded, found) = split(&bytes).unwrap();
            assert_eq!(decode_key(encoded), Some(key), "seed {seed}");
            assert_eq!(found, version, "seed {seed}");
            // No prefix that ends before the varint is an entry.
            for cut in 0..encoded.len() + 10 {
                assert!(split(&bytes[..cut]).is_err(), "seed {seed}, {cut} bytes");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(split(&longer).is_err(), "seed {seed}");
        }
    }

    #[test]
    fn entries_are_ordered_by_key_and_then_newest_first() {
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let keys = [&b""[..], b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaab", b"\xff"];
            let (a, b) = (rng.choice(keys).unwrap(), rng.choice(keys).unwrap());
            let (u, v) = (some_version(&mut rng), some_version(&mut rng));
            let x = u.engine_key(&encode_key(a));
            let y = v.engine_key(&encode_key(b));
            if (a, u.commit) != (b, v.commit) {
                let expected = a.cmp(b).then(v.commit.cmp(&u.commit));
                assert_eq!(x.cmp(&y), expected, "seed {seed}");
            }
            let seek = newest_at(&encode_key(a), v.commit);
            assert!(a != b || seek <= y, "seed {seed}");
            assert_eq!(seek <= x, u.commit <= v.commit, "seed {seed}");
        }
    }

    #[test]
    fn any_bytes_are_an_entry_or_an_error() {
        for seed in 0..50_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut bytes = some_version(&mut rng).engine_key(&encode_key(b"key"));
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            if let Ok((encoded, version)) = split(&bytes) {
                assert_eq!(version.engine_key(encoded), bytes, "seed {seed}");
            }
        }
    }
}
