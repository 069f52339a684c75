//! The value of a version of the kind lock: it leads reads to the value of the key.
//!
//! ```text
//! flags (1) | commit of the lock - commit of the put (varint), if the last change is a put
//! ```
//!
//! A row that is locked often has many such versions above its value. By their values a read finds
//! it in one more search. Earlier versions of the crate wrote empty values, which lead nowhere, and
//! ignore others.

use std::fmt;

use super::version::{put_varint, varint};
use crate::timestamp::Timestamp;

/// The key has no value.
const NO_VALUE: u8 = 1;
/// The key has the value of a put.
const PUT: u8 = 2;
/// No caller asks for the outcome of the lock's transaction.
const REPLACEABLE: u8 = 4;

/// The last change of a key below a version of the kind lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastChange {
    /// Not recorded.
    Unknown,
    /// No value: its last change is a deletion, or there is none.
    NoValue,
    /// A put, committed at this timestamp.
    Put(Timestamp),
}

impl fmt::Display for LastChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LastChange::Unknown => f.write_str("nothing"),
            LastChange::NoValue => f.write_str("no value"),
            LastChange::Put(at) => write!(f, "a put at {at}"),
        }
    }
}

/// The decoded value of a version of the kind lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockValue {
    pub(crate) last_change: LastChange,
    /// True if a later write of the key makes the lock superfluous: no caller asks for the outcome
    /// of its transaction.
    pub(crate) is_replaceable: bool,
}

impl LockValue {
    /// Encodes the value of a lock that is committed at `commit`. Leaves out a put that is not
    /// older, which has no encoding.
    pub(crate) fn encode(self, commit: Timestamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(11);
        let replaceable = u8::from(self.is_replaceable) * REPLACEABLE;
        match self.last_change {
            LastChange::NoValue => out.push(replaceable | NO_VALUE),
            LastChange::Put(at) if at < commit => {
                out.push(replaceable | PUT);
                put_varint(&mut out, commit.0.saturating_sub(at.0));
            }
            LastChange::Unknown | LastChange::Put(_) => out.push(replaceable),
        }
        out
    }

    /// Decodes a value, or returns `None` if no version of the crate can have written it.
    pub(crate) fn decode(bytes: &[u8], commit: Timestamp) -> Option<LockValue> {
        let Some((flags, rest)) = bytes.split_first() else {
            return Some(LockValue::UNKNOWN);
        };
        let last_change = match flags & !REPLACEABLE {
            PUT => {
                let age = varint(rest).filter(|age| *age > 0)?;
                LastChange::Put(Timestamp(commit.0.checked_sub(age)?))
            }
            _ if !rest.is_empty() => return None,
            0 => LastChange::Unknown,
            NO_VALUE => LastChange::NoValue,
            _ => return None,
        };
        Some(LockValue {
            last_change,
            is_replaceable: flags & REPLACEABLE != 0,
        })
    }

    /// Decodes a value for a read, which ignores a damaged one.
    pub(crate) fn read(bytes: &[u8], commit: Timestamp) -> LockValue {
        LockValue::decode(bytes, commit).unwrap_or(LockValue::UNKNOWN)
    }

    const UNKNOWN: LockValue = LockValue {
        last_change: LastChange::Unknown,
        is_replaceable: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_these_bytes() {
        let commit = Timestamp(0x302);
        for (last_change, is_replaceable, bytes) in [
            (LastChange::Unknown, false, &b"\x00"[..]),
            (LastChange::NoValue, false, b"\x01"),
            (LastChange::NoValue, true, b"\x05"),
            (LastChange::Put(Timestamp(0x301)), true, b"\x06\x01"),
            (LastChange::Put(Timestamp(2)), false, b"\x02\x80\x06"),
        ] {
            let value = LockValue {
                last_change,
                is_replaceable,
            };
            assert_eq!(value.encode(commit), bytes);
            assert_eq!(LockValue::decode(bytes, commit), Some(value));
        }
        assert_eq!(LockValue::decode(b"", commit), Some(LockValue::UNKNOWN));
        for not_before in [commit, Timestamp(commit.0 + 1)] {
            let value = LockValue {
                last_change: LastChange::Put(not_before),
                is_replaceable: false,
            };
            let bytes = value.encode(commit);
            assert_eq!(LockValue::decode(&bytes, commit), Some(LockValue::UNKNOWN));
        }
    }

    #[test]
    fn any_bytes_are_what_was_put_or_nothing() {
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let commit = Timestamp(rng.u64(..) >> rng.u32(..64));
            let bytes: Vec<u8> = (0..rng.usize(1..12)).map(|_| rng.u8(..8)).collect();
            match LockValue::decode(&bytes, commit) {
                Some(value) => assert_eq!(value.encode(commit), bytes, "seed {seed}"),
                None => assert_eq!(LockValue::read(&bytes, commit), LockValue::UNKNOWN),
            }
        }
    }
}
