//! The policy: each pass of maintenance chooses ranges to load and to drop, by savings and costs.
//!
//! The unit is a step of the engine's iterator ([`Costs`](crate::segments::costs::Costs)).
//!
//! - A range is loaded after scans wasted many steps in it for two passes
//!   ([`ColdScans`](crate::segments::cold_scans::ColdScans)). A point read counts as some steps
//!   ([`ColdPoints`](crate::segments::cold_points::ColdPoints)).
//! - A loaded range reaches to the next key of the engine, so that appended keys are held too.
//! - A segment is dropped after its writes cost more than its reads saved for ten passes. A range
//!   that was dropped so, or did not fit, is not loaded for the next 60 passes. This prevents
//!   thrashing.
//! - A load begins while a quarter of the memory is free, and stops before memory is full.
//!   Otherwise the segments of least worth are dropped first, if the range wastes twice the steps
//!   that they save.
//! - One load runs at a time, some ten thousand entries a pass. Ranges of the hot set come first.
//! - Pinned segments are never dropped.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use titan::ReadOptions;
use titan_mvcc::codec;

use crate::content::keys::EncodedRange;
use crate::error::{Error, Result};
use crate::maintenance::attached::Attached;
use crate::maintenance::hot_set::{self, Hot, HotSet, HotSetFile};
use crate::maintenance::segment_load::{Kind, Progress, SegmentLoad};
use crate::segments::cold_points::PointRange;
use crate::segments::cold_scans::{Candidate, WORTH, overlap};
use crate::segments::costs::LEAST_SAVED;
use crate::segments::directory;
use crate::segments::segment::Segment;
use crate::stats::Dropped;

/// Passes in a row with a loss after which a segment is dropped.
const LOSSES: u32 = 10;
/// Passes for which a dropped or too large range is not loaded.
const BARRED: u64 = 60;
/// Passes between two writes of the hot set.
const REMEMBERED: u64 = 60;
/// Steps of a load in a pass.
const STEPS: usize = 64;

/// The policy of a cache.
pub(crate) struct Policy {
    file: HotSetFile,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    passes: u64,
    /// Ranges of the hot set that are not loaded yet.
    remembered: VecDeque<Hot>,
    /// Ranges that are worth holding.
    candidates: Vec<Candidate>,
    loading: Option<(SegmentLoad, Hot)>,
    /// Ranges that are not loaded, each up to a pass.
    barred: Vec<(EncodedRange, u64)>,
    /// The content of the file.
    written: HotSet,
}

impl Policy {
    pub(crate) fn new(file: HotSetFile) -> Self {
        let written = file.read();
        let mut remembered = written.ranges.clone();
        // What was worth most comes first.
        remembered.sort_by_key(|hot| std::cmp::Reverse((hot.is_pinned, hot.worth)));
        let state = State {
            remembered: remembered.into(),
            written,
            ..State::default()
        };
        Policy {
            file,
            state: Mutex::new(state),
        }
    }

    /// Drops, chooses, and continues loads.
    pub(crate) fn decide(&self, attached: &Attached) {
        let mut state = self.state.lock();
        state.passes += 1;
        state.drop_losses(attached);
        add_cold_points(attached);
        for wanted in attached.shared.cold.scans.end_pass() {
            state.add_candidate(attached, wanted);
        }
        #[cfg(test)]
        attached.shared.may_panic("load");
        state.load(attached);
        if state.passes.is_multiple_of(REMEMBERED) {
            self.write(&mut state, attached);
        }
    }

    /// Whether a range overlaps one that was dropped, or did not fit, a short while ago.
    pub(crate) fn is_barred(&self, range: &EncodedRange) -> bool {
        self.state.lock().is_barred(range)
    }

    /// Writes the hot set, if it has changed.
    pub(crate) fn remember(&self, attached: &Attached) {
        let mut state = self.state.lock();
        self.write(&mut state, attached);
        state.loading = None;
    }

    /// Writes new faults to the hot set.
    pub(crate) fn note(&self, attached: &Attached) {
        let mut state = self.state.lock();
        if state.written.faults != attached.shared.faults.report() {
            self.write(&mut state, attached);
        }
    }

