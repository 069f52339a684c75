//! All states that a database went through, and whether a recovered state is one of them.
//!
//! After a crash a database has the effect of some prefix of its batches, with at least those that
//! were acknowledged as durable. Checking this at thousands of crash points must not cost the
//! length of the history each time. So every prefix has a fingerprint: a sum of hashes over its
//! pairs, which a batch changes only by the pairs it changes. With 128 bits an accidental match is
//! practically impossible.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use xxhash_rust::xxh3::Xxh3;

use crate::model::Model;
use crate::ops::{Op, Write};

/// Hash of one pair, or of a family's existence; fingerprints are sums of these.
fn fingerprint(parts: &[&[u8]]) -> u128 {
    let mut hasher = Xxh3::new();
    for part in parts {
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part);
    }
    hasher.digest128()
}

fn pair(family: &str, key: &[u8], value: &[u8]) -> u128 {
    fingerprint(&[family.as_bytes(), key, value])
}

fn whole(model: &Model) -> u128 {
    model
        .families()
        .fold(0, |sum, family| sum.wrapping_add(family_sum(model, family)))
}

fn family_sum(model: &Model, family: &str) -> u128 {
    let pairs = model
        .scan(family, None, None)
        .map(|(key, value)| pair(family, key, value));
    pairs.fold(fingerprint(&[family.as_bytes()]), u128::wrapping_add)
}

/// The operations that changed a database, in commit order. *Prefix n* is the state after the
/// first `n` of them.
#[derive(Clone)]
pub(crate) struct History {
    ops: Vec<Op>,
    model: Model,
    sum: u128,
    /// The prefixes with each fingerprint, ascending.
    prefixes: HashMap<u128, Vec<usize>>,
    start: Model,
}

impl History {
    /// A history that begins with `start`, for instance with what a recovery found.
    pub(crate) fn starting_at(start: Model) -> Self {
        let sum = whole(&start);
        let prefixes = HashMap::from([(sum, vec![0])]);
        History {
            ops: Vec::new(),
            model: start.clone(),
            sum,
            prefixes,
            start,
        }
    }

    /// Adds the next operation if it changes contents, and returns the new length.
    pub(crate) fn push(&mut self, op: &Op) -> usize {
        match op {
            Op::Write { writes, .. } => writes.iter().for_each(|write| self.write(write)),
            Op::CreateCf { family } | Op::DropCf { family } => {
                let family_or_none = |model: &Model| match model.family(family) {
                    Some(_) => family_sum(model, family),
                    None => 0,
                };
                self.sum = self.sum.wrapping_sub(family_or_none(&self.model));
                self.model.apply(op);
                self.sum = self.sum.wrapping_add(family_or_none(&self.model));
            }
            _ => return self.len(),
        }
        self.ops.push(op.clone());
        self.prefixes
            .entry(self.sum)
            .or_default()
            .push(self.ops.len());
        self.len()
    }

    fn write(&mut self, write: &Write) {
        let family = write.family();
        for (key, old) in touched(&self.model, write) {
            self.sum = self
                .sum
                .wrapping_sub(old.map_or(0, |old| pair(family, &key, &old)));
        }
        self.model.write(write);
        if let Write::Put { key, .. } | Write::Merge { key, .. } = write
            && let Some(new) = self.model.get(family, key)
        {
            self.sum = self.sum.wrapping_add(pair(family, key, new));
        }
    }

    /// The number of operations, which is the number of the last prefix.
    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// The state after all operations.
    pub(crate) fn last(&self) -> &Model {
        &self.model
    }

    /// The state after the first `n` operations. Cost: a replay of these.
    pub(crate) fn prefix(&self, n: usize) -> Model {
        let mut model = self.start.clone();
        self.ops.iter().take(n).for_each(|op| model.apply(op));
        model
    }

    /// The prefixes that equal `state`, ascending. Cost: a pass over `state`.
    pub(crate) fn equal_to(&self, state: &Model) -> &[usize] {
        self.prefixes.get(&whole(state)).map_or(&[], Vec::as_slice)
    }

