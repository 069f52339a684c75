//! Shows the two kinds of logs: WALs by batches and operations, MANIFESTs by edits and
//! fields.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use titan::internals::batch::BatchView;
use titan::internals::options::{database_defaults, family_defaults};
use titan::internals::version::{NewFile, VersionEdit};
use titan::internals::wal::{LogEnd, LogReader, Record, Search, TailMode};
use titan::internals::write::{Predecessor, SyncRecord};
use titan::vfs::ReadableFile;
use titan::{BatchOp, Error, FileNumber};

use super::items::{Fields, Items};
use super::table::{entity_fields, pointer_fields};

pub(super) fn starts_like_manifest(file: &Arc<dyn ReadableFile>, path: &Path) -> bool {
    starts_with(file, path, |payload| VersionEdit::decode(payload).is_ok())
}

pub(super) fn starts_like_wal(file: &Arc<dyn ReadableFile>, path: &Path) -> bool {
    starts_with(file, path, |payload| {
        BatchView::parse_whole(payload).is_ok()
    })
}

pub(super) fn walk_wal(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    number: FileNumber,
    items: &mut Items<'_>,
) -> ControlFlow<()> {
    walk(file, path, number, items, show_batch)
}

pub(super) fn walk_manifest(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    number: FileNumber,
    items: &mut Items<'_>,
) -> ControlFlow<()> {
    walk(file, path, number, items, show_edit)
}

fn starts_with(
    file: &Arc<dyn ReadableFile>,
    path: &Path,
    is_one: impl FnOnce(&[u8]) -> bool,
) -> bool {
    let mut log = LogReader::new(Arc::clone(file), path, FileNumber(0), TailMode::PointInTime);
    log.next()
        .is_ok_and(|record| record.is_some_and(|record| is_one(record.payload)))
}

