//! Options kept in the MANIFEST.
//!
//! ```text
//! 1 (version) | 0 for the database, or family + 1 | { lp name, lp value }    numbers are varints
//! ```
//!
//! Names and values are text. The field itself names the family, because another engine may copy it
//! to an edit of no family.

use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_length_prefixed, put_varint};
use crate::format::numbers::ColumnFamilyId;

const VERSION: u64 = 1;

/// Options of one family, or of the database. They replace those of earlier edits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptSettings {
    /// `None` for the database.
    pub family: Option<ColumnFamilyId>,
    /// Names and values.
    pub settings: Vec<(String, String)>,
}

impl KeptSettings {
    /// Appends the encoding.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, VERSION);
        put_varint(out, self.family.map_or(0, |id| u64::from(id.0) + 1));
        for (name, value) in &self.settings {
            put_length_prefixed(out, name.as_bytes());
            put_length_prefixed(out, value.as_bytes());
        }
    }

    /// Reads the encoding; `None` if it is of a later version.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        let mut d = Decoder::new(bytes);
        if d.varint()? != VERSION {
            return Ok(None);
        }
        let family = match d.varint()? {
            0 => None,
            id => Some(ColumnFamilyId(u32::try_from(id - 1).map_err(|_| {
                Error::corruption("options of a family whose id exceeds 32 bits")
            })?)),
        };
        let mut settings = Vec::new();
        while !d.is_empty() {
            settings.push((text(&mut d)?, text(&mut d)?));
        }
        Ok(Some(KeptSettings { family, settings }))
    }
}

fn text(d: &mut Decoder<'_>) -> Result<String> {
    match std::str::from_utf8(d.length_prefixed()?) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::corruption("an option that is not UTF-8")),
    }
}
