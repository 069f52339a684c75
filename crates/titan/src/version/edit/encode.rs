//! Writes edits.

use super::{VersionEdit, tags};
use crate::format::coding::{put_length_prefixed, put_varint};

impl VersionEdit {
    /// Appends the encoding: the payload of one record of a MANIFEST.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, tag, text: &Option<String>| {
            if let Some(text) = text {
                put_field(out, tag, text.as_bytes());
            }
        };
        let number = |out: &mut Vec<u8>, tag, number: Option<u64>| {
            if let Some(number) = number {
                put_numbers(out, tag, &[number]);
            }
        };
        text(out, tags::DB_ID, &self.db_id);
        text(out, tags::COMPARATOR, &self.comparator);
        number(out, tags::LOG_NUMBER, self.log_number.map(|n| n.0));
        number(
            out,
            tags::PREV_LOG_NUMBER,
            self.prev_log_number.map(|n| n.0),
        );
        number(
            out,
            tags::NEXT_FILE_NUMBER,
            self.next_file_number.map(|n| n.0),
        );
        number(out, tags::LAST_SEQUENCE, self.last_sequence.map(|n| n.0));
        number(
            out,
            tags::MIN_LOG_NUMBER_TO_KEEP,
            self.min_log_number_to_keep.map(|n| n.0),
        );
        number(
            out,
            tags::MAX_COLUMN_FAMILY,
            self.max_column_family.map(|id| id.0.into()),
        );
        self.encode_files(out);
        self.encode_wals(out);

        if self.column_family.0 != 0 {
            put_numbers(out, tags::COLUMN_FAMILY, &[self.column_family.0.into()]);
        }
        text(out, tags::COLUMN_FAMILY_ADD, &self.added_column_family);
        if self.dropped_column_family {
            put_numbers(out, tags::COLUMN_FAMILY_DROP, &[]);
        }
        number(
            out,
            tags::IN_ATOMIC_GROUP,
            self.atomic_group_remaining.map(u64::from),
        );
        if let Some(persist) = self.persist_user_defined_timestamps {
            put_field(
                out,
                tags::PERSIST_USER_DEFINED_TIMESTAMPS,
                &[persist.into()],
            );
        }
        for (sequence, log) in &self.unlogged {
            let mut encoded = Vec::new();
            put_varint(&mut encoded, sequence.0);
            put_varint(&mut encoded, log.0);
            put_field(out, tags::UNLOGGED, &encoded);
        }
        if let Some(offset) = self.synced_before {
            let mut encoded = Vec::new();
            put_varint(&mut encoded, offset);
            put_field(out, tags::SYNCED_BEFORE, &encoded);
        }
        if self.state_follows {
            put_field(out, tags::STATE_FOLLOWS, &[]);
        }
        for (tag, value) in &self.unknown {
            put_field(out, *tag, value);
        }
    }

    fn encode_files(&self, out: &mut Vec<u8>) {
        for (level, key) in &self.compact_cursors {
            put_numbers(out, tags::COMPACT_CURSOR, &[*level as u64]);
            put_length_prefixed(out, key);
        }
        for (level, number) in &self.deleted_files {
            put_numbers(out, tags::DELETED_FILE, &[*level as u64, number.0]);
        }
        for (level, file) in &self.new_files {
            put_numbers(out, tags::NEW_FILE_4, &[*level as u64]);
            file.encode(out);
        }
        for blob in &self.blob_additions {
            let numbers = [blob.number.0, blob.count, blob.total_bytes];
            put_numbers(out, tags::BLOB_FILE_ADDITION, &numbers);
            put_length_prefixed(out, &blob.checksum_method);
            put_length_prefixed(out, &blob.checksum_value);
            put_blob_custom(out, &blob.unknown);
        }
        for garbage in &self.blob_garbage {
            let numbers = [garbage.number.0, garbage.count, garbage.bytes];
            put_numbers(out, tags::BLOB_FILE_GARBAGE, &numbers);
            put_blob_custom(out, &garbage.unknown);
        }
        let mut encoded = Vec::new();
        for relocation in &self.relocations {
            encoded.clear();
            relocation.encode(&mut encoded);
            put_field(out, tags::RELOCATION, &encoded);
        }
        for facts in &self.table_facts {
            encoded.clear();
            facts.encode(&mut encoded);
            put_field(out, tags::TABLE_FACTS, &encoded);
        }
        for settings in &self.kept_settings {
            encoded.clear();
            settings.encode(&mut encoded);
            put_field(out, tags::KEPT_SETTINGS, &encoded);
        }
    }

    fn encode_wals(&self, out: &mut Vec<u8>) {
        let mut encoded = Vec::new();
        for wal in &self.wal_additions {
            encoded.clear();
            put_varint(&mut encoded, wal.number.0);
            if let Some(size) = wal.synced_size {
                put_numbers(&mut encoded, tags::WAL_SYNCED_SIZE, &[size]);
            }
            put_varint(&mut encoded, tags::WAL_TERMINATE.into());
            put_field(out, tags::WAL_ADDITION, &encoded);
        }
        if let Some(number) = self.wal_deletion {
            encoded.clear();
            put_varint(&mut encoded, number.0);
            put_field(out, tags::WAL_DELETION, &encoded);
        }
    }
}

/// A tag, then a length and that many bytes.
fn put_field(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    put_varint(out, tag.into());
    put_length_prefixed(out, value);
}

/// A tag, then numbers.
fn put_numbers(out: &mut Vec<u8>, tag: u32, numbers: &[u64]) {
    put_varint(out, tag.into());
    for number in numbers {
        put_varint(out, *number);
    }
}

fn put_blob_custom(out: &mut Vec<u8>, fields: &[(u32, Vec<u8>)]) {
    for (tag, value) in fields {
        put_field(out, *tag, value);
    }
    put_varint(out, tags::BLOB_TERMINATE.into());
}
