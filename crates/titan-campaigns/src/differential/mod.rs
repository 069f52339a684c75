//! Compares Titan with RocksDB: the same operations must have the same outcomes.
//!
//! | file | owns |
//! |---|---|
//! | [`peer`] | the program that runs RocksDB, one line per operation |
//! | `engines` | both engines with matching options |
//!
//! A list is performed in two ways:
//!
//! * *side by side*: each engine has its own directory and performs every operation;
//! * *handed over*: there is one directory. One engine performs operations until the list reopens
//!   the database; then it closes it, and the other one opens it and continues. Its contents are
//!   compared at once, because lists read everything after a reopening.
//!
//! In both ways every outcome is compared with that of
//! [`Reference`](titan_testkit::reference::Reference), which shows which engine is wrong.

mod engines;
pub mod peer;

use std::path::Path;
use std::sync::Arc;

use titan::vfs::StdVfs;
use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::ops::{Op, Ops};
use titan_testkit::peer::Peer;
use titan_testkit::reference::Outcome;
use titan_testkit::sim::SimVfs;
use titan_tools::downgrade;

use self::engines::{Setup, for_rocksdb};
use self::peer::Program;
use crate::answers::{Deviation, expected, same};
use crate::lists::list;
use crate::pool::{Task, run_all};
use crate::recovery::sound;
use crate::regression::smaller;
use crate::run::Run;
use crate::session::Session;

/// The directory of Titan's simulated database.
const DIR: &str = "/db";

/// Size of a campaign.
#[derive(Clone, Debug)]
pub struct Differential {
    /// RocksDB.
    pub program: Program,
    /// The approximate number of operations in a list.
    pub operations: usize,
    /// The number of lists, if no time is given.
    pub lists: u64,
}

/// Way of running the engines.
#[derive(Clone, Copy, Debug)]
enum Way {
    SideBySide,
    HandedOver,
}

impl Way {
    fn list(self, seed: u64, n: usize) -> Ops {
        match self {
            Way::SideBySide => list(seed, n, 4),
            Way::HandedOver => list(seed, n, 20),
        }
    }
}

impl Differential {
    /// With lists that fill levels and can still be reduced.
    pub fn new(program: Program) -> Self {
        Differential {
            program,
            operations: 3000,
            lists: 10,
        }
    }

    /// Runs lists of operations on both engines, several at a time. Counts passed operations and
    /// failed lists.
    pub fn run(&self, run: &Run) {
        let jobs = run.seeds(self.lists).flat_map(|seed| {
            run.phase(format_args!("list {seed}"));
            [Way::SideBySide, Way::HandedOver].map(|way| (seed, way))
        });
        let this = self.clone();
        run_all(run, jobs, move |(seed, way), task| {
            this.compare(task, seed, way)
        });
    }

    fn compare(&self, task: &Task, seed: u64, way: Way) {
        let (setup, ops) = (Setup::of(seed), way.list(seed, self.operations).0);
        let name = setup.configuration.name;
        task.step(move || format!("{way:?}, {name}, list {seed}"));
        let Err(Deviation { after, what }) = self.perform(&setup, way, &ops) else {
            return task.pass(ops.len() as u64);
        };
        let mut last = None;
        let until_there = ops.get(..=after).unwrap_or(&ops).to_vec();
        let small = smaller(until_there, task, |ops| {
            let failed = self.perform(&setup, way, ops).err();
            failed.map(|found| last = Some(found.what)).is_some()
        });
        let small = Ops(small);
        let last = last.as_ref().unwrap_or(&what);
        task.fail(format!(
            "{way:?}, {name}, list {seed}, operation {after}: {what}\nReduced: {last}\n{small}"
        ));
    }

    fn perform(&self, setup: &Setup, way: Way, ops: &[Op]) -> Result<(), Deviation> {
        let at = |after| move |what| Deviation { after, what };
        let dir = scratch().map_err(at(0))?;
        let dir = dir.path().join("db");
        let peer = self.program.start().map_err(at(0))?;
        let mut engines: Box<dyn Engines> = match way {
            Way::SideBySide => Box::new(SideBySide::new(setup, peer, &dir).map_err(at(0))?),
            Way::HandedOver => Box::new(HandedOver::new(setup, peer, &dir).map_err(at(0))?),
        };
        for (n, (op, expected)) in ops.iter().zip(expected(ops)).enumerate() {
            let performed = engines.perform(op, &expected);
            performed.doing(op).map_err(at(n))?;
        }
        engines.finish().map_err(at(ops.len()))
    }
}

/// A directory for data that need not survive: in memory if possible, because syncs would take
/// most of the time otherwise.
fn scratch() -> Checked<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let dir = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    dir.doing("a temporary directory")
}

/// Engines that perform operations and compare outcomes.
trait Engines {
    fn perform(&mut self, op: &Op, expected: &Outcome) -> Checked<()>;

    fn finish(&mut self) -> Checked<()>;
}

fn closed() -> CheckFailure {
    CheckFailure::wrong("Titan is closed")
}

/// Checks Titan's outcome.
fn titan_agrees(found: &Outcome, expected: &Outcome) -> Checked<()> {
    same(found, expected).doing("Titan")
}

