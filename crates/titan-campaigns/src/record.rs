//! Records the operations on a database, and which of them were promised to survive a crash of
//! the machine.
//!
//! After a crash, logged writes are recovered as a prefix of the commit order over all families,
//! so one history serves. Unlogged writes are made durable only by flushes of their family: then
//! each family is recovered at a prefix of its own.

use std::collections::{BTreeMap, BTreeSet};

use titan_testkit::history::History;
use titan_testkit::model::Model;
use titan_testkit::ops::{Op, Write};

use crate::failure::{CheckFailure, Checked, Doing};

/// For each family the keys ever written to it.
pub(crate) type Written = BTreeMap<String, BTreeSet<Vec<u8>>>;

/// The record of a database's life, from a known state on.
#[derive(Clone)]
pub struct Record {
    whole: History,
    /// For each family the number of operations up to the newest that wrote to it.
    newest: BTreeMap<String, usize>,
    written: Written,
    by_family: Option<ByFamily>,
}

/// For unlogged writes: the length of each family's history, and at each promise its durable
/// length.
#[derive(Clone)]
struct ByFamily {
    families: BTreeMap<String, History>,
    /// For each family how many of its operations are durable.
    durable: BTreeMap<String, usize>,
    promises: Vec<BTreeMap<String, usize>>,
}

impl Record {
    /// A record that begins with `start`, all of which is durable. `unlogged` if writes bypass
    /// the WAL.
    pub fn starting_at(start: Model, unlogged: bool) -> Record {
        let by_family = unlogged.then(|| ByFamily {
            families: start
                .families()
                .map(|name| (name.to_owned(), History::starting_at(only(&start, name))))
                .collect(),
            durable: BTreeMap::new(),
            promises: vec![BTreeMap::new()],
        });
        Record {
            whole: History::starting_at(start),
            newest: BTreeMap::new(),
            written: Written::new(),
            by_family,
        }
    }

    /// The present contents of the database.
    pub fn last(&self) -> &Model {
        self.whole.last()
    }

    /// Checks that a database that lost nothing has the contents `found`.
    ///
    /// # Errors
    /// How it differs from the expected contents.
    pub fn is_now(&self, found: &Model) -> Checked<()> {
        if found != self.last() {
            self.whole.matches_some_prefix(found, self.whole.len())?;
        }
        Ok(())
    }

    /// The keys that may have existed since the record began.
    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    /// The number of operations that changed contents.
    pub fn len(&self) -> usize {
        self.whole.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// Records an operation that took effect. If a promise goes with it, returns the number to
    /// mark in the journal. Of several promises the largest holds.
    pub fn push(&mut self, op: &Op) -> Option<u64> {
        let length = self.whole.push(op);
        if let Op::Write { writes, .. } = op {
            for write in writes {
                self.newest.insert(write.family().to_owned(), length);
                if let Write::Put { family, key, .. } = write {
                    let keys = self.written.entry(family.clone()).or_default();
                    keys.insert(key.clone());
                }
            }
        }
        if let Some(families) = &mut self.by_family {
            families.push(op);
            return families.promise(op);
        }
        let durable = match op {
            Op::Write { sync: true, .. } | Op::CreateCf { .. } | Op::DropCf { .. } => Some(length),
            // The family's writes are in its tables now, and earlier writes are recovered with
            // later ones.
            Op::Flush { family } => self.newest.get(family).copied(),
            _ => None,
        };
        durable.map(|length| length as u64)
    }

    /// Everything so far is durable now, as after closing; returns the number to mark.
    pub fn promise_all(&mut self) -> u64 {
        match &mut self.by_family {
            Some(families) => families.promise_all(),
            None => self.whole.len() as u64,
        }
    }

    /// This record, with an operation that may or may not have taken effect.
    pub fn with_doubt(&self, op: Option<&Op>) -> Record {
        let mut record = self.clone();
        if let Some(op) = op {
            record.push(op);
        }
        record
    }

    /// Checks that a recovered database may have the contents `found`, given the newest promise.
    ///
    /// # Errors
    /// How it differs from the nearest allowed state.
    pub fn allows(&self, found: &Model, promised: u64) -> Checked<()> {
        match &self.by_family {
            Some(families) => families.allows(found, promised),
            None => {
                self.whole.matches_some_prefix(found, promised as usize)?;
                Ok(())
            }
        }
    }
}

impl ByFamily {
    fn push(&mut self, op: &Op) {
        match op {
            Op::Write { writes, .. } => {
                let mut parts: BTreeMap<&str, Vec<Write>> = BTreeMap::new();
                for write in writes {
                    parts.entry(write.family()).or_default().push(write.clone());
                }
                for (family, writes) in parts {
                    if let Some(history) = self.families.get_mut(family) {
                        history.push_batch(writes);
                    }
                }
            }
            Op::CreateCf { family } | Op::DropCf { family } => {
                let history = self
                    .families
                    .entry(family.clone())
                    .or_insert_with(|| History::starting_at(Model::without_families()));
                history.push(op);
            }
            _ => {}
        }
    }

