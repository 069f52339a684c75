//! Room on the device for the output of jobs, and the part of it that a compaction needs.
//!
//! A compaction writes its outputs beside its inputs, which are deleted only afterwards. On a
//! device that is nearly full it could fail after it has written all the room there is, and the
//! next one would do the same. So a compaction is not begun unless it fits.

use super::levels::Circumstances;
use crate::compaction::building::inputs::Compaction;
use crate::format::total;
use crate::options::ColumnFamilyOptions;
use crate::version::TableFile;

/// A device is short of room from this part of it on, as a divisor.
const SHORT: u64 = 8;

/// But not while so many write buffers are left.
const SHORT_BUFFERS: u64 = 16;

/// The part of the device that is kept for flushes, at most, as a divisor.
const RESERVE: u64 = 8;

/// The part of the device that no compaction or collection takes, at most, as a divisor.
const LAST_RESERVE: u64 = 64;

/// The part of the room that a piece of a compaction overlaps, as a divisor.
const PIECES: u64 = 4;

/// The part of its expected output that a compaction may write in addition, as a divisor: the
/// expected output is an estimate.
const SPREAD: u64 = 16;

/// The amount that jobs may write now, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Room that is left on the device.
    pub(crate) available: u64,
    /// The amount that any compaction or collection may write. The rest is for flushes and the log.
    pub(crate) any: u64,
    /// The amount that a compaction or collection may write which frees at least as much.
    pub(crate) freeing: u64,
    /// Whether so little is left that jobs that free space come first.
    pub(crate) is_short: bool,
}

/// The amounts that a job writes, and by which files shrink when it is done, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) written: u64,
    pub(crate) freed: u64,
}

/// The least room with which something that was found due would have fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    any: u64,
    freeing: u64,
}

impl Budget {
    /// Where no limit is known.
    pub(crate) const UNLIMITED: Budget = Budget {
        available: u64::MAX,
        any: u64::MAX,
        freeing: u64::MAX,
        is_short: false,
    };

    /// On a device of `total` bytes of which so many are `available`, and so many others are
    /// promised to running jobs. Memtables have so many bytes to be flushed, and the largest write
    /// buffer has `buffer`.
    pub(crate) fn new(
        total: u64,
        available: u64,
        promised: u64,
        memtables: u64,
        buffer: u64,
    ) -> Self {
        let left = available.saturating_sub(promised);
        let reserve = memtables.saturating_add(buffer).min(total / RESERVE);
        let reserve = match mutant!(no_room_for_flushes) {
            true => 0,
            false => reserve,
        };
        let any = left.saturating_sub(reserve);
        Budget {
            available,
            any,
            freeing: left.saturating_sub(buffer.min(total / LAST_RESERVE)),
            is_short: any < (total / SHORT).min(buffer.saturating_mul(SHORT_BUFFERS)),
        }
    }

    /// Whether a job may begin.
    pub(crate) fn allows(&self, need: Need) -> bool {
        need.written <= self.any || (need.frees() && need.written <= self.freeing)
    }

    /// Whether something that lacked room may have it now.
    pub(crate) fn meets(&self, lack: Lack) -> bool {
        lack.any <= self.any || lack.freeing <= self.freeing
    }
}

impl Need {
    fn frees(self) -> bool {
        self.freed >= self.written
    }
}

impl Lack {
    /// Of nothing.
    pub(crate) const NONE: Lack = Lack {
        any: u64::MAX,
        freeing: u64::MAX,
    };

    /// Of the bytes that this job needs.
    pub(crate) fn of(need: Need) -> Self {
        Lack {
            any: need.written,
            freeing: match need.frees() {
                true => need.written,
                false => u64::MAX,
            },
        }
    }

    /// The bytes that must be available.
    pub(crate) fn bytes(self) -> u64 {
        self.any.min(self.freeing)
    }

    pub(crate) fn or(self, other: Lack) -> Self {
        Lack {
            any: self.any.min(other.any),
            freeing: self.freeing.min(other.freeing),
        }
    }
}

/// Admits compactions of a family that fit a budget, and notes the room that the others lack.
pub(crate) struct Fitting<'a> {
    budget: Budget,
    options: &'a ColumnFamilyOptions,
    has_snapshots: bool,
    lack: Lack,
}

