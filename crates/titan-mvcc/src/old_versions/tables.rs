//! Ranges of keys that are worth a compaction, by the records about their tables.
//!
//! A range contains all versions of its keys, so a compaction sees every version that supersedes
//! another one.
//!
//! # Tables without droppable versions
//!
//! A compaction of one table drops nothing if its first version becomes droppable after the safe
//! point. A compaction of two tables may drop more, if a version of one supersedes a version of the
//! other. That version was committed up to the safe point, and after the oldest version of the
//! other table. So a table whose oldest commit is after the safe point, or whose newest is not
//! after the oldest of the other, supersedes nothing there. The caller flushes first, so no commit
//! is in memory only. Therefore [`Tables::with_droppable`] omits nothing that can be dropped.

use titan::{ColumnFamily, GarbageByMoment};

use super::properties::{TableVersions, sum_until};
use crate::error::Result;
use crate::format::AFTER_VERSIONS;
use crate::format::key::encoded_len;
use crate::timestamp::Timestamp;

/// A range is compacted at once if a third of its versions can be dropped: then at most two are
/// written for each that is dropped. If half of the rows are dead, their deletions alone are a
/// third.
const RICH: u64 = 3;
/// The share for versions that could have been dropped long ago. TiKV uses the same.
const OVERDUE: u64 = 10;

/// The tables of the family at one moment.
pub(crate) struct Tables {
    /// In the order of their first keys.
    all: Vec<Table>,
    /// Indices into `all` by level, in the same order.
    levels: Vec<Vec<usize>>,
}

/// A table.
struct Table {
    level: usize,
    /// The first and the last encoded key.
    first: Vec<u8>,
    last: Vec<u8>,
    entries: u64,
    known: Option<TableVersions>,
    /// Bytes by the timestamp at which they become droppable.
    bytes: GarbageByMoment,
}

