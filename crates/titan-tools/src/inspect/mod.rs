//! Shows what one file of a database contains, piece by piece.
//!
//! Tables, blob files, WALs, MANIFESTs, OPTIONS, CURRENT and IDENTITY are recognised by their
//! names, other files by their first or last bytes. Damage is an item of its own, at its offset,
//! and the walk continues after it where the format allows: in tables with the next block, in
//! logs with the first record that starts in a later block of 32 KiB. Blob records have no
//! markers at which to continue.

mod blob;
mod log;
mod table;
mod text;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use titan::internals::format::{FileKind, ParsedInternalKey};
use titan::vfs::{Access, ReadableFile, StdVfs, Vfs};
use titan::{BlobFileNumber, Error, FileNumber, Result};

/// A piece of a file: a block, record, edit, entry, property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InspectItem {
    /// Where in the file it starts, in bytes. Pieces of a block or record have the offset of that
    /// block or record.
    pub offset: u64,
    /// Kind of the item, in lower case; `damage` for what cannot be read.
    pub kind: String,
    /// Properties of the item, by name. Keys are escaped as in Rust's byte strings. Pieces that
    /// occupy space of their own in the file have `size`, in bytes.
    pub fields: Vec<(String, String)>,
}

/// The summary of an inspection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    /// Kind of the file: `table`, `blob file`, `wal`, `manifest`, `options` or `text`.
    pub kind: &'static str,
    /// Bytes of the file.
    pub size: u64,
    /// Items shown.
    pub items: u64,
    /// Items that are damage.
    pub damaged: u64,
}

/// Passes the pieces of a file to `sink`, in order, until it returns false.
///
/// Cost: reads the file about once; one piece is in memory at a time (of tables also the index).
///
/// # Errors
/// `NotFound` and other failures to open the file; `InvalidArgument` if it is not a file of a
/// database. Damage is no error: see [`InspectItem::kind`].
pub fn inspect(path: &Path, sink: &mut dyn FnMut(InspectItem) -> bool) -> Result<FileSummary> {
    let file = StdVfs.open(path, Access::Sequential)?;
    let size = file.size().map_err(|e| e.in_file(path))?;
    let content = Content::of(path, &file)?;
    let mut items = Items {
        sink,
        shown: 0,
        damaged: 0,
    };
    // The result is the same if the sink stopped the walk.
    let _: ControlFlow<()> = match content {
        Content::Table => table::walk(file, path, &mut items),
        Content::Blob(number) => blob::walk(file, path, number, &mut items),
        Content::BlobMap(number) => blob::walk_map(file, path, number, &mut items),
        Content::Wal(number) => log::walk_wal(file, path, number, &mut items),
        Content::Manifest(number) => log::walk_manifest(file, path, number, &mut items),
        Content::Options => text::walk_options(&*file, path, &mut items),
        Content::Text => text::walk(&*file, path, &mut items),
    };
    Ok(FileSummary {
        kind: content.name(),
        size,
        items: items.shown,
        damaged: items.damaged,
    })
}

/// The kind of a file. Numbers are those in file names, or 0.
#[derive(Clone, Copy)]
enum Content {
    Table,
    Blob(BlobFileNumber),
    BlobMap(FileNumber),
    Wal(FileNumber),
    Manifest(FileNumber),
    Options,
    Text,
}

impl Content {
    fn of(path: &Path, file: &Arc<dyn ReadableFile>) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        Ok(match name.and_then(FileKind::parse) {
            Some(FileKind::Table(_)) => Content::Table,
            Some(FileKind::Blob(number)) => Content::Blob(number),
            Some(FileKind::BlobMap(number)) => Content::BlobMap(number),
            Some(FileKind::Wal(number)) => Content::Wal(number),
            Some(FileKind::Manifest(number)) => Content::Manifest(number),
            Some(FileKind::Options(_)) => Content::Options,
            Some(FileKind::Current | FileKind::Identity) => Content::Text,
            Some(FileKind::Lock | FileKind::Temp(_)) | None => {
                if blob::starts_like_one(&**file) {
                    Content::Blob(BlobFileNumber(0))
                } else if table::ends_like_one(&**file) {
                    Content::Table
                } else if log::starts_like_manifest(file, path) {
                    Content::Manifest(FileNumber(0))
                } else if log::starts_like_wal(file, path) {
                    Content::Wal(FileNumber(0))
                } else {
                    return Err(Error::invalid_argument(
                        "neither name nor content is that of a file of a database",
                    )
                    .in_file(path));
                }
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Content::Table => "table",
            Content::Blob(_) => "blob file",
            Content::BlobMap(_) => "blob map",
            Content::Wal(_) => "wal",
            Content::Manifest(_) => "manifest",
            Content::Options => "options",
            Content::Text => "text",
        }
    }
}

/// Passes items to the sink and counts them.
struct Items<'s> {
    sink: &'s mut dyn FnMut(InspectItem) -> bool,
    shown: u64,
    damaged: u64,
}

impl Items<'_> {
    fn show(&mut self, offset: u64, kind: &str, fields: Fields) -> ControlFlow<()> {
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

    /// Shows damage, at the offset in the error or else at `offset`.
    fn damage(&mut self, offset: u64, error: &Error) -> ControlFlow<()> {
        self.damaged += 1;
        let fields = Fields::default()
            .with("error", error.kind().name())
            .with("message", error.message());
        self.show(error.offset().unwrap_or(offset), "damage", fields)
    }
}

/// Named values, in the order in which they were added.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Fields {
    fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a key or other bytes, escaped.
    fn with_bytes(self, name: &str, value: &[u8]) -> Self {
        self.with(name, value.escape_ascii())
    }

    /// Adds the parts of an internal key, or the bytes if they are not an internal key.
    fn with_internal_key(self, ikey: &[u8]) -> Self {
        match ParsedInternalKey::parse(ikey) {
            Ok(key) => self
                .with_bytes("key", key.user_key)
                .with("sequence", key.sequence)
                .with("type", format!("{:?}", key.value_type)),
            Err(_) => self.with_bytes("internal_key", ikey),
        }
    }

    /// [`Fields::with_internal_key`] in one field: `key@sequence:type`.
    fn with_bound(self, name: &str, ikey: &[u8]) -> Self {
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
fn read_small(file: &dyn ReadableFile, max: u64) -> Result<Bytes> {
    let size = file.size()?;
    if size > max {
        return Err(Error::corruption(format!(
            "{size} bytes are too many for such a file"
        )));
    }
    file.read_exact_at(0, size as usize)
}
