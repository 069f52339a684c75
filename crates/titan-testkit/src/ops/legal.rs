//! Which operations have a defined outcome, given the preceding ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Op, Write};
use crate::model::DEFAULT;

/// Way in which a key has been written so far. A single deletion is defined only for keys that see
/// neither another kind of deletion nor an overwrite: a compaction that does not reach the older
/// entries of a key may drop the entry that shadowed them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Put once.
    Open,
    /// Overwritten, merged, or deleted normally: must not be single-deleted.
    Plain,
    /// Single-deleted: must not be overwritten, nor deleted in another way.
    Single,
}

#[derive(Clone, Copy)]
struct Key {
    present: bool,
    habit: Habit,
}

/// The state of the preceding operations that decides whether the next one is legal.
#[derive(Clone)]
pub(super) struct Legality {
    /// The keys written so far, by family.
    keys: BTreeMap<String, BTreeMap<Vec<u8>, Key>>,
    /// Open snapshots, with the families that existed when they were taken.
    snapshots: BTreeMap<u32, BTreeSet<String>>,
    /// Open iterators.
    iterators: BTreeSet<u32>,
    closed: bool,
}

impl Legality {
    /// The state before the first operation on a new database.
    pub(super) fn new() -> Self {
        Legality {
            keys: BTreeMap::from([(DEFAULT.to_owned(), BTreeMap::new())]),
            snapshots: BTreeMap::new(),
            iterators: BTreeSet::new(),
            closed: false,
        }
    }

    pub(super) fn families(&self) -> impl ExactSizeIterator<Item = &String> {
        self.keys.keys()
    }

    pub(super) fn snapshots(&self) -> impl ExactSizeIterator<Item = u32> {
        self.snapshots.keys().copied()
    }

    pub(super) fn iterators(&self) -> impl ExactSizeIterator<Item = u32> {
        self.iterators.iter().copied()
    }

    /// The keys that may be single-deleted.
    pub(super) fn put_once(&self, family: &str) -> impl Iterator<Item = &Vec<u8>> {
        let keys = self.keys.get(family).into_iter().flatten();
        keys.filter(|(_, key)| key.present && key.habit != Habit::Plain)
            .map(|(key, _)| key)
    }

    /// Whether a key has a value.
    pub(super) fn is_present(&self, family: &str, key: &[u8]) -> bool {
        let key = self.keys.get(family).and_then(|keys| keys.get(key));
        key.is_some_and(|key| key.present)
    }

    /// Records a write if it is legal, and returns whether it is.
    pub(super) fn write(&mut self, write: &Write) -> bool {
        let Some(keys) = self.keys.get_mut(write.family()) else {
            return false;
        };
        match write {
            Write::Put { key, .. } => match keys.get_mut(key) {
                None => {
                    let (present, habit) = (true, Habit::Open);
                    keys.insert(key.clone(), Key { present, habit });
                }
                Some(key) if key.habit == Habit::Single => {
                    return !std::mem::replace(&mut key.present, true);
                }
                Some(key) => {
                    let (present, habit) = (true, Habit::Plain);
                    *key = Key { present, habit };
                }
            },
            Write::Merge { key, .. } => {
                if keys.get(key).is_some_and(|key| key.habit == Habit::Single) {
                    return false;
                }
                let (present, habit) = (true, Habit::Plain);
                keys.insert(key.clone(), Key { present, habit });
            }
            Write::Delete { key, .. } => {
                if keys.get(key).is_some_and(|key| key.habit == Habit::Single) {
                    return false;
                }
                let (present, habit) = (false, Habit::Plain);
                keys.insert(key.clone(), Key { present, habit });
            }
            Write::SingleDelete { key, .. } => match keys.get_mut(key) {
                Some(key) if key.present && key.habit != Habit::Plain => {
                    let (present, habit) = (false, Habit::Single);
                    *key = Key { present, habit };
                }
                _ => return false,
            },
            Write::DeleteRange { from, to, .. } => {
                if from >= to {
                    return from == to;
                }
                let range = || (Bound::Included(from), Bound::Excluded(to));
                let mut covered = keys.range::<Vec<u8>, _>(range());
                if covered.any(|(_, key)| key.habit == Habit::Single) {
                    return false;
                }
                let (present, habit) = (false, Habit::Plain);
                let covered = keys.range_mut::<Vec<u8>, _>(range());
                covered.for_each(|(_, key)| *key = Key { present, habit });
            }
        }
        true
    }

