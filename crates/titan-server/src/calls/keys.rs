//! The keys of a scan's answer, many in one allocation.

use bytes::{Bytes, BytesMut};

/// The bytes of an allocation.
const AT_ONCE: usize = 4 << 10;

/// Copies keys for an answer.
#[derive(Default)]
pub(super) struct Keys {
    free: BytesMut,
}

impl Keys {
    /// A copy of a key.
    pub(super) fn add(&mut self, key: &[u8]) -> Bytes {
        if self.free.capacity() < key.len() {
            self.free = BytesMut::with_capacity(AT_ONCE.max(key.len()));
        }
        self.free.extend_from_slice(key);
        self.free.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_bytes_of_their_keys() {
        let mut keys = Keys::default();
        for len in [0, 1, 100, AT_ONCE - 50, AT_ONCE, AT_ONCE + 1, 7] {
            let key = vec![len as u8; len];
            assert_eq!(keys.add(&key), key);
        }
    }
}
