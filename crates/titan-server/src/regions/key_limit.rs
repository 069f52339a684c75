//! The limit of keys.
//!
//! Locks have their primary keys, tables their first and last ones, and each answer about a region
//! its boundaries. So keys are short, also those that are only read or deleted.

use crate::proto::errorpb;

/// The most bytes of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLimit(pub(crate) usize);

impl KeyLimit {
    /// Refuses a key beyond the limit.
    pub(crate) fn check(self, key: &[u8]) -> Result<(), Box<errorpb::Error>> {
        refuse_beyond(self.0, "key", key)
    }

    /// Refuses a bound of a range that no key needs. It may be a boundary of regions, which is
    /// encoded, or the first key after another one.
    pub(crate) fn check_bound(self, bound: &[u8]) -> Result<(), Box<errorpb::Error>> {
        // Encoded, eight bytes are nine, and so is the rest.
        let most = (self.0 / 8).saturating_add(1).saturating_mul(9);
        refuse_beyond(most, "boundary", bound)
    }
}

/// No client repeats a call with this error of its region, which all answers have a place for.
fn refuse_beyond(most: usize, kind: &str, key: &[u8]) -> Result<(), Box<errorpb::Error>> {
    let len = key.len();
    if len <= most {
        return Ok(());
    }
    Err(Box::new(errorpb::Error {
        message: format!("{kind} of {len} bytes is too large: the limit is {most}"),
        raft_entry_too_large: Some(errorpb::RaftEntryTooLarge {
            entry_size: len as u64,
            ..errorpb::RaftEntryTooLarge::default()
        }),
        ..errorpb::Error::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_may_be_an_encoded_key_or_follow_one() {
        let limit = KeyLimit(100);
        let key = [b'k'; 100];
        limit.check(&key).unwrap();
        let next = [&key[..], b"\0"].concat();
        assert!(limit.check(&next).is_err());
        limit.check_bound(&next).unwrap();
        let encoded = titan_mvcc::codec::encode_key(&key);
        limit.check_bound(&encoded).unwrap();
        let next = [&encoded[..], b"\0"].concat();
        let error = limit.check_bound(&next).unwrap_err();
        assert!(error.message.contains("too large"), "{error:?}");
    }
}
