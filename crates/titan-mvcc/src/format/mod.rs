//! The bytes of entries: encoded keys, which mark their own end, and their suffixes.
//!
//! Owns the formats of the family of versions (`docs/adr/0043-one-entry-a-version.md`) and of the
//! family of locks (`docs/adr/0045-locks.md`). Does no I/O.

mod families;
pub(crate) mod key;
pub(crate) mod lock;
pub(crate) mod lock_value;
pub(crate) mod prefix;
pub(crate) mod version;

pub(crate) use families::{LOCKS, VERSIONS};
pub(crate) use key::{AFTER_VERSIONS, decode_key, decode_key_to, encode_key, encode_key_to};
pub(crate) use lock_value::{LastChange, LockValue};
pub use version::Kind;
pub(crate) use version::Version;
