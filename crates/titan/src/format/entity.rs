//! Entities: values that consist of named columns (RocksDB: wide columns).
//!
//! ```text
//! version 1   1 | n | n * { lp name | value length } | values
//! version 2   2 | n | bytes of the name lengths | bytes of the value lengths | bytes of the names
//!               | n * type u8 | name lengths | value lengths | names | values
//! ```
//!
//! Numbers are varint32. Names ascend and differ. The column with the empty name is the *default
//! column*: the value of the entity for readers that do not know of columns. In version 2 a value
//! of type 11 is a [`BlobIndex`]; RocksDB writes that version where it moves values to blob files.
//! The records there have the user key of the entity.

use bytes::Bytes;

use super::blob_index::BlobIndex;
use super::coding::{Decoder, put_length_prefixed, put_varint};
use super::internal_key::ValueType;
use super::key_text::KeyText;
use crate::error::{Error, Result};

const VERSION_INLINE: u64 = 1;
const VERSION_POINTERS: u64 = 2;

/// The name of the default column.
pub(crate) const DEFAULT_COLUMN: &[u8] = b"";

/// The value of a column, as an entity has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnValue<'a> {
    Inline(&'a [u8]),
    Pointer(BlobIndex),
}

/// A column of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    pub name: &'a [u8],
    pub value: ColumnValue<'a>,
}

/// Calls `see` with each column, in the order of their names. Allocates nothing.
///
/// # Errors
/// `Unsupported` for another version, another type of column and pointers with an expiry;
/// `Corruption` for everything else that is not exactly one entity; those of `see`.
pub fn each_column<'a>(
    entity: &'a [u8],
    see: &mut dyn FnMut(Column<'a>) -> Result<()>,
) -> Result<()> {
    let mut d = Decoder::new(entity);
    let version = d.varint32()?;
    let count = d.varint32()?;
    let mut order = Order::default();
    match u64::from(version) {
        VERSION_INLINE => {
            let mut index = d.clone();
            // Values begin where the index ends.
            for _ in 0..count {
                order.next(d.length_prefixed()?)?;
                d.varint32()?;
            }
            for _ in 0..count {
                let name = index.length_prefixed()?;
                let len = index.varint32()?;
                let value = ColumnValue::Inline(d.bytes(len as usize)?);
                see(Column { name, value })?;
            }
        }
        VERSION_POINTERS => {
            let (name_lens, value_lens) = (d.varint32()?, d.varint32()?);
            let names = d.varint32()?;
            let types = d.bytes(count as usize)?;
            let mut name_lens = Decoder::new(d.bytes(name_lens as usize)?);
            let mut value_lens = Decoder::new(d.bytes(value_lens as usize)?);
            let mut names = Decoder::new(d.bytes(names as usize)?);
            for &value_type in types {
                let name = names.bytes(name_lens.varint32()? as usize)?;
                order.next(name)?;
                let value = d.bytes(value_lens.varint32()? as usize)?;
                let value = column_value(value_type, value)?;
                see(Column { name, value })?;
            }
            if !(name_lens.is_empty() && value_lens.is_empty() && names.is_empty()) {
                return Err(Error::corruption("entity with sections of other lengths"));
            }
        }
        0 => return Err(Error::corruption("entity of version 0")),
        later => {
            return Err(Error::unsupported(format!("an entity of version {later}")));
        }
    }
    match d.is_empty() {
        true => Ok(()),
        false => Err(Error::corruption("entity with bytes after its last value")),
    }
}

fn column_value(value_type: u8, value: &[u8]) -> Result<ColumnValue<'_>> {
    const INLINE: u8 = ValueType::Value as u8;
    const POINTER: u8 = ValueType::BlobIndex as u8;
    match value_type {
        INLINE => Ok(ColumnValue::Inline(value)),
        POINTER => BlobIndex::decode(value).map(ColumnValue::Pointer),
        other => Err(Error::unsupported(format!(
            "an entity with a column of type {other:#04x}"
        ))),
    }
}

/// Checks that names ascend.
#[derive(Default)]
struct Order<'a>(Option<&'a [u8]>);

