//! Target sizes of levels.
//!
//! The last level holds most of the data; every level above it is smaller by a constant factor,
//! down to a *base level*, the first below level 0, so that space above the last level is bounded
//! by a share of the last (RocksDB's dynamic level sizes). Sizes are
//! [logical](crate::version::TableFile::logical_size): values in blob files count.

use crate::format::{SequenceNumber, total};
use crate::options::ColumnFamilyOptions;
use crate::sorting;
use crate::version::Version;

/// The most shadowed bytes of an idle database, as a fraction of its live bytes.
pub(crate) const IDLE_SHADOWED_SHARE: f64 = 0.02;

/// Circumstances that decide which compactions are due, apart from the version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Circumstances {
    /// The database is idle, so compactions also drop small amounts of shadowed data.
    pub(crate) idle_cleanup: bool,
    /// The oldest live snapshot.
    pub(crate) oldest_snapshot: Option<SequenceNumber>,
    /// Moment up to which reported garbage counts: all that collectors report from it, or an
    /// earlier one, on.
    pub(crate) garbage_moment: u64,
    /// Number of times that iterators have met a long [dead range](crate::dead_ranges).
    pub(crate) long_dead_ranges: u64,
}

/// Target sizes of one version's levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LevelTargets {
    /// The level that compactions of level 0 write to.
    pub(crate) base_level: usize,
    /// By level; `u64::MAX` for level 0 and where no compaction is ever due.
    pub(crate) targets: Vec<u64>,
}

impl LevelTargets {
    pub(crate) fn compute(sizes: &[u64], options: &ColumnFamilyOptions) -> Self {
        let last = sizes.len().saturating_sub(1);
        let multiplier = options.max_bytes_for_level_multiplier;
        let base_max = options.max_bytes_for_level_base;
        let base_min = base_max / multiplier;
        let mut targets = vec![u64::MAX; sizes.len()];
        let below_l0 = || sizes.iter().copied().enumerate().skip(1);
        let largest = below_l0().map(|(_, s)| s).max().unwrap_or(0);
        let Some((first_non_empty, _)) = below_l0().find(|(_, s)| *s > 0) else {
            return LevelTargets {
                base_level: last,
                targets,
            };
        };
        // The size that the first non-empty level would have if the levels down to the largest were
        // full.
        let mut size = largest;
        for _ in first_non_empty..last {
            size /= multiplier;
        }
        let mut base_level = first_non_empty;
        if size <= base_min {
            size = base_min + 1;
        } else {
            while base_level > 1 && size > base_max {
                base_level -= 1;
                size /= multiplier;
            }
            size = size.min(base_max);
        }
        let mut target = size.max(1);
        for level in base_level..sizes.len() {
            if level > base_level {
                target = target.saturating_mul(multiplier);
            }
            // No level is made smaller than `max_bytes_for_level_base`.
            if let Some(slot) = targets.get_mut(level) {
                *slot = target.max(base_max);
            }
        }
        LevelTargets {
            base_level,
            targets,
        }
    }

    /// Cost: O(levels).
    pub(crate) fn of(version: &Version, options: &ColumnFamilyOptions) -> Self {
        let sizes: Vec<u64> = (0..version.num_levels())
            .map(|level| version.sums(level).logical_size)
            .collect();
        Self::compute(&sizes, options)
    }

    /// The target of a level.
    pub(crate) fn target(&self, level: usize) -> u64 {
        self.targets.get(level).copied().unwrap_or(u64::MAX)
    }

