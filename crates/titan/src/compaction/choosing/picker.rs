//! Which tables to merge next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::budget::Fitting;
use super::level0_move;
use super::levels::{Circumstances, LevelTargets, ShadowedData};
use crate::compaction::building::inputs::Compaction;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::FilterReason;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{FileNumber, total};
use crate::options::ColumnFamilyOptions;
use crate::sorting;
use crate::version::{TableFile, Version};

/// The most urgent compaction that does not conflict with a running one and for which there is
/// room; `fitting` notes the room that others lack. The caller holds the state lock, so that marks
/// do not change meanwhile.
pub(crate) fn pick(
    version: &Arc<Version>,
    options: &ColumnFamilyOptions,
    circumstances: Circumstances,
    fitting: &mut Fitting<'_>,
) -> Option<Compaction> {
    let targets = LevelTargets::of(version, options);
    let shadowed = ShadowedData::of(version, options, circumstances);
    for (level, score) in targets.scores(version, options, &shadowed) {
        if score < 1.0 {
            break;
        }
        let picked = if level == 0 {
            pick_level0(version, targets.base_level, options)
                .and_then(|compaction| fitting.admit(compaction))
                .or_else(|| pick_part_of_level0(version, targets.base_level, fitting))
        } else {
            pick_sorted(version, level, fitting)
        };
        if picked.is_some() {
            return picked;
        }
    }
    shadowed
        .is_too_much()
        .then(|| pick_garbage_at_bottom(version, circumstances))
        .flatten()
        .and_then(|compaction| fitting.admit(compaction))
}

/// Rewrites the table of the last level that has the most bytes that only released snapshots
/// needed, or that collectors reported as garbage, to drop these.
fn pick_garbage_at_bottom(
    version: &Arc<Version>,
    circumstances: Circumstances,
) -> Option<Compaction> {
    let last = version.num_levels().saturating_sub(1);
    let garbage = |table: &TableFile| {
        let reported = table.reported_garbage(circumstances.garbage_moment);
        table
            .released_bytes(circumstances.oldest_snapshot)
            .saturating_add(reported)
    };
    let idle = version.level(last).iter().filter(|f| !f.is_compacting());
    let most = idle.max_by_key(|table| garbage(table))?;
    if garbage(most) == 0 {
        return None;
    }
    let inputs = clean_cut(version, last, vec![Arc::clone(most)]);
    let mut compaction = complete(version, last, last, inputs)?;
    compaction.force_rewrite = true;
    Some(compaction)
}

/// Compacts all of level 0 into the base level. Only one such compaction runs at a time, because
/// files of level 0 overlap.
pub(super) fn pick_level0(
    version: &Arc<Version>,
    base_level: usize,
    options: &ColumnFamilyOptions,
) -> Option<Compaction> {
    let inputs = version.level(0).to_vec();
    if inputs.is_empty() || inputs.iter().any(|f| f.is_compacting()) {
        return None;
    }
    let mut compaction = complete(version, 0, base_level, inputs)?;
    compaction.in_order = level0_move::is_possible(&compaction, options);
    Some(compaction)
}

/// Compacts less of level 0 than all of it into the base level: into the empty level above that, in
/// pieces that overlap little of it and are compacted one by one, or only the older tables. `None`
/// unless room is lacking.
fn pick_part_of_level0(
    version: &Arc<Version>,
    base_level: usize,
    fitting: &mut Fitting<'_>,
) -> Option<Compaction> {
    fitting.lack()?;
    let mut tables = version.level(0).to_vec();
    if tables.iter().any(|f| f.is_compacting()) {
        return None;
    }
    let above = (base_level > 1).then(|| base_level - 1);
    loop {
        if let Some(level) = above {
            let mut compaction = complete(version, 0, level, tables.clone())?;
            // A table that is moved whole would overlap as much as before.
            compaction.force_rewrite = true;
            compaction.max_overlap = Some(fitting.max_overlap());
            if let Some(admitted) = fitting.admit(compaction) {
                return Some(admitted);
            }
        }
        if tables.len() <= 1 {
            return None;
        }
        // They are listed the newest first, and older ones may go below newer ones.
        tables.drain(..tables.len() / 2);
        let compaction = complete(version, 0, base_level, tables.clone())?;
        if let Some(admitted) = fitting.admit(compaction) {
            return Some(admitted);
        }
    }
}

