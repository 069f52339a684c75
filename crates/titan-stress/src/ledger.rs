//! The outside record: what was begun and acknowledged, and whether what is found agrees with it.
//!
//! An actor begins an operation only after its previous one ended, so its keys must have the
//! contents they had after some number of its operations. The allowed numbers are:
//!
//! * after the end of a process, all acknowledged operations, with or without the current one. An
//!   unlogged operation need not be there unless its family was flushed since;
//! * after the end of the machine, all up to the last one that was synced, or that was
//!   acknowledged before the start of a sync that was acknowledged; beyond that, across the logged
//!   actors, a prefix of the order in which they were committed: an operation that began after
//!   another actor's was acknowledged is not there without it.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Event;
use crate::op::{Durability, Key, Op};
use crate::plan::Scale;
use crate::state::State;

/// What ended, the worst since the last comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The process.
    Process,
    /// The machine, as far as files are concerned.
    Machine,
}

/// A mismatch.
#[derive(Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// What is wrong.
    pub what: String,
    /// The actor and key that are wrong, if known.
    pub key: Option<(usize, Key)>,
}

impl From<String> for Disagreement {
    fn from(what: String) -> Self {
        Disagreement { what, key: None }
    }
}

/// An operation since the last comparison, in the order of the actor's operations. Times count
/// events.
struct Entry {
    version: u64,
    op: Op,
    begun: u64,
    done: Option<u64>,
}

#[derive(Default)]
struct Actor {
    /// What the last comparison found.
    base: State,
    entries: Vec<Entry>,
    /// The version of its last operation so far.
    version: u64,
}

impl Actor {
    /// How many of the entries are acknowledged: all, or all except the last.
    fn acknowledged(&self) -> usize {
        self.entries.iter().take_while(|e| e.done.is_some()).count()
    }

    /// How many were acknowledged before the time `before`.
    fn acknowledged_before(&self, before: u64) -> usize {
        let in_time = |e: &&Entry| e.done.is_some_and(|done| done < before);
        self.entries.iter().take_while(in_time).count()
    }

    /// How many survive anything that ends, because they or later ones made them durable and were
    /// acknowledged by the time `before`.
    fn durable(&self, unlogged: bool, before: u64) -> usize {
        let durable = |e: &Entry| {
            let op = match &e.op {
                Op::Write(durability, _) => *durability == Durability::Synced,
                // A logged actor's other families are not in it.
                Op::Flush => unlogged,
                _ => true,
            };
            op && e.done.is_some_and(|done| done <= before)
        };
        self.entries
            .iter()
            .rposition(durable)
            .map_or(0, |last| last + 1)
    }
}

/// The numbers of operations after which an actor's keys had the contents found.
struct Prefixes {
    fewest: usize,
    most: usize,
}

/// The outside record of one database.
pub struct Ledger {
    actors: Vec<Actor>,
    unlogged: usize,
    clock: u64,
    worst: End,
    /// When the machine ended. Later acknowledgements do not count, because a kernel that is
    /// losing its file system may acknowledge what it loses.
    machine_ended: Option<u64>,
    operations: u64,
}

impl Ledger {
    /// The record of a database that does not exist yet.
    pub fn new(scale: &Scale) -> Self {
        Ledger {
            actors: std::iter::repeat_with(Actor::default)
                .take(scale.actors())
                .collect(),
            unlogged: scale.unlogged(),
            clock: 0,
            worst: End::Process,
            machine_ended: None,
            operations: 0,
        }
    }

    /// The version of each actor's next operation.
    pub fn next(&self) -> Vec<u64> {
        self.actors.iter().map(|a| a.version + 1).collect()
    }

    /// How many operations were acknowledged so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Whether the last operation was to close the database.
    pub fn is_closed(&self) -> bool {
        let last = self
            .actors
            .last()
            .and_then(|maintainer| maintainer.entries.last());
        last.is_some_and(|e| e.op == Op::Close && e.done.is_some())
    }

    /// Records how the current life ends.
    pub fn ends(&mut self, end: End) {
        self.worst = self.worst.max(end);
        if end == End::Machine {
            self.machine_ended.get_or_insert(self.clock);
        }
    }