    /// Urgency of compacting each level, most urgent first; due from 1.0. For a level that would be
    /// due, files that are being compacted already do not count. Cost: O(levels), and O(tables) of
    /// the levels that would be due.
    pub(crate) fn scores(
        &self,
        version: &Version,
        options: &ColumnFamilyOptions,
        shadowed: &ShadowedData,
    ) -> Vec<(usize, f64)> {
        let mut scores = Vec::new();
        let last = version.num_levels().saturating_sub(1);
        for level in 0..last {
            let tables = version.level(level);
            let all = self.score(level, tables.len(), tables.sums().compensated, options);
            let score = match all >= 1.0 {
                true => {
                    let idle = || tables.iter().filter(|f| !f.is_compacting());
                    let bytes = total(idle().map(|f| f.compensated_size()));
                    self.score(level, idle().count(), bytes, options)
                }
                false => all,
            };
            scores.push((level, score.max(shadowed.score(level))));
        }
        sorting::sort_by(&mut scores, |a, b| b.1.total_cmp(&a.1));
        scores
    }

    /// The score of a level with this number of tables and of compensated bytes.
    fn score(&self, level: usize, tables: usize, bytes: u64, options: &ColumnFamilyOptions) -> f64 {
        if level == 0 {
            let by_count = tables as f64 / options.level0_file_num_compaction_trigger as f64;
            let by_size = if tables > 1 {
                bytes as f64 / options.max_bytes_for_level_base.max(1) as f64
            } else {
                0.0
            };
            by_count.max(if by_count >= 1.0 { by_size } else { 0.0 })
        } else if level < self.base_level {
            // A level above the base level is emptied.
            if bytes > 0 { 1.01 } else { 0.0 }
        } else {
            bytes as f64 / self.target(level) as f64
        }
    }

    /// Bytes that compactions still have to rewrite until every level is within its target. Cost:
    /// O(levels).
    pub(crate) fn pending_bytes(&self, version: &Version, options: &ColumnFamilyOptions) -> u64 {
        let mut pending = 0u64;
        let mut carried = 0u64;
        if version.level(0).len() >= options.level0_file_num_compaction_trigger {
            carried = version.sums(0).size;
            pending += carried;
        }
        for level in self.base_level..version.num_levels().saturating_sub(1) {
            let sums = version.sums(level);
            let (physical, logical) = (sums.size, sums.logical_size.max(1));
            let excess_logical = logical.saturating_sub(self.target(level));
            let excess = (physical as f64 * (excess_logical as f64 / logical as f64)) as u64;
            let excess = excess + carried;
            if excess == 0 {
                continue;
            }
            let next = version.sums(level + 1).size;
            let ratio = next as f64 / physical.max(1) as f64;
            pending = pending.saturating_add((excess as f64 * (ratio + 1.0)) as u64);
            carried = 0;
        }
        pending
    }
}

/// Shadowed bytes and garbage that collectors reported, each compared with how much is allowed.
pub(crate) struct ShadowedData {
    /// From 1.0 on there are too many.
    urgency: f64,
    /// The most shadowed bytes of one level, not counting the last.
    most: u64,
    /// By level, without the last: the shadowed bytes of tables that are not being compacted. Empty
    /// unless there are too many shadowed bytes.
    idle: Vec<u64>,
}

