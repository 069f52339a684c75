//! Runs the kit against a small store with one deliberate mistake at a time: each must be
//! found, and the store without any must pass.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use titan::Result;
use titan::vfs::{Vfs, WritableFile};
use titan_testkit::ledger::{End, Keys, Ledger, matters};
use titan_testkit::model::Model;
use titan_testkit::ops::{Durability, Generator, Op, Ops, Weights};
use titan_testkit::sim::{Fault, Journal, Loss, OpKind, SimVfs};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    None,
    /// A synced write is acknowledged without a sync.
    NoSync,
    /// The new log is renamed before its content is durable.
    RenameBeforeSync,
    /// The rename is never made durable.
    NoDirectorySync,
    /// The database's own directory is never made durable.
    NoParentSync,
    /// A line counts as complete if it can be read.
    NoChecksum,
    /// Lines after a damaged one are applied.
    SkipsDamage,
    /// A failed sync is retried and then trusted.
    RetriesSync,
}

struct Store {
    log: Box<dyn WritableFile>,
    model: Model,
    mistake: Mistake,
}

fn checksum(text: &str) -> u32 {
    text.bytes().fold(17, |sum, byte| {
        sum.wrapping_mul(16_777_619) ^ u32::from(byte)
    })
}

impl Store {
    fn open(vfs: &SimVfs, mistake: Mistake) -> Result<Store> {
        let (dir, log, temp) = (
            Path::new("/db"),
            Path::new("/db/log"),
            Path::new("/db/temp"),
        );
        vfs.create_dir_all(dir)?;
        if mistake != Mistake::NoParentSync {
            vfs.sync_dir(Path::new("/"))?;
        }
        let old = if vfs.exists(log)? {
            vfs.read_all(log)?
        } else {
            Vec::new()
        };
        let old = String::from_utf8_lossy(&old);
        let mut store = Store {
            log: vfs.create(temp)?,
            model: Model::new(),
            mistake,
        };
        for line in old.lines() {
            let parsed = line.split_once(' ').and_then(|(sum, text)| {
                let good =
                    mistake == Mistake::NoChecksum || sum == format!("{:08x}", checksum(text));
                Ops::parse(text).ok().filter(|_| good)
            });
            match parsed {
                Some(ops) => ops.0.iter().try_for_each(|op| store.append(op))?,
                None if mistake == Mistake::SkipsDamage => {}
                None => break,
            }
        }
        if mistake == Mistake::RenameBeforeSync {
            vfs.rename(temp, log)?;
            vfs.sync_dir(dir)?;
            store.log.sync()?;
        } else {
            store.log.sync()?;
            vfs.rename(temp, log)?;
            if mistake != Mistake::NoDirectorySync {
                vfs.sync_dir(dir)?;
            }
        }
        Ok(store)
    }

