//! The pieces of a file, as they are passed to the caller.

use std::ops::ControlFlow;

use bytes::Bytes;
use serde::Serialize;
use titan::internals::format::ParsedInternalKey;
use titan::vfs::ReadableFile;
use titan::{Error, Result};

/// A piece of a file: a block, record, edit, entry, property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InspectItem {
    /// Where in the file it starts, in bytes. Pieces of a block or record have the offset of that
    /// block or record.
    pub offset: u64,
    /// Kind of the item, in lower case; `damage` for what cannot be read, `unreadable` for data in
    /// a codec that this program was built without.
    pub kind: String,
    /// Properties of the item, by name. Keys are escaped as in Rust's byte strings. Pieces that
    /// occupy space of their own in the file have `size`, in bytes.
    pub fields: Vec<(String, String)>,
}

/// Passes items to the sink and counts them.
pub(super) struct Items<'s> {
    pub(super) sink: &'s mut dyn FnMut(InspectItem) -> bool,
    pub(super) shown: u64,
    pub(super) damaged: u64,
}

impl Items<'_> {
    pub(super) fn show(&mut self, offset: u64, kind: &str, fields: Fields) -> ControlFlow<()> {
        self.shown += 1;
        let item = InspectItem {
            offset,
            kind: kind.to_owned(),
            fields: fields.0,
        };
        match (self.sink)(item) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    /// Shows damage, or data in a codec that this program lacks, at the offset in the error or else
    /// at `offset`.
    pub(super) fn damage(&mut self, offset: u64, error: &Error) -> ControlFlow<()> {
        let kind = match error.lacks_codec() {
            true => "unreadable",
            false => "damage",
        };
        self.damaged += u64::from(!error.lacks_codec());
        let fields = Fields::default()
            .with("error", error.kind().name())
            .with("message", error.message());
        self.show(error.offset().unwrap_or(offset), kind, fields)
    }
}

/// Named values, in the order in which they were added.
#[derive(Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl Fields {
    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a key or other bytes, escaped.
    pub(super) fn with_bytes(self, name: &str, value: &[u8]) -> Self {
        self.with(name, value.escape_ascii())
    }

    /// Adds the parts of an internal key, or the bytes if they are not an internal key.
    pub(super) fn with_internal_key(self, ikey: &[u8]) -> Self {
        match ParsedInternalKey::parse(ikey) {
            Ok(key) => self
                .with_bytes("key", key.user_key)
                .with("sequence", key.sequence)
                .with("type", format!("{:?}", key.value_type)),
            Err(_) => self.with_bytes("internal_key", ikey),
        }
    }

    /// [`Fields::with_internal_key`] in one field: `key@sequence:type`.
    pub(super) fn with_bound(self, name: &str, ikey: &[u8]) -> Self {
        match ParsedInternalKey::parse(ikey) {
            Ok(key) => {
                let user_key = key.user_key.escape_ascii();
                let text = format!("{user_key}@{}:{:?}", key.sequence, key.value_type);
                self.with(name, text)
            }
            Err(_) => self.with_bytes(name, ikey),
        }
    }
}

/// Reads the whole of a small file; refuses one larger than `max`.
pub(super) fn read_small(file: &dyn ReadableFile, max: u64) -> Result<Bytes> {
    let size = file.size()?;
    if size > max {
        return Err(Error::corruption(format!(
            "{size} bytes are too many for such a file"
        )));
    }
    file.read_exact_at(0, size as usize)
}
