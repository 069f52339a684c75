//! The entries of a store, taken apart: for code that keeps a copy of them in step with a
//! [commit hook](titan::CommitHook).
//!
//! Owns nothing: the bytes are those of the module `format`. A version of a key is one entry of the family
//! [`FAMILY`], and is written by a put, once. The versions of a key are written in the order of their
//! timestamps.

use crate::error::Result;
use crate::format::version::{Version, split};
use crate::format::{self, Kind, VERSIONS};
use crate::timestamp::Timestamp;

/// The family that has the versions.
pub const FAMILY: &str = VERSIONS;

/// Appended to an encoded key, this is after all of its entries and before those of the next key.
pub const AFTER_VERSIONS: [u8; 9] = format::AFTER_VERSIONS;

/// What an entry does to what reads find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The key has the value of the entry from then on.
    Put,
    /// The key has no value from then on.
    Delete,
    /// None: the entry is for other transactions.
    None,
}

/// What the engine's key of an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key in its encoded form, which sorts as the key does.
    pub encoded: &'a [u8],
    /// When its transaction committed.
    pub commit: Timestamp,
    /// What it does.
    pub effect: Effect,
}

/// Takes the engine's key of an entry apart. No copies.
///
/// # Errors
/// `Corruption` for what is no key of an entry.
pub fn decode(engine_key: &[u8]) -> Result<Entry<'_>> {
    let (encoded, version) = split(engine_key)?;
    Ok(Entry {
        encoded,
        commit: version.commit,
        effect: match version.kind {
            Kind::Put => Effect::Put,
            Kind::Delete => Effect::Delete,
            Kind::Lock | Kind::Rollback => Effect::None,
        },
    })
}

/// The engine's key of a put or a deletion by a transaction that began when it committed: for tests of such copies
/// without a store. `encoded` is the key in its encoded form.
#[doc(hidden)]
pub fn encode(encoded: &[u8], commit: Timestamp, is_put: bool) -> Vec<u8> {
    let mut out = encoded.to_vec();
    let version = Version {
        commit,
        start: commit,
        kind: [Kind::Delete, Kind::Put][usize::from(is_put)],
    };
    version.put_after(&mut out);
    out
}

/// The encoded form of a key. No encoded key is a prefix of another one. Cost: one allocation.
pub fn encode_key(key: &[u8]) -> Vec<u8> {
    format::encode_key(key)
}

/// The key that was encoded; none if `encoded` is no encoded key. Cost: one allocation.
pub fn decode_key(encoded: &[u8]) -> Option<Vec<u8>> {
    format::decode_key(encoded)
}
