//! A value with its expiry, in bytes: seconds since 1970 (8, zero for never), then the value.

use bytes::{Buf, Bytes};

/// The bytes before a value.
const HEADER: usize = 8;

/// A raw value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: Bytes,
    /// Seconds since 1970; zero for never.
    pub(super) expiry: u64,
}

impl Entry {
    /// The entry that is stored, or `None` if it has expired, or no store can have written it.
    pub(super) fn decode(mut stored: Bytes, now: u64) -> Option<Self> {
        let expiry = stored.try_get_u64().ok()?;
        let is_alive = expiry == 0 || now < expiry;
        is_alive.then_some(Entry {
            value: stored,
            expiry,
        })
    }

    /// The bytes of a value that expires after `ttl` seconds; zero for never.
    pub(super) fn encode(value: &[u8], ttl: u64, now: u64) -> Vec<u8> {
        let expiry = match ttl {
            0 => 0,
            ttl => now.saturating_add(ttl),
        };
        let mut out = Vec::with_capacity(HEADER + value.len());
        out.extend_from_slice(&expiry.to_be_bytes());
        out.extend_from_slice(value);
        out
    }

    /// The seconds until the expiry; zero for never.
    pub(super) fn ttl(&self, now: u64) -> u64 {
        self.expiry.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire() {
        let decode = |bytes: Vec<u8>, now| Entry::decode(bytes.into(), now);
        let forever = decode(Entry::encode(b"v", 0, 100), u64::MAX).unwrap();
        assert_eq!((&*forever.value, forever.ttl(100)), (&b"v"[..], 0));
        let short = Entry::encode(b"v", 10, 100);
        assert_eq!(decode(short.clone(), 104).unwrap().ttl(104), 6);
        assert_eq!(decode(short, 110), None);
        assert_eq!(decode(vec![1, 2], 0), None);
    }
}
