//! Operations on a database, and the states in which it may therefore be found.
//!
//! A ledger notes when each operation began and when it was acknowledged, in units of its own
//! clock. [`Ledger::now`] is a moment; a campaign marks it in the journal of the file system, or
//! remembers it, and later asks about it. There are two questions:
//!
//! * [`Ledger::is_now`]: is this exactly the present state? For a database that is open, or was
//!   closed in order.
//! * [`Ledger::allows`]: is this one of the states that the end of the process or of the machine
//!   may leave, if it came at that moment? For recovered databases, and for readers beside
//!   writers.
//!
//! An operation that began and was not acknowledged is *in doubt*: it may be there or not. It is
//! absent for certain once [`Ledger::undone`], [`Ledger::abandon`] or the acknowledgement of a
//! later write says so.
//!
//! # Strands
//!
//! The operations of a *strand* have keys of their own and came one after the other, so these keys
//! must have the contents after some number of them: at least those that had to survive. There is
//! one strand if all writes are logged and one thread makes them; one for each family if writes
//! are not logged, because a flush makes them durable; one for each actor if several threads write,
//! see [`Keys`]. Logged strands together are a prefix of the order of commits: an operation is not
//! there without those of other strands that were acknowledged before it began.
//!
//! # What survives
//!
//! The end of the process spares everything acknowledged, except what was not logged. The end of
//! the machine spares what an acknowledged operation made durable:
//!
//! | operation | makes durable |
//! |---|---|
//! | a synced write, creating or dropping a family, [`Op::SyncWal`] | itself, what came before it in its strand, and all logged writes acknowledged before it began |
//! | [`Op::Flush`] | the writes to its family, and the earlier ones of the strand |
//! | [`Op::FlushAll`], [`Op::Close`], [`Op::Reopen`] | everything acknowledged before it began |

mod strand;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use self::strand::{Entry, Match, Reach, Strand};
use crate::history::Diff;
use crate::model::Model;
use crate::ops::{Op, Write};
use crate::sim::Loss;

pub use crate::history::Place;

/// For each family the keys ever put.
pub type Written = BTreeMap<String, BTreeSet<Vec<u8>>>;

/// Part of the machine that ended. The later one is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The process: the kernel keeps everything written to it.
    Process,
    /// The machine, as far as files are concerned.
    Machine,
}

impl End {
    /// Part of the machine that ends with this loss.
    pub fn with(loss: &Loss) -> End {
        match loss {
            Loss::None => End::Process,
            Loss::All | Loss::Random(_) => End::Machine,
        }
    }
}

/// Division of keys into strands.
#[derive(Clone, Copy)]
pub enum Keys {
    /// One strand of logged writes.
    Together,
    /// A strand of unlogged writes for each family.
    ByFamily,
    /// A strand for each actor.
    ByActor {
        /// The actors are the numbers below this one.
        actors: usize,
        /// The actor that owns a key of a family or, without a key, the whole family; `None` if
        /// there is none.
        owner: fn(&str, Option<&[u8]>) -> Option<usize>,
        /// The actor whose writes are not logged.
        unlogged: Option<usize>,
    },
}

/// The name of a strand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    All,
    Family(String),
    Actor(usize),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::All => f.write_str("the database"),
            Name::Family(name) => write!(f, "family {name} by itself"),
            Name::Actor(number) => write!(f, "actor {number} by itself"),
        }
    }
}

/// A state in which the database may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The difference.
    pub what: String,
    /// The first family or key that is wrong, if known.
    pub place: Option<Place>,
}

impl Mismatch {
    fn of(name: &Name, diff: Diff) -> Mismatch {
        Mismatch {
            what: format!("{name} {diff}"),
            place: diff.first,
        }
    }
}