/// A range of the engine's keys, inclusive, that contains all versions of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) begin: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Tables {
    /// Loads the records about the present tables. Cost: memory for each record; I/O only for
    /// tables of other programs.
    ///
    /// # Errors
    /// `Engine`.
    pub(crate) fn load(family: &ColumnFamily) -> Result<Self> {
        let tables = family.table_properties(None, None)?;
        let key_of = |engine_key: &[u8]| {
            let len = encoded_len(engine_key).unwrap_or(engine_key.len());
            engine_key.get(..len).unwrap_or_default().to_vec()
        };
        let tables = tables.into_iter().map(|table| Table {
            level: table.level,
            first: key_of(&table.smallest),
            last: key_of(&table.largest),
            entries: table.entries.unwrap_or(0),
            known: TableVersions::decode(&table.properties),
            bytes: table.garbage,
        });
        Ok(Tables::new(tables.collect()))
    }

    fn new(mut all: Vec<Table>) -> Self {
        all.sort_by(|a, b| (&a.first, &a.last).cmp(&(&b.first, &b.last)));
        let mut levels: Vec<Vec<usize>> = Vec::new();
        for (at, table) in all.iter().enumerate() {
            if levels.len() <= table.level {
                levels.resize_with(table.level + 1, Vec::new);
            }
            if let Some(level) = levels.get_mut(table.level) {
                level.push(at);
            }
        }
        Tables { all, levels }
    }

    /// The record about each table.
    pub(crate) fn known(&self) -> impl Iterator<Item = Option<&TableVersions>> {
        self.all.iter().map(|table| table.known.as_ref())
    }

    /// Bytes that may be dropped at a safe point, as far as single tables prove it.
    pub(crate) fn droppable_bytes(&self, safe_point: Timestamp) -> u64 {
        let each = self.all.iter().map(|t| sum_until(&t.bytes, safe_point));
        each.fold(0, u64::saturating_add)
    }

    /// Ranges in which a version may be dropped at a safe point, including tables without a record.
    pub(crate) fn with_droppable(&self, safe_point: Timestamp) -> Vec<KeyRange> {
        self.ranges(|table| {
            table.may_drop(safe_point)
                || self.overlapping(table).any(|other| {
                    other.may_supersede(table, safe_point) || table.may_supersede(other, safe_point)
                })
        })
    }

    /// Ranges of tables with deletions up to a safe point.
    pub(crate) fn with_deletions(&self, safe_point: Timestamp) -> Vec<KeyRange> {
        self.ranges(|table| match &table.known {
            Some(known) => known.oldest_delete.is_some_and(|at| at <= safe_point),
            None => true,
        })
    }

    /// Ranges that are worth a compaction: those rich in versions that may be dropped at the safe
    /// point, and those with many that could have been dropped at `overdue`.
    pub(crate) fn worth_compacting(
        &self,
        safe_point: Timestamp,
        overdue: Timestamp,
    ) -> Vec<KeyRange> {
        self.ranges(|table| {
            let here = || std::iter::once(table).chain(self.overlapping(table));
            let all = sum(here().map(Table::versions));
            let droppable = |at| sum(here().map(|table| table.droppable_at(at)));
            let share = |part: u64, of: u64| part > 0 && part.saturating_mul(of) >= all;
            let is_rich = share(droppable(safe_point), RICH);
            if is_rich
                || table.droppable_at(overdue) == 0 && !self.may_be_superseded(table, overdue)
            {
                return is_rich;
            }
            let droppable = droppable(overdue);
            share(droppable, OVERDUE) || {
                // Assuming that the largest level contains each key of the others.
                let levels = here().map(|table| table.level).max().unwrap_or(0);
                let rows = |level| sum(here().filter(|t| t.level == level).map(Table::rows));
                let rows: Vec<u64> = (0..=levels).map(rows).collect();
                let most = rows.iter().copied().max().unwrap_or(0);
                let twice = sum(rows.into_iter()).saturating_sub(most);
                share(droppable.saturating_add(twice), RICH)
            }
        })
    }

    /// Returns true if another table may supersede a version of this one at a safe point.
    fn may_be_superseded(&self, table: &Table, safe_point: Timestamp) -> bool {
        let mut beside = self.overlapping(table);
        beside.any(|other| other.known.is_some() && other.may_supersede(table, safe_point))
    }

    /// The other tables that may contain versions of the same keys. Cost: O(log n) for each level
    /// below level 0, all tables of level 0, and the result.
    fn overlapping<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = &'a Table> {
        let level = move |(n, places): (usize, &'a Vec<usize>)| {
            // Only tables of level 0 overlap. In the others the last keys ascend as the first ones
            // do.
            let from = match n {
                0 => 0,
                _ => places.partition_point(|at| {
                    let other = self.all.get(*at);
                    other.is_some_and(|other| other.last < table.first)
                }),
            };
            let others = places.iter().skip(from).filter_map(|at| self.all.get(*at));
            let others = others.take_while(|other| other.first <= table.last);
            others.filter(|other| other.last >= table.first && !std::ptr::eq(*other, table))
        };
        self.levels.iter().enumerate().flat_map(level)
    }

    /// The ranges of the tables that are `wanted`, joined where they overlap, in the order of keys.
    fn ranges(&self, wanted: impl Fn(&Table) -> bool) -> Vec<KeyRange> {
        let mut ranges: Vec<KeyRange> = Vec::new();
        for table in self.all.iter().filter(|table| wanted(table)) {
            let end = [&table.last[..], &AFTER_VERSIONS].concat();
            match ranges.last_mut() {
                Some(range) if range.end >= table.first => {
                    let longer = std::mem::take(&mut range.end).max(end);
                    range.end = longer;
                }
                _ => ranges.push(KeyRange {
                    begin: table.first.clone(),
                    end,
                }),
            }
        }
        ranges
    }
}

