//! The outside record: what the stressed process has said, and whether what its successor finds
//! agrees with it.
//!
//! It adds to the [`Ledger`] what belongs to lives: the versions of operations, and what has ended
//! since contents were last compared.

use titan_testkit::ledger::{End, Ledger, Mismatch};
use titan_testkit::model::Model;
use titan_testkit::ops::Op;

use crate::event::Event;
use crate::keys::{Family, division, nothing};
use crate::plan::Scale;

/// The outside record of one database.
pub struct OutsideRecord {
    ledger: Ledger,
    actors: Vec<Actor>,
    worst: End,
    /// The moment at which the machine ended. Later acknowledgements do not count, because a kernel
    /// that is losing its file system may acknowledge what it loses.
    machine_ended: Option<u64>,
    operations: u64,
    /// The database was closed since contents were last compared.
    closed: bool,
}

#[derive(Clone, Default)]
struct Actor {
    /// The version of its last operation so far.
    version: u64,
    /// The running operation, until it returns.
    running: Option<Op>,
}

impl OutsideRecord {
    /// The record of a database that does not exist yet.
    pub fn new(scale: &Scale) -> Result<Self, Mismatch> {
        let mut empty = nothing();
        let shared = Family::SHARED.iter();
        shared.for_each(|family| empty.create_family(&family.name(0)));
        Ok(OutsideRecord {
            ledger: Ledger::starting_at(empty, division(scale))?,
            actors: vec![Actor::default(); scale.actors()],
            worst: End::Process,
            machine_ended: None,
            operations: 0,
            closed: false,
        })
    }

    /// The version of each actor's next operation.
    pub fn next(&self) -> Vec<u64> {
        self.actors.iter().map(|a| a.version + 1).collect()
    }

    /// Number of operations that were acknowledged so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Whether the current life has closed the database.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Records how the current life ends.
    pub fn ends(&mut self, end: End) {
        self.worst = self.worst.max(end);
        if end == End::Machine {
            self.machine_ended.get_or_insert(self.ledger.now());
        }
    }

    /// Records an event of the stressed process.
    ///
    /// # Errors
    /// An event that contradicts an earlier one: then the stressed process is wrong, not the
    /// database.
    pub fn note(&mut self, event: &Event) -> Result<(), String> {
        let (index, version) = match event {
            Event::Begin { actor, version, .. }
            | Event::Done { actor, version }
            | Event::Undone { actor, version }
            | Event::Unsure { actor, version, .. } => (*actor, *version),
            _ => return Ok(()),
        };
        let unexpected = || format!("unexpected: {event}");
        let actor = self.actors.get_mut(index).ok_or_else(unexpected)?;
        if let Event::Begin { op, .. } = event {
            if version <= actor.version {
                return Err(unexpected());
            }
            *actor = Actor {
                version,
                running: Some(op.clone()),
            };
            // An operation that failed before was abandoned when writes continued.
            self.ledger.abandon(index);
            self.ledger.begin(index, op);
            return Ok(());
        }
        if version != actor.version {
            return Err(unexpected());
        }
        let op = actor.running.take().ok_or_else(unexpected)?;
        match event {
            Event::Done { .. } => {
                self.ledger.done(index);
                self.operations += 1;
                self.closed |= op == Op::Close;
            }
            Event::Undone { .. } => self.ledger.undone(index),
            _ => self.ledger.unsure(index),
        }
        Ok(())
    }

    /// Compares the record with what was found after reopening, with which it begins again.
    ///
    /// # Errors
    /// The difference between them.
    pub fn judge(&mut self, found: &Model) -> Result<(), Mismatch> {
        let moment = self.machine_ended.unwrap_or(self.ledger.now());
        let allowed = self.ledger.allows(found, self.worst, moment);
        allowed.map_err(|mismatch| Mismatch {
            what: format!("after the end of the {:?}: {mismatch}", self.worst),
            ..mismatch
        })?;
        self.ledger = self.ledger.again_from(found.clone())?;
        self.worst = End::Process;
        self.machine_ended = None;
        self.closed = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale {
        writers: 2,
        keys: 10,
        max_value: 100,
        synced: 0,
        buffers: (0, 0),
    };

    fn record(lines: &[&str]) -> OutsideRecord {
        let mut record = OutsideRecord::new(&SCALE).unwrap();
        for line in lines {
            record.note(&Event::parse(line).unwrap()).unwrap();
        }
        record
    }

    /// Judges contents: keys of `default` with the descriptions of their values.
    fn judge(record: &mut OutsideRecord, pairs: &[(&str, &str)]) -> Result<(), Mismatch> {
        let mut found = nothing();
        let shared = Family::SHARED.iter();
        shared.for_each(|family| found.create_family(&family.name(0)));
        for (key, value) in pairs {
            found.put("default", key.as_bytes(), value.as_bytes().to_vec());
        }
        record.judge(&found)
    }

    #[test]
    fn the_worst_end_since_the_last_comparison_counts() {
        let lines = [
            "begin 0 1 put default 00.0000001 65536*40",
            "done 0 1",
            "begin 1 1 put default 01.0000001 65536*40",
            "unsure 1 1 no space",
            "begin 1 2 put default 01.0000002 131072*40",
        ];
        let first = ("00.0000001", "65536*40");
        judge(&mut record(&lines), &[first]).unwrap();
        judge(&mut record(&lines), &[first, ("01.0000002", "131072*40")]).unwrap();
        // The operation that failed was abandoned.
        judge(&mut record(&lines), &[first, ("01.0000001", "65536*40")]).unwrap_err();
        let lost = judge(&mut record(&lines), &[]).unwrap_err();
        assert!(lost.place.is_some(), "{lost}");
        let mut cut = record(&lines);
        cut.ends(End::Machine);
        cut.ends(End::Process);
        judge(&mut cut, &[]).unwrap();
        // From now on this is what must be there.
        judge(&mut cut, &[first]).unwrap_err();
    }

    #[test]
    fn what_contradicts_earlier_events_is_not_recorded() {
        let begun = ["begin 0 7 create-cf own-0"];
        for wrong in ["done 0 6", "undone 1 7", "begin 0 7 sync-wal", "done 9 1"] {
            let event = Event::parse(wrong).unwrap();
            record(&begun).note(&event).expect_err(wrong);
        }
        let mut closing = record(&["begin 3 1 close"]);
        closing.note(&Event::parse("done 3 1").unwrap()).unwrap();
        assert!(closing.is_closed());
        assert_eq!(closing.next(), [1, 1, 1, 2]);
    }
}
