//! The end mark of an export.

use super::Fields;
use crate::transfer::pairs::Summary;

/// The first byte of an end mark.
pub(super) const TAG: u8 = b'E';
/// Bytes of an end mark, with its tag.
pub(super) const LENGTH: usize = 61;

/// The end mark of an export: the totals of everything before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) blocks: u64,
    pub(super) summary: Summary,
}

impl End {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![TAG];
        let Summary {
            pairs,
            bytes,
            checksum,
        } = &self.summary;
        for number in [self.blocks, *pairs, *bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(checksum);
        let own = crc32c::crc32c(&out);
        out.extend_from_slice(&own.to_le_bytes());
        out
    }

    /// Decodes an end mark with its tag. `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8; LENGTH]) -> Option<End> {
        let (before, own) = bytes.split_last_chunk()?;
        let mut fields = Fields(before.get(1..)?);
        let end = End {
            blocks: fields.u64()?,
            summary: Summary {
                pairs: fields.u64()?,
                bytes: fields.u64()?,
                checksum: fields.array()?,
            },
        };
        (crc32c::crc32c(before) == u32::from_le_bytes(*own)).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_mark_is_read_as_it_was_written_or_refused() {
        let end = End {
            blocks: 1,
            summary: Summary {
                pairs: 2,
                bytes: 3,
                checksum: [4; 32],
            },
        };
        let bytes: [u8; LENGTH] = end.encode().try_into().unwrap();
        assert_eq!(End::decode(&bytes), Some(end));
        for at in 0..LENGTH {
            let mut damaged = bytes;
            damaged[at] ^= 128;
            assert_eq!(End::decode(&damaged), None, "{at}");
        }
    }
}