impl ShadowedData {
    /// Cost: O(levels), and O(tables) if there are too many shadowed bytes.
    pub(crate) fn of(
        version: &Version,
        options: &ColumnFamilyOptions,
        circumstances: Circumstances,
    ) -> Self {
        let last = version.num_levels().saturating_sub(1);
        let reported = Reported::of(version, options, circumstances);
        let levels = (0..last).map(|level| version.sums(level).shadowed);
        let levels: Vec<u64> = levels.collect();
        let released = version.released_bytes(circumstances.oldest_snapshot);
        let shadowed = total(levels.iter().copied()).saturating_add(released);
        let live = version.blob_files.live_bytes().saturating_sub(shadowed) as f64;
        let allowed = match circumstances.idle_cleanup {
            true => (live * IDLE_SHADOWED_SHARE).max(1.0),
            // As much as one flush is always allowed, or each would compact a small database; but
            // not more than the live bytes, or a small database would be mostly garbage.
            false => {
                let lives = live + version.table_bytes() as f64;
                let flush = options.shadowing_flush(lives as u64) as f64;
                let flush = lives.min(flush).max(1.0);
                (live * options.shadowed_data_allowance()).max(flush)
            }
        };
        let urgency = match options.enable_blob_garbage_collection {
            true => shadowed as f64 / allowed,
            false => 0.0,
        }
        .max(reported.urgency);
        let moment = circumstances.garbage_moment;
        let average = reported.average;
        let levels: Vec<u64> = std::iter::zip(levels, &reported.levels)
            .map(|(shadowed, reported)| shadowed.saturating_add(*reported))
            .collect();
        let idle = (0..last).filter(|_| urgency >= 1.0).map(|level| {
            let idle = version.level(level).iter().filter(|f| !f.is_compacting());
            total(idle.map(|f| {
                f.shadowed_bytes()
                    .saturating_add(f.reported_garbage(moment))
                    .saturating_add(f.num_deletions().saturating_mul(average))
            }))
        });
        ShadowedData {
            urgency,
            most: levels.iter().copied().max().unwrap_or(0),
            idle: idle.collect(),
        }
    }

    /// Whether compactions are due until there are fewer.
    pub(crate) fn is_too_much(&self) -> bool {
        self.urgency >= 1.0
    }

    /// Urgency of compacting more of a level: the level with the most shadowed bytes comes first.
    /// While the tables that shadow them are being compacted, no others are compacted in their
    /// place.
    fn score(&self, level: usize) -> f64 {
        if !self.is_too_much() {
            return 0.0;
        }
        let idle = self.idle.get(level).copied().unwrap_or(0);
        self.urgency * (idle as f64 / self.most.max(1) as f64)
    }
}

/// Garbage that collectors reported, and the bytes that deletions will free in tables.
struct Reported {
    /// By level.
    levels: Vec<u64>,
    /// Bytes that each deletion is taken to free in tables.
    average: u64,
    /// From 1.0 on there is too much.
    urgency: f64,
}

