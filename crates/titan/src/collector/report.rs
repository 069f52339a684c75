//! Reports of the collectors of a table, in the form that tables and the MANIFEST keep.
//!
//! ```text
//! seen (0, or the moment + 1) | n | n * { moment, bytes }
//!   | p | p * { name length, name, value length, value }           all numbers are varints
//! ```
//!
//! The MANIFEST has all of it. A table has the properties as entries of its properties block, and
//! the first line as the property `titan.garbage`.

use std::collections::BTreeMap;

use super::{GarbageByMoment, TableReport};
use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};

/// Names that the engine uses itself.
const RESERVED: [&str; 2] = ["rocksdb.", "titan."];

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedReport {
    /// Properties for the table, by name.
    pub properties: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Reported garbage of the table.
    pub garbage: GarbageByMoment,
    /// The moment up to which the job that wrote the table could drop garbage; `None` if it dropped
    /// none. The rest of the garbage from before is not waited for.
    pub(crate) seen: Option<u64>,
}

impl CollectedReport {
    pub(crate) fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.garbage.is_empty()
    }

    /// Adds the report of one collector.
    ///
    /// # Errors
    /// `InvalidArgument` if it uses a reserved name; then nothing is added.
    pub(super) fn absorb(&mut self, report: TableReport) -> Result<()> {
        let reserved = |name: &&String| RESERVED.iter().any(|prefix| name.starts_with(prefix));
        if let Some(name) = report.properties.keys().find(reserved) {
            let text =
                format!("property '{name}': names with 'rocksdb.' and 'titan.' are reserved");
            return Err(Error::invalid_argument(text));
        }
        let properties = report.properties.into_iter();
        self.properties
            .extend(properties.map(|(name, value)| (name.into_bytes(), value)));
        self.garbage.absorb(&report.garbage);
        Ok(())
    }

    /// Bytes of garbage at a moment that a compaction could drop.
    pub(crate) fn garbage_at(&self, moment: u64) -> u64 {
        self.garbage.between(self.seen, moment)
    }

    /// The property `titan.garbage`; `None` if there is none.
    pub(crate) fn garbage_property(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.encode_garbage(&mut out);
        (!self.is_empty()).then_some(out)
    }

    /// The report of a table with these properties: those of applications, and `titan.garbage`.
    pub(crate) fn of_table<'a>(
        properties: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        garbage: Option<&[u8]>,
    ) -> Result<Self> {
        let mut report = CollectedReport::default();
        if let Some(garbage) = garbage {
            let mut d = Decoder::new(garbage);
            report.decode_garbage(&mut d)?;
            if !d.is_empty() {
                return Err(Error::corruption("bytes after the garbage of a table"));
            }
        }
        let reserved = |name: &[u8]| RESERVED.iter().any(|p| name.starts_with(p.as_bytes()));
        let own = properties.filter(|(name, _)| !reserved(name));
        report.properties = own.map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        Ok(report)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_garbage(out);
        put_varint(out, self.properties.len() as u64);
        for (name, value) in &self.properties {
            put_varint(out, name.len() as u64);
            out.extend_from_slice(name);
            put_varint(out, value.len() as u64);
            out.extend_from_slice(value);
        }
    }

    /// # Errors
    /// `Corruption`.
    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<Self> {
        let mut report = CollectedReport::default();
        report.decode_garbage(d)?;
        // Each takes at least two bytes, so a forged number ends with the bytes.
        for _ in 0..d.varint()? {
            let name = d.length_prefixed()?.to_vec();
            let value = d.length_prefixed()?.to_vec();
            report.properties.insert(name, value);
        }
        Ok(report)
    }

    fn encode_garbage(&self, out: &mut Vec<u8>) {
        put_varint(out, self.seen.map_or(0, |seen| seen.saturating_add(1)));
        self.garbage.encode(out);
    }

    fn decode_garbage(&mut self, d: &mut Decoder<'_>) -> Result<()> {
        self.seen = d.varint()?.checked_sub(1);
        self.garbage = GarbageByMoment::decode(d)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_return_from_the_manifest_and_from_tables() {
        let mut report = CollectedReport {
            seen: Some(7),
            ..CollectedReport::default()
        };
        let mut one = TableReport::default();
        one.properties.insert("app.rows".into(), vec![1, 2, 3]);
        one.properties.insert("app.empty".into(), vec![]);
        one.garbage.add(9, 1000);
        report.absorb(one).unwrap();
        let mut bytes = Vec::new();
        report.encode(&mut bytes);
        let decoded = CollectedReport::decode(&mut Decoder::new(&bytes)).unwrap();
        assert_eq!(decoded, report);
        for end in 0..bytes.len() {
            CollectedReport::decode(&mut Decoder::new(&bytes[..end])).unwrap_err();
        }
        let stored = report.properties.iter().map(|(n, v)| (&n[..], &v[..]));
        let stored = stored.chain([(&b"rocksdb.comparator"[..], &b"x"[..])]);
        let garbage = report.garbage_property();
        let found = CollectedReport::of_table(stored, garbage.as_deref()).unwrap();
        assert_eq!(found, report);
    }

    #[test]
    fn reserved_names_are_refused() {
        for name in ["rocksdb.num.entries", "titan.garbage"] {
            let mut one = TableReport::default();
            one.properties.insert(name.into(), vec![1]);
            one.properties.insert("app".into(), vec![1]);
            let mut report = CollectedReport::default();
            let e = report.absorb(one).unwrap_err();
            assert_eq!(e.kind(), crate::ErrorKind::InvalidArgument);
            assert!(report.is_empty());
        }
    }
}