/// Compacts into the next level the table that overlaps least of it, relative to the table's own
/// size: this rewrites the fewest bytes for the bytes that move down.
fn pick_sorted(
    version: &Arc<Version>,
    level: usize,
    fitting: &mut Fitting<'_>,
) -> Option<Compaction> {
    let mut candidates: Vec<(f64, &Arc<TableFile>)> = version
        .level(level)
        .iter()
        .filter(|f| !f.is_compacting())
        .map(|f| {
            let overlap = version.overlapped_bytes(level + 1, f);
            (overlap as f64 / f.compensated_size().max(1) as f64, f)
        })
        .collect();
    sorting::sort_by(&mut candidates, |a, b| a.0.total_cmp(&b.0));
    let picked = candidates.iter().find_map(|(_, file)| {
        let inputs = clean_cut(version, level, vec![Arc::clone(file)]);
        let compaction = complete(version, level, level + 1, inputs)?;
        fitting.admit(compaction)
    });
    picked.or_else(|| {
        fitting.lack()?;
        let mut files = candidates.into_iter().map(|(_, file)| file);
        files.find_map(|file| cut_up(version, level, file, fitting))
    })
}

/// Rewrites a table of a sorted level in pieces that overlap little of the next level, so that they
/// can be compacted one by one where there is no room to compact all of it. `None` if it overlaps
/// little.
fn cut_up(
    version: &Arc<Version>,
    level: usize,
    table: &Arc<TableFile>,
    fitting: &mut Fitting<'_>,
) -> Option<Compaction> {
    let overlapped = version.overlapping(level + 1, Some(table.smallest_user_key()), table.end());
    let most = fitting.max_overlap();
    // A piece may overlap parts of two tables.
    if overlapped.len() <= 2 || total(overlapped.iter().map(|f| f.logical_size())) <= most {
        return None;
    }
    let inputs = clean_cut(version, level, vec![Arc::clone(table)]);
    let mut compaction = complete(version, level, level, inputs)?;
    compaction.force_rewrite = true;
    compaction.max_overlap = Some(most);
    fitting.admit(compaction)
}

/// Compacts everything of one level that overlaps a range into `output_level`. A manual compaction
/// does this level by level. `None` if the level has nothing there.
pub(crate) fn pick_range(
    version: &Arc<Version>,
    level: usize,
    output_level: usize,
    begin: Option<&[u8]>,
    end: Bound<&[u8]>,
) -> Option<Compaction> {
    if !version.has_overlapping(level, begin, end) {
        return None;
    }
    let inputs = match level {
        // Older files of level 0 may overlap newer ones outside the range.
        0 => version.level(0).to_vec(),
        _ => version.overlapping(level, begin, end).to_vec(),
    };
    complete(
        version,
        level,
        output_level,
        clean_cut(version, level, inputs),
    )
}

/// Rewrites tables of the last level in a range that have numbers before `made_since` and are
/// `wanted`: the first of them, and those that follow it without another one between. `None` if
/// there are none.
pub(crate) fn pick_older(
    version: &Arc<Version>,
    level: usize,
    begin: Option<&[u8]>,
    end: Bound<&[u8]>,
    made_since: FileNumber,
    wanted: impl Fn(&TableFile) -> bool,
) -> Option<Compaction> {
    let is_older = |table: &&Arc<TableFile>| table.number() < made_since && wanted(table);
    let tables = version.overlapping(level, begin, end).iter();
    let older = tables
        .skip_while(|table| !is_older(table))
        .take_while(is_older);
    let inputs = clean_cut(version, level, older.cloned().collect());
    let compaction = complete(version, level, level, inputs)?;
    Some(compaction.forced(FilterReason::Manual))
}

/// Rewrites tables of one level, and the tables that must stay with them, into `output_level`.
///
/// # Errors
/// `InvalidArgument` if a table is missing, or the versions of a key would get out of order;
/// `Busy` if a table that is needed is being compacted.
pub(crate) fn pick_files(
    version: &Arc<Version>,
    files: &BTreeSet<FileNumber>,
    output_level: usize,
) -> Result<Compaction> {
    let level = level_of_all(version, files)?;
    if output_level < level.max(1) || output_level >= version.num_levels() {
        let last = version.num_levels().saturating_sub(1);
        let text = format!(
            "tables of level {level} can go to levels {} to {last}, not to {output_level}",
            level.max(1)
        );
        return Err(Error::invalid_argument(text));
    }
    let is_named = |table: &&Arc<TableFile>| files.contains(&table.number());
    let tables = version.level(level).iter();
    let inputs: Vec<_> = match level {
        // They are listed the newest first, and older ones may go below newer ones.
        0 => tables
            .skip_while(|table| !is_named(table))
            .cloned()
            .collect(),
        _ => tables.filter(is_named).cloned().collect(),
    };
    let inputs = clean_cut(version, level, inputs);
    if let Some((smallest, end)) = key_range(&inputs, &version.comparator) {
        let mut between = level + 1..output_level;
        if let Some(nearer) = between.find(|l| version.has_overlapping(*l, Some(smallest), end)) {
            let text = format!(
                "tables of level {level} cannot go to level {output_level}: level {nearer} has \
                 older keys of their range"
            );
            return Err(Error::invalid_argument(text));
        }
    }
    let compaction = complete(version, level, output_level, inputs)
        .ok_or_else(|| Error::new(ErrorKind::Busy, "a table that is needed is being compacted"))?;
    Ok(compaction.forced(FilterReason::Manual))
}

