//! The 64-bit hash of user keys in Bloom filters: RocksDB's `Hash64`.
//!
//! It is XXH3 as it was in a preview release (xxHash 0.7.2), without a seed, and with a value of
//! its own for the empty key. Its results differ from those of the final XXH3 at many lengths, so
//! no XXH3 library can replace it. The regimes by length: 0, 1..=3, 4..=8, 9..=16, 17..=128,
//! 129..=240 bytes, and longer ones in stripes of 64 bytes.

const P32_1: u64 = 0x9e37_79b1;
const P32_2: u64 = 0x85eb_ca77;
const P32_3: u64 = 0xc2b2_ae3d;
const P64_1: u64 = 0x9e37_79b1_85eb_ca87;
const P64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P64_3: u64 = 0x1656_67b1_9e37_79f9;
const P64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const P64_5: u64 = 0x27d4_eb2f_1656_67c5;

/// The algorithm's fixed secret: part of its definition.
#[rustfmt::skip]
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

const STRIPE: usize = 64;
/// By how many bytes of the secret each stripe advances.
const STEP: usize = 8;
/// Stripes between two scrambles: as many steps as fit into the secret.
const STRIPES_PER_BLOCK: usize = (SECRET.len() - STRIPE) / STEP;
/// The smallest secret the algorithm allows; a constant of the middle regime.
const MIN_SECRET: usize = 136;

// Offsets below are bounded by the length regime that calls, and by the constants above.
#[inline]
fn le64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline]
fn le32(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(word))
}

#[inline]
fn secret(at: usize) -> u64 {
    le64(&SECRET, at)
}

/// The two halves of the 128-bit product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn avalanche(mut h: u64) -> u64 {
    h ^= h >> 37;
    h = h.wrapping_mul(P64_3);
    h ^ h >> 32
}

/// Mixes the sixteen bytes at `at` with sixteen of the secret.
#[inline]
fn mix16(key: &[u8], at: usize, secret_at: usize) -> u64 {
    fold(
        le64(key, at) ^ secret(secret_at),
        le64(key, at + 8) ^ secret(secret_at + 8),
    )
}

/// The hash of a user key.
#[inline(always)]
pub(in crate::table) fn hash64(key: &[u8]) -> u64 {
    match key.len() {
        0 => fold(secret(0), P64_2),
        1..=3 => tiny(key),
        4..=8 => short(key),
        9..=16 => sixteen(key),
        17..=128 => medium(key),
        129..=240 => middle(key),
        _ => long(key),
    }
}

fn tiny(key: &[u8]) -> u64 {
    let len = key.len();
    let word = u32::from_le_bytes([key[0], key[len >> 1], key[len - 1], len as u8]);
    avalanche((u64::from(word) ^ le32(&SECRET, 0)).wrapping_mul(P64_1))
}

#[inline]
fn short(key: &[u8]) -> u64 {
    let len = key.len();
    let keyed = (le32(key, 0) | le32(key, len - 4) << 32) ^ secret(0);
    let mixed = (len as u64).wrapping_add((keyed ^ keyed >> 51).wrapping_mul(P32_1));
    avalanche((mixed ^ mixed >> 47).wrapping_mul(P64_2))
}

#[inline]
fn sixteen(key: &[u8]) -> u64 {
    let len = key.len();
    let low = le64(key, 0) ^ secret(0);
    let high = le64(key, len - 8) ^ secret(8);
    avalanche(
        (len as u64)
            .wrapping_add(low)
            .wrapping_add(high)
            .wrapping_add(fold(low, high)),
    )
}

/// Pairs of sixteen bytes from both ends towards the middle.
#[inline]
fn medium(key: &[u8]) -> u64 {
    let len = key.len();
    let mut sum = (len as u64).wrapping_mul(P64_1);
    for pair in 0..=(len - 1) / 32 {
        sum = sum
            .wrapping_add(mix16(key, 16 * pair, 32 * pair))
            .wrapping_add(mix16(key, len - 16 * (pair + 1), 32 * pair + 16));
    }
    avalanche(sum)
}

fn middle(key: &[u8]) -> u64 {
    let len = key.len();
    let mut sum = (len as u64).wrapping_mul(P64_1);
    for i in 0..8 {
        sum = sum.wrapping_add(mix16(key, 16 * i, 16 * i));
    }
    sum = avalanche(sum);
    for i in 8..len / 16 {
        sum = sum.wrapping_add(mix16(key, 16 * i, 16 * (i - 8) + 3));
    }
    avalanche(sum.wrapping_add(mix16(key, len - 16, MIN_SECRET - 17)))
}

#[inline]
fn accumulate(lanes: &mut [u64; 8], key: &[u8], at: usize, secret_at: usize) {
    for (i, lane) in lanes.iter_mut().enumerate() {
        let word = le64(key, at + 8 * i);
        let keyed = word ^ secret(secret_at + 8 * i);
        let product = (keyed & 0xffff_ffff).wrapping_mul(keyed >> 32);
        *lane = lane.wrapping_add(word).wrapping_add(product);
    }
}

#[cold]
fn long(key: &[u8]) -> u64 {
    let len = key.len();
    let mut lanes = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    for stripe in 0..len / STRIPE {
        let in_block = stripe % STRIPES_PER_BLOCK;
        accumulate(&mut lanes, key, stripe * STRIPE, in_block * STEP);
        if in_block == STRIPES_PER_BLOCK - 1 {
            for (i, lane) in lanes.iter_mut().enumerate() {
                let scrambled = *lane ^ *lane >> 47 ^ secret(SECRET.len() - STRIPE + 8 * i);
                *lane = scrambled.wrapping_mul(P32_1);
            }
        }
    }
    if !len.is_multiple_of(STRIPE) {
        accumulate(&mut lanes, key, len - STRIPE, SECRET.len() - STRIPE - 7);
    }
    let mut sum = (len as u64).wrapping_mul(P64_1);
    for (i, pair) in lanes.chunks_exact(2).enumerate() {
        let at = 11 + 16 * i;
        sum = sum.wrapping_add(fold(pair[0] ^ secret(at), pair[1] ^ secret(at + 8)));
    }
    avalanche(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One length of each regime and of its edges. That these are RocksDB's values follows from
    /// `tests/rocksdb.rs`, which rebuilds filters that RocksDB wrote; they are pinned here so that
    /// a mistake is found next to where it was made.
    #[test]
    fn pinned_values() {
        let key: Vec<u8> = (0..3000).map(|i| (7 * i) as u8).collect();
        for (len, hash) in [
            (0, 0x5342_c301_0fe1_dd04),
            (1, 0x7198_d737_cfe7_f386),
            (3, 0x452e_8ff3_b47d_55e3),
            (4, 0x727c_31c5_3c5c_ffa1),
            (8, 0x96ea_2144_8ed8_c425),
            (9, 0xcc82_44d0_92be_b557),
            (16, 0xd14f_7de7_1961_9ac1),
            (17, 0xbc05_bb3c_bae8_9571),
            (128, 0x055a_9860_6f00_6b25),
            (129, 0x818a_2081_a624_7ece),
            (240, 0x1182_0c16_f4e2_dfaa),
            (241, 0x2ef9_a50d_210c_b459),
            (1024, 0x870a_f345_4afc_f950),
            (3000, 0x05f8_a0af_7352_f467),
        ] {
            assert_eq!(hash64(&key[..len]), hash, "length {len}");
        }
    }
}