    /// The first prefix of at least `at_least` operations that equals `state`. Cost: a pass over
    /// `state`.
    ///
    /// # Errors
    /// If `state` equals no prefix: how it differs from the nearest one. Cost: a replay.
    pub(crate) fn matches_some_prefix(
        &self,
        state: &Model,
        at_least: usize,
    ) -> Result<usize, Diff> {
        let equal = self.equal_to(state);
        let found = equal.iter().copied().find(|n| *n >= at_least);
        found.ok_or_else(|| {
            let (nearest, _) = self.nearest(state, at_least);
            let early = equal.last().copied();
            Diff::between(&self.prefix(nearest), state, nearest, early, at_least)
        })
    }

    /// The prefix of at least `at_least` operations with the fewest keys that differ from `state`.
    fn nearest(&self, state: &Model, at_least: usize) -> (usize, usize) {
        let mut model = self.prefix(at_least);
        let mut differing = differences(&model, state);
        let mut best = (at_least.min(self.len()), differing.len());
        for (n, op) in self.ops.iter().enumerate().skip(at_least) {
            match op {
                Op::Write { writes, .. } => {
                    for write in writes {
                        let family = write.family();
                        let keys = touched(&model, write);
                        model.write(write);
                        for (key, _) in keys {
                            let place = (family.to_owned(), Some(key));
                            let key = place.1.as_deref().unwrap_or_default();
                            if model.get(family, key) == state.get(family, key) {
                                differing.remove(&place);
                            } else {
                                differing.insert(place);
                            }
                        }
                    }
                }
                _ => {
                    model.apply(op);
                    differing = differences(&model, state);
                }
            }
            if differing.len() < best.1 {
                best = (n + 1, differing.len());
            }
        }
        best
    }
}

/// The keys that a write changes, with their present values.
fn touched(model: &Model, write: &Write) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let own = |value: &[u8]| value.to_owned();
    match write {
        Write::DeleteRange { family, from, to } => {
            let pairs = model.scan(family, Some(from), Some(to));
            pairs
                .map(|(key, value)| (own(key), Some(own(value))))
                .collect()
        }
        Write::Put { family, key, .. }
        | Write::Merge { family, key, .. }
        | Write::Delete { family, key }
        | Write::SingleDelete { family, key } => {
            vec![(key.clone(), model.get(family, key).map(own))]
        }
    }
}

/// A key of a family, or the family itself.
pub type Place = (String, Option<Vec<u8>>);

fn differences(a: &Model, b: &Model) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    for (one, other) in [(a, b), (b, a)] {
        for family in one.families() {
            if other.family(family).is_none() {
                places.insert((family.to_owned(), None));
            }
            let pairs = one.scan(family, None, None);
            let unequal = pairs.filter(|(key, value)| other.get(family, key) != Some(*value));
            places.extend(unequal.map(|(key, _)| (family.to_owned(), Some(key.to_owned()))));
        }
    }
    places
}

/// Why a state is not one to which the database may recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diff {
    /// The allowed prefix nearest to the state.
    pub(crate) nearest: usize,
    /// An earlier prefix that equals the state: acknowledged operations are missing, and nothing
    /// else.
    pub(crate) equals_earlier: Option<usize>,
    /// The shortest prefix that was allowed.
    pub(crate) at_least: usize,
    /// One line for each of the first differences from the nearest prefix.
    pub(crate) lines: Vec<String>,
    /// The number of differences.
    pub(crate) count: usize,
    /// The first difference: a family, and a key of it unless the family itself is missing or too
    /// much.
    pub(crate) first: Option<Place>,
}

impl Diff {
    /// Differences reported in full.
    const SHOWN: usize = 20;

    /// Difference of `found` from the only allowed state.
    pub(crate) fn from_only(expected: &Model, found: &Model) -> Self {
        Diff::between(expected, found, 0, None, 0)
    }

