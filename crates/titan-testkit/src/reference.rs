//! The expected outcome of every operation: the [`Model`] with open snapshots and iterators.
//!
//! An [`Outcome`] represents a value by its length and a hash, so that the outcomes of a long list
//! can be kept, compared and sent as text. The text of an outcome is simple enough for a program in
//! another language to print for the same operation.

use std::collections::BTreeMap;
use std::fmt;

use titan::ErrorKind;

use crate::model::Model;
use crate::ops::{Bounds, Key, Op, Step};

/// The digest of a value: values with equal digests are equal, for the purposes of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    len: usize,
    hash: u64,
}

impl Sum {
    /// The digest of a value. The hash takes the value's words of 8 bytes, little-endian, the last
    /// one padded with zeros: `hash = (hash ^ word) * 0x9e3779b97f4a7c15; hash ^= hash >> 32`,
    /// starting from 0.
    pub fn of(value: &[u8]) -> Sum {
        let mut hash = 0u64;
        let mut add = |word: [u8; 8]| {
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 32;
        };
        let (words, rest) = value.as_chunks::<8>();
        words.iter().copied().for_each(&mut add);
        if !rest.is_empty() {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            add(word);
        }
        let len = value.len();
        Sum { len, hash }
    }
}

/// `length:hash`.
impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}", self.len, self.hash)
    }
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It succeeded; forbidden operations were tried after it and failed with these errors.
    Refused(Vec<ErrorKind>),
    /// A value for each requested key.
    Values(Vec<Option<Sum>>),
    /// The entries found, in the order in which they were found.
    Pairs(Vec<(Vec<u8>, Sum)>),
}

impl Outcome {
    /// The outcome if nothing forbidden is tried.
    pub fn without_refusals(self) -> Outcome {
        match self {
            Outcome::Refused(_) => Outcome::Done,
            outcome => outcome,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => f.write_str("ok"),
            Outcome::Refused(kinds) => {
                f.write_str("ok")?;
                let mut kinds = kinds.iter();
                kinds.try_for_each(|kind| write!(f, ", then {}", kind.name()))
            }
            Outcome::Values(values) => {
                f.write_str("values")?;
                values.iter().try_for_each(|value| match value {
                    Some(sum) => write!(f, " {sum}"),
                    None => f.write_str(" none"),
                })
            }
            Outcome::Pairs(pairs) => {
                f.write_str("pairs")?;
                let mut pairs = pairs.iter();
                pairs.try_for_each(|(key, sum)| write!(f, " {}={sum}", Key(key)))
            }
        }
    }
}

/// An iterator of the model.
struct Cursor {
    sees: Model,
    family: String,
    /// Without a prefix.
    bounds: Bounds,
    at: Option<Vec<u8>>,
}

impl Cursor {
    /// The first or last `n` entries from `from` up to but not including `to` that are within the
    /// bounds.
    fn entries(
        &self,
        from: Option<Vec<u8>>,
        to: Option<Vec<u8>>,
        backward: bool,
        n: usize,
    ) -> Vec<(Vec<u8>, Sum)> {
        let from = self.bounds.from.as_ref().max(from.as_ref());
        let to = self.bounds.to.iter().chain(to.as_ref()).min();
        let (from, to) = (from.map(Vec::as_slice), to.map(Vec::as_slice));
        pairs(&self.sees, &self.family, from, to, backward, n)
    }

    fn step(&mut self, step: &Step) -> Outcome {
        // The smallest key after a key.
        let behind = |key: &[u8]| Some([key, &[0]].concat());
        let n = match step {
            Step::Next(n) | Step::Prev(n) => *n as usize,
            _ => 1,
        };
        let found = match (step, &self.at) {
            (Step::First, _) => self.entries(None, None, false, n),
            (Step::Last, _) => self.entries(None, None, true, n),
            (Step::Seek(key), _) => self.entries(Some(key.clone()), None, false, n),
            (Step::SeekForPrev(key), _) => self.entries(None, behind(key), true, n),
            (Step::Next(_), Some(at)) => self.entries(behind(at), None, false, n),
            (Step::Prev(_), Some(at)) => self.entries(None, Some(at.clone()), true, n),
            (Step::Next(_) | Step::Prev(_), None) => Vec::new(),
        };
        // One step past the end leads nowhere.
        let stands = found.get(n.wrapping_sub(1));
        self.at = stands.map(|(key, _)| key.clone());
        Outcome::Pairs(found)
    }
}

fn pairs(
    model: &Model,
    family: &str,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    backward: bool,
    n: usize,
) -> Vec<(Vec<u8>, Sum)> {
    let found = model.scan(family, from, to);
    let pair = |(key, value): (&[u8], &[u8])| (key.to_vec(), Sum::of(value));
    match backward {
        true => found.rev().take(n).map(pair).collect(),
        false => found.take(n).map(pair).collect(),
    }
}