    /// The operation without its illegal parts, if anything is left; records it.
    pub(super) fn admit(&mut self, op: &Op) -> Option<Op> {
        if self.closed && *op != Op::Reopen {
            return None;
        }
        let exists = |family: &String, at: &Option<u32>| match at {
            // A family dropped since is not read any more, even if the snapshot still has it.
            Some(id) => {
                self.keys.contains_key(family)
                    && self
                        .snapshots
                        .get(id)
                        .is_some_and(|families| families.contains(family))
            }
            None => self.keys.contains_key(family),
        };
        let legal = match op {
            Op::Write { writes, durability } => {
                let writes: Vec<Write> = writes
                    .iter()
                    .filter(|write| self.write(write))
                    .cloned()
                    .collect();
                return (!writes.is_empty()).then_some(Op::Write {
                    writes,
                    durability: *durability,
                });
            }
            Op::Get { family, at, .. } | Op::Scan { family, at, .. } => exists(family, at),
            Op::MultiGet { family, keys, at } => !keys.is_empty() && exists(family, at),
            Op::Iter { id, family, at, .. } => exists(family, at) && self.iterators.insert(*id),
            Op::Move { id, .. } => self.iterators.contains(id),
            Op::DropIter { id } => self.iterators.remove(id),
            Op::Flush { family } | Op::Compact { family, .. } | Op::Collect { family } => {
                exists(family, &None)
            }
            Op::Checkpoint | Op::FlushAll | Op::SyncWal => true,
            Op::Snapshot { id } => {
                let families = self.keys.keys().cloned().collect();
                !self.snapshots.contains_key(id) && self.snapshots.insert(*id, families).is_none()
            }
            Op::DropSnapshot { id } => self.snapshots.remove(id).is_some(),
            Op::Reopen | Op::Close => {
                self.snapshots.clear();
                self.iterators.clear();
                self.closed = *op == Op::Close;
                true
            }
            Op::CreateCf { family } => {
                let new = !self.keys.contains_key(family);
                self.keys.entry(family.clone()).or_default();
                new
            }
            Op::DropCf { family } => {
                // A family created again under this name is a different one: snapshots do not see
                // it.
                for families in self.snapshots.values_mut() {
                    families.remove(family);
                }
                family != DEFAULT && self.keys.remove(family).is_some()
            }
        };
        legal.then(|| op.clone())
    }
}

/// The operations without those whose outcome is undefined at their position: a single deletion
/// of a key that was ever overwritten or deleted otherwise, or the other way round; a range that
/// ends before it begins; a family, snapshot or iterator that does not exist. Removing operations
/// from a legal list can make others illegal.
pub fn legal(ops: &[Op]) -> Vec<Op> {
    let mut legality = Legality::new();
    ops.iter().filter_map(|op| legality.admit(op)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Ops;

    #[test]
    fn only_what_is_defined_stays() {
        let text = "\
put default a 1*1
put default b 1*1
put default b 2*1
batch [single-delete default a; single-delete default b; delete default c]
single-delete default a
delete-range default a z
delete-range default z a
put default b 3*1
single-delete default b
put default d 1*1
single-delete default d
put default d 1*1
put default d 1*1
delete default d
delete-range default a z
delete-range default a d
single-delete default d
single-delete default d
put cf a 1*1
create-cf cf
create-cf cf
snapshot 1
snapshot 1
get cf a @1
drop-cf cf
create-cf cf
get cf a @1
get default a @1
scan default - - @2
iter 1 default - -
iter 1 default - -
iter 2 none - -
next 1 2
next 2 1
drop-iter 1
drop-iter 1
iter 3 default - -
reopen
next 3 1
drop-snapshot 1
drop-cf default
close
flush-all
close
reopen
sync-wal
";
        let expected = "\
put default a 1*1
put default b 1*1
put default b 2*1
batch [single-delete default a; delete default c]
put default b 3*1
put default d 1*1
single-delete default d
put default d 1*1
single-delete default d
create-cf cf
snapshot 1
get cf a @1
drop-cf cf
create-cf cf
get default a @1
iter 1 default - -
next 1 2
drop-iter 1
iter 3 default - -
reopen
close
reopen
sync-wal
";
        let found = legal(&Ops::parse(text).unwrap().0);
        assert_eq!(Ops(found.clone()).to_string(), expected);
        assert_eq!(legal(&found), found);
    }
}