impl Table {
    /// Returns true if a compaction of this table alone may drop a version.
    fn may_drop(&self, safe_point: Timestamp) -> bool {
        let skips_equal = mutant!(droppable_at_the_safe_point_left_out);
        match &self.known {
            Some(known) => known
                .first_droppable
                .is_some_and(|first| first < safe_point || first == safe_point && !skips_equal),
            None => true,
        }
    }

    /// Returns true if a version of this table may supersede one of `other`, if they share keys.
    fn may_supersede(&self, other: &Table, safe_point: Timestamp) -> bool {
        if mutant!(tables_beside_each_other_left_out) {
            return false;
        }
        let (Some(newer), Some(older)) = (&self.known, &other.known) else {
            return true;
        };
        match (newer.oldest, newer.newest, older.oldest) {
            (Some(oldest), Some(newest), Some(other)) => oldest <= safe_point && newest > other,
            _ => false,
        }
    }

    fn droppable_at(&self, safe_point: Timestamp) -> u64 {
        let known = self.known.as_ref();
        known.map_or(0, |known| known.droppable_at(safe_point))
    }

    fn versions(&self) -> u64 {
        let known = self.known.as_ref();
        known.map_or(self.entries, |known| known.versions)
    }

    fn rows(&self) -> u64 {
        self.known.as_ref().map_or(0, |known| known.rows)
    }
}