    fn between(
        expected: &Model,
        found: &Model,
        nearest: usize,
        equals_earlier: Option<usize>,
        at_least: usize,
    ) -> Self {
        let places = differences(expected, found);
        let line = |(family, key): &Place| {
            let Some(key) = key else {
                let there = if found.family(family).is_some() {
                    "is there"
                } else {
                    "is missing"
                };
                return format!("{family}: the family {there}");
            };
            let show = |model: &Model| match model.get(family, key) {
                Some(value) => {
                    let head: Vec<u8> = value.iter().copied().take(16).collect();
                    format!("{} bytes \"{}\"", value.len(), head.escape_ascii())
                }
                None => "nothing".to_owned(),
            };
            let key = key.escape_ascii();
            format!(
                "{family} \"{key}\": expected {}, found {}",
                show(expected),
                show(found)
            )
        };
        let lines = places.iter().take(Self::SHOWN).map(line).collect();
        Diff {
            nearest,
            equals_earlier,
            at_least,
            lines,
            count: places.len(),
            first: places.into_iter().next(),
        }
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "equals no prefix of {} or more operations",
            self.at_least
        )?;
        if let Some(earlier) = self.equals_earlier {
            writeln!(
                f,
                "equals prefix {earlier}: the operations acknowledged after it are missing"
            )?;
        }
        writeln!(
            f,
            "nearest is prefix {} with {} differences:",
            self.nearest, self.count
        )?;
        self.lines
            .iter()
            .try_for_each(|line| writeln!(f, "  {line}"))?;
        if self.count > self.lines.len() {
            writeln!(f, "  and {} more", self.count - self.lines.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DEFAULT;
    use crate::ops::{Durability, Generator, Value};

    fn push(history: &mut History, writes: impl Into<Vec<Write>>) -> usize {
        history.push(&Op::Write {
            writes: writes.into(),
            durability: Durability::Logged,
        })
    }

    fn put(key: &str, seed: u64) -> Write {
        let family = DEFAULT.to_owned();
        Write::Put {
            family,
            key: key.into(),
            value: Value { seed, len: 8 },
        }
    }

    #[test]
    fn every_prefix_is_recognised_and_no_mixture_is() {
        for seed in 0..10 {
            let ops = Generator::with_seed(seed).ops(300);
            let mut history = History::starting_at(Model::new());
            for op in &ops.0 {
                history.push(op);
            }
            for n in (0..=history.len()).step_by(17) {
                let state = history.prefix(n);
                let found = history.matches_some_prefix(&state, 0).unwrap();
                assert!(history.prefix(found) == state, "seed {seed} prefix {n}");
                assert!(
                    history.matches_some_prefix(&state, n).is_ok(),
                    "seed {seed} prefix {n}"
                );
                let mut wrong = state.clone();
                wrong.put(DEFAULT, b"never written", b"".to_vec());
                let diff = history.matches_some_prefix(&wrong, n).unwrap_err();
                assert!(diff.count >= 1, "seed {seed} prefix {n}");
            }
            assert!(
                *history.last() == history.prefix(history.len()),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        let mut history = History::starting_at(Model::new());
        assert_eq!(push(&mut history, [put("a", 1)]), 1);
        assert_eq!(push(&mut history, [put("b", 2), put("c", 3)]), 2);
        let old = history.prefix(1);
        assert_eq!(history.matches_some_prefix(&old, 1), Ok(1));
        let diff = history.matches_some_prefix(&old, 2).unwrap_err();
        assert_eq!(
            (diff.nearest, diff.equals_earlier, diff.count),
            (2, Some(1), 2)
        );
        assert!(
            diff.to_string().contains("default \"b\": expected 8 bytes"),
            "{diff}"
        );
    }

    #[test]
    fn half_a_batch_is_no_prefix() {
        let mut history = History::starting_at(Model::new());
        push(&mut history, [put("a", 1)]);
        push(&mut history, [put("b", 2), put("c", 3), put("d", 4)]);
        let mut state = history.prefix(2);
        state.delete(DEFAULT, b"c");
        let diff = history.matches_some_prefix(&state, 0).unwrap_err();
        assert_eq!(
            (diff.nearest, diff.equals_earlier, diff.count),
            (2, None, 1)
        );
    }

    #[test]
    fn an_empty_family_is_not_a_missing_one() {
        let mut history = History::starting_at(Model::new());
        history.push(&Op::CreateCf {
            family: "cf".into(),
        });
        assert_eq!(history.matches_some_prefix(&Model::new(), 0), Ok(0));
        let diff = history.matches_some_prefix(&Model::new(), 1).unwrap_err();
        assert_eq!(diff.lines, ["cf: the family is missing"]);
        history.push(&Op::DropCf {
            family: "cf".into(),
        });
        assert_eq!(history.matches_some_prefix(&Model::new(), 1), Ok(2));
    }
}