/// The level of tables, which must have the same.
fn level_of_all(version: &Version, files: &BTreeSet<FileNumber>) -> Result<usize> {
    let named = |(_, table): &(usize, &Arc<TableFile>)| files.contains(&table.number());
    let found: BTreeMap<_, _> = version
        .tables()
        .filter(named)
        .map(|(level, table)| (table.number(), level))
        .collect();
    if let Some(missing) = files.iter().find(|number| !found.contains_key(number)) {
        let text = format!("no table of the family has the number {missing}");
        return Err(Error::invalid_argument(text));
    }
    let mut levels = found.into_values();
    let Some(level) = levels.next() else {
        return Err(Error::invalid_argument("no table was named"));
    };
    match levels.find(|other| *other != level) {
        Some(other) => Err(Error::invalid_argument(format!(
            "the tables are of levels {level} and {other}: name those of one"
        ))),
        None => Ok(level),
    }
}

/// Adds neighbours of a sorted level that share a user key with the inputs: the versions of one key
/// must stay together, or older ones would end up above newer ones.
pub(super) fn clean_cut(
    version: &Version,
    level: usize,
    mut inputs: Vec<Arc<TableFile>>,
) -> Vec<Arc<TableFile>> {
    let torn = mutant!(neighbour_with_the_same_key_left_out);
    if level == 0 || torn {
        return inputs;
    }
    loop {
        let Some((smallest, end)) = key_range(&inputs, &version.comparator) else {
            return inputs;
        };
        let wider = version.overlapping(level, Some(smallest), end).to_vec();
        if wider.len() == inputs.len() {
            return inputs;
        }
        inputs = wider;
    }
}

/// Adds the tables of the output level in the inputs' range. `None` if a table that is needed is
/// being compacted already.
pub(super) fn complete(
    version: &Arc<Version>,
    level: usize,
    output_level: usize,
    inputs: Vec<Arc<TableFile>>,
) -> Option<Compaction> {
    let (smallest, end) = key_range(&inputs, &version.comparator)?;
    let missed = mutant!(compaction_misses_the_output_level) && output_level > level;
    let below = if output_level == level || missed {
        Vec::new()
    } else {
        let overlapping = version.overlapping(output_level, Some(smallest), end);
        if mutant!(neighbour_in_the_output_level_left_out) {
            overlapping.to_vec()
        } else {
            clean_cut(version, output_level, overlapping.to_vec())
        }
    };
    let taken = |f: &Arc<TableFile>| f.is_compacting();
    let (inputs_taken, below_taken) = (inputs.iter().any(taken), below.iter().any(taken));
    let taken = if mutant!(compacting_flag_ignored) {
        inputs_taken && below_taken
    } else {
        inputs_taken || below_taken
    };
    if taken {
        return None;
    }
    Some(Compaction::new(version, level, output_level, inputs, below))
}

/// Where the keys of tables start and end, if there are any.
pub(super) fn key_range<'a>(
    tables: &'a [Arc<TableFile>],
    comparator: &InternalKeyComparator,
) -> Option<(&'a [u8], Bound<&'a [u8]>)> {
    let smallest = tables
        .iter()
        .map(|f| f.smallest_user_key())
        .min_by(|a, b| comparator.compare_user(a, b))?;
    let last = tables.iter().max_by(|a, b| {
        let before = mutant!(end_of_a_range_excluded);
        let included = |f: &TableFile| matches!(f.end(), Bound::Included(_)) != before;
        comparator
            .compare_user(a.largest_user_key(), b.largest_user_key())
            .then(included(a).cmp(&included(b)))
    })?;
    Some((smallest, last.end()))
}