    fn write(&self, state: &mut State, attached: &Attached) {
        let faults = attached.shared.faults.report();
        // A cache that is off holds nothing, and that is not what is to be remembered.
        let ranges = match faults.is_off {
            true => state.written.ranges.clone(),
            false => state.hot(attached),
        };
        let hot_set = HotSet { ranges, faults };
        if hot_set != state.written && self.file.write(&hot_set).is_ok() {
            state.written = hot_set;
        }
    }
}

impl State {
    /// The ranges to remember.
    fn hot(&self, attached: &Attached) -> Vec<Hot> {
        let mut hot = hot_set::held(&attached.shared.directory.load());
        // What is being loaded, and what was to be loaded and was not yet, is as hot as before.
        let is_free =
            |hot: &[Hot], range: &EncodedRange| !hot.iter().any(|h| overlap(&h.range, range));
        let loading = self.loading.iter().map(|(_, hot)| hot);
        for waiting in loading.chain(&self.remembered) {
            if is_free(&hot, &waiting.range) {
                hot.push(waiting.clone());
            }
        }
        hot.sort();
        hot
    }

    /// Adds the parts of a range that are not held to the candidates.
    fn add_candidate(&mut self, attached: &Attached, wanted: Candidate) {
        let parts = not_held(attached, &wanted.range);
        let rate = wanted.rate / parts.len().max(1) as u64;
        for range in parts {
            let mut part = wanted.clone();
            (part.range, part.rate) = (range, rate);
            self.candidates.push(part);
        }
    }

    fn drop_losses(&mut self, attached: &Attached) {
        let shared = &attached.shared;
        let mut gone = HashSet::new();
        for segment in shared.directory.load().iter() {
            let balance = segment.costs.end_pass();
            let counters = &shared.counters;
            counters.saved.fetch_add(balance.saved, Ordering::Relaxed);
            counters.writes.fetch_add(balance.writes, Ordering::Relaxed);
            if balance.losses >= LOSSES && !segment.is_pinned() && !mutant!(losses_are_held) {
                gone.insert(segment.generation);
                self.bar(segment.range());
            }
        }
        if !gone.is_empty() {
            let is_gone = |segment: &Segment| gone.contains(&segment.generation);
            shared.drop_segments(Dropped::NotWorth, is_gone);
        }
    }

    fn bar(&mut self, range: EncodedRange) {
        self.barred.push((range, self.passes + BARRED));
    }

    fn is_barred(&self, range: &EncodedRange) -> bool {
        let is_barred = |until: u64| until > self.passes;
        let mut barred = self.barred.iter().filter(|(_, until)| is_barred(*until));
        barred.any(|(other, _)| overlap(other, range))
    }

    /// Continues the load, or begins one.
    fn load(&mut self, attached: &Attached) {
        let passes = self.passes;
        self.barred.retain(|(_, until)| *until > passes);
        let budget = &attached.shared.budget;
        for _ in 0..STEPS {
            let Some((mut load, hot)) = self.loading.take().or_else(|| self.begin(attached)) else {
                return;
            };
            let is_full = budget.used() > budget.limit() / 8 * 7;
            match load.step() {
                Ok(Progress::Done) => {}
                Ok(Progress::Going) if !is_full => self.loading = Some((load, hot)),
                // The program loads it.
                Err(Error::Abandoned {
                    why: Dropped::TakenOver,
                }) => {}
                // It does not fit, or cannot be read. Dropping it gives up.
                Ok(Progress::Going) | Err(_) => self.bar(hot.range),
            }
        }
    }

