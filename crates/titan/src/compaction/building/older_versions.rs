//! Whether there can be older versions of a key below the output of a job.

use std::ops::Bound;
use std::sync::Arc;

use crate::filter::KeysBelow;
use crate::version::{TableFile, Version};

/// Answers whether there can be older versions of a key below the output of a job.
pub(crate) trait OlderVersions: KeysBelow + Send {
    /// Whether nothing below has `user_key`. Must be called with ascending keys.
    fn nothing_at(&mut self, user_key: &[u8]) -> bool;
}

/// For a flush: anything may be below.
pub(crate) struct UnknownOlderVersions;

impl OlderVersions for UnknownOlderVersions {
    fn nothing_at(&mut self, _: &[u8]) -> bool {
        false
    }
}

impl KeysBelow for UnknownOlderVersions {
    fn nothing_in(&self, _: &[u8], _: &[u8]) -> bool {
        false
    }
}

/// The levels below a compaction's output level.
pub(crate) struct LevelsBelow {
    version: Arc<Version>,
    first: usize,
    /// Per level from `first` on: the files before this position end before every key still to
    /// come.
    positions: Vec<usize>,
}

impl LevelsBelow {
    pub(crate) fn new(version: Arc<Version>, output_level: usize) -> Self {
        let missed = usize::from(mutant!(level_below_overlooked));
        let first = output_level + 1 + missed;
        let positions = vec![0; version.num_levels().saturating_sub(first)];
        LevelsBelow {
            version,
            first,
            positions,
        }
    }
}

impl OlderVersions for LevelsBelow {
    fn nothing_at(&mut self, user_key: &[u8]) -> bool {
        let LevelsBelow {
            version,
            first,
            positions,
        } = self;
        let compare = |a: &[u8], b: &[u8]| version.comparator.compare_user(a, b);
        for (i, position) in positions.iter_mut().enumerate() {
            let files: &[Arc<TableFile>] = version.level(*first + i).tables();
            while let Some(file) = files.get(*position) {
                let overlooked = mutant!(last_key_below_overlooked);
                let to_last = compare(user_key, file.largest_user_key());
                if to_last.is_lt() || to_last.is_eq() && !overlooked {
                    if compare(user_key, file.smallest_user_key()).is_ge() {
                        return false;
                    }
                    break;
                }
                *position += 1;
            }
        }
        true
    }
}

impl KeysBelow for LevelsBelow {
    fn nothing_in(&self, start: &[u8], end: &[u8]) -> bool {
        (self.first..self.version.num_levels()).all(|level| {
            !self
                .version
                .has_overlapping(level, Some(start), Bound::Excluded(end))
        })
    }
}
