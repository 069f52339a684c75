//! Runs the kit against a small store with one deliberate mistake at a time: each must be
//! found, and the store without any must pass.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use titan::Result;
use titan::vfs::{Vfs, WritableFile};
use titan_testkit::history::History;
use titan_testkit::model::Model;
use titan_testkit::ops::{Generator, Op, Ops, Weights};
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
        match op {
            Op::Write { sync: true, .. } if self.mistake == Mistake::NoSync => Ok(()),
            Op::Write { sync: true, .. } if self.mistake == Mistake::RetriesSync => {
                self.log.sync().or_else(|_| self.log.sync())
            }
            Op::Write { sync: true, .. } => self.log.sync(),
            _ => Ok(()),
        }
    }
}

/// Runs a workload, until its end or the first error, and returns what it acknowledged.
fn run(vfs: &SimVfs, ops: &Ops, mistake: Mistake) -> (Journal, History) {
    let mut store = Store::open(vfs, mistake).unwrap();
    let mut history = History::new();
    for op in &ops.0 {
        let outcome = store.apply(op);
        // A failed operation may still appear after a recovery.
        let n = history.push(op);
        if outcome.is_err() {
            break;
        }
        if let Op::Write { sync: true, .. } = op {
            vfs.mark(n as u64);
        }
    }
    (vfs.journal(), history)
}

/// The first crash after which the store has a state that is not allowed.
fn find(journal: &Journal, history: &History, mistake: Mistake) -> Option<String> {
    let check = |image: &SimVfs, at_least: usize, how: String| {
        let found = match Store::open(image, mistake) {
            Ok(store) => store.model,
            Err(e) => return Err(format!("{how}: {e}")),
        };
        history
            .matches_some_prefix(&found, at_least)
            .map_err(|diff| format!("{how}: {diff}"))
    };
    let every_crash = || {
        for point in journal.crash_points() {
            let (index, at_least) = (point.index(), point.acknowledged() as usize);
            if let Some(image) = point.kill_within(index as u64) {
                check(&image, at_least, format!("killed within {index}"))?;
            }
            for loss in [Loss::None, Loss::All, Loss::Random(1), Loss::Random(2)] {
                let image = point.crash(&loss);
                let recovered = check(&image, at_least, format!("crash at {index}, {loss:?}"))?;
                if index % 50 != 0 {
                    continue;
                }
                // A crash of the recovery must not lose what it found and made durable.
                let again = image.journal();
                for second in again.crash_points() {
                    let at_least = if second.index() == again.len() {
                        recovered
                    } else {
                        at_least
                    };
                    let how = format!("crash at {index}, {loss:?}, then at {}", second.index());
                    check(&second.crash(&Loss::Random(3)), at_least, how)?;
                }
            }
        }
        Ok(())
    };
    every_crash().err()
}

fn draw(seed: u64, synced_percent: u32, n: usize) -> Ops {
    let mut generator = Generator::with_seed(seed);
    generator.weights = Weights {
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
            let (journal, history) = run(&SimVfs::new(), &ops, Mistake::None);
            assert_eq!(find(&journal, &history, Mistake::None), None, "seed {seed}");
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
                    let (journal, history) = run(&SimVfs::new(), &ops, mistake);
                    find(&journal, &history, mistake).is_some()
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
            let (journal, history) = run(&vfs, &workload(seed), mistake);
            assert_eq!(fault.hits(), 1, "seed {seed}");
            find(&journal, &history, mistake).is_some()
        });
        assert_eq!(found, mistake == Mistake::RetriesSync);
    }
}