impl Reported {
    /// Cost: O(levels), and O(tables) if collectors reported any, or beside a snapshot.
    fn of(version: &Version, options: &ColumnFamilyOptions, circumstances: Circumstances) -> Self {
        let moment = circumstances.garbage_moment;
        let last = version.num_levels().saturating_sub(1);
        // While users write, levels are compacted by their sizes, in which deletions count.
        let average = match circumstances.idle_cleanup {
            true => version.average_entry(),
            false => 0,
        };
        let deletions = |n| match circumstances.oldest_snapshot {
            _ if n >= last || average == 0 => 0,
            None => version.sums(n).deletions,
            // Others would be moved down, and drop nothing.
            Some(oldest) => {
                let tables = version.level(n).iter();
                let seen = tables.filter(|table| table.meta.largest_seq <= oldest);
                total(seen.map(|table| table.num_deletions()))
            }
        };
        let deleted = |n| deletions(n).saturating_mul(average);
        let levels = (0..version.num_levels()).map(|n| {
            version
                .reported_garbage(n, moment)
                .saturating_add(deleted(n))
        });
        let levels: Vec<u64> = levels.collect();
        let reported = total(levels.iter().copied());
        if reported == 0 {
            return Reported {
                levels,
                average,
                urgency: 0.0,
            };
        }
        // It may be in tables and in blob files.
        let separated = version.blob_files.live_bytes();
        let all = separated.saturating_add(version.table_bytes());
        let live = all.saturating_sub(reported) as f64;
        let allowed = match circumstances.idle_cleanup {
            true => live * IDLE_SHADOWED_SHARE,
            false => {
                let memtable = live.min(options.write_buffer_size as f64);
                (live * options.shadowed_data_allowance()).max(memtable)
            }
        };
        Reported {
            levels,
            average,
            urgency: reported as f64 / allowed.max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::compaction::choosing::budget::{Budget, Fitting};
    use crate::compaction::choosing::picker;
    use crate::format::internal_key::{InternalKeyComparator, ValueType, internal_key};
    use crate::format::{BytewiseComparator, ColumnFamilyId, FileNumber, SequenceNumber};
    use crate::version::edit::{NewFile, TableFacts};
    use crate::version::state::blob_set::BlobSet;
    use crate::version::state::level::Level;
    use crate::version::{ObsoleteFiles, TableFile};

    /// A table of one key.
    fn table(number: u64, key: &str, shadowed_bytes: u64) -> Arc<TableFile> {
        let key = internal_key(key.as_bytes(), SequenceNumber(1), ValueType::Value as u8);
        let meta = NewFile {
            number: FileNumber(number),
            size: 100,
            smallest: key.clone(),
            largest: key,
            ..NewFile::default()
        };
        let facts = TableFacts {
            shadowed_bytes,
            num_entries: 1,
            ..TableFacts::default()
        };
        let queue = Arc::new(ObsoleteFiles::default());
        Arc::new(TableFile::new(meta, Some(facts), &queue))
    }

    #[test]
    fn what_a_compaction_is_about_to_find_starts_no_other() {
        let options = ColumnFamilyOptions {
            enable_blob_garbage_collection: true,
            write_buffer_size: 64 << 10,
            ..ColumnFamilyOptions::default()
        };
        let circumstances = Circumstances {
            idle_cleanup: false,
            oldest_snapshot: None,
            garbage_moment: 0,
            long_dead_ranges: 0,
        };
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let mut levels = vec![Vec::new(); 7];
        levels[5] = vec![table(1, "a", 0), table(2, "b", 1 << 20), table(3, "c", 10)];
        levels[6] = vec![table(4, "a", 0), table(5, "b", 0), table(6, "c", 0)];
        let version = Version::empty(ColumnFamilyId::DEFAULT, comparator, 7);
        let sorted = |tables| Level::sorted(tables, &version.comparator);
        let levels = levels.into_iter().map(sorted).collect();
        let version = Arc::new(version.with_files(levels, BlobSet::default()));
        let hiding = Arc::clone(&version.level(5).tables()[1]);
        let pick = || {
            let mut fitting = Fitting::new(Budget::UNLIMITED, &options, circumstances);
            picker::pick(&version, &options, circumstances, &mut fitting)
        };
        let first = pick();
        assert!(first.is_some());
        drop(first);
        hiding.set_compacting(Some(1));
        assert!(pick().is_none());
        hiding.set_compacting(None);
        assert!(pick().is_some());
    }

    fn targets(sizes: [u64; 7]) -> LevelTargets {
        let options = ColumnFamilyOptions {
            max_bytes_for_level_base: 1000,
            max_bytes_for_level_multiplier: 10,
            ..ColumnFamilyOptions::default()
        };
        LevelTargets::compute(&sizes, &options)
    }

    #[test]
    fn an_empty_tree_compacts_straight_to_the_last_level() {
        assert_eq!(targets([0; 7]).base_level, 6);
        assert_eq!(targets([5000, 0, 0, 0, 0, 0, 0]).base_level, 6);
    }

    #[test]
    fn the_base_level_rises_as_the_last_grows() {
        let t = targets([0, 0, 0, 0, 0, 0, 900]);
        assert_eq!((t.base_level, t.target(6)), (6, 1000));
        let t = targets([0, 0, 0, 0, 0, 0, 5_000]);
        assert_eq!((t.base_level, t.target(5)), (5, 1000));
        let t = targets([0, 0, 0, 0, 0, 500, 50_000]);
        assert_eq!((t.base_level, t.target(4), t.target(5)), (4, 1000, 5000));
        let t = targets([0, 0, 0, 0, 0, 0, u64::MAX / 2]);
        assert_eq!(t.base_level, 1);
    }
}
