//! The record about a table's versions, in its properties.
//!
//! Numbers are varints, which tools show as numbers:
//!
//! | property | of the table |
//! |---|---|
//! | `mvcc.versions` | versions |
//! | `mvcc.rows` | different keys |
//! | `mvcc.puts`, `mvcc.deletes`, `mvcc.locks` | versions by kind; rollback records are locks |
//! | `mvcc.row.versions` | versions of the key that has most |
//! | `mvcc.commit.oldest`, `mvcc.commit.newest` | commit timestamps |
//! | `mvcc.delete.oldest` | the commit timestamp of the oldest deletion |
//! | `mvcc.droppable.first`, `mvcc.droppable.last` | the ends of the next property |
//! | `mvcc.droppable` | pairs: a timestamp, and the versions that become droppable at it |
//!
//! A put becomes droppable at the commit of the next newer put or deletion in the table, a deletion
//! at that or at its own commit, a lock or rollback record at its own. Locks that a newer write
//! makes superfluous count like the others. A table with many timestamps joins neighbours at the
//! later one; the first and the last stay exact. The collector reports bytes by timestamp to the
//! engine as garbage.

use std::collections::BTreeMap;

use titan::GarbageByMoment;

use crate::format::version::{put_varint, varint};
use crate::timestamp::Timestamp;

const VERSIONS: &str = "mvcc.versions";
const ROWS: &str = "mvcc.rows";
const PUTS: &str = "mvcc.puts";
const DELETES: &str = "mvcc.deletes";
const LOCKS: &str = "mvcc.locks";
const ROW_VERSIONS: &str = "mvcc.row.versions";
const OLDEST: &str = "mvcc.commit.oldest";
const NEWEST: &str = "mvcc.commit.newest";
const OLDEST_DELETE: &str = "mvcc.delete.oldest";
const FIRST_DROPPABLE: &str = "mvcc.droppable.first";
const LAST_DROPPABLE: &str = "mvcc.droppable.last";
const DROPPABLE: &str = "mvcc.droppable";

/// The record about a table's versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableVersions {
    /// All versions.
    pub(crate) versions: u64,
    /// Different keys.
    pub(crate) rows: u64,
    pub(crate) puts: u64,
    pub(crate) deletes: u64,
    /// Locks and rollback records.
    pub(crate) locks: u64,
    /// Versions of the key that has most.
    pub(crate) row_versions: u64,
    /// The oldest and the newest commit; `None` without versions.
    pub(crate) oldest: Option<Timestamp>,
    pub(crate) newest: Option<Timestamp>,
    pub(crate) oldest_delete: Option<Timestamp>,
    /// The first and the last timestamp at which a version becomes droppable.
    pub(crate) first_droppable: Option<Timestamp>,
    pub(crate) last_droppable: Option<Timestamp>,
    /// Numbers of versions by the timestamp at which they become droppable.
    pub(crate) droppable: GarbageByMoment,
}

impl TableVersions {
    /// The number of versions that may be dropped at a safe point, as far as the table alone proves
    /// it.
    pub(crate) fn droppable_at(&self, safe_point: Timestamp) -> u64 {
        sum_until(&self.droppable, safe_point)
    }

    /// Encodes the properties.
    pub(crate) fn encode(&self) -> BTreeMap<String, Vec<u8>> {
        let mut all = BTreeMap::new();
        for (name, number) in [
            (VERSIONS, self.versions),
            (ROWS, self.rows),
            (PUTS, self.puts),
            (DELETES, self.deletes),
            (LOCKS, self.locks),
            (ROW_VERSIONS, self.row_versions),
        ] {
            all.insert(name.to_owned(), encoded(number));
        }
        for (name, timestamp) in [
            (OLDEST, self.oldest),
            (NEWEST, self.newest),
            (OLDEST_DELETE, self.oldest_delete),
            (FIRST_DROPPABLE, self.first_droppable),
            (LAST_DROPPABLE, self.last_droppable),
        ] {
            if let Some(timestamp) = timestamp {
                all.insert(name.to_owned(), encoded(timestamp.0));
            }
        }
        if !self.droppable.is_empty() {
            let mut pairs = Vec::new();
            for from in self.droppable.iter() {
                put_varint(&mut pairs, from.moment);
                put_varint(&mut pairs, from.bytes);
            }
            all.insert(DROPPABLE.to_owned(), pairs);
        }
        all
    }