/// Checks RocksDB's outcome.
fn rocksdb_agrees(found: &str, expected: &Outcome) -> Checked<()> {
    let expected = match expected {
        // RocksDB did not try the forbidden operations.
        Outcome::Refused(_) => Outcome::Done,
        expected => expected.clone(),
    };
    let expected = expected.to_string();
    if found == expected {
        return Ok(());
    }
    let words = || found.split(' ').zip(expected.split(' '));
    let at = words().take_while(|(a, b)| a == b).count();
    let word = |text: &str| text.split(' ').nth(at).unwrap_or("nothing").to_owned();
    Err(CheckFailure::wrong(match found.starts_with("error") {
        true => format!("RocksDB: {found}"),
        false => {
            let (found, expected) = (word(found), word(&expected));
            format!("RocksDB: entry {at}: {found}; expected is: {expected}")
        }
    }))
}

/// Each in its own directory; Titan's is simulated.
struct SideBySide<'a> {
    setup: &'a Setup,
    vfs: SimVfs,
    dir: &'a Path,
    openings: usize,
    /// Always present except while it is being reopened.
    titan: Option<Session>,
    rocksdb: Peer,
}

impl<'a> SideBySide<'a> {
    fn new(setup: &'a Setup, rocksdb: Peer, dir: &'a Path) -> Checked<Self> {
        let mut engines = SideBySide {
            setup,
            vfs: SimVfs::new(),
            dir,
            openings: 0,
            titan: None,
            rocksdb,
        };
        engines.open()?;
        Ok(engines)
    }

    fn open(&mut self) -> Checked<()> {
        // The journal would keep every byte ever written.
        self.vfs.restart_journal();
        let vfs = Arc::new(self.vfs.clone());
        let titan = self.setup.open_titan(vfs, Path::new(DIR), self.openings)?;
        self.titan = Some(titan);
        self.setup
            .open_rocksdb(&mut self.rocksdb, self.dir, self.openings)?;
        self.openings += 1;
        Ok(())
    }
}

impl Engines for SideBySide<'_> {
    fn perform(&mut self, op: &Op, expected: &Outcome) -> Checked<()> {
        if let Op::Reopen = op {
            let titan = self.titan.take().ok_or_else(closed)?;
            titan_agrees(&titan.end(self.openings.is_multiple_of(2))?, expected)?;
            self.rocksdb.ask("close")?;
            return self.open();
        }
        let titan = self.titan.as_mut().ok_or_else(closed)?;
        // Both work at the same time.
        self.rocksdb.send(&for_rocksdb(op).to_string())?;
        titan_agrees(&titan.apply(op)?, expected)?;
        rocksdb_agrees(&self.rocksdb.receive()?, expected)
    }

    /// Both have the same contents, and Titan's files pass all checks.
    fn finish(&mut self) -> Checked<()> {
        let mut titan = self.titan.take().ok_or_else(closed)?;
        titan.release();
        for family in titan.db().column_families() {
            let everything = Op::Scan {
                family: family.name().to_owned(),
                from: None,
                to: None,
                reverse: false,
                at: None,
            };
            self.rocksdb.send(&for_rocksdb(&everything).to_string())?;
            let found = titan.apply(&everything)?;
            rocksdb_agrees(&self.rocksdb.receive()?, &found).doing("in the end")?;
        }
        let options = titan.options().clone();
        titan.end(true)?;
        self.rocksdb.ask("close")?;
        sound(Path::new(DIR), &options).map(drop)
    }
}

/// One directory, which the engines use in turn.
struct HandedOver<'a> {
    setup: &'a Setup,
    dir: &'a Path,
    openings: usize,
    /// Present if Titan has the directory; otherwise RocksDB has it.
    titan: Option<Session>,
    rocksdb: Peer,
}

impl<'a> HandedOver<'a> {
    fn new(setup: &'a Setup, rocksdb: Peer, dir: &'a Path) -> Checked<Self> {
        let titan = setup.open_titan(Arc::new(StdVfs), dir, 0)?;
        Ok(HandedOver {
            setup,
            dir,
            openings: 1,
            titan: Some(titan),
            rocksdb,
        })
    }

    fn hand_over(&mut self) -> Checked<()> {
        let to_rocksdb = self.titan.is_some();
        self.close()?;
        if to_rocksdb {
            let rocksdb = &mut self.rocksdb;
            self.setup.open_rocksdb(rocksdb, self.dir, self.openings)?;
        } else {
            let vfs = Arc::new(StdVfs);
            self.titan = Some(self.setup.open_titan(vfs, self.dir, self.openings)?);
        }
        self.openings += 1;
        Ok(())
    }

    /// Closes the database in the engine that has it open, so that both can read it.
    fn close(&mut self) -> Checked<()> {
        let Some(titan) = self.titan.take() else {
            return self.rocksdb.ask("close");
        };
        let options = titan.options().clone();
        titan.end(self.openings % 4 > 1)?;
        // RocksDB would not find relocated records, if there are any.
        let resolved = downgrade(self.dir, &options, &mut |_| {});
        resolved.doing("downgrading").map(drop)
    }
}

impl Engines for HandedOver<'_> {
    fn perform(&mut self, op: &Op, expected: &Outcome) -> Checked<()> {
        if let Op::Reopen = op {
            return self.hand_over();
        }
        if let Some(titan) = &mut self.titan {
            return titan_agrees(&titan.apply(op)?, expected);
        }
        self.rocksdb.send(&for_rocksdb(op).to_string())?;
        rocksdb_agrees(&self.rocksdb.receive()?, expected)
    }

    fn finish(&mut self) -> Checked<()> {
        self.close()?;
        let configuration = self.setup.configuration;
        let options = configuration.options(Arc::new(StdVfs), self.openings);
        sound(self.dir, &options).map(drop)
    }
}
