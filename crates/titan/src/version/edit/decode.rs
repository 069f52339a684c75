//! Reads edits.

use super::{
    BlobFileAddition, BlobFileGarbage, KeptSettings, NewFile, Relocation, TableFacts, VersionEdit,
    WalAddition, tags,
};
use crate::error::{Error, Result};
use crate::format::coding::Decoder;
use crate::format::numbers::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber};

/// No database has levels beyond this. The limit keeps a damaged number from making the reader
/// allocate memory for billions of them.
const MAX_LEVELS: u32 = 256;

impl VersionEdit {
    /// Reads the payload of one record of a MANIFEST.
    ///
    /// # Errors
    /// `Unsupported` if a field must be known and is not; `Corruption` for anything else.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut edit = VersionEdit::default();
        let mut d = Decoder::new(payload);
        while !d.is_empty() {
            let at = d.position();
            let tag = d.varint32()?;
            edit.decode_field(tag, &mut d)
                .map_err(|e| e.context(format!("version edit, tag {tag} at byte {at}")))?;
        }
        Ok(edit)
    }

    fn decode_field(&mut self, tag: u32, d: &mut Decoder<'_>) -> Result<()> {
        match tag {
            tags::COMPARATOR => self.comparator = Some(text(d)?),
            tags::LOG_NUMBER => self.log_number = Some(file_number(d)?),
            tags::NEXT_FILE_NUMBER => self.next_file_number = Some(file_number(d)?),
            tags::LAST_SEQUENCE => {
                let sequence = SequenceNumber(d.varint()?);
                if sequence > SequenceNumber::MAX {
                    return Err(Error::corruption("a sequence number exceeds 56 bits"));
                }
                self.last_sequence = Some(sequence);
            }
            tags::COMPACT_CURSOR => {
                let level = level(d)?;
                self.compact_cursors
                    .push((level, d.length_prefixed()?.to_vec()));
            }
            tags::DELETED_FILE => {
                let level = level(d)?;
                self.deleted_files.push((level, file_number(d)?));
            }
            tags::NEW_FILE | tags::NEW_FILE_2 | tags::NEW_FILE_3 | tags::NEW_FILE_4 => {
                let level = level(d)?;
                let (file, min_log) = NewFile::decode(tag, d)?;
                self.new_files.push((level, file));
                self.min_log_number_to_keep = min_log.or(self.min_log_number_to_keep);
            }
            tags::PREV_LOG_NUMBER => self.prev_log_number = Some(file_number(d)?),
            tags::MIN_LOG_NUMBER_TO_KEEP => self.min_log_number_to_keep = Some(file_number(d)?),
            tags::COLUMN_FAMILY => self.column_family = ColumnFamilyId(d.varint32()?),
            tags::COLUMN_FAMILY_ADD => self.added_column_family = Some(text(d)?),
            tags::COLUMN_FAMILY_DROP => self.dropped_column_family = true,
            tags::MAX_COLUMN_FAMILY => {
                self.max_column_family = Some(ColumnFamilyId(d.varint32()?));
            }
            tags::IN_ATOMIC_GROUP => self.atomic_group_remaining = Some(d.varint32()?),
            tags::BLOB_FILE_ADDITION | tags::OLD_BLOB_FILE_ADDITION => {
                self.blob_additions.push(BlobFileAddition {
                    number: BlobFileNumber(d.varint()?),
                    count: d.varint()?,
                    total_bytes: d.varint()?,
                    checksum_method: d.length_prefixed()?.to_vec(),
                    checksum_value: d.length_prefixed()?.to_vec(),
                    unknown: blob_custom(d)?,
                });
            }
            tags::BLOB_FILE_GARBAGE | tags::OLD_BLOB_FILE_GARBAGE => {
                self.blob_garbage.push(BlobFileGarbage {
                    number: BlobFileNumber(d.varint()?),
                    count: d.varint()?,
                    bytes: d.varint()?,
                    unknown: blob_custom(d)?,
                });
            }
            tags::RELOCATION => {
                self.relocations
                    .push(Relocation::decode(d.length_prefixed()?)?);
            }
            tags::DB_ID => self.db_id = Some(text(d)?),
            tags::OLD_WAL_ADDITION => self.wal_additions.push(wal_addition(d)?),
            tags::OLD_WAL_DELETION => self.wal_deletion = Some(file_number(d)?),
            tags::WAL_ADDITION => {
                let wal = wal_addition(&mut Decoder::new(d.length_prefixed()?))?;
                self.wal_additions.push(wal);
            }
            tags::WAL_DELETION => {
                self.wal_deletion = Some(file_number(&mut Decoder::new(d.length_prefixed()?))?);
            }
            tags::PERSIST_USER_DEFINED_TIMESTAMPS => {
                let persist = Decoder::new(d.length_prefixed()?).u8()? == 1;
                self.persist_user_defined_timestamps = Some(persist);
            }
            tags::TABLE_FACTS => {
                let value = d.length_prefixed()?;
                match TableFacts::decode(value)? {
                    Some(facts) => self.table_facts.push(facts),
                    None => self.unknown.push((tag, value.to_vec())),
                }
            }
            tags::KEPT_SETTINGS => {
                let value = d.length_prefixed()?;
                match KeptSettings::decode(value)? {
                    Some(settings) => self.kept_settings.push(settings),
                    None => self.unknown.push((tag, value.to_vec())),
                }
            }
            tags::UNLOGGED => {
                let mut value = Decoder::new(d.length_prefixed()?);
                let sequence = SequenceNumber(value.varint()?);
                self.unlogged.push((sequence, file_number(&mut value)?));
            }
            tags::SYNCED_BEFORE => {
                self.synced_before = Some(Decoder::new(d.length_prefixed()?).varint()?);
            }
            tags::STATE_FOLLOWS => {
                d.length_prefixed()?;
                self.state_follows = true;
            }
            _ if tag & tags::IGNORABLE != 0 => {
                self.unknown.push((tag, d.length_prefixed()?.to_vec()));
            }
            _ => {
                return Err(Error::unsupported(format!(
                    "the MANIFEST uses a feature this version does not know: tag {tag}"
                )));
            }
        }
        Ok(())
    }
}

