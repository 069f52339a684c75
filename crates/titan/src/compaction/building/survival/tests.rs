//! Every short history of one key, cut by snapshots in every way, with and without something below
//! it: the rule of readers finds in the survivors the value that it found in the history, or the
//! one that a filter made of that.

use super::{Follows, Step, Survival};
use crate::compaction::tests::stride;
use crate::compaction::tests::survivors::every_snapshots;
use crate::format::SequenceNumber;
use crate::format::internal_key::ValueType;
use crate::histories::every_list;
use crate::read::resolve::{Outcome, Resolver, Step as Read};

/// Operation on a key with one sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Point(ValueType),
    /// A range deletion over the key.
    Range,
}

/// The content of a version, or of a key: the operation that gave it its base, and the operands
/// since, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    base: Option<u64>,
    operands: Vec<u64>,
    is_changed: bool,
}

#[derive(Clone, Debug)]
struct Version {
    sequence: u64,
    value_type: ValueType,
    content: Content,
}

impl Version {
    fn written(sequence: u64, value_type: ValueType) -> Self {
        let mut content = Content::default();
        match value_type {
            ValueType::Merge => content.operands.push(sequence),
            value_type if value_type.is_point_deletion() => {}
            _ => content.base = Some(sequence),
        }
        Version {
            sequence,
            value_type,
            content,
        }
    }
}

/// The effect of a filter on every value about which it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Keeps,
    Removes,
    Changes,
}

impl Filter {
    fn effect(self, version: &Version) -> Option<Version> {
        match self {
            _ if version.content.base.is_none() && version.content.operands.is_empty() => None,
            // As long as they are operands, it is not asked.
            _ if version.value_type == ValueType::Merge => None,
            Filter::Keeps => None,
            Filter::Removes => Some(Version {
                value_type: ValueType::Deletion,
                content: Content::default(),
                ..version.clone()
            }),
            Filter::Changes => Some(Version {
                value_type: ValueType::Value,
                content: Content {
                    is_changed: true,
                    ..version.content.clone()
                },
                ..version.clone()
            }),
        }
    }
}

/// The versions below the output of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// Nothing, which the job knows.
    Nothing,
    /// Nothing, which the job does not know.
    Unknown,
    /// A value of the key.
    Value,
}

/// A job over all versions of a key.
#[derive(Debug)]
struct Job<'a> {
    /// By sequence number, from 1 on.
    history: &'a [Op],
    snapshots: &'a [SequenceNumber],
    below: Below,
    combines: bool,
    filter: Option<Filter>,
}

/// The result of a job.
#[derive(Default)]
struct Done {
    /// Newest first.
    survivors: Vec<Version>,
    /// The content about which the filter was asked, and the content that it made of it.
    filtered: Option<(Content, Content)>,
    steps: Vec<Step>,
}