impl<'a> Order<'a> {
    fn next(&mut self, name: &'a [u8]) -> Result<()> {
        match self.0.replace(name) {
            Some(last) if last >= name => {
                Err(Error::corruption("entity with columns out of order"))
            }
            _ => Ok(()),
        }
    }
}

/// False only if the entity has a version without pointers.
pub fn may_have_pointers(entity: &[u8]) -> bool {
    entity.first() != Some(&(VERSION_INLINE as u8))
}

/// All columns of an entity.
///
/// # Errors
/// Those of [`each_column`].
pub fn columns(entity: &[u8]) -> Result<Vec<Column<'_>>> {
    let mut columns = Vec::new();
    each_column(entity, &mut |column| {
        columns.push(column);
        Ok(())
    })?;
    Ok(columns)
}

/// The value of an entity for readers that do not know of columns: that of its default column, or
/// nothing.
///
/// # Errors
/// Those of [`each_column`].
pub(crate) fn default_value(entity: &[u8]) -> Result<ColumnValue<'_>> {
    let mut value = ColumnValue::Inline(&[]);
    each_column(entity, &mut |column| {
        if column.name == DEFAULT_COLUMN {
            value = column.value;
        }
        Ok(())
    })?;
    Ok(value)
}

/// Fails unless all values of an entity are in it.
///
/// # Errors
/// Those of [`each_column`]; `Unsupported` for a pointer.
pub(crate) fn require_inline(entity: &[u8]) -> Result<()> {
    each_column(entity, &mut |column| match column.value {
        ColumnValue::Inline(_) => Ok(()),
        ColumnValue::Pointer(_) => Err(Error::unsupported(
            "an entity with a blob pointer in a write batch",
        )),
    })
}

/// The entity with another default column, which it may not have had. The rest stays as it is.
///
/// # Errors
/// Those of [`each_column`].
pub(crate) fn with_default_value(entity: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    let mut columns = columns(entity)?;
    let value = ColumnValue::Inline(value);
    match columns.first_mut() {
        Some(first) if first.name == DEFAULT_COLUMN => first.value = value,
        _ => {
            let name = DEFAULT_COLUMN;
            columns.insert(0, Column { name, value });
        }
    }
    Ok(encode(&columns))
}

/// The entity with these values in the place of its pointers, in their order.
///
/// # Errors
/// Those of [`each_column`]; `Internal` if the values are too few.
pub(crate) fn with_values(entity: &[u8], values: Vec<Bytes>) -> Result<Vec<u8>> {
    let mut columns = columns(entity)?;
    let mut values = values.iter();
    for column in &mut columns {
        if let ColumnValue::Pointer(_) = column.value {
            let value = values
                .next()
                .ok_or_else(|| Error::internal("a pointer of an entity has no value"))?;
            column.value = ColumnValue::Inline(value);
        }
    }
    Ok(encode(&columns))
}

/// The entity with its pointers replaced; none if `replace` changes none of them.
///
/// # Errors
/// Those of [`each_column`] and `replace`.
pub fn with_pointers(
    entity: &[u8],
    mut replace: impl FnMut(&BlobIndex) -> Result<Option<BlobIndex>>,
) -> Result<Option<Vec<u8>>> {
    let mut columns = columns(entity)?;
    let mut changed = false;
    for column in &mut columns {
        if let ColumnValue::Pointer(index) = &mut column.value
            && let Some(other) = replace(index)?
        {
            *index = other;
            changed = true;
        }
    }
    Ok(changed.then(|| encode(&columns)))
}