    /// Decodes the properties, or returns `None` if they are missing or damaged.
    pub(crate) fn decode(properties: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Self> {
        let get = |name: &str| properties.get(name.as_bytes());
        let number = |name: &str| varint(get(name)?);
        // Absent, or a timestamp.
        let timestamp = |name: &str| match get(name) {
            None => Some(None),
            Some(bytes) => varint(bytes).map(|number| Some(Timestamp(number))),
        };
        let mut droppable = GarbageByMoment::default();
        let mut pairs = get(DROPPABLE).map_or(&[][..], Vec::as_slice);
        while !pairs.is_empty() {
            let moment = take_varint(&mut pairs)?;
            droppable.add(moment, take_varint(&mut pairs)?);
        }
        Some(TableVersions {
            versions: number(VERSIONS)?,
            rows: number(ROWS)?,
            puts: number(PUTS)?,
            deletes: number(DELETES)?,
            locks: number(LOCKS)?,
            row_versions: number(ROW_VERSIONS)?,
            oldest: timestamp(OLDEST)?,
            newest: timestamp(NEWEST)?,
            oldest_delete: timestamp(OLDEST_DELETE)?,
            first_droppable: timestamp(FIRST_DROPPABLE)?,
            last_droppable: timestamp(LAST_DROPPABLE)?,
            droppable,
        })
    }
}

/// The sum up to a timestamp.
pub(crate) fn sum_until(by_moment: &GarbageByMoment, until: Timestamp) -> u64 {
    let until = by_moment.iter().take_while(|from| from.moment <= until.0);
    until.fold(0, |sum, from| sum.saturating_add(from.bytes))
}

fn encoded(number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, number);
    out
}

/// Takes a varint from the beginning of `bytes`.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let len = bytes.iter().position(|byte| *byte < 0x80)? + 1;
    let (number, rest) = bytes.split_at(len);
    *bytes = rest;
    varint(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(versions: &TableVersions) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let all = versions.encode().into_iter();
        all.map(|(name, value)| (name.into_bytes(), value))
            .collect()
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        let mut versions = TableVersions {
            versions: 300,
            rows: 7,
            row_versions: 200,
            oldest: Some(Timestamp(1 << 60)),
            newest: Some(Timestamp::MAX),
            first_droppable: Some(Timestamp(5)),
            last_droppable: Some(Timestamp(900)),
            ..TableVersions::default()
        };
        versions.droppable.add(5, 20);
        versions.droppable.add(900, 4);
        assert_eq!(
            TableVersions::decode(&stored(&versions)),
            Some(versions.clone())
        );
        for (at, droppable) in [(4, 0), (5, 20), (899, 20), (900, 24)] {
            assert_eq!(versions.droppable_at(Timestamp(at)), droppable, "{at}");
        }
    }

    #[test]
    fn tables_without_the_properties_or_with_damaged_ones_are_unknown() {
        assert_eq!(TableVersions::decode(&BTreeMap::new()), None);
        let whole = stored(&TableVersions::default());
        assert!(TableVersions::decode(&whole).is_some());
        for (name, damage) in [
            (VERSIONS, &b"\x80"[..]),
            (ROWS, b""),
            (OLDEST, b"\x80\x00"),
            (DROPPABLE, b"\x05"),
        ] {
            let mut damaged = whole.clone();
            damaged.insert(name.into(), damage.into());
            assert_eq!(TableVersions::decode(&damaged), None, "{name}");
        }
    }
}