impl From<String> for Mismatch {
    fn from(what: String) -> Mismatch {
        Mismatch { what, place: None }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// See the [module](self).
#[derive(Clone)]
pub struct Ledger {
    keys: Keys,
    /// The contents with all acknowledged operations.
    present: Model,
    strands: BTreeMap<Name, Strand>,
    /// By actor, the operation that has begun and not returned.
    running: BTreeMap<usize, Op>,
    written: Written,
    clock: u64,
}

impl Ledger {
    /// A ledger that begins with an empty database.
    pub fn new(keys: Keys) -> Ledger {
        let mut ledger = Ledger {
            keys,
            strands: BTreeMap::new(),
            running: BTreeMap::new(),
            written: Written::new(),
            clock: 0,
            present: Model::new(),
        };
        let parts = ledger.split(&ledger.present).unwrap_or_default();
        ledger.begin_strands(parts);
        ledger
    }

    /// A ledger that begins with a database whose contents `start` are durable.
    ///
    /// # Errors
    /// If a key has no owner.
    pub fn starting_at(start: Model, keys: Keys) -> Result<Ledger, Mismatch> {
        let mut ledger = Ledger::new(keys);
        let parts = ledger.split(&start)?;
        ledger.present = start;
        ledger.begin_strands(parts);
        Ok(ledger)
    }

    /// A new ledger of the same kind that begins with what was found.
    ///
    /// # Errors
    /// Those of [`Ledger::starting_at`].
    pub fn again_from(&self, found: Model) -> Result<Ledger, Mismatch> {
        Ledger::starting_at(found, self.keys)
    }

    fn begin_strands(&mut self, parts: BTreeMap<Name, Model>) {
        let begin = |(name, start)| {
            let unlogged = self.is_unlogged(&name);
            (name, Strand::starting_at(start, unlogged))
        };
        self.strands = parts.into_iter().map(begin).collect();
    }

    fn is_unlogged(&self, name: &Name) -> bool {
        match (self.keys, name) {
            (Keys::ByFamily, _) => true,
            (Keys::ByActor { unlogged, .. }, Name::Actor(number)) => unlogged == Some(*number),
            _ => false,
        }
    }

    /// The present moment.
    pub fn now(&self) -> u64 {
        self.clock
    }

    /// The contents with all acknowledged operations.
    pub fn present(&self) -> &Model {
        &self.present
    }

    /// The contents with the operations in doubt, too.
    pub fn with_doubts(&self) -> Model {
        let mut model = self.present.clone();
        let doubts = self.strands.values().flat_map(|strand| &strand.doubts);
        doubts.for_each(|(_, op)| model.apply(op));
        model
    }

    /// The keys that may have existed since the ledger began.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Notes that an actor is about to perform an operation. Its previous one has ended.
    pub fn begin(&mut self, actor: usize, op: &Op) {
        self.clock += 1;
        if let Op::Write { writes, .. } = op {
            for write in writes {
                if let Write::Put { family, key, .. } | Write::Merge { family, key, .. } = write {
                    let keys = self.written.entry(family.clone()).or_default();
                    keys.insert(key.clone());
                }
            }
        }
        let begun = self.clock;
        for (name, part) in self.parts(actor, op) {
            self.strand(name).doubts.push((begun, part));
        }
        self.running.insert(actor, op.clone());
    }

    /// Notes that the actor's operation is acknowledged.
    pub fn done(&mut self, actor: usize) {
        self.clock += 1;
        let done = self.clock;
        let Some(op) = self.running.remove(&actor) else {
            return;
        };
        // What failed before is not there if writes go on.
        let goes_on = matches!(
            op,
            Op::Write { .. } | Op::CreateCf { .. } | Op::DropCf { .. }
        );
        for (name, part) in self.parts(actor, &op) {
            let strand = self.strand(name);
            if let Some((begun, _)) = strand.doubts.pop() {
                if goes_on {
                    strand.doubts.clear();
                }
                strand.acknowledge(&part, begun, done);
            }
        }
        self.present.apply(&op);
    }

    /// Notes that the actor's operation failed: it stays in doubt.
    pub fn unsure(&mut self, actor: usize) {
        self.clock += 1;
        self.running.remove(&actor);
    }

    /// Notes that the actor's operation was refused, without effect.
    pub fn undone(&mut self, actor: usize) {
        self.clock += 1;
        let Some(op) = self.running.remove(&actor) else {
            return;
        };
        for (name, _) in self.parts(actor, &op) {
            self.strand(name).doubts.pop();
        }
    }

    /// Notes that the actor's operations that failed had no effect: the database accepts writes
    /// again.
    pub fn abandon(&mut self, actor: usize) {
        let running = self.running.contains_key(&actor);
        for (name, strand) in &mut self.strands {
            if !matches!(name, Name::Actor(other) if *other != actor) {
                let keep = usize::from(running).min(strand.doubts.len());
                strand.doubts.drain(..strand.doubts.len() - keep);
            }
        }
    }

    /// Notes an operation that one actor performed without a failure.
    pub fn push(&mut self, op: &Op) {
        self.begin(0, op);
        self.done(0);
    }

    /// Decides from the contents found after an opening whether the operations in doubt took
    /// effect, and returns that. They are not durable for that reason.
    pub fn settle(&mut self, found: &Model) -> bool {
        let took_effect = *found != self.present;
        if took_effect {
            self.present = self.with_doubts();
        }
        self.clock += 1;
        for strand in self.strands.values_mut() {
            for (begun, op) in std::mem::take(&mut strand.doubts) {
                if took_effect {
                    strand.acknowledge(&op, begun, self.clock);
                    if let Some(entry) = strand.entries.last_mut() {
                        (entry.durable, entry.reach) = (0, Reach::Nothing);
                    }
                }
            }
        }
        took_effect
    }

    /// Checks that a database that lost nothing has the contents `found`.
    ///
    /// # Errors
    /// The difference from the expected contents.
    pub fn is_now(&self, found: &Model) -> Result<(), Mismatch> {
        match *found == self.present {
            true => Ok(()),
            false => Err(Mismatch::of(
                &Name::All,
                Diff::from_only(&self.present, found),
            )),
        }
    }

    /// Checks that the process or the machine, if it ended at `moment`, may leave the contents
    /// `found`. A reader beside writers finds what the end of the process would leave.
    ///
    /// # Errors
    /// The difference from the nearest allowed state.
    pub fn allows(&self, found: &Model, end: End, moment: u64) -> Result<(), Mismatch> {
        let mut parts = self.split(found)?;
        let mut matches = Vec::new();
        for (name, strand) in &self.strands {
            let part = parts.remove(name);
            let part = part.unwrap_or_else(|| found.emptied(|_| false));
            let at_least = self.at_least(strand, end, moment);
            let matching = strand.find(&part, at_least);
            matches.push((
                name,
                strand,
                matching.map_err(|diff| Mismatch::of(name, diff))?,
            ));
        }
        match parts.keys().next() {
            Some(unknown) => Err(Mismatch::from(format!("{unknown} was never created"))),
            None => is_prefix(&matches),
        }
    }

    /// Number of operations that must survive: it grows when something is promised.
    pub fn promised(&self, end: End, moment: u64) -> usize {
        let strands = self.strands.values();
        strands.map(|s| self.at_least(s, end, moment)).sum()
    }

    /// Number of the strand's operations that must be there.
    fn at_least(&self, strand: &Strand, end: End, moment: u64) -> usize {
        if !strand.unlogged && end == End::Process {
            return strand.acknowledged(|done| done <= moment);
        }
        let in_time = |entry: &&Entry| entry.done <= moment;
        let reaches = |entry: &&Entry| match entry.reach {
            Reach::Nothing => false,
            Reach::Logged => !strand.unlogged,
            Reach::Everything => true,
        };
        let all = self.strands.values().flat_map(|s| &s.entries);
        let syncs = all.filter(in_time).filter(reaches);
        let last = syncs.map(|entry| entry.begun).max().unwrap_or(0);
        let own = strand.entries.iter().filter(in_time);
        let own = own.map(|entry| entry.durable).max().unwrap_or(0);
        strand.acknowledged(|done| done < last).max(own)
    }

    /// The parts of an operation by strand. Reads and the like have none.
    fn parts(&self, actor: usize, op: &Op) -> Vec<(Name, Op)> {
        if !matters(op) {
            return Vec::new();
        }
        match (self.keys, op) {
            (Keys::Together, _) => vec![(Name::All, op.clone())],
            (Keys::ByActor { .. }, _) => vec![(Name::Actor(actor), op.clone())],
            (Keys::ByFamily, Op::Write { writes, durability }) => {
                let mut parts: BTreeMap<&str, Vec<Write>> = BTreeMap::new();
                for write in writes {
                    parts.entry(write.family()).or_default().push(write.clone());
                }
                let write = |(family, writes): (&str, _)| {
                    let durability = *durability;
                    (
                        Name::Family(family.to_owned()),
                        Op::Write { writes, durability },
                    )
                };
                parts.into_iter().map(write).collect()
            }
            (
                Keys::ByFamily,
                Op::Flush { family } | Op::CreateCf { family } | Op::DropCf { family },
            ) => vec![(Name::Family(family.clone()), op.clone())],
            (Keys::ByFamily, _) => {
                let all = self.strands.keys();
                all.map(|name| (name.clone(), op.clone())).collect()
            }
        }
    }

    /// The strand of this name. A family that is created begins one.
    fn strand(&mut self, name: Name) -> &mut Strand {
        let unlogged = self.is_unlogged(&name);
        let nothing = || Strand::starting_at(self.present.emptied(|_| false), unlogged);
        self.strands.entry(name).or_insert_with(nothing)
    }

    /// The parts of a state by strand.
    fn split(&self, state: &Model) -> Result<BTreeMap<Name, Model>, Mismatch> {
        let Keys::ByActor { actors, owner, .. } = self.keys else {
            let families = state.families().map(str::to_owned);
            return Ok(match self.keys {
                Keys::ByFamily => families
                    .map(|name| (Name::Family(name.clone()), state.only(&name)))
                    .collect(),
                _ => BTreeMap::from([(Name::All, state.clone())]),
            });
        };
        let mut parts = BTreeMap::new();
        for actor in 0..actors {
            let his = |family: &str| owner(family, None).is_none_or(|owner| owner == actor);
            parts.insert(Name::Actor(actor), state.emptied(his));
        }
        for family in state.families() {
            for (key, value) in state.scan(family, None, None) {
                let part = owner(family, Some(key)).map(Name::Actor);
                match part.and_then(|name| parts.get_mut(&name)) {
                    Some(part) => part.put(family, key, value.to_vec()),
                    None => {
                        let key = key.escape_ascii();
                        return Err(Mismatch::from(format!("{family} has a key \"{key}\"")));
                    }
                }
            }
        }
        Ok(parts)
    }
}

/// Whether no later operation of one logged strand is there without an earlier one of another.
fn is_prefix(all: &[(&Name, &Strand, Match)]) -> Result<(), Mismatch> {
    let logged = || all.iter().filter(|(_, strand, _)| !strand.unlogged);
    let newest = logged().filter_map(|(name, _, found)| Some((found.begun?, name)));
    let Some((begun, later)) = newest.max() else {
        return Ok(());
    };
    for (name, strand, found) in logged() {
        let needed = strand.acknowledged(|done| done < begun);
        if needed > found.most {
            return Err(Mismatch::from(format!(
                "not a prefix: an operation of {later} is there, and operation {} of {name}, \
                 acknowledged before that began, is not",
                found.most + 1
            )));
        }
    }
    Ok(())
}

/// Whether an operation changes what may be found later.
pub fn matters(op: &Op) -> bool {
    matches!(
        op,
        Op::Write { .. }
            | Op::CreateCf { .. }
            | Op::DropCf { .. }
            | Op::Flush { .. }
            | Op::FlushAll
            | Op::SyncWal
            | Op::Reopen
            | Op::Close
    )
}

#[cfg(test)]
mod tests;