/// The encoding of columns whose names ascend and differ: in version 1, unless a column has a
/// pointer.
pub fn encode(columns: &[Column<'_>]) -> Vec<u8> {
    let is_pointer = |column: &Column<'_>| matches!(column.value, ColumnValue::Pointer(_));
    match columns.iter().any(is_pointer) {
        false => encode_inline(columns),
        true => encode_with_pointers(columns),
    }
}

/// Encodes columns in any order.
///
/// # Errors
/// `InvalidArgument` if two have the same name, or a name or a value has 4 GiB.
pub(crate) fn encode_columns<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    columns: impl IntoIterator<Item = (N, V)>,
) -> Result<Vec<u8>> {
    let given: Vec<(N, V)> = columns.into_iter().collect();
    let is_long = |bytes: &[u8]| u32::try_from(bytes.len()).is_err();
    if given
        .iter()
        .any(|(name, value)| is_long(name.as_ref()) || is_long(value.as_ref()))
    {
        return Err(Error::invalid_argument("a column of 4 GiB or more"));
    }
    let mut columns: Vec<Column<'_>> = given
        .iter()
        .map(|(name, value)| Column {
            name: name.as_ref(),
            value: ColumnValue::Inline(value.as_ref()),
        })
        .collect();
    columns.sort_unstable_by_key(|column| column.name);
    let twice = columns.windows(2).find(|two| match two {
        [a, b] => a.name == b.name,
        _ => false,
    });
    match twice.and_then(<[_]>::first) {
        Some(column) => Err(Error::invalid_argument(format!(
            "the column {} is given twice",
            KeyText(column.name)
        ))),
        None => Ok(encode(&columns)),
    }
}

fn encode_inline(columns: &[Column<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, VERSION_INLINE);
    put_varint(&mut out, columns.len() as u64);
    let mut values = Vec::new();
    for column in columns {
        let from = values.len();
        append(&mut values, &column.value);
        put_length_prefixed(&mut out, column.name);
        put_varint(&mut out, (values.len() - from) as u64);
    }
    out.append(&mut values);
    out
}