/// The snapshots and iterators of a database as they should be.
#[derive(Default)]
pub struct Views {
    snapshots: BTreeMap<u32, Model>,
    iterators: BTreeMap<u32, Cursor>,
}

/// A database as it should be.
#[derive(Default)]
pub struct Reference {
    model: Model,
    views: Views,
}

impl Reference {
    /// An empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its current contents.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Performs a legal operation.
    pub fn apply(&mut self, op: &Op) -> Outcome {
        self.model.apply(op);
        self.views.apply(&self.model, op)
    }
}

impl Views {
    fn sees<'a>(&'a self, now: &'a Model, at: Option<u32>) -> &'a Model {
        let snapshot = at.and_then(|id| self.snapshots.get(&id));
        snapshot.unwrap_or(now)
    }

    /// The families that a snapshot has and that still exist.
    pub fn families(&self, id: u32) -> Vec<String> {
        let families = self
            .snapshots
            .get(&id)
            .into_iter()
            .flat_map(Model::families);
        families.map(str::to_owned).collect()
    }

    /// The outcome of a legal operation that leaves the contents `now`.
    pub fn apply(&mut self, now: &Model, op: &Op) -> Outcome {
        let sum = |value: Option<&[u8]>| value.map(Sum::of);
        match op {
            Op::Get { family, key, at } => {
                return Outcome::Values(vec![sum(self.sees(now, *at).get(family, key))]);
            }
            Op::MultiGet { family, keys, at } => {
                let sees = self.sees(now, *at);
                let values = keys.iter().map(|key| sum(sees.get(family, key)));
                return Outcome::Values(values.collect());
            }
            Op::Scan {
                family,
                from,
                to,
                reverse,
                at,
            } => {
                let (from, to) = (from.as_deref(), to.as_deref());
                let sees = self.sees(now, *at);
                return Outcome::Pairs(pairs(sees, family, from, to, *reverse, usize::MAX));
            }
            Op::Move { id, step } => {
                let cursor = self.iterators.get_mut(id);
                return cursor.map_or(Outcome::Done, |cursor| cursor.step(step));
            }
            Op::Iter {
                id,
                family,
                bounds,
                at,
            } => {
                let cursor = Cursor {
                    sees: self.sees(now, *at).clone(),
                    family: family.clone(),
                    bounds: bounds.as_range(),
                    at: None,
                };
                self.iterators.insert(*id, cursor);
            }
            Op::DropIter { id } => drop(self.iterators.remove(id)),
            Op::Snapshot { id } => drop(self.snapshots.insert(*id, now.clone())),
            Op::DropSnapshot { id } => drop(self.snapshots.remove(id)),
            Op::Close => {
                self.snapshots.clear();
                self.iterators.clear();
            }
            Op::Reopen => {
                self.snapshots.clear();
                self.iterators.clear();
                // While it was open, opening it a second time failed.
                return Outcome::Refused(vec![ErrorKind::Locked]);
            }
            Op::CreateCf { .. } => {
                // Creating it a second time failed.
                return Outcome::Refused(vec![ErrorKind::AlreadyExists]);
            }
            Op::DropCf { family } => {
                // A family that is created again under this name is another one.
                let snapshots = self.snapshots.values_mut();
                snapshots.for_each(|model| model.drop_family(family));
                // Reading, writing and dropping it again by its old handle failed.
                return Outcome::Refused(vec![ErrorKind::InvalidArgument; 3]);
            }
            Op::Write { .. }
            | Op::Flush { .. }
            | Op::Compact { .. }
            | Op::Collect { .. }
            | Op::Checkpoint
            | Op::FlushAll
            | Op::SyncWal => {}
        }
        Outcome::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Ops;

    #[test]
    fn outcomes_as_text() {
        let text = "\
put default a 1*8
put default b 2*0
put default c 3*9
snapshot 1
delete default b
get default a
get default b
multi-get default a b c @1
scan default - - reverse
iter 1 default - c @1
delete default a
next 1 1
first 1
next 1 5
last 1
prev 1 1
prev 1 1
next 1 1
seek 1 aa
seek-for-prev 1 z
seek 1 c
drop-cf cf
";
        let expected = "\
ok
ok
ok
ok
ok
values 8:9e6f5def6e864a3a
values none
values 8:9e6f5def6e864a3a 0:0 9:208eae444c824451
pairs c=9:208eae444c824451 a=8:9e6f5def6e864a3a
ok
ok
pairs
pairs a=8:9e6f5def6e864a3a
pairs b=0:0
pairs b=0:0
pairs a=8:9e6f5def6e864a3a
pairs
pairs
pairs b=0:0
pairs b=0:0
pairs
ok, then invalid argument, then invalid argument, then invalid argument";
        let mut reference = Reference::new();
        let ops = Ops::parse(text).unwrap().0;
        let found: Vec<String> = ops
            .iter()
            .map(|op| reference.apply(op).to_string())
            .collect();
        assert_eq!(found.join("\n"), expected);
    }
}
