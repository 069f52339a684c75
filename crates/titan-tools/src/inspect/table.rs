//! Shows a table: its blocks and their contents, by offset.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use titan::internals::format::entity::each_column;
use titan::internals::format::{BlobIndex, ColumnValue, ParsedInternalKey, ValueType};
use titan::internals::table::{is_magic, value_text};
use titan::vfs::ReadableFile;

use super::items::{Fields, Items};
use crate::forensics::dissect::{BlockAt, Part, Role, dissect};

/// Whether the file ends with one of the magic numbers of tables.
pub(super) fn ends_like_one(file: &dyn ReadableFile) -> bool {
    let end = file.size().ok().and_then(|size| size.checked_sub(8));
    let magic = end.and_then(|at| file.read_exact_at(at, 8).ok());
    magic
        .and_then(|bytes| bytes.first_chunk().map(|b| u64::from_le_bytes(*b)))
        .is_some_and(is_magic)
}

pub(super) fn walk(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    items: &mut Items<'_>,
) -> ControlFlow<()> {
    let mut range_deletions = false;
    dissect(file, path, &mut |at, part| {
        if let Part::Block { role, .. } = &part {
            range_deletions = **role == Role::RangeDeletions;
        }
        show(at, part, range_deletions, items)
    })
}

fn show(
    at: BlockAt,
    part: Part<'_>,
    range_deletions: bool,
    items: &mut Items<'_>,
) -> ControlFlow<()> {
    let fields = Fields::default();
    match part {
        Part::Block {
            role,
            compression,
            unpacked,
        } => {
            let (kind, name) = describe(role);
            let mut fields = fields.with("size", at.size);
            if let Some(name) = name {
                fields = fields.with("name", name);
            }
            let fields = fields
                .with("compression", format!("{compression:?}"))
                .with("unpacked", unpacked);
            items.show(at.offset, kind, fields)
        }
        Part::Entry { ikey, value } if range_deletions => {
            let fields = fields.with_internal_key(ikey).with_bytes("end", value);
            items.show(at.offset, "range deletion", fields)
        }
        Part::Entry { ikey, value } => {
            let fields = fields.with_internal_key(ikey);
            let key = ParsedInternalKey::parse(ikey);
            let fields = match key.map(|key| key.value_type) {
                Ok(ValueType::BlobIndex) => pointer_fields(fields, value),
                Ok(ValueType::WideColumnEntity) => entity_fields(fields, value),
                _ => fields.with("value_size", value.len()),
            };
            items.show(at.offset, "entry", fields)
        }
        Part::IndexEntry {
            separator,
            user_key,
            block,
        } => {
            let fields = match user_key {
                true => fields.with_bytes("separator", separator),
                false => fields.with_bound("separator", separator),
            };
            items.show(at.offset, "index entry", fields.with("block", text(block)))
        }
        Part::Property { name, value } => {
            let text = value_text(name, value);
            let name = name.escape_ascii().to_string();
            items.show(at.offset, "property", fields.with(&name, text))
        }
        Part::MetaindexEntry { name, block } => {
            let fields = fields
                .with_bytes("name", name)
                .with("block", block.map_or_else(|| "none".to_owned(), text));
            items.show(at.offset, "metaindex entry", fields)
        }
        Part::Liveness(liveness) => liveness.totals().iter().try_for_each(|refs| {
            let fields = Fields::default()
                .with("blob_file", refs.file)
                .with("references", refs.count)
                .with("bytes", refs.bytes);
            items.show(at.offset, "references", fields)
        }),
        Part::Footer {
            format_version,
            checksum,
            metaindex,
            index,
        } => {
            let mut fields = fields
                .with("size", at.size)
                .with("format_version", format_version)
                .with("checksum", format!("{checksum:?}"))
                .with("metaindex", text(metaindex));
            if let Some(index) = index {
                fields = fields.with("index", text(index));
            }
            items.show(at.offset, "footer", fields)
        }
        Part::Unclaimed => items.show(at.offset, "unclaimed", fields.with("size", at.size)),
        Part::Damage(e) => items.damage(at.offset, &e),
    }
}

/// The fields of a pointer, or what is wrong with it.
pub(super) fn pointer_fields(fields: Fields, value: &[u8]) -> Fields {
    match BlobIndex::decode(value) {
        Ok(index) => fields
            .with("blob_file", index.file)
            .with("blob_offset", index.offset)
            .with("blob_size", index.size)
            .with("blob_compression", format!("{:?}", index.compression)),
        Err(e) => fields.with("bad_pointer", e.message()),
    }
}

/// The fields of an entity, or what is wrong with it.
pub(super) fn entity_fields(fields: Fields, entity: &[u8]) -> Fields {
    let mut pointers = Vec::new();
    let mut columns = 0;
    let decoded = each_column(entity, &mut |column| {
        columns += 1;
        if let ColumnValue::Pointer(index) = column.value {
            let name = column.name.escape_ascii();
            pointers.push(format!(
                "{name}@{}+{}+{}",
                index.file, index.offset, index.size
            ));
        }
        Ok(())
    });
    let fields = fields.with("entity_size", entity.len());
    match decoded {
        Ok(()) if pointers.is_empty() => fields.with("columns", columns),
        Ok(()) => fields
            .with("columns", columns)
            .with("in_blob_files", pointers.join(" ")),
        Err(e) => fields.with("bad_entity", e.message()),
    }
}

fn describe(role: &Role) -> (&'static str, Option<&str>) {
    match role {
        Role::Data => ("data block", None),
        Role::Index => ("index", None),
        Role::IndexPartition => ("index partition", None),
        Role::RangeDeletions => ("range deletions", None),
        Role::Properties => ("properties", None),
        Role::Metaindex => ("metaindex", None),
        Role::Liveness => ("liveness", None),
        Role::Filter(name) => ("filter", Some(name)),
        Role::Other(name) => ("block", Some(name)),
    }
}

fn text(block: BlockAt) -> String {
    format!("{}+{}", block.offset, block.size)
}
