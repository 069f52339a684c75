//! The answer of a scan, with pairs that are encoded as they are found.
//!
//! A scan finds thousands of pairs. A message for each would be allocated, measured several times,
//! encoded and freed.

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{
    self, DecodeContext, WireType, encode_key, encode_varint, encoded_len_varint, message,
};
use prost::{DecodeError, Message};

use super::generated::errorpb;
use super::generated::kvrpcpb::{KeyError, KvPair};

/// The message `kvrpcpb.ScanResponse`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanResponse {
    /// The call does not fit its region.
    pub region_error: Option<errorpb::Error>,
    /// The pairs in their order.
    pub pairs: Pairs,
    /// The scan has failed.
    pub error: Option<KeyError>,
}

// The numbers of its fields.
const REGION_ERROR: u32 = 1;
const PAIRS: u32 = 2;
const ERROR: u32 = 3;
// Those of a pair.
const KEY: u32 = 2;
const VALUE: u32 = 3;

/// Pairs in the form in which an answer has them.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Pieces before the last one.
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

/// The most bytes of a piece of several pairs. What is in a piece moves only while that grows.
const PIECE: usize = 256 << 10;

/// The part of an answer that is pairs.
#[derive(Clone, PartialEq, Message)]
struct Decoded {
    #[prost(message, repeated, tag = "2")]
    pairs: Vec<KvPair>,
}

impl Pairs {
    /// The most bytes of a pair beside its key and its value.
    pub const MOST_BESIDE: usize = 18;

    /// Adds a pair.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let fields = [(KEY, key), (VALUE, value)];
        // As everywhere in protobuf, what is empty is left out.
        let fields = fields.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        let len = |bytes: &[u8]| 1 + encoded_len_varint(bytes.len() as u64) + bytes.len();
        let all: usize = fields.clone().map(|(_, bytes)| len(bytes)).sum();
        let piece = self.piece(Self::MOST_BESIDE + key.len() + value.len());
        encode_key(PAIRS, WireType::LengthDelimited, piece);
        encode_varint(all as u64, piece);
        for (tag, bytes) in fields {
            encode_key(tag, WireType::LengthDelimited, piece);
            encode_varint(bytes.len() as u64, piece);
            piece.extend_from_slice(bytes);
        }
    }

    /// Adds a pair with what it has, such as an error.
    pub fn add_message(&mut self, pair: &KvPair) {
        let piece = self.piece(message::encoded_len(PAIRS, pair));
        message::encode(PAIRS, pair, piece);
    }

    /// The piece for so many bytes more.
    fn piece(&mut self, bytes: usize) -> &mut Vec<u8> {
        if self.last.len() + bytes > PIECE {
            if !self.last.is_empty() {
                self.full.push(std::mem::take(&mut self.last));
            }
            // One larger than a piece is alone, in as much memory as it takes.
            self.last.reserve_exact(bytes.max(PIECE));
        }
        &mut self.last
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let full = self.full.iter().map(Vec::as_slice);
        full.chain([&*self.last])
    }

    fn encoded_len(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    /// The pairs as messages. Cost: decodes all of them.
    ///
    /// # Errors
    /// None for pairs that were added.
    pub fn decoded(&self) -> Result<Vec<KvPair>, DecodeError> {
        let pieces: Vec<_> = self.pieces().collect();
        let all = Decoded::decode(Bytes::from(pieces.concat()))?;
        Ok(all.pairs)
    }
}

/// Pairs are equal in any pieces.
impl PartialEq for Pairs {
    fn eq(&self, other: &Self) -> bool {
        self.pieces().flatten().eq(other.pieces().flatten())
    }
}

impl<const N: usize> From<[KvPair; N]> for Pairs {
    fn from(messages: [KvPair; N]) -> Self {
        let mut pairs = Pairs::default();
        messages.iter().for_each(|pair| pairs.add_message(pair));
        pairs
    }
}

