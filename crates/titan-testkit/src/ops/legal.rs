//! Which operations have a defined outcome, given those before.

use std::collections::{BTreeMap, BTreeSet};

use super::{Op, Write};
use crate::model::DEFAULT;

/// What must be known of the operations so far to judge the next one.
#[derive(Clone)]
pub(super) struct Legality {
    /// By family and key: how often it was put since it was last deleted.
    puts: BTreeMap<String, BTreeMap<Vec<u8>, u32>>,
    /// Open snapshots, with the families that existed when they were taken.
    snapshots: BTreeMap<u32, BTreeSet<String>>,
}

impl Legality {
    /// Before the first operation on a new database.
    pub(super) fn new() -> Self {
        Legality {
            puts: BTreeMap::from([(DEFAULT.to_owned(), BTreeMap::new())]),
            snapshots: BTreeMap::new(),
        }
    }

    pub(super) fn families(&self) -> impl ExactSizeIterator<Item = &String> {
        self.puts.keys()
    }

    pub(super) fn snapshots(&self) -> impl ExactSizeIterator<Item = u32> {
        self.snapshots.keys().copied()
    }

    /// The keys that may be single-deleted.
    pub(super) fn put_once(&self, family: &str) -> Vec<&Vec<u8>> {
        let keys = self.puts.get(family).into_iter().flatten();
        keys.filter(|(_, puts)| **puts == 1)
            .map(|(key, _)| key)
            .collect()
    }

    /// Takes note of a write if it is legal, and says whether it is.
    pub(super) fn write(&mut self, write: &Write) -> bool {
        let Some(puts) = self.puts.get_mut(write.family()) else {
            return false;
        };
        match write {
            Write::Put { key, .. } => *puts.entry(key.clone()).or_default() += 1,
            Write::Delete { key, .. } => drop(puts.remove(key)),
            Write::SingleDelete { key, .. } => match puts.get(key) {
                Some(1) => drop(puts.remove(key)),
                _ => return false,
            },
            Write::DeleteRange { from, to, .. } => {
                puts.retain(|key, _| key < from || key >= to);
                return from <= to;
            }
        }
        true
    }

    /// The operation without its illegal parts, if something is left; takes note of it.
    pub(super) fn admit(&mut self, op: &Op) -> Option<Op> {
        let exists = |family: &String, at: &Option<u32>| match at {
            // A family dropped since is no longer asked for, whatever the snapshot still sees.
            Some(id) => {
                self.puts.contains_key(family)
                    && self
                        .snapshots
                        .get(id)
                        .is_some_and(|families| families.contains(family))
            }
            None => self.puts.contains_key(family),
        };
        let legal = match op {
            Op::Write { writes, sync } => {
                let writes: Vec<Write> = writes
                    .iter()
                    .filter(|write| self.write(write))
                    .cloned()
                    .collect();
                return (!writes.is_empty()).then_some(Op::Write {
                    writes,
                    sync: *sync,
                });
            }
            Op::Get { family, at, .. } | Op::Scan { family, at, .. } => exists(family, at),
            Op::Flush { family } | Op::Compact { family } => exists(family, &None),
            Op::Snapshot { id } => {
                let families = self.puts.keys().cloned().collect();
                !self.snapshots.contains_key(id) && self.snapshots.insert(*id, families).is_none()
            }
            Op::DropSnapshot { id } => self.snapshots.remove(id).is_some(),
            Op::Reopen => {
                self.snapshots.clear();
                true
            }
            Op::CreateCf { family } => {
                let new = !self.puts.contains_key(family);
                self.puts.entry(family.clone()).or_default();
                new
            }
            Op::DropCf { family } => {
                // A family created anew under this name is another one: snapshots do not see it.
                for families in self.snapshots.values_mut() {
                    families.remove(family);
                }
                family != DEFAULT && self.puts.remove(family).is_some()
            }
        };
        legal.then(|| op.clone())
    }
}

/// The operations without those that have no defined outcome where they stand: a single deletion
/// of a key not put exactly once, a family or snapshot that does not exist. Removing operations
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
put default b 3*1
single-delete default b
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
reopen
drop-snapshot 1
drop-cf default
";
        let expected = "\
put default a 1*1
put default b 1*1
put default b 2*1
batch [single-delete default a; delete default c]
delete-range default a z
put default b 3*1
single-delete default b
create-cf cf
snapshot 1
get cf a @1
drop-cf cf
create-cf cf
get default a @1
reopen
";
        let found = legal(&Ops::parse(text).unwrap().0);
        assert_eq!(Ops(found.clone()).to_string(), expected);
        assert_eq!(legal(&found), found);
    }
}