impl Job<'_> {
    /// The versions, newest first.
    fn versions(&self) -> Vec<Version> {
        let numbered = (1..).zip(self.history);
        let versions = numbered.filter_map(|(at, op)| match op {
            Op::Point(value_type) => Some(Version::written(at, *value_type)),
            Op::Range => None,
        });
        let mut versions: Vec<Version> = versions.collect();
        versions.reverse();
        versions
    }

    fn nothing_below(&self) -> bool {
        self.below == Below::Nothing
    }

    /// Whether a range deletion that `last` sees covers a version.
    fn covers(&self, sequence: u64, last: u64) -> bool {
        let mut newer = (1..).zip(self.history).skip(sequence as usize);
        newer.any(|(at, op)| *op == Op::Range && at <= last)
    }

    fn run(&self) -> Done {
        let snapshots = self.snapshots.to_vec();
        let mut rule = Survival::new(snapshots, self.combines, self.filter.is_some());
        let mut done = Done::default();
        let mut waiting = None;
        let versions = self.versions();
        let mut at = 0;
        rule.begin_key();
        while let Some(version) = versions.get(at) {
            let covered = |stripe: SequenceNumber| self.covers(version.sequence, stripe.0);
            let sequence = SequenceNumber(version.sequence);
            let below = || self.nothing_below();
            let mut step = rule.see(sequence, version.value_type, covered, below);
            done.steps.push(step);
            let mut survivor = version.clone();
            if step == Step::Filter {
                (survivor, step) = self.ask(version, &mut rule, &mut done);
            }
            match step {
                Step::Keep | Step::Filter => done.survivors.push(survivor),
                Step::Drop => {}
                Step::Wait => waiting = Some(version.clone()),
                Step::EndWait => {
                    if rule.end_wait(below) {
                        done.survivors.extend(waiting.take());
                    }
                    continue;
                }
                Step::Combine => {
                    at = self.combine(&versions, at, &mut rule, &mut done);
                    continue;
                }
            }
            at += 1;
        }
        if rule.end_wait(|| self.nothing_below()) {
            done.survivors.extend(waiting.take());
        }
        done
    }

    fn ask(&self, version: &Version, rule: &mut Survival, done: &mut Done) -> (Version, Step) {
        let effect = self.filter.and_then(|filter| filter.effect(version));
        if let Some(effect) = &effect {
            assert!(done.filtered.is_none(), "asked twice");
            done.filtered = Some((version.content.clone(), effect.content.clone()));
        }
        let is_changed = effect.is_some();
        let left = effect.unwrap_or_else(|| version.clone());
        let step = rule.filtered(left.value_type, is_changed, || self.nothing_below());
        (left, step)
    }

    /// Combines the run that begins at a version. Returns where the versions go on.
    fn combine(
        &self,
        versions: &[Version],
        first: usize,
        rule: &mut Survival,
        done: &mut Done,
    ) -> usize {
        let mut at = first + 1;
        let below = loop {
            let Some(version) = versions.get(at) else {
                break self.nothing_below().then_some(None);
            };
            let covered = |stripe: SequenceNumber| self.covers(version.sequence, stripe.0);
            match rule.follow(
                SequenceNumber(version.sequence),
                version.value_type,
                covered,
            ) {
                Follows::Operand => at += 1,
                Follows::Base => break Some(version.content.base),
                Follows::Nothing => break Some(None),
                Follows::Unknown => break None,
            }
        };
        let run = &versions[first..at];
        let Some(base) = below else {
            done.survivors.extend_from_slice(run);
            return at;
        };
        let value = Version {
            sequence: versions[first].sequence,
            value_type: ValueType::Value,
            content: Content {
                base,
                operands: run.iter().rev().map(|operand| operand.sequence).collect(),
                is_changed: false,
            },
        };
        let (left, step) = match rule.combined() {
            true => self.ask(&value, rule, done),
            false => (value, Step::Keep),
        };
        if step != Step::Drop {
            done.survivors.push(left);
        }
        at
    }

    /// The answer of a reader that searches versions, newest first, and those below.
    fn read(&self, versions: &[Version], reader: u64) -> Content {
        let resolver = Resolver::new(SequenceNumber(reader));
        let has_below = self.below == Below::Value;
        let below = has_below.then(|| Version::written(0, ValueType::Value));
        let mut found = Content::default();
        for version in versions.iter().chain(&below) {
            let covered = || self.covers(version.sequence, reader);
            let sequence = SequenceNumber(version.sequence);
            match resolver.see(sequence, version.value_type, covered) {
                Read::Done(Outcome::Value(_)) => {
                    let mut content = version.content.clone();
                    content.operands.append(&mut found.operands);
                    return content;
                }
                Read::Done(_) => break,
                Read::Operand => found
                    .operands
                    .splice(0..0, version.content.operands.clone())
                    .for_each(drop),
                Read::TooNew => {}
            }
        }
        found
    }

    fn check(&self, seen: &mut Vec<Step>) {
        let done = self.run();
        let versions = self.versions();
        let latest = u64::from(u32::MAX);
        for reader in self.snapshots.iter().map(|s| s.0).chain([latest]) {
            let before = self.read(&versions, reader);
            let expected = match &done.filtered {
                Some((asked, made)) if *asked == before => made.clone(),
                _ => before,
            };
            let found = self.read(&done.survivors, reader);
            assert_eq!(
                found, expected,
                "{reader} of {self:?}: {:?}",
                done.survivors
            );
        }
        // That the key was written after a snapshot is known as long as the snapshot lives.
        let newest = self.history.len() as u64;
        if self
            .snapshots
            .first()
            .is_some_and(|oldest| oldest.0 < newest)
            && matches!(self.history.last(), Some(Op::Point(_)))
        {
            let first = done.survivors.first().map(|version| version.sequence);
            assert_eq!(first, Some(newest), "{self:?}: {:?}", done.survivors);
        }
        let is_operand = |op: &Op| *op == Op::Point(ValueType::Merge);
        let all_combined = self.combines || !self.history.iter().any(is_operand);
        if self.snapshots.is_empty() && self.nothing_below() && all_combined {
            let left = self.read(&done.survivors, latest) != Content::default();
            let count = done.survivors.len();
            assert_eq!(count, usize::from(left), "{self:?}: {:?}", done.survivors);
        }
        for step in done.steps {
            if !seen.contains(&step) {
                seen.push(step);
            }
        }
    }
}

