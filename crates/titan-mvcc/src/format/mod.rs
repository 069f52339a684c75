//! The bytes of entries: keys in an order-preserving form that shows where it ends, and what follows it.
//!
//! Owns the format of the family of versions (`docs/adr/0043-one-entry-a-version.md`). Does no I/O.

pub(crate) mod key;
pub(crate) mod prefix;
pub(crate) mod version;

pub(crate) use key::{decode_key, encode_key, encode_key_to};
pub(crate) use version::{Kind, Version};

/// The family that has the versions.
pub(crate) const VERSIONS: &str = "versions";
