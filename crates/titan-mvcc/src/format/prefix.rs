//! The prefix of an engine's key: the encoded key, which all versions of a key share.

use titan::prefix::PrefixExtractor;

use super::key::encoded_len;

/// Shows the engine which versions belong to one key, for its filters and its steps from key to
/// key.
pub(crate) struct EncodedKey;

impl PrefixExtractor for EncodedKey {
    fn name(&self) -> &str {
        "titan.mvcc.EncodedKey"
    }

    #[inline]
    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        encoded_len(key)
    }

    fn is_whole(&self, prefix: &[u8]) -> bool {
        encoded_len(prefix).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::encode_key;

    #[test]
    fn a_prefix_is_whole_where_the_key_ends() {
        let encoded = encode_key(b"12345678a");
        for cut in 0..encoded.len() {
            let part = &encoded[..cut];
            assert_eq!(EncodedKey.prefix_len(part), None, "{cut}");
            assert!(!EncodedKey.is_whole(part), "{cut}");
        }
        let longer = [&encoded[..], b"x"].concat();
        assert!(EncodedKey.is_whole(&encoded) && EncodedKey.is_whole(&longer));
        assert_eq!(EncodedKey.prefix_len(&longer), Some(encoded.len()));
    }
}