    /// Records an event of the stressed process.
    ///
    /// # Errors
    /// What contradicts an earlier event: then the stressed process is wrong, not the database.
    pub fn note(&mut self, event: &Event) -> Result<(), String> {
        self.clock += 1;
        let (actor, version) = match event {
            Event::Begin { actor, version, .. }
            | Event::Done { actor, version }
            | Event::Undone { actor, version }
            | Event::Unsure { actor, version, .. } => (*actor, *version),
            _ => return Ok(()),
        };
        let unexpected = || format!("unexpected: {event}");
        let actor = self.actors.get_mut(actor).ok_or_else(unexpected)?;
        if let Event::Begin { op, .. } = event {
            if version <= actor.version {
                return Err(unexpected());
            }
            // An operation that failed before was abandoned when writes continued.
            actor.entries.truncate(actor.acknowledged());
            actor.version = version;
            actor.entries.push(Entry {
                version,
                op: op.clone(),
                begun: self.clock,
                done: None,
            });
            return Ok(());
        }
        let last = actor.entries.last_mut();
        let last = last.filter(|e| e.version == version && e.done.is_none());
        let last = last.ok_or_else(unexpected)?;
        match event {
            Event::Done { .. } => {
                last.done = Some(self.clock);
                self.operations += 1;
            }
            Event::Undone { .. } => {
                actor.entries.pop();
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares the record with what was found after reopening, which becomes the base of later
    /// comparisons.
    pub fn judge(&mut self, found: &BTreeMap<usize, State>) -> Result<(), Disagreement> {
        let nothing = State::default();
        let mut all = Vec::new();
        for index in 0..self.actors.len() {
            let state = found.get(&index).unwrap_or(&nothing);
            all.push(self.prefixes(index, state)?);
        }
        if self.worst == End::Machine {
            self.is_prefix_of_all(&all)?;
        }
        for (index, actor) in self.actors.iter_mut().enumerate() {
            actor.base = found.get(&index).cloned().unwrap_or_default();
            actor.entries.clear();
        }
        self.worst = End::Process;
        self.machine_ended = None;
        Ok(())
    }

    /// How many of the actor's operations must be there.
    fn at_least(&self, index: usize, actor: &Actor) -> usize {
        let unlogged = index == self.unlogged;
        if !unlogged && self.worst == End::Process {
            return actor.acknowledged();
        }
        let in_time = self.machine_ended.unwrap_or(u64::MAX);
        // Operations whose acknowledgement implies that everything acknowledged before they began
        // is durable.
        let makes_durable = |op: &Op| match op {
            Op::FlushAll | Op::Close => true,
            Op::Write(Durability::Synced, _) | Op::Create | Op::Drop | Op::SyncWal => !unlogged,
            Op::Write(..) | Op::Flush => false,
        };
        let entries = self.actors.iter().flat_map(|a| &a.entries);
        let done = |e: &Entry| e.done.is_some_and(|done| done <= in_time);
        let syncs = entries.filter(|e| done(e) && makes_durable(&e.op));
        let last = syncs.map(|e| e.begun).max().unwrap_or(0);
        actor
            .durable(unlogged, in_time)
            .max(actor.acknowledged_before(last))
    }

    fn prefixes(&self, index: usize, found: &State) -> Result<Prefixes, Disagreement> {
        let Some(actor) = self.actors.get(index) else {
            return Err(format!("there is no actor {index}").into());
        };
        let at_least = self.at_least(index, actor);
        let mut state = actor.base.clone();
        let all = state.cells.keys().chain(found.cells.keys());
        let mut differing: BTreeSet<Key> = all
            .copied()
            .filter(|k| state.cells.get(k) != found.cells.get(k))
            .collect();
        let mut matching = Vec::new();
        let mut first_difference = None;
        for number in 0..=actor.entries.len() {
            if let Some(entry) = number.checked_sub(1).and_then(|n| actor.entries.get(n)) {
                let mut touched = Vec::new();
                state.apply(entry.version, &entry.op, &mut |key| touched.push(key));
                for key in touched {
                    match state.cells.get(&key) == found.cells.get(&key) {
                        true => differing.remove(&key),
                        false => differing.insert(key),
                    };
                }
            }
            if differing.is_empty() && state.own == found.own {
                matching.push(number);
            } else if number == at_least {
                let key = differing.first().copied();
                first_difference = Some((key, key.and_then(|k| state.cells.get(&k).copied())));
            }
        }
        let fewest = matching.iter().copied().find(|n| *n >= at_least);
        if let (Some(fewest), Some(most)) = (fewest, matching.last()) {
            return Ok(Prefixes {
                fewest,
                most: *most,
            });
        }
        let Some((key, expected)) = first_difference else {
            return Err(format!("actor {index} found nothing that it could compare").into());
        };
        let begun = actor.entries.len();
        let mut what = format!(
            "what actor {index} finds after the end of the {:?} is the effect of no allowed number \
             of its operations: at least {at_least} of the {begun} begun since the last look",
            self.worst
        );
        if let Some(older) = matching.last() {
            what += &format!(", but it is that of {older}");
        }
        what += &match key {
            None => format!(
                "; its own family: {}",
                if found.own { "there" } else { "gone" }
            ),
            Some(key) => format!(
                "; first difference: {key} should hold {}, and holds {}",
                describe(expected.map(|c| c.version)),
                describe(found.cells.get(&key).map(|c| c.version))
            ),
        };
        Err(Disagreement {
            what,
            key: key.map(|key| (index, key)),
        })
    }

    /// Whether no later operation of one actor is there without an earlier one of another.
    fn is_prefix_of_all(&self, all: &[Prefixes]) -> Result<(), Disagreement> {
        let logged = || {
            (0..)
                .zip(self.actors.iter().zip(all))
                .filter(|(i, _)| *i != self.unlogged)
        };
        let last_begun = |(index, (actor, found)): (usize, (&Actor, &Prefixes))| {
            let last = found
                .fewest
                .checked_sub(1)
                .and_then(|n| actor.entries.get(n))?;
            Some((last.begun, index, last.version))
        };
        let Some((begun, whose, version)) = logged().filter_map(last_begun).max() else {
            return Ok(());
        };
        for (index, (actor, found)) in logged() {
            let needed = actor.acknowledged_before(begun);
            if needed > found.most {
                let lost = actor.entries.get(found.most).map_or(0, |e| e.version);
                return Err(format!(
                    "not a prefix: version {version} of actor {whose} is there, and version {lost} \
                     of actor {index}, acknowledged before that began, is not"
                )
                .into());
            }
        }
        Ok(())
    }
}

fn describe(version: Option<u64>) -> String {
    version.map_or("nothing".to_owned(), |version| format!("version {version}"))
}

#[cfg(test)]
mod tests;