    fn promise(&mut self, op: &Op) -> Option<u64> {
        let (Op::Flush { family } | Op::CreateCf { family } | Op::DropCf { family }) = op else {
            return None;
        };
        let length = self.families.get(family)?.len();
        self.durable.insert(family.clone(), length);
        Some(self.note())
    }

    fn promise_all(&mut self) -> u64 {
        let lengths = self
            .families
            .iter()
            .map(|(name, h)| (name.clone(), h.len()));
        self.durable = lengths.collect();
        self.note()
    }

    fn note(&mut self) -> u64 {
        self.promises.push(self.durable.clone());
        self.promises.len() as u64 - 1
    }

    fn allows(&self, found: &Model, promised: u64) -> Checked<()> {
        let durable = self.promises.get(promised as usize);
        for (name, history) in &self.families {
            let at_least = durable.and_then(|d| d.get(name)).copied().unwrap_or(0);
            history
                .matches_some_prefix(&only(found, name), at_least)
                .doing(format!("family {name} by itself"))?;
        }
        match found
            .families()
            .find(|name| !self.families.contains_key(*name))
        {
            Some(name) => Err(CheckFailure::wrong(format!(
                "family {name} was never created"
            ))),
            None => Ok(()),
        }
    }
}

/// One family of a state, if it exists.
fn only(model: &Model, name: &str) -> Model {
    let mut part = Model::without_families();
    if let Some(pairs) = model.family(name) {
        part.insert_family(name, pairs.clone());
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_testkit::model::DEFAULT;
    use titan_testkit::ops::Ops;

    fn states(unlogged: bool) -> (Record, Vec<(Model, u64)>) {
        let text = "\
create-cf cf1
batch [put default a 1*10; put cf1 a 1*10]
sync put cf1 b 2*10
flush default
put default c 3*10
put cf1 d 4*10
flush default
";
        let mut record = Record::starting_at(Model::new(), unlogged);
        let mut states = vec![(record.last().clone(), 0)];
        let mut promised = 0;
        for op in Ops::parse(text).unwrap().0 {
            promised = record.push(&op).unwrap_or(0).max(promised);
            states.push((record.last().clone(), promised));
        }
        (record, states)
    }

    #[test]
    fn logged_writes_come_back_as_a_prefix_with_what_was_synced_or_flushed() {
        let (record, states) = states(false);
        assert_eq!(
            states.iter().map(|s| s.1).collect::<Vec<_>>(),
            [0, 1, 1, 3, 3, 3, 3, 4]
        );
        for (state, promised) in &states {
            record.allows(state, *promised).unwrap();
        }
        record.allows(&states[2].0, 3).unwrap_err();
        let mut mixed = states[2].0.clone();
        mixed.insert_family("cf1", []);
        record.allows(&mixed, 0).unwrap_err();
    }

    #[test]
    fn unlogged_writes_come_back_as_a_prefix_by_family_with_what_was_flushed() {
        let (mut record, states) = states(true);
        assert_eq!(
            states.iter().map(|s| s.1).collect::<Vec<_>>(),
            [0, 1, 1, 1, 2, 2, 2, 3]
        );
        let mut mixed = states[2].0.clone();
        mixed.insert_family("cf1", []);
        record.allows(&mixed, 2).unwrap();
        mixed.insert_family(DEFAULT, []);
        record.allows(&mixed, 1).unwrap();
        record.allows(&mixed, 2).unwrap_err();
        let all = record.promise_all();
        record.allows(&states[5].0, all).unwrap_err();
        record.allows(&states[7].0, all).unwrap();
        let mut strange = states[7].0.clone();
        strange.create_family("strange");
        record.allows(&strange, 0).unwrap_err();
    }
}