fn encode_with_pointers(columns: &[Column<'_>]) -> Vec<u8> {
    let (mut types, mut name_lens, mut value_lens) = (Vec::new(), Vec::new(), Vec::new());
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for column in columns {
        types.push(match column.value {
            ColumnValue::Inline(_) => ValueType::Value as u8,
            ColumnValue::Pointer(_) => ValueType::BlobIndex as u8,
        });
        put_varint(&mut name_lens, column.name.len() as u64);
        names.extend_from_slice(column.name);
        let from = values.len();
        append(&mut values, &column.value);
        put_varint(&mut value_lens, (values.len() - from) as u64);
    }
    let mut out = Vec::new();
    put_varint(&mut out, VERSION_POINTERS);
    for number in [
        columns.len(),
        name_lens.len(),
        value_lens.len(),
        names.len(),
    ] {
        put_varint(&mut out, number as u64);
    }
    for section in [types, name_lens, value_lens, names, values] {
        out.extend_from_slice(&section);
    }
    out
}

fn append(out: &mut Vec<u8>, value: &ColumnValue<'_>) {
    match value {
        ColumnValue::Inline(value) => out.extend_from_slice(value),
        ColumnValue::Pointer(index) => index.encode(out),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::format::{BlobFileNumber, CompressionType};

    type Owned = BTreeMap<Vec<u8>, std::result::Result<Vec<u8>, BlobIndex>>;

    fn random(rng: &mut fastrand::Rng) -> Owned {
        let mut columns = Owned::new();
        for _ in 0..rng.usize(..8) {
            let len = [0, 1, 3, 200][rng.usize(..4)];
            let name = (0..len).map(|_| rng.u8(b'a'..b'd')).collect();
            let value = match rng.u8(..3) {
                0 => Err(BlobIndex {
                    file: BlobFileNumber(rng.u64(..) >> rng.u32(..64)),
                    offset: rng.u64(..) >> rng.u32(8..64),
                    size: rng.u64(..) >> rng.u32(8..64),
                    compression: CompressionType::Lz4,
                }),
                _ => {
                    let len = rng.usize(..300);
                    Ok((0..len).map(|_| rng.u8(..)).collect())
                }
            };
            columns.insert(name, value);
        }
        columns
    }

    fn borrowed(columns: &Owned) -> Vec<Column<'_>> {
        let mut all = Vec::new();
        for (name, value) in columns {
            let value = match value {
                Ok(value) => ColumnValue::Inline(value),
                Err(index) => ColumnValue::Pointer(*index),
            };
            all.push(Column { name, value });
        }
        all
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for seed in 0..2000 {
            let rng = &mut fastrand::Rng::with_seed(seed);
            let owned = random(rng);
            let given = borrowed(&owned);
            let encoded = encode(&given);
            let has_pointers = owned.values().any(std::result::Result::is_err);
            assert_eq!(encoded[0], 1 + u8::from(has_pointers), "seed {seed}");
            assert_eq!(columns(&encoded).unwrap(), given, "seed {seed}");
            assert_eq!(
                require_inline(&encoded).is_err(),
                has_pointers,
                "seed {seed}"
            );
            let default = given.iter().find(|c| c.name.is_empty()).map(|c| c.value);
            let default = default.unwrap_or(ColumnValue::Inline(b""));
            assert_eq!(default_value(&encoded).unwrap(), default, "seed {seed}");

            let changed = with_default_value(&encoded, b"new").unwrap();
            let mut expected = owned.clone();
            expected.insert(Vec::new(), Ok(b"new".to_vec()));
            assert_eq!(
                columns(&changed).unwrap(),
                borrowed(&expected),
                "seed {seed}"
            );

            // Version 2 without pointers is read, too.
            let second = encode_with_pointers(&given);
            assert_eq!(columns(&second).unwrap(), given, "seed {seed}");
        }
    }

    #[test]
    fn the_layouts_are_those_of_rocksdb() {
        let index = BlobIndex {
            file: BlobFileNumber(7),
            offset: 300,
            size: 5,
            compression: CompressionType::None,
        };
        let column = |name, value| Column { name, value };
        let first = column(&b""[..], ColumnValue::Inline(b"v"));
        let second = column(&b"bc"[..], ColumnValue::Inline(b"xyz"));
        assert_eq!(encode(&[first, second]), b"\x01\x02\x00\x01\x02bc\x03vxyz");
        let pointer = column(&b"bc"[..], ColumnValue::Pointer(index));
        assert_eq!(
            encode(&[first, pointer]),
            b"\x02\x02\x02\x02\x02\x01\x11\x00\x02\x01\x06bcv\x01\x07\xac\x02\x05\x00"
        );
        assert_eq!(encode(&[]), b"\x01\x00");
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        for seed in 0..3000 {
            let rng = &mut fastrand::Rng::with_seed(seed);
            let encoded = encode(&borrowed(&random(rng)));
            for cut in 0..encoded.len().min(64) {
                let cut = encoded.len() - 1 - cut;
                assert!(
                    columns(&encoded[..cut]).is_err(),
                    "seed {seed}, cut at {cut}"
                );
            }
            let longer = [&encoded[..], b"\0"].concat();
            assert!(columns(&longer).is_err(), "seed {seed}");
            let mut damaged = encoded;
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..damaged.len());
                damaged[at] = match rng.bool() {
                    true => rng.u8(..),
                    false => damaged[at] ^ 1 << rng.u8(..8),
                };
            }
            // An entity that is still read has names in order, and is the same when it is encoded
            // and read again.
            if let Ok(found) = columns(&damaged) {
                assert!(found.is_sorted_by(|a, b| a.name < b.name), "seed {seed}");
                assert_eq!(columns(&encode(&found)).unwrap(), found, "seed {seed}");
            }
            let noise: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
            for version in [1, 2] {
                let _ = columns(&[&[version], &noise[..]].concat());
            }
        }
    }

    #[test]
    fn what_a_later_version_wrote_is_unsupported() {
        let kind = |entity: &[u8]| columns(entity).unwrap_err().kind();
        use crate::ErrorKind::{Corruption, Unsupported};
        assert_eq!(kind(b"\x03\x00"), Unsupported);
        // A column of merge operands.
        assert_eq!(kind(b"\x02\x01\x01\x01\x00\x02\x00\x01v"), Unsupported);
        // A pointer with an expiry.
        assert_eq!(kind(b"\x02\x01\x01\x01\x00\x11\x00\x01\x02"), Unsupported);
        assert_eq!(kind(b""), Corruption);
        assert_eq!(kind(b"\x00\x00"), Corruption);
        // Columns out of order, and twice.
        assert_eq!(kind(b"\x01\x02\x01b\x00\x01a\x00"), Corruption);
        assert_eq!(kind(b"\x01\x02\x01a\x00\x01a\x00"), Corruption);
        // More columns than there are bytes.
        assert_eq!(kind(b"\x01\xff\xff\xff\xff\x0f"), Corruption);
        assert_eq!(kind(b"\x02\xff\xff\xff\xff\x0f\x00\x00\x00"), Corruption);
    }
}