const FILTERS: [Option<Filter>; 4] = [
    None,
    Some(Filter::Keeps),
    Some(Filter::Removes),
    Some(Filter::Changes),
];

/// Runs every job over these histories, or every `stride`-th, above each of `below`. Returns the
/// number of jobs and the steps that occurred.
fn check_all(
    histories: impl Iterator<Item = Vec<Op>>,
    below: &[Below],
    stride: usize,
) -> (usize, Vec<Step>) {
    let mut jobs = 0;
    let mut seen = Vec::new();
    let cut = histories.flat_map(|history| {
        every_snapshots(history.len()).map(move |snapshots| (history.clone(), snapshots))
    });
    for (history, snapshots) in cut.step_by(stride) {
        for number in 0..below.len() * FILTERS.len() * 2 {
            let job = Job {
                history: &history,
                snapshots: &snapshots,
                below: below[number % below.len()],
                filter: FILTERS[number / below.len() % FILTERS.len()],
                combines: number / below.len() / FILTERS.len() == 1,
            };
            job.check(&mut seen);
            jobs += 1;
        }
    }
    (jobs, seen)
}

#[test]
fn readers_find_in_the_survivors_what_they_found_before() {
    let points = [
        ValueType::Value,
        ValueType::BlobIndex,
        ValueType::WideColumnEntity,
        ValueType::Deletion,
        ValueType::Merge,
    ];
    let mut menu = points.map(Op::Point).to_vec();
    menu.push(Op::Range);
    let below = [Below::Nothing, Below::Unknown, Below::Value];
    let mut jobs = 0;
    for len in 1..=4 {
        let stride = if len == 4 { stride(3, 1) } else { 1 };
        let (run, seen) = check_all(every_list(&menu, len), &below, stride);
        jobs += run;
        for step in [Step::Keep, Step::Combine, Step::Filter] {
            assert!(seen.contains(&step), "{step:?} of {len}");
        }
        assert!(seen.contains(&Step::Drop) || len == 1);
    }
    assert!(jobs > 150_000, "{jobs}");
}

/// A value and its single deletion in turn: all else is not allowed for such a key.
#[test]
fn single_deletions_wait_for_their_values_and_meet_no_others() {
    let values = [ValueType::Value, ValueType::BlobIndex].map(Op::Point);
    for len in 1..=6_u32 {
        for first_is_value in [true, false] {
            let below: &[Below] = match first_is_value {
                true => &[Below::Nothing, Below::Unknown],
                false => &[Below::Value],
            };
            let lists = every_list(&values, len.div_ceil(2)).map(|values| {
                let mut values = values.into_iter();
                let ops = (0..len).map(|at| match at.is_multiple_of(2) == first_is_value {
                    true => values.next().unwrap(),
                    false => Op::Point(ValueType::SingleDeletion),
                });
                ops.collect()
            });
            let (jobs, seen) = check_all(lists, below, 1);
            assert!(jobs > 0);
            assert!(seen.contains(&Step::Wait) || (first_is_value && len == 1));
        }
    }
}

#[test]
fn a_single_deletion_that_has_not_met_its_value_ends_its_wait() {
    let see = |rule: &mut Survival, sequence, value_type| {
        rule.see(SequenceNumber(sequence), value_type, |_| false, || true)
    };
    // A snapshot is between it and the value.
    let mut rule = Survival::new(vec![SequenceNumber(1)], false, false);
    rule.begin_key();
    // Not the newest version, which would be kept as evidence.
    assert_eq!(see(&mut rule, 3, ValueType::Value), Step::Keep);
    assert_eq!(see(&mut rule, 2, ValueType::SingleDeletion), Step::Wait);
    assert_eq!(see(&mut rule, 1, ValueType::Value), Step::EndWait);
    assert!(rule.end_wait(|| true), "the snapshot does not see it");
    assert_eq!(see(&mut rule, 1, ValueType::Value), Step::Keep);
    assert!(!rule.end_wait(|| true), "none waits");
    // Every snapshot sees it, and something or nothing is below.
    for nothing_below in [false, true] {
        let mut rule = Survival::new(Vec::new(), false, false);
        rule.begin_key();
        assert_eq!(see(&mut rule, 3, ValueType::SingleDeletion), Step::Wait);
        assert_eq!(rule.end_wait(|| nothing_below), !nothing_below);
    }
}