/// Shows every record that can be read.
fn walk(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    number: FileNumber,
    items: &mut Items<'_>,
    show: impl Fn(&Record<'_>, &mut Items<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut log = LogReader::new(file, path, number, TailMode::PointInTime);
    loop {
        match log.next() {
            Ok(Some(record)) => {
                show(&record, items)?;
                continue;
            }
            Ok(None) => {}
            // Its form cannot be read, so neither can the records that follow.
            Err(e) => return items.damage(0, &e),
        }
        match log.end() {
            Some(LogEnd::Corrupt { offset, reason, .. }) => {
                items.damage(*offset, &Error::corruption(*reason))?;
                match log.resume(Search::Certain) {
                    Ok(true) => {}
                    Ok(false) => return ControlFlow::Continue(()),
                    Err(e) => return items.damage(0, &e),
                }
            }
            Some(LogEnd::Truncated { offset }) => {
                let e = Error::corruption("the file ends within a record");
                return items.damage(*offset, &e);
            }
            Some(LogEnd::Stale { offset }) => {
                let fields = Fields::default().with("note", "from an earlier use of the file");
                return items.show(*offset, "stale", fields);
            }
            Some(LogEnd::Clean) | None => return ControlFlow::Continue(()),
        }
    }
}

fn show_batch(record: &Record<'_>, items: &mut Items<'_>) -> ControlFlow<()> {
    let fields = Fields::default().with("size", record.payload.len());
    if let Some(before) = Predecessor::decode(record.payload) {
        let fields = fields
            .with("log", before.number)
            .with("last_sequence", before.last_sequence);
        return items.show(record.offset, "predecessor", fields);
    }
    if let Some(sync) = SyncRecord::decode(record.payload) {
        let fields = fields
            .with("synced_log", sync.synced.file)
            .with("synced_to", sync.synced.offset);
        return items.show(record.offset, "sync", fields);
    }
    let batch = match BatchView::parse(record.payload) {
        Ok(batch) => batch,
        Err(e) => return items.damage(record.offset, &e),
    };
    let fields = fields
        .with("sequence", batch.sequence())
        .with("count", batch.count());
    items.show(record.offset, "batch", fields)?;
    for op in batch.ops() {
        match op {
            Ok(op) => show_op(&op, record.offset, items)?,
            Err(e) => items.damage(record.offset, &e)?,
        }
    }
    match batch.validate() {
        // A broken operation was shown above.
        Err(e) if batch.ops().all(|op| op.is_ok()) => items.damage(record.offset, &e),
        _ => ControlFlow::Continue(()),
    }
}

fn show_op(op: &BatchOp<'_>, offset: u64, items: &mut Items<'_>) -> ControlFlow<()> {
    let mut fields = Fields::default();
    if let Some(family) = op.column_family() {
        fields = fields.with("family", family);
    }
    let (kind, fields) = match op {
        BatchOp::Put { key, value, .. } => (
            "put",
            fields
                .with_bytes("key", key)
                .with("value_size", value.len()),
        ),
        BatchOp::Delete { key, .. } => ("delete", fields.with_bytes("key", key)),
        BatchOp::SingleDelete { key, .. } => ("single delete", fields.with_bytes("key", key)),
        BatchOp::DeleteRange { begin, end, .. } => (
            "delete range",
            fields.with_bytes("begin", begin).with_bytes("end", end),
        ),
        BatchOp::Merge { key, operand, .. } => (
            "merge",
            fields
                .with_bytes("key", key)
                .with("operand_size", operand.len()),
        ),
        BatchOp::BlobIndex { key, index, .. } => (
            "blob index",
            pointer_fields(fields.with_bytes("key", key), index),
        ),
        BatchOp::PutEntity { key, entity, .. } => (
            "put entity",
            entity_fields(fields.with_bytes("key", key), entity),
        ),
        BatchOp::TimedPut {
            key,
            value,
            write_time,
            ..
        } => (
            "timed put",
            fields
                .with_bytes("key", key)
                .with("value_size", value.len())
                .with("write_time", write_time),
        ),
        BatchOp::LogData { data } => ("log data", fields.with("data_size", data.len())),
        BatchOp::Noop => ("noop", fields),
        BatchOp::BeginPrepare => ("begin prepare", fields),
        BatchOp::BeginPersistedPrepare => ("begin persisted prepare", fields),
        BatchOp::BeginUnprepare => ("begin unprepare", fields),
        BatchOp::EndPrepare { xid } => ("end prepare", fields.with_bytes("xid", xid)),
        BatchOp::Commit { xid } => ("commit", fields.with_bytes("xid", xid)),
        BatchOp::CommitWithTimestamp { timestamp, xid } => (
            "commit",
            fields
                .with_bytes("xid", xid)
                .with_bytes("timestamp", timestamp),
        ),
        BatchOp::Rollback { xid } => ("rollback", fields.with_bytes("xid", xid)),
        // The engine may know more operations than there are names here.
        _ => ("operation", fields),
    };
    items.show(offset, kind, fields)
}

/// Shows the fields of an edit as one item, and each file it concerns as another.
fn show_edit(record: &Record<'_>, items: &mut Items<'_>) -> ControlFlow<()> {
    let edit = match VersionEdit::decode(record.payload) {
        Ok(edit) => edit,
        Err(e) => return items.damage(record.offset, &e),
    };
    let mut fields = Fields::default()
        .with("size", record.payload.len())
        .with("family", edit.column_family);
    add_scalars(&edit, &mut fields);
    items.show(record.offset, "edit", fields)?;

    let mut show = |kind: &str, fields: Fields| items.show(record.offset, kind, fields);
    for (level, key) in &edit.compact_cursors {
        let fields = Fields::default()
            .with("level", level)
            .with_bound("key", key);
        show("compact cursor", fields)?;
    }
    show_files(&edit, &mut show)?;
    for wal in &edit.wal_additions {
        let synced = wal
            .synced_size
            .map_or_else(|| "none".to_owned(), |n| n.to_string());
        show("new wal", file(wal.number.0).with("synced_size", synced))?;
    }
    for (sequence, log) in &edit.unlogged {
        let fields = Fields::default().with("sequence", sequence);
        show("number that no wal has", fields.with("before_wal", log))?;
    }
    show_facts(&edit, &mut show)?;
    show_settings(&edit, &mut show)?;
    for (tag, value) in &edit.unknown {
        let fields = Fields::default()
            .with("tag", tag)
            .with("length", value.len());
        show("unknown field", fields)?;
    }
    ControlFlow::Continue(())
}

/// Adds the fields that an edit has at most once.
fn add_scalars(edit: &VersionEdit, fields: &mut Fields) {
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            fields.0.push((name.to_owned(), value));
        }
    };
    let number = |n: FileNumber| n.to_string();
    set("db_id", edit.db_id.clone());
    set("comparator", edit.comparator.clone());
    set("log_number", edit.log_number.map(number));
    set("prev_log_number", edit.prev_log_number.map(number));
    set("next_file_number", edit.next_file_number.map(number));
    set("last_sequence", edit.last_sequence.map(|n| n.to_string()));
    set(
        "min_log_number_to_keep",
        edit.min_log_number_to_keep.map(number),
    );
    set(
        "max_column_family",
        edit.max_column_family.map(|id| id.to_string()),
    );
    set("add_column_family", edit.added_column_family.clone());
    let dropped = edit.dropped_column_family.then(|| "true".to_owned());
    set("drop_column_family", dropped);
    set(
        "atomic_group_remaining",
        edit.atomic_group_remaining.map(|n| n.to_string()),
    );
    set("wal_deletion", edit.wal_deletion.map(number));
    set(
        "persist_user_defined_timestamps",
        edit.persist_user_defined_timestamps.map(|b| b.to_string()),
    );
    set("synced_before", edit.synced_before.map(|n| n.to_string()));
    set(
        "state_follows",
        edit.state_follows.then(|| "true".to_owned()),
    );
}

/// Shows an item of this kind with these fields.
type Show<'s> = &'s mut dyn FnMut(&str, Fields) -> ControlFlow<()>;

/// The first field of a file.
fn file(number: u64) -> Fields {
    Fields::default().with("number", number)
}

