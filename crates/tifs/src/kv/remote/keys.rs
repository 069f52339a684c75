//! The keys of a volume on a cluster: all begin with the name of the volume.

use crate::kv::Space;

/// Makes the keys of one volume.
///
/// | after `tifs/NAME/` | value |
/// |---|---|
/// | `m` key | that of the key in [`Space::Meta`] |
/// | `d` key | that of the key in [`Space::Data`] |
/// | `s` | the session: the process that may write the volume |
/// | `s` number | the last [transaction of a slot](super::slots) |
/// | `e` | on etcd: the last session, also when its lease has run out; 0 if it was given up |
/// | `n` | on etcd: the volume is not complete yet |
/// | `i` | on etcd: the number that the paths of the volume's objects have |
///
/// A name has no slash, so no volume has keys of another.
pub(in crate::kv) struct Keys {
    prefix: Vec<u8>,
}

impl Keys {
    pub(in crate::kv) fn new(name: &str) -> Keys {
        let prefix = format!("tifs/{name}/").into_bytes();
        Keys { prefix }
    }

    /// A key of the volume.
    pub(in crate::kv) fn of(&self, space: Space, key: &[u8]) -> Vec<u8> {
        let space = match space {
            Space::Meta => b'm',
            Space::Data => b'd',
        };
        self.with(space, key)
    }

    /// The part of a stored key that the volume knows.
    pub(in crate::kv) fn own_part<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(self.prefix.len() + 1..).unwrap_or_default()
    }

    pub(in crate::kv) fn session(&self) -> Vec<u8> {
        self.with(b's', &[])
    }

    pub(in crate::kv) fn slot(&self, number: u16) -> Vec<u8> {
        self.with(b's', &number.to_be_bytes())
    }

    #[cfg(feature = "etcd")]
    pub(in crate::kv) fn last_session(&self) -> Vec<u8> {
        self.with(b'e', &[])
    }

    #[cfg(feature = "etcd")]
    pub(in crate::kv) fn making(&self) -> Vec<u8> {
        self.with(b'n', &[])
    }

    #[cfg(feature = "etcd")]
    pub(in crate::kv) fn identity(&self) -> Vec<u8> {
        self.with(b'i', &[])
    }

    fn with(&self, kind: u8, key: &[u8]) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.prefix.len() + 1 + key.len());
        whole.extend_from_slice(&self.prefix);
        whole.push(kind);
        whole.extend_from_slice(key);
        whole
    }
}
