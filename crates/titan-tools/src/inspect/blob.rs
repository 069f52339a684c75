//! Shows a blob file (header, records, footer) and the relocation map of one that garbage
//! collection wrote.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use titan::internals::blob::{
    BLOB_FILE_HEADER_LEN, BLOB_FILE_MAGIC, BlobFileReader, Records, RelocationMap,
};
use titan::internals::block_cache::BlockCache;
use titan::vfs::ReadableFile;
use titan::{BlobFileNumber, FileNumber};

use super::items::{Fields, Items};

/// Whether the file starts with the magic number of blob files.
pub(super) fn starts_like_one(file: &dyn ReadableFile) -> bool {
    file.read_exact_at(0, 4)
        .is_ok_and(|bytes| *bytes == BLOB_FILE_MAGIC.to_le_bytes())
}

/// Shows the location of the records of each logical file.
pub(super) fn walk_map(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    number: FileNumber,
    items: &mut Items<'_>,
) -> ControlFlow<()> {
    let map = match RelocationMap::open(file, path, number, Arc::new(BlockCache::new(0))) {
        Ok(map) => map,
        Err(e) => return items.damage(0, &e),
    };
    let fields = Fields::default().with("file", map.physical());
    items.show(0, "map", fields)?;
    for logical in map.logical_files() {
        for record in map.records(logical) {
            match record {
                Ok(record) => {
                    let fields = Fields::default()
                        .with("logical", logical)
                        .with("value_offset", record.offset)
                        .with("to", record.to);
                    items.show(0, "moved", fields)?;
                }
                Err(e) => items.damage(0, &e)?,
            }
        }
    }
    ControlFlow::Continue(())
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
    let mut records = Records::of(&reader);
    if footer.is_err() {
        // Reported below, at its offset.
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
            Some(Err(e)) => match records.skip_any_hole(&e, start) {
                Ok(Some(hole)) => {
                    let fields = Fields::default().with("size", hole.end - hole.start);
                    items.show(hole.start, "hole", fields)?;
                }
                Ok(None) => items.damage(start, &e)?,
                Err(unreadable) => items.damage(start, &unreadable)?,
            },
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