fn file_number(d: &mut Decoder<'_>) -> Result<FileNumber> {
    d.varint().map(FileNumber)
}

fn level(d: &mut Decoder<'_>) -> Result<usize> {
    match d.varint32()? {
        level if level < MAX_LEVELS => Ok(level as usize),
        level => Err(Error::corruption(format!("level {level}"))),
    }
}

fn text(d: &mut Decoder<'_>) -> Result<String> {
    match std::str::from_utf8(d.length_prefixed()?) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::unsupported("a name that is not UTF-8")),
    }
}

fn blob_custom(d: &mut Decoder<'_>) -> Result<Vec<(u32, Vec<u8>)>> {
    let mut fields = Vec::new();
    loop {
        let tag = d.varint32()?;
        if tag == tags::BLOB_TERMINATE {
            return Ok(fields);
        }
        if tag & tags::CUSTOM_NOT_IGNORABLE != 0 {
            return Err(Error::unsupported(format!(
                "the MANIFEST uses a feature this version does not know: blob file field {tag}"
            )));
        }
        fields.push((tag, d.length_prefixed()?.to_vec()));
    }
}

fn wal_addition(d: &mut Decoder<'_>) -> Result<WalAddition> {
    let mut wal = WalAddition {
        number: file_number(d)?,
        synced_size: None,
    };
    loop {
        match d.varint32()? {
            tags::WAL_TERMINATE => return Ok(wal),
            tags::WAL_SYNCED_SIZE => wal.synced_size = Some(d.varint()?),
            tag => return Err(Error::corruption(format!("unknown field {tag} of a WAL"))),
        }
    }
}
