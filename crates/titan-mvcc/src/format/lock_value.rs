//! The value of a version of the kind lock: where reads go on that meet it.
//!
//! ```text
//! flags (1) | commit of the lock - commit of the put (varint), if it is after one
//! ```
//!
//! A row that is locked often has many such versions above its value. With this a read needs one more look, however
//! many there are. Earlier versions of the crate wrote no value and read none: an empty one says nothing.

use std::fmt;

use super::version::{put_varint, varint};
use crate::timestamp::Timestamp;

/// The key has no value.
const NO_VALUE: u8 = 1;
/// The key has the value of a put.
const PUT: u8 = 2;
/// Nobody asks for the lock by its start.
const REPLACEABLE: u8 = 4;

/// Content of a key below a version that changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastChange {
    /// It is not said.
    Unknown,
    /// No value: its last change is a deletion, or there is none.
    NoValue,
    /// The value of the put that was committed then.
    Put(Timestamp),
}

impl fmt::Display for LastChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LastChange::Unknown => f.write_str("nothing of a last change"),
            LastChange::NoValue => f.write_str("that there is no value"),
            LastChange::Put(at) => write!(f, "that the last change is a put at {at}"),
        }
    }
}

/// Meaning of the value of a version of the kind lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockValue {
    pub(crate) last_change: LastChange,
    /// Whether it says no more than a later write of the key does: nobody asks how the transaction ended that
    /// began at its start.
    pub(crate) is_replaceable: bool,
}

impl LockValue {
    /// The bytes for a lock that is committed at `commit`. A put that is not before it is not said: that has no form.
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

    /// The meaning of the bytes; none if no version of the crate has written them.
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

    /// The same for a reader, who does without what it does not understand.
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