    fn append(&mut self, op: &Op) -> Result<()> {
        let text = op.to_string();
        self.log
            .append(format!("{:08x} {text}\n", checksum(&text)).as_bytes())?;
        self.model.apply(op);
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<()> {
        self.append(op)?;
        let durability = match op {
            Op::Write { durability, .. } => Some(*durability),
            _ => None,
        };
        if durability == Some(Durability::Logged) || !matters(op) {
            return Ok(());
        }
        match self.mistake {
            Mistake::NoSync if durability.is_some() => Ok(()),
            Mistake::RetriesSync => self.log.sync().or_else(|_| self.log.sync()),
            _ => self.log.sync(),
        }
    }
}

/// Runs a workload, until its end or the first error, and returns what it acknowledged.
fn run(vfs: &SimVfs, ops: &Ops, mistake: Mistake) -> (Journal, Ledger) {
    let mut store = Store::open(vfs, mistake).unwrap();
    let mut ledger = Ledger::new(Keys::Together);
    for op in &ops.0 {
        ledger.begin(0, op);
        if store.apply(op).is_err() {
            // It may still appear after a recovery.
            ledger.unsure(0);
            break;
        }
        ledger.done(0);
        vfs.mark(ledger.now());
    }
    (vfs.journal(), ledger)
}

/// The first crash after which the store has a state that is not allowed.
fn find(journal: &Journal, ledger: &Ledger, mistake: Mistake) -> Option<String> {
    let check = |image: &SimVfs, ledger: &Ledger, end, moment, how: String| {
        let found = match Store::open(image, mistake) {
            Ok(store) => store.model,
            Err(e) => return Err(format!("{how}: {e}")),
        };
        let allowed = ledger.allows(&found, end, moment);
        allowed.map_err(|e| format!("{how}: {e}")).map(|()| found)
    };
    let every_crash = || {
        for point in journal.crash_points() {
            let (index, moment) = (point.index(), point.acknowledged());
            if let Some(image) = point.kill_within(index as u64) {
                let how = format!("killed within {index}");
                check(&image, ledger, End::Process, moment, how)?;
            }
            for loss in [Loss::None, Loss::All, Loss::Random(1), Loss::Random(2)] {
                let image = point.crash(&loss);
                let how = format!("crash at {index}, {loss:?}");
                let found = check(&image, ledger, End::with(&loss), moment, how)?;
                if index % 50 != 0 {
                    continue;
                }
                // A crash of the recovery must not lose what it found and made durable.
                let again = image.journal();
                let recovered = Ledger::starting_at(found, Keys::Together).unwrap();
                for second in again.crash_points() {
                    let (ledger, moment) = match second.index() == again.len() {
                        true => (&recovered, 0),
                        false => (ledger, moment),
                    };
                    let how = format!("crash at {index}, {loss:?}, then at {}", second.index());
                    let image = second.crash(&Loss::Random(3));
                    check(&image, ledger, End::Machine, moment, how)?;
                }
            }
        }
        Ok(())
    };
    every_crash().err()
}

fn draw(seed: u64, synced_percent: u32, n: usize) -> Ops {
    let mut generator = Generator::with_seed(seed);
    // Few operations that are always synced.
    generator.weights = Weights {
        flush: 0,
        create_cf: 1,
        drop_cf: 1,
        synced_percent,
        ..Weights::writes_only()
    };
    generator.value_sizes = vec![0, 1, 10, 100];
    generator.ops(n)
}

fn workload(seed: u64) -> Ops {
    draw(seed, 20, 80)
}

/// Leaves several blocks of the log unsynced.
fn seldom_synced(seed: u64) -> Ops {
    draw(seed, 1, 250)
}

#[test]
fn a_correct_store_passes() {
    for seed in 0..4 {
        for ops in [workload(seed), seldom_synced(seed)] {
            let (journal, ledger) = run(&SimVfs::new(), &ops, Mistake::None);
            assert_eq!(find(&journal, &ledger, Mistake::None), None, "seed {seed}");
        }
    }
}

#[test]
fn each_mistake_is_found() {
    use Mistake::*;
    for mistake in [
        NoSync,
        RenameBeforeSync,
        NoDirectorySync,
        NoParentSync,
        NoChecksum,
        SkipsDamage,
    ] {
        let found = (0..5).any(|seed| {
            [workload(seed), seldom_synced(seed)]
                .into_iter()
                .any(|ops| {
                    let (journal, ledger) = run(&SimVfs::new(), &ops, mistake);
                    find(&journal, &ledger, mistake).is_some()
                })
        });
        assert!(found, "{mistake:?} was not found");
    }
}

#[test]
fn believing_a_sync_that_is_tried_again_is_found() {
    for mistake in [Mistake::None, Mistake::RetriesSync] {
        let found = (0..10).any(|seed| {
            let vfs = SimVfs::new();
            let fault = vfs.inject(Fault::on([OpKind::Sync]).skip(4).losing_pages());
            let (journal, ledger) = run(&vfs, &workload(seed), mistake);
            assert_eq!(fault.hits(), 1, "seed {seed}");
            find(&journal, &ledger, mistake).is_some()
        });
        assert_eq!(found, mistake == Mistake::RetriesSync);
    }
}