impl<'a> Fitting<'a> {
    pub(crate) fn new(
        budget: Budget,
        options: &'a ColumnFamilyOptions,
        circumstances: Circumstances,
    ) -> Self {
        Fitting {
            budget,
            options,
            has_snapshots: circumstances.oldest_snapshot.is_some(),
            lack: Lack::NONE,
        }
    }

    /// The compaction, if there is room for it.
    pub(crate) fn admit(&mut self, compaction: Compaction) -> Option<Compaction> {
        if self.budget == Budget::UNLIMITED {
            return Some(compaction);
        }
        let need = self.need(&compaction);
        if self.budget.allows(need) {
            return Some(compaction);
        }
        self.lack = self.lack.or(Lack::of(need));
        None
    }

    /// Bytes that a piece of a compaction should overlap, at most.
    pub(super) fn max_overlap(&self) -> u64 {
        self.budget.freeing / PIECES
    }

    /// The room that the compactions lack that were not admitted; `None` if there were none.
    pub(crate) fn lack(&self) -> Option<Lack> {
        (self.lack != Lack::NONE).then_some(self.lack)
    }

    /// The room that a compaction needs, as far as is known without reading its inputs.
    pub(crate) fn need(&self, compaction: &Compaction) -> Need {
        if compaction.is_trivial_move() {
            return Need {
                written: 0,
                freed: 0,
            };
        }
        let inputs = || compaction.all_inputs().map(|(_, table)| &**table);
        let all = total(inputs().map(TableFile::size));
        let drops_deletions = !self.has_snapshots && compaction.is_bottommost();
        let kept = match drops_deletions {
            true => kept_bytes(inputs()).min(all),
            false => all,
        };
        let inlined = match self.options.enable_blob_files {
            true => 0,
            false => total(inputs().map(TableFile::referenced_blob_bytes)),
        };
        let written = kept.saturating_add(inlined);
        let shadowed = total(inputs().map(TableFile::shadowed_bytes));
        Need {
            written: written.saturating_add(written / SPREAD),
            freed: (all - kept).saturating_add(shadowed),
        }
    }
}

/// Bytes of the values in tables that are left if each deletion deletes one of them.
fn kept_bytes<'t>(tables: impl Iterator<Item = &'t TableFile>) -> u64 {
    let (mut deletions, mut values, mut bytes) = (0_u64, 0_u64, 0_u64);
    for table in tables {
        let Some(facts) = table.facts() else {
            bytes = bytes.saturating_add(table.size());
            values = values.saturating_add(table.meta.size / 64);
            continue;
        };
        let raw = facts.raw_key_bytes.saturating_add(facts.raw_value_bytes);
        let of_deletions = match facts.num_entries {
            0 => raw,
            entries => facts.raw_key_bytes / entries * facts.num_deletions,
        };
        let share = raw.saturating_sub(of_deletions) as f64 / raw.max(1) as f64;
        bytes = bytes.saturating_add((table.size() as f64 * share) as u64);
        deletions = deletions.saturating_add(facts.num_deletions);
        values = values.saturating_add(facts.num_entries.saturating_sub(facts.num_deletions));
    }
    let left = values.saturating_sub(deletions);
    (bytes as f64 * (left as f64 / values.max(1) as f64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_keep_their_room_and_what_frees_space_takes_most_of_it() {
        // Of 1000 bytes, 125 are the most that is kept.
        let budget = |available, promised| Budget::new(1000, available, promised, 60, 40);
        let need = |written, freed| Need { written, freed };
        assert!(budget(500, 0).allows(need(400, 0)));
        assert!(!budget(500, 0).allows(need(401, 0)));
        assert!(!budget(500, 0).allows(need(401, 400)), "it does not shrink");
        assert!(budget(500, 0).allows(need(485, 485)));
        assert!(!budget(500, 0).allows(need(486, 10_000)));
        assert!(!budget(500, 300).allows(need(101, 0)), "promised to others");
        assert!(budget(224, 0).is_short && !budget(225, 0).is_short);
        let lack = Lack::of(need(450, 0));
        assert!(!budget(500, 0).meets(lack) && budget(550, 0).meets(lack));
        assert_eq!(lack.bytes(), 450);
        let frees = Lack::of(need(490, 490));
        assert!(!budget(500, 0).meets(frees) && budget(505, 0).meets(frees));
        // A write buffer larger than the device does not keep all of it.
        assert_eq!(Budget::new(1000, 500, 0, 0, 1 << 26).any, 375);
    }
}
