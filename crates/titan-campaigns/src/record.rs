//! What was done to a database, and what of it was promised to survive the machine.
//!
//! Logged writes come back as a prefix of the commit order over all families, so one history
//! serves. Writes that go past the WAL are kept by the flushes of their family alone: then each
//! family comes back at a prefix of its own.

use std::collections::{BTreeMap, BTreeSet};

use titan_testkit::history::History;
use titan_testkit::model::Model;
use titan_testkit::ops::{Op, Write};

use crate::trouble::{Checked, Doing, Trouble};

/// Beside each family the keys ever written to it.
pub(crate) type Written = BTreeMap<String, BTreeSet<Vec<u8>>>;

/// The record of a database's life, from a known state on.
#[derive(Clone)]
pub struct Record {
    whole: History,
    /// Beside each family how many operations there were up to the newest that wrote to it.
    newest: BTreeMap<String, usize>,
    written: Written,
    by_family: Option<ByFamily>,
}

/// For unlogged writes: how far each family was, and at each promise how far it was durable.
#[derive(Clone)]
struct ByFamily {
    families: BTreeMap<String, History>,
    /// Beside each family how many of its operations are durable.
    durable: BTreeMap<String, usize>,
    promises: Vec<BTreeMap<String, usize>>,
}

impl Record {
    /// A record that begins with `start`, all of which is durable. `unlogged` if writes are to go
    /// past the WAL.
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

    /// What the database holds now.
    pub fn last(&self) -> &Model {
        self.whole.last()
    }

    /// Whether a database that lost nothing holds `found`.
    ///
    /// # Errors
    /// How it differs from what it should hold.
    pub fn is_now(&self, found: &Model) -> Checked<()> {
        if found != self.last() {
            self.whole.matches_some_prefix(found, self.whole.len())?;
        }
        Ok(())
    }

    /// The keys that may have been there since the record began.
    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    /// How many operations changed contents.
    pub fn len(&self) -> usize {
        self.whole.len()
    }

    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// Notes an operation that took effect. Returns the promise that goes with it, if one does:
    /// the number to mark in the journal. Of several promises the largest holds.
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
            // Its tables hold what the family was given, and nothing comes back without what went
            // before it.
            Op::Flush { family } => self.newest.get(family).copied(),
            _ => None,
        };
        durable.map(|length| length as u64)
    }

    /// Everything so far is durable now, as after closing: the number to mark.
    pub fn promise_all(&mut self) -> u64 {
        match &mut self.by_family {
            Some(families) => families.promise_all(),
            None => self.whole.len() as u64,
        }
    }

    /// This record, and an operation of which nobody knows whether it took effect.
    pub fn with_doubt(&self, op: Option<&Op>) -> Record {
        let mut record = self.clone();
        if let Some(op) = op {
            record.push(op);
        }
        record
    }

    /// Whether a recovered database may hold `found`, given the newest promise.
    ///
    /// # Errors
    /// How it differs from the nearest state that it might have.
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
            Some(name) => Err(Trouble::wrong(format!("nobody made the family {name}"))),
            None => Ok(()),
        }
    }
}

/// One family of a state, if it is there.
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
