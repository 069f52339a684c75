//! Which tables are compacted together, and which of them may be moved, for every arrangement of
//! their bounds.
//!
//! The oracle knows nothing of sorted lists: it adds tables to a set until no table outside shares
//! a key with the tables that the compaction reads or writes.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::{Span, key, pick_any, sorted_levels, stride, tables, version};
use crate::compaction::building::inputs::Compaction;
use crate::compaction::choosing::picker::pick_range;
use crate::options::ColumnFamilyOptions;
use crate::version::TableFile;

const KEYS: usize = 3;

/// Indexes of tables in their levels.
type Chosen = BTreeSet<usize>;

/// The smallest span with all of these tables.
fn hull(level: &[Span], chosen: &Chosen) -> Option<Span> {
    chosen.iter().map(|at| level[*at]).reduce(Span::with)
}

/// Adds the tables of a sorted level that share a key with the span of the others, until there are
/// no more.
fn close(level: &[Span], mut chosen: Chosen, around: Option<Span>) -> Chosen {
    loop {
        let spans = around.into_iter().chain(hull(level, &chosen));
        let Some(all) = spans.reduce(Span::with) else {
            return chosen;
        };
        let more = (0..level.len()).find(|at| !chosen.contains(at) && level[*at].meets(all));
        match more {
            Some(at) => chosen.insert(at),
            None => return chosen,
        };
    }
}

/// Tables of both levels that a compaction of `chosen` tables must take.
fn closed(upper: &[Span], lower: &[Span], chosen: &Chosen) -> (Chosen, Chosen) {
    let inputs = close(upper, chosen.clone(), None);
    let below = close(lower, Chosen::new(), hull(upper, &inputs));
    (inputs, below)
}

fn taken(tables: &[Arc<TableFile>], first: usize) -> Chosen {
    let index = |file: &Arc<TableFile>| file.number().0 as usize - first;
    tables.iter().map(index).collect()
}

/// Tables that a compaction takes of levels whose tables are numbered from 1 and from 11 on.
fn inputs(compaction: &Compaction) -> (Chosen, Chosen) {
    let below = taken(&compaction.output_level_inputs, 11);
    (taken(&compaction.inputs, 1), below)
}

/// The ranges of a manual compaction, and the points that each has.
fn ranges() -> impl Iterator<Item = (usize, usize)> {
    (0..=2 * KEYS).flat_map(|first| (first..=2 * KEYS).map(move |last| (first, last)))
}

/// Every set of tables that a range has, each with one such range.
fn choices(level: &[Span]) -> Vec<(Chosen, (usize, usize))> {
    let mut known = BTreeSet::new();
    let within = ranges().map(|(first, last)| {
        let range = Span { first, last };
        let has = |at: &usize| level[*at].meets(range);
        ((0..level.len()).filter(has).collect(), (first, last))
    });
    within
        .filter(|(chosen, _): &(Chosen, _)| known.insert(chosen.clone()))
        .collect()
}

#[test]
fn a_compaction_takes_every_table_that_shares_a_key_and_no_other() {
    let levels = sorted_levels(KEYS, 3);
    let (mut widened, mut moved) = (0, 0);
    for (number, upper) in levels.iter().enumerate() {
        let choices = choices(upper);
        for (other, lower) in levels.iter().enumerate() {
            let number = number * levels.len() + other;
            let version = version(&[vec![], tables(1, upper), tables(11, lower), vec![]]);
            for (chosen, (first, last)) in &choices {
                let case = || format!("world {number}: {chosen:?} of {upper:?} into {lower:?}");
                let (begin, end) = (key(*first), key(*last));
                let range = || {
                    let end = Bound::Included(end.as_bytes());
                    pick_range(&version, 1, 2, Some(begin.as_bytes()), end)
                };
                let Some(picked) = range() else {
                    assert!(chosen.is_empty(), "nothing: {}", case());
                    continue;
                };
                let expected = closed(upper, lower, chosen);
                assert_eq!(inputs(&picked), expected, "{}", case());
                let is_move = picked.is_trivial_move();
                assert_eq!(is_move, expected.1.is_empty(), "moved: {}", case());
                widened += usize::from(expected.0 != *chosen);
                moved += usize::from(is_move);
                drop(picked);
                if !number.is_multiple_of(stride(3, 1)) {
                    continue;
                }
                for (level, file) in version.tables() {
                    file.set_compacting(Some(1));
                    let of_level = match level {
                        1 => expected.0.contains(&(file.number().0 as usize - 1)),
                        _ => expected.1.contains(&(file.number().0 as usize - 11)),
                    };
                    let picked = range();
                    let is_free = picked.is_some();
                    drop(picked);
                    file.set_compacting(None);
                    assert_eq!(is_free, !of_level, "{} is taken: {}", file.number(), case());
                }
            }
        }
    }
    assert!(widened > 1000 && moved > 1000, "{widened} {moved}");
}

