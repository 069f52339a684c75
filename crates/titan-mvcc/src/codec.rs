//! Decodes the entries of a store, for code that keeps a copy of them in step with a [commit
//! hook](titan::CommitHook).
//!
//! The bytes are those of the module `format`. Each version of a key is one entry of the family
//! [`FAMILY`]. The store puts it once, and writes the versions of a key in the order of their
//! timestamps.

use crate::error::Result;
use crate::format::version::{Version, split};
use crate::format::{self, Kind, VERSIONS};
use crate::timestamp::Timestamp;

/// The family of versions.
pub const FAMILY: &str = VERSIONS;

/// A suffix that sorts after all entries of an encoded key, and before those of the next key.
pub const AFTER_VERSIONS: [u8; 9] = format::AFTER_VERSIONS;

/// The effect of an entry on reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The key has the value of the entry from then on.
    Put,
    /// The key has no value from then on.
    Delete,
    /// None: only other transactions read the entry.
    None,
}

/// The decoded key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The encoded key, which sorts as the key does.
    pub encoded: &'a [u8],
    /// The commit timestamp.
    pub commit: Timestamp,
    /// The effect on reads.
    pub effect: Effect,
}

/// Decodes the engine's key of an entry. Copies nothing.
///
/// # Errors
/// `Corruption` if `engine_key` is not the key of an entry.
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

/// The engine's key of a put or a deletion whose transaction began when it committed. For tests of
/// copies without a store.
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

/// Encodes a key. No encoded key is a prefix of another one. Cost: one allocation.
pub fn encode_key(key: &[u8]) -> Vec<u8> {
    format::encode_key(key)
}

/// Decodes a key, or returns `None` if `encoded` is not an encoded key. Cost: one allocation.
pub fn decode_key(encoded: &[u8]) -> Option<Vec<u8>> {
    format::decode_key(encoded)
}