/// Shows tables and blob files that come, change or go.
fn show_files(edit: &VersionEdit, show: Show<'_>) -> ControlFlow<()> {
    for (level, number) in &edit.deleted_files {
        show("deleted table", file(number.0).with("level", level))?;
    }
    for (level, new) in &edit.new_files {
        show("new table", new_table(*level, new))?;
    }
    for added in &edit.blob_additions {
        let fields = file(added.number.0)
            .with("records", added.count)
            .with("bytes", added.total_bytes)
            .with_bytes("checksum_method", &added.checksum_method)
            .with_bytes("checksum", &added.checksum_value);
        show("new blob file", fields)?;
    }
    for garbage in &edit.blob_garbage {
        let fields = file(garbage.number.0)
            .with("records", garbage.count)
            .with("bytes", garbage.bytes);
        show("blob garbage", fields)?;
    }
    for moved in &edit.relocations {
        let logical: Vec<String> = moved.logical.iter().map(|n| n.to_string()).collect();
        let fields = file(moved.file.0)
            .with("map", moved.map)
            .with("records", moved.count)
            .with("bytes", moved.total_bytes)
            .with("logical_files", logical.join(","));
        show("moved records", fields)?;
    }
    ControlFlow::Continue(())
}

/// Shows facts about tables.
fn show_facts(edit: &VersionEdit, show: Show<'_>) -> ControlFlow<()> {
    for facts in &edit.table_facts {
        let mut fields = file(facts.table.0)
            .with("entries", facts.num_entries)
            .with("deletions", facts.num_deletions)
            .with("range_deletions", facts.num_range_deletions)
            .with("raw_key_bytes", facts.raw_key_bytes)
            .with("raw_value_bytes", facts.raw_value_bytes);
        if facts.shadowed_bytes > 0 {
            fields = fields.with("shadowed_bytes", facts.shadowed_bytes);
        }
        if facts.num_shadowed > 0 {
            fields = fields.with("shadowed_entries", facts.num_shadowed);
        }
        for garbage in facts.collected.garbage.iter() {
            let name = format!("garbage_from_{}", garbage.moment);
            fields = fields.with(&name, garbage.bytes);
        }
        for (name, value) in &facts.collected.properties {
            let name = name.escape_ascii().to_string();
            fields = fields.with(&name, value.escape_ascii().to_string());
        }
        for refs in &facts.blob_refs {
            let text = format!("{} references to {} bytes", refs.count, refs.bytes);
            fields = fields.with(&format!("blob_file_{}", refs.file), text);
        }
        if facts.foreign {
            fields = fields.with("counted", "later: another program wrote the table");
        }
        show("table facts", fields)?;
    }
    ControlFlow::Continue(())
}

/// Shows the options that are kept.
fn show_settings(edit: &VersionEdit, show: Show<'_>) -> ControlFlow<()> {
    for kept in &edit.kept_settings {
        let (of, defaults) = match kept.family {
            Some(id) => (id.to_string(), family_defaults()),
            None => ("the database".to_owned(), database_defaults()),
        };
        let mut fields = Fields::default().with("of", of);
        // Settings that equal the defaults are omitted.
        for (name, value) in kept.settings.iter().filter(|kept| !defaults.contains(kept)) {
            fields = fields.with(name, value);
        }
        show("kept options", fields)?;
    }
    ControlFlow::Continue(())
}

/// The fields of a new table; those without information are omitted.
fn new_table(level: usize, new: &NewFile) -> Fields {
    let mut fields = Fields::default()
        .with("number", new.number)
        .with("level", level)
        .with("bytes", new.size)
        .with_bound("smallest", &new.smallest)
        .with_bound("largest", &new.largest)
        .with("smallest_sequence", new.smallest_seq)
        .with("largest_sequence", new.largest_seq);
    if let Some(blob_file) = new.oldest_blob_file {
        fields = fields.with("oldest_blob_file", blob_file);
    }
    if let Some(epoch) = new.epoch_number {
        fields = fields.with("epoch_number", epoch);
    }
    if let Some(id) = &new.unique_id {
        fields = fields.with_bytes("unique_id", id);
    }
    for (name, number) in [
        ("oldest_ancester_time", new.oldest_ancester_time),
        ("file_creation_time", new.file_creation_time),
        ("path_id", new.path_id.into()),
        ("temperature", new.temperature.into()),
        (
            "compensated_range_deletion_size",
            new.compensated_range_deletion_size,
        ),
        ("tail_size", new.tail_size),
    ] {
        if number != 0 {
            fields = fields.with(name, number);
        }
    }
    if new.marked_for_compaction {
        fields = fields.with("marked_for_compaction", true);
    }
    if !new.user_defined_timestamps_persisted {
        fields = fields.with("user_defined_timestamps_persisted", false);
    }
    if !new.checksum.is_empty() {
        fields = fields
            .with_bytes("checksum_method", &new.checksum_method)
            .with_bytes("checksum", &new.checksum);
    }
    for (tag, value) in &new.unknown {
        fields = fields.with_bytes(&format!("field_{tag}"), value);
    }
    fields
}