impl Message for ScanResponse {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        if let Some(error) = &self.region_error {
            message::encode(REGION_ERROR, error, buf);
        }
        for piece in self.pairs.pieces() {
            buf.put_slice(piece);
        }
        if let Some(error) = &self.error {
            message::encode(ERROR, error, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            REGION_ERROR => {
                let error = self.region_error.get_or_insert_default();
                message::merge(wire_type, error, buf, ctx)
            }
            PAIRS => {
                let mut pair = KvPair::default();
                message::merge(wire_type, &mut pair, buf, ctx)?;
                self.pairs.add_message(&pair);
                Ok(())
            }
            ERROR => {
                let error = self.error.get_or_insert_default();
                message::merge(wire_type, error, buf, ctx)
            }
            _ => encoding::skip_field(wire_type, tag, buf, ctx),
        }
    }

    fn encoded_len(&self) -> usize {
        let region_error = self.region_error.as_ref();
        let region_error = region_error.map_or(0, |e| message::encoded_len(REGION_ERROR, e));
        let error = self.error.as_ref();
        let error = error.map_or(0, |e| message::encoded_len(ERROR, e));
        region_error + self.pairs.encoded_len() + error
    }

    fn clear(&mut self) {
        *self = ScanResponse::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same message, as protobuf's compiler declares it.
    #[derive(Clone, PartialEq, Message)]
    struct Declared {
        #[prost(message, optional, tag = "1")]
        region_error: Option<errorpb::Error>,
        #[prost(message, repeated, tag = "2")]
        pairs: Vec<KvPair>,
        #[prost(message, optional, tag = "3")]
        error: Option<KeyError>,
    }

    fn bytes(len: usize) -> Bytes {
        vec![len as u8; len].into()
    }

    #[test]
    fn its_bytes_are_those_of_the_declared_message() {
        let mut answer = ScanResponse::default();
        assert_eq!(answer.encode_to_vec(), Declared::default().encode_to_vec());
        let mut pairs = Vec::new();
        for (key, value) in [(0, 0), (0, 5), (7, 0), (1, 127), (128, 1), (200, 20_000)] {
            let before = answer.encoded_len();
            let (key, value) = (bytes(key), bytes(value));
            answer.pairs.add(&key, &value);
            let beside = answer.encoded_len() - before - key.len() - value.len();
            assert!(beside <= Pairs::MOST_BESIDE, "{beside}");
            let error = None;
            pairs.push(KvPair { error, key, value });
        }
        let error = KeyError {
            abort: "it failed".to_owned(),
            ..KeyError::default()
        };
        let failed = KvPair {
            error: Some(Box::new(error.clone())),
            ..KvPair::default()
        };
        answer.pairs.add_message(&failed);
        pairs.push(failed);
        answer.error = Some(error.clone());
        answer.region_error = Some(errorpb::Error {
            message: "busy".to_owned(),
            ..errorpb::Error::default()
        });
        let declared = Declared {
            region_error: answer.region_error.clone(),
            pairs: pairs.clone(),
            error: Some(error),
        };
        let encoded = answer.encode_to_vec();
        assert_eq!(encoded, declared.encode_to_vec());
        assert_eq!(encoded.len(), answer.encoded_len());
        assert_eq!(ScanResponse::decode(&*encoded).unwrap(), answer);
        assert_eq!(answer.pairs.decoded().unwrap(), pairs);
        // What it does not know is passed over.
        let newer = [&encoded[..], &[0x78, 1]].concat();
        assert_eq!(ScanResponse::decode(&*newer).unwrap(), answer);
        // A cut between two fields leaves a message.
        for end in 0..encoded.len() {
            let (part, whole) = (&encoded[..end], Declared::decode(&encoded[..end]).is_ok());
            assert_eq!(ScanResponse::decode(part).is_ok(), whole, "{end} bytes");
        }
    }

    #[test]
    fn pieces_are_not_seen() {
        let mut many = ScanResponse::default();
        let len = 100_000;
        for _ in 0..5 {
            many.pairs.add(b"key", &bytes(len));
        }
        many.pairs.add(b"longer than a piece", &bytes(3 * PIECE));
        let encoded = many.encode_to_vec();
        assert_eq!(encoded.len(), many.encoded_len());
        assert_eq!(ScanResponse::decode(&*encoded).unwrap(), many);
        let declared = Declared::decode(&*encoded).unwrap();
        assert_eq!(declared.encode_to_vec(), encoded);
        // A piece has no room that is not counted, but for the last one.
        let spare = |piece: &Vec<u8>| piece.capacity() - piece.len();
        assert!(many.pairs.full.iter().map(spare).max().unwrap() <= PIECE);
    }
}