    fn begin(&mut self, attached: &Attached) -> Option<(SegmentLoad, Hot)> {
        let counters = &attached.shared.counters;
        while has_room(attached)
            && let Some(hot) = self.remembered.pop_front()
        {
            let kind = [Kind::Range, Kind::Pinned][usize::from(hot.is_pinned)];
            match SegmentLoad::begin(attached, hot.range.clone(), kind) {
                Ok(load) => {
                    counters.remembered.fetch_add(1, Ordering::Relaxed);
                    return Some((load, hot));
                }
                // The rest of it is as hot as before.
                Err(Error::Overlaps) => {
                    for range in not_held(attached, &hot.range).into_iter().rev() {
                        let hot = Hot {
                            range,
                            ..hot.clone()
                        };
                        self.remembered.push_front(hot);
                    }
                }
                Err(_) => {}
            }
        }
        // Those that are wanted first are first.
        let wanted = std::mem::take(&mut self.candidates);
        let mut wanted = wanted.into_iter();
        let mut begun = None;
        for mut one in wanted.by_ref() {
            let is_barred = self.is_barred(&one.range) && !mutant!(dropped_is_loaded_at_once);
            if is_barred || !(has_room(attached) || make_room(attached, one.rate)) {
                continue;
            }
            if !mutant!(appended_is_not_held) {
                one.range = up_to_next_key(attached, one.range);
            }
            // Where it overlaps what is held by now, reads of the rest tell of the rest.
            if let Ok(load) = SegmentLoad::begin(attached, one.range.clone(), Kind::Range) {
                load.expect(one.each);
                counters.chosen.fetch_add(1, Ordering::Relaxed);
                let hot = Hot {
                    range: one.range,
                    is_pinned: false,
                    bytes: 0,
                    worth: i64::try_from(one.rate).unwrap_or(i64::MAX),
                };
                begun = Some((load, hot));
                break;
            }
        }
        self.candidates = wanted.collect();
        begun
    }
}

/// Counts point reads of the engine as wasted steps of their ranges.
fn add_cold_points(attached: &Attached) {
    let size = |a: &[u8], b: &[u8]| attached.family.approximate_size(a, b).unwrap_or(u64::MAX);
    // Of less, no range would be worth holding.
    let least = WORTH / LEAST_SAVED / 4;
    for PointRange { range, reads } in attached.shared.cold.points.take(least, size) {
        let (lower, upper) = (&range.0, range.1.as_deref());
        let scans = &attached.shared.cold.scans;
        scans.add(lower, upper, reads * LEAST_SAVED, reads);
    }
}

/// The range up to the next key of the engine or the next segment; unchanged if that cannot be
/// read. Cost: a seek.
fn up_to_next_key(attached: &Attached, (lower, upper): EncodedRange) -> EncodedRange {
    let Some(upper) = upper else {
        return (lower, None);
    };
    let list = attached.shared.directory.load();
    let segment = list.get(list.first_with(&upper));
    let segment = segment.map(|segment| segment.lower.to_vec());
    let end = match segment {
        Some(begin) if begin <= upper => Some(upper),
        segment => match first_key(attached, &upper, segment.clone()) {
            Ok(key) => key.or(segment),
            Err(_) => Some(upper),
        },
    };
    (lower, end)
}

/// The first encoded key of the engine from `lower` to before `upper`, if there is one.
fn first_key(attached: &Attached, lower: &[u8], upper: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    let mut cursor = attached.family.iter(&ReadOptions {
        lower_bound: Some(lower.to_vec()),
        upper_bound: upper,
        ..ReadOptions::default()
    })?;
    cursor.seek_to_first()?;
    match cursor.valid() {
        true => Ok(Some(codec::decode(cursor.key())?.encoded.to_vec())),
        false => Ok(None),
    }
}

/// The parts of a range that no segment covers.
fn not_held(attached: &Attached, range: &EncodedRange) -> Vec<EncodedRange> {
    directory::not_held(&attached.shared.directory.load(), range)
}

fn has_room(attached: &Attached) -> bool {
    let budget = &attached.shared.budget;
    budget.used() < budget.limit() / 4 * 3
}

/// Drops an eighth of the memory, least worth first, if a range that wastes `rate` steps a pass is
/// worth twice as much as the dropped segments together.
fn make_room(attached: &Attached, rate: u64) -> bool {
    let shared = &attached.shared;
    let mut segments: Vec<_> = shared.directory.load().to_vec();
    segments.retain(|segment| !segment.is_pinned() && segment.root().is_some());
    segments.sort_by_key(|segment| segment.costs.worth());
    let (mut bytes, mut worth) = (0, 0);
    let mut gone = HashSet::new();
    for segment in segments {
        if bytes >= shared.budget.limit() / 8 {
            break;
        }
        bytes += segment.root().as_ref().map_or(0, |root| root.bytes);
        worth += segment.costs.worth().max(0);
        gone.insert(segment.generation);
    }
    if gone.is_empty() || worth.saturating_mul(2) > i64::try_from(rate).unwrap_or(i64::MAX) {
        return false;
    }
    let is_gone = |segment: &Segment| gone.contains(&segment.generation);
    shared.drop_segments(Dropped::LessWorth, is_gone);
    has_room(attached)
}
