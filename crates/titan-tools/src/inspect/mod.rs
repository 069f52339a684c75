//! Shows what one file of a database contains, piece by piece.
//!
//! Tables, blob files, WALs, MANIFESTs, OPTIONS, CURRENT and IDENTITY are recognised by their
//! names, other files by their first or last bytes. Damage is an item of its own, at its offset,
//! and the walk continues after it where the format allows: in tables with the next block, in
//! logs with the first record that starts in a later block of 32 KiB. Blob records have no
//! markers at which to continue.

mod blob;
mod items;
mod log;
mod table;
mod text;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use titan::internals::format::FileKind;
use titan::vfs::{Access, ReadableFile, StdVfs, Vfs};
use titan::{BlobFileNumber, Error, FileNumber, Result};

pub use items::InspectItem;
use items::Items;

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
