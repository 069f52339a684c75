//! Memcomparable keys: an encoding that keeps the order of byte strings and marks their end.
//!
//! The key is cut into groups of eight bytes, the last one padded with zeros. Each group is
//! followed by a marker: 0xff minus the number of padding bytes. Only the last marker differs from
//! 0xff; a key whose length is a multiple of eight ends with an empty group. TiKV and MyRocks use
//! the same form.
//!
//! Therefore no encoded key is a prefix of another one, and a suffix does not change the order of
//! keys.

/// Bytes of a group, without its marker.
const GROUP: usize = 8;
/// The marker of a group that is not the last one.
const FULL: u8 = 0xff;

/// A suffix that sorts after all versions of an encoded key, and before the next key.
pub(crate) const AFTER_VERSIONS: [u8; 9] = [0xff; 9];

/// The most bytes that follow the encoded key in an entry.
const SUFFIX: usize = 19;

/// Encodes a key. Cost: one allocation, with room for the rest of the entry's key.
pub(crate) fn encode_key(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key_to(&mut out, key);
    out
}

/// Appends an encoded key: 9/8 of the key and up to 9 bytes more. Cost: at most one allocation,
/// with room for the rest of the entry's key.
pub(crate) fn encode_key_to(out: &mut Vec<u8>, key: &[u8]) {
    let groups = key.len() / GROUP + 1;
    out.reserve(groups * (GROUP + 1) + SUFFIX);
    let (full, rest) = key.as_chunks::<GROUP>();
    for group in full {
        out.extend_from_slice(group);
        out.push(FULL);
    }
    let mut last = [0; GROUP];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    out.extend_from_slice(&last);
    out.push(FULL - (GROUP - rest.len()) as u8);
}

/// The length of the encoded key at the beginning of `bytes`, or `None` if it does not end there.
#[inline]
pub(crate) fn encoded_len(bytes: &[u8]) -> Option<usize> {
    let (groups, _) = bytes.as_chunks::<{ GROUP + 1 }>();
    let last = groups.iter().position(|group| group[GROUP] != FULL)?;
    Some((last + 1) * (GROUP + 1))
}

/// Decodes a key, or returns `None` if `encoded` is not exactly an encoded key.
pub(crate) fn decode_key(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    decode_key_to(&mut key, encoded).then_some(key)
}

/// Decodes a key into `key`, or returns false if `encoded` is not exactly an encoded key. Cost: no
/// allocation if `key` has room.
pub(crate) fn decode_key_to(key: &mut Vec<u8>, encoded: &[u8]) -> bool {
    key.clear();
    let (groups, []) = encoded.as_chunks::<{ GROUP + 1 }>() else {
        return false;
    };
    let Some(([last @ .., marker], full)) = groups.split_last() else {
        return false;
    };
    let len = groups.len() * GROUP;
    if key.capacity() < len {
        // Cheaper than to let an empty one grow.
        *key = Vec::with_capacity(len);
    }
    for group in full {
        if group[GROUP] != FULL {
            return false;
        }
        key.extend_from_slice(&group[..GROUP]);
    }
    let filled = usize::from(FULL - marker);
    let Some(used) = GROUP.checked_sub(filled).filter(|used| *used < GROUP) else {
        return false;
    };
    key.extend_from_slice(last);
    key.truncate(full.len() * GROUP + used);
    // Nothing but zeros follows the used bytes.
    u64::from_be_bytes(*last) << (8 * used) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_that_of_tikv() {
        assert_eq!(encode_key(b""), [0, 0, 0, 0, 0, 0, 0, 0, 247]);
        assert_eq!(encode_key(b"abc"), *b"abc\0\0\0\0\0\xfa");
        assert_eq!(
            encode_key(b"12345678"),
            *b"12345678\xff\0\0\0\0\0\0\0\0\xf7"
        );
    }

    /// Short keys of few different bytes, so that prefixes and equal keys are frequent.
    fn some_key(rng: &mut fastrand::Rng) -> Vec<u8> {
        let bytes = [0, 1, 0xf7, 0xfe, 0xff];
        (0..rng.usize(..20))
            .map(|_| bytes[rng.usize(..5)])
            .collect()
    }

    #[test]
    fn encoding_keeps_the_order_and_decoding_gives_the_key() {
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (a, b) = (some_key(&mut rng), some_key(&mut rng));
            let (x, y) = (encode_key(&a), encode_key(&b));
            assert_eq!(a.cmp(&b), x.cmp(&y), "seed {seed}");
            assert_eq!(a == b, x.starts_with(&y), "seed {seed}");
            assert_eq!(decode_key(&x).as_deref(), Some(&*a), "seed {seed}");
            let mut followed = x.clone();
            followed.extend(some_key(&mut rng));
            assert_eq!(encoded_len(&followed), Some(x.len()), "seed {seed}");
        }
    }

    #[test]
    fn damaged_keys_are_no_keys() {
        let whole = encode_key(b"12345678abc");
        for cut in 0..whole.len() {
            assert_eq!(decode_key(&whole[..cut]), None, "{cut}");
        }
        for damaged in [
            &b"abc\0\0\0\0\x01\xfa"[..],
            b"abc\0\0\0\0\0\xf6",
            b"abc\0\0\0\0\0\x00",
            b"abc\0\0\0\0\0\xfa\0",
        ] {
            assert_eq!(decode_key(damaged), None, "{damaged:?}");
        }
    }
}