fn sum(each: impl Iterator<Item = u64>) -> u64 {
    each.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::encode_key;

    /// A table with one version a row, committed between two timestamps, of which `droppable.1`
    /// become droppable at `droppable.0`.
    fn table(
        level: usize,
        keys: [&str; 2],
        rows: u64,
        commits: [u64; 2],
        droppable: (u64, u64),
    ) -> Table {
        let mut known = TableVersions {
            versions: rows,
            rows,
            oldest: Some(Timestamp(commits[0])),
            newest: Some(Timestamp(commits[1])),
            ..TableVersions::default()
        };
        let (at, many) = droppable;
        known.droppable.add(at, many);
        known.first_droppable = (many > 0).then_some(Timestamp(at));
        Table {
            level,
            first: encode_key(keys[0].as_bytes()),
            last: encode_key(keys[1].as_bytes()),
            entries: rows,
            known: Some(known),
            bytes: GarbageByMoment::default(),
        }
    }

    fn bounds(ranges: &[KeyRange]) -> Vec<[String; 2]> {
        let text = |bytes: &[u8]| {
            let key = bytes[..encoded_len(bytes).unwrap()].to_vec();
            String::from_utf8(crate::format::decode_key(&key).unwrap()).unwrap()
        };
        let each = ranges.iter();
        each.map(|range| [text(&range.begin), text(&range.end)])
            .collect()
    }

    #[test]
    fn tables_without_anything_to_drop_are_left_out_and_neighbours_joined() {
        let all = Tables::new(vec![
            table(6, ["a", "c"], 10, [5, 90], (50, 1)),
            table(6, ["d", "f"], 10, [5, 90], (70, 1)),
            table(6, ["g", "i"], 10, [5, 90], (0, 0)),
            table(5, ["g", "h"], 10, [1, 5], (0, 0)),
            table(6, ["k", "m"], 10, [5, 90], (0, 0)),
            table(5, ["l", "z"], 10, [60, 80], (0, 0)),
        ]);
        let found = |at| bounds(&all.with_droppable(Timestamp(at)));
        // Levels have no meaning here.
        assert_eq!(found(4), [[""; 2]; 0]);
        assert_eq!(found(49), [["g", "i"], ["k", "z"]]);
        assert_eq!(found(50), [["a", "c"], ["g", "i"], ["k", "z"]]);
        assert_eq!(found(70), [["a", "c"], ["d", "f"], ["g", "i"], ["k", "z"]]);
    }

    #[test]
    fn tables_beside_one_are_those_that_overlap_it() {
        for seed in 0..500 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let key = |n: usize| format!("{n:03}");
            let mut all = Vec::new();
            for level in 0..4 {
                let mut at = rng.usize(..20);
                for _ in 0..rng.usize(..12) {
                    // A key whose versions are in two tables of a level ends one and begins the
                    // other.
                    let end = at + rng.usize(..10);
                    all.push(table(level, [&key(at), &key(end)], 1, [1, 1], (0, 0)));
                    at = match level {
                        0 => rng.usize(..60),
                        _ => end + rng.usize(..10),
                    };
                }
            }
            let all = Tables::new(all);
            for one in &all.all {
                let is_beside = |other: &&Table| {
                    other.first <= one.last && other.last >= one.first && !std::ptr::eq(*other, one)
                };
                let place = |table: &Table| (table.level, table.first.clone(), table.last.clone());
                let mut expected: Vec<_> = all.all.iter().filter(is_beside).map(place).collect();
                let mut found: Vec<_> = all.overlapping(one).map(place).collect();
                expected.sort();
                found.sort();
                assert_eq!(found, expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_range_has_all_versions_of_its_keys() {
        let newest = crate::format::version::newest_at(&encode_key(b"a"), Timestamp::MAX);
        let all = Tables::new(vec![table(6, ["a", "a"], 1, [5, 5], (5, 1))]);
        let range = &all.with_droppable(Timestamp(5))[0];
        assert!(range.begin <= newest);
        let oldest = crate::format::version::newest_at(&encode_key(b"a"), Timestamp::ZERO);
        let last = [&oldest[..], b"R\xff\xff\xff"].concat();
        assert!(last <= range.end, "{range:?}");
        assert!(range.end < encode_key(b"b"));
    }

    #[test]
    fn what_is_unknown_counts_for_a_call_by_hand_alone() {
        let mut unknown = table(6, ["a", "b"], 10, [5, 90], (0, 0));
        unknown.known = None;
        let all = Tables::new(vec![unknown]);
        assert_eq!(all.with_droppable(Timestamp(1)).len(), 1);
        assert_eq!(all.with_deletions(Timestamp(1)).len(), 1);
        let at = Timestamp(100);
        assert!(all.worth_compacting(at, at).is_empty());
    }

    #[test]
    fn a_range_is_worth_it_by_the_share_of_all_its_tables() {
        let worth = |tables_of: Vec<Table>, at, overdue| {
            let all = Tables::new(tables_of);
            bounds(&all.worth_compacting(Timestamp(at), Timestamp(overdue)))
        };
        let none: Vec<[String; 2]> = Vec::new();
        let rich = || vec![table(6, ["a", "c"], 10, [5, 90], (50, 4))];
        assert_eq!(worth(rich(), 49, 0), none);
        assert_eq!(worth(rich(), 50, 0), [["a", "c"]]);
        let less = || vec![table(6, ["a", "c"], 10, [5, 90], (50, 3))];
        assert_eq!(worth(less(), 60, 49), none);
        assert_eq!(worth(less(), 60, 50), [["a", "c"]]);
        let little = || vec![table(6, ["a", "c"], 100, [5, 90], (50, 9))];
        assert_eq!(worth(little(), 60, 60), none);
        // A small table that overlaps large ones does not justify rewriting them.
        let wide = || {
            vec![
                table(0, ["a", "z"], 10, [60, 90], (70, 10)),
                table(6, ["b", "c"], 1000, [5, 50], (0, 0)),
            ]
        };
        assert_eq!(worth(wide(), 100, 100), none);
        // Two tables with possibly the same rows do, after a long time.
        let twice = || {
            vec![
                table(0, ["a", "z"], 10, [60, 90], (0, 0)),
                table(6, ["b", "c"], 10, [5, 50], (0, 0)),
            ]
        };
        assert_eq!(worth(twice(), 100, 59), none);
        assert_eq!(worth(twice(), 100, 60), [["b", "c"]]);
    }
}