#[test]
fn every_range_finds_the_tables_that_have_keys_of_it() {
    for upper in sorted_levels(KEYS, 3) {
        let version = version(&[vec![], tables(1, &upper), vec![], vec![]]);
        for (first, last) in ranges() {
            let (begin, end) = (key(first), key(last));
            let found = |begin: Option<&[u8]>, end: Bound<&[u8]>| {
                let picked = pick_range(&version, 1, 2, begin, end);
                picked.map_or_else(Chosen::new, |picked| inputs(&picked).0)
            };
            let expected = |has: &dyn Fn(&Span) -> bool| {
                let chosen = (0..upper.len()).filter(|at| has(&upper[*at]));
                closed(&upper, &[], &chosen.collect()).0
            };
            let (begin, end) = (begin.as_bytes(), end.as_bytes());
            let case = format!("{first}..={last} of {upper:?}");
            let both = expected(&|span| span.meets(Span { first, last }));
            assert_eq!(found(Some(begin), Bound::Included(end)), both, "{case}");
            let from = expected(&|span| span.last >= first);
            assert_eq!(found(Some(begin), Bound::Unbounded), from, "{case}");
            let to = expected(&|span| span.first <= last);
            assert_eq!(found(None, Bound::Included(end)), to, "{case}");
            let before = expected(&|span| span.first < last);
            assert_eq!(found(None, Bound::Excluded(end)), before, "{case}");
        }
    }
}

#[test]
fn the_picker_takes_a_closed_set_around_a_table_that_overlaps_least() {
    // Level 1 is far over its size, level 2 less so.
    let options = ColumnFamilyOptions {
        max_bytes_for_level_base: 1,
        ..ColumnFamilyOptions::default()
    };
    let levels = sorted_levels(KEYS, 3);
    let mut picks = 0;
    for upper in levels.iter().filter(|upper| !upper.is_empty()) {
        for lower in &levels {
            let version = version(&[vec![], tables(1, upper), tables(11, lower), vec![]]);
            let case = || format!("{upper:?} into {lower:?}");
            let picked = pick_any(&version, &options).expect("a level is over its size");
            assert_eq!(
                (picked.start_level, picked.output_level),
                (1, 2),
                "{}",
                case()
            );
            let met = |at: &usize| lower.iter().filter(|span| span.meets(upper[*at])).count();
            let least = (0..upper.len()).map(|at| met(&at)).min();
            let mut best = (0..upper.len()).filter(|at| Some(met(at)) == least);
            let found = inputs(&picked);
            let is_closed = best.any(|at| closed(upper, lower, &Chosen::from([at])) == found);
            assert!(is_closed, "{found:?}: {}", case());
            picks += 1;
        }
    }
    assert!(picks > 10_000, "{picks}");
}

#[test]
fn level_0_moves_only_if_its_tables_are_apart_and_nothing_is_in_their_way() {
    let options = ColumnFamilyOptions {
        level0_file_num_compaction_trigger: 1,
        target_file_size_base: 100,
        ..ColumnFamilyOptions::default()
    };
    let spans = Span::all(KEYS);
    let mut level0s: Vec<Vec<Span>> = spans.iter().map(|span| vec![*span]).collect();
    for a in &spans {
        for b in &spans {
            level0s.push(vec![*a, *b]);
            level0s.extend(spans.iter().map(|c| vec![*a, *b, *c]));
        }
    }
    let lowers = sorted_levels(KEYS, 2);
    let worlds = level0s
        .iter()
        .flat_map(|upper| lowers.iter().map(move |lower| (upper, lower)));
    let (mut moved, mut merged) = (0, 0);
    for (number, (upper, lower)) in worlds.enumerate().step_by(stride(3, 1)) {
        let case = || format!("world {number}: {upper:?} into {lower:?}");
        let version = version(&[tables(1, upper), tables(11, lower), vec![], vec![]]);
        let all: Chosen = (0..upper.len()).collect();
        let expected = (all.clone(), close(lower, Chosen::new(), hull(upper, &all)));
        let is_free = expected.1.is_empty();
        let mut pairs = upper.iter().enumerate();
        let apart = pairs.all(|(at, a)| upper[at + 1..].iter().all(|b| !a.meets(*b)));
        let check = |picked: Option<Compaction>, may_move: bool| {
            let picked = picked.unwrap_or_else(|| panic!("nothing: {}", case()));
            assert_eq!(inputs(&picked), expected, "{}", case());
            let is_move = picked.is_trivial_move();
            assert_eq!(is_move, may_move, "moved: {}", case());
            is_move
        };
        let output = if lower.is_empty() { 3 } else { 1 };
        match check(pick_any(&version, &options), is_free && apart) {
            true => moved += 1,
            false => merged += 1,
        }
        let picked = pick_range(&version, 0, output, None, Bound::Unbounded);
        check(picked, is_free && upper.len() == 1);
        // Older tables may overlap newer ones beside the range: all are taken.
        let first = upper[0].first;
        let at = key(first);
        let picked = pick_range(
            &version,
            0,
            output,
            Some(at.as_bytes()),
            Bound::Included(at.as_bytes()),
        );
        check(picked, is_free && upper.len() == 1);
    }
    assert!(moved > 100 && merged > 100, "{moved} {merged}");
}
