//! A blob file: header, records, footer.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::{Fields, Items};
use crate::blob::{BLOB_FILE_HEADER_LEN, BLOB_FILE_MAGIC, BlobFileReader};
use crate::format::BlobFileNumber;
use crate::vfs::ReadableFile;

/// Whether the file starts with the magic number of blob files.
pub(super) fn starts_like_one(file: &dyn ReadableFile) -> bool {
    file.read_exact_at(0, 4)
        .is_ok_and(|bytes| *bytes == BLOB_FILE_MAGIC.to_le_bytes())
}

pub(super) fn walk(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    number: BlobFileNumber,
    items: &mut Items<'_>,
) -> ControlFlow<()> {
    let reader = match BlobFileReader::open(file, path, number) {
        Ok(reader) => reader,
        Err(e) => return items.damage(0, &e),
    };
    let fields = Fields::default()
        .with("size", BLOB_FILE_HEADER_LEN)
        .with("family", reader.column_family())
        .with("compression", format!("{:?}", reader.compression()));
    items.show(0, "header", fields)?;

    let footer = reader.verify_footer();
    let mut records = reader.records();
    if footer.is_err() {
        // Reported below, where it stands.
        records.next();
    }
    let end = match &footer {
        Ok(_) => reader.size(),
        Err(e) => e.offset().unwrap_or(reader.size()),
    };
    while records.position() < end {
        let start = records.position();
        match records.next() {
            Some(Ok(record)) => {
                let index = record.index(&reader);
                let mut fields = Fields::default()
                    .with("size", records.position() - start)
                    .with_bytes("key", &record.key)
                    .with("value_offset", index.offset)
                    .with("stored_size", index.size);
                match record.value(&reader) {
                    Ok(value) => fields = fields.with("value_size", value.len()),
                    Err(e) => items.damage(start, &e)?,
                }
                items.show(start, "record", fields)?;
            }
            Some(Err(e)) => items.damage(start, &e)?,
            None => break,
        }
    }
    match footer {
        Ok(count) => {
            let start = reader.footer_start();
            let fields = Fields::default()
                .with("size", reader.size() - start)
                .with("records", count);
            items.show(start, "footer", fields)
        }
        Err(e) => items.damage(end, &e),
    }
}
