//! Random operations of a thread in its directory.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sched::{CloneFlags, unshare};
use tifs::file_system::Allocate;
use tifs::schema::Time;
use tifs_testkit::model::{Id, Model, Outcome};
use tifs_testkit::ops::{Generator, Op, Shape, Slot, Step};
use tifs_testkit::system::{Answer, Performer};

use super::known::Content;
use super::verify;

/// A thread's part of the test.
pub struct Worker {
    root: PathBuf,
    seed: u64,
    /// It has the model of the directory.
    generator: Generator,
    /// The possible contents of files.
    contents: HashMap<Id, Content>,
    performer: Performer,
    rounds: u32,
}

/// The end of a thread's work.
pub struct Ended {
    /// The state, if the interrupted operation had no effect.
    before: (Model, HashMap<Id, Content>),
    /// The interrupted operation.
    interrupted: Step,
    /// Operations that returned.
    pub done: u64,
}

impl Worker {
    /// Makes its directory, which must not exist.
    pub fn new(root: PathBuf, seed: u64) -> Worker {
        fs::create_dir(&root).unwrap();
        Worker {
            root,
            seed,
            generator: Generator::with_seed(seed, Shape::calm()),
            contents: HashMap::new(),
            performer: Performer::new().unwrap(),
            rounds: 0,
        }
    }

    /// Works until an operation fails because the process was killed. Calls `after` with the number
    /// of operations after each of them.
    pub fn work(&mut self, killed: &AtomicBool, mut after: impl FnMut(u64)) -> Ended {
        // The current directory of this thread is no longer that of others.
        unshare(CloneFlags::CLONE_FS).unwrap();
        std::env::set_current_dir(&self.root).unwrap();
        let mut done = 0;
        loop {
            let before = (self.generator.model().clone(), self.contents.clone());
            let step = self.generator.next_step();
            let expected = before.0.clone().apply(&step, Time::default());
            if expected == Outcome::Skipped {
                continue;
            }
            let closes = matches!(step.op, Op::Forget { slot } if self.performer.is_open(slot));
            self.note(&step.op);
            let performed = self.performer.perform(&step);
            if performed.is_err() && killed.load(Ordering::SeqCst) {
                return Ended {
                    before,
                    interrupted: step,
                    done,
                };
            }
            let agree = performed.is_ok() != matches!(expected, Outcome::Failed(_))
                && performed != Ok(Answer::Nothing);
            assert!(agree, "{step}: {performed:?}, expected {expected:?}");
            // A close returns no error: after the kill it may have flushed nothing.
            let flushed = closes && !killed.load(Ordering::SeqCst);
            self.note_durable(&before.0, &step.op, flushed);
            done += 1;
            after(done);
        }
    }

    /// Notes what may be in files from now on.
    fn note(&mut self, op: &Op) {
        let model = self.generator.model();
        let id = |wanted: Slot| {
            model
                .slots()
                .find(|(slot, _)| *slot == wanted)
                .map(|(_, id)| id)
        };
        match op {
            Op::Write { file, offset, data } => {
                let start = offset.unwrap() as usize;
                let content = self.contents.entry(id(*file).unwrap()).or_default();
                for (n, piece) in data.bytes().chunks(512).enumerate() {
                    let at = start + 512 * n;
                    content.write(at..at + piece.len(), piece[0]);
                }
            }
            Op::Set {
                of,
                size: Some(size),
                ..
            } => {
                let id = of.slot().and_then(id).unwrap();
                self.contents.entry(id).or_default().resize(*size as usize);
            }
            Op::Allocate {
                file,
                offset,
                length,
                what: Allocate::PunchHole,
            } => {
                let hole = *offset as usize..(offset + length) as usize;
                self.contents
                    .entry(id(*file).unwrap())
                    .or_default()
                    .punch(hole);
            }
            _ => {}
        }
        self.contents.retain(|id, _| model.by_id(*id).is_some());
    }

    /// Notes what an operation that returned has made durable. A `syncfs` is no promise: the kernel
    /// sends it to no file system in user space, and since 6.18 does not wait for their writes.
    fn note_durable(&mut self, before: &Model, op: &Op, flushed: bool) {
        let synced = match op {
            Op::Fsync { file, .. } => *file,
            Op::Forget { slot } if flushed => *slot,
            _ => return,
        };
        let bound = before.slots().find(|(slot, _)| *slot == synced);
        if let Some(content) = bound.and_then(|(_, id)| self.contents.get_mut(&id)) {
            content.sync();
        }
    }

    /// Compares the directory with what is known, and begins again with what was found.
    pub fn settle(&mut self, ended: Ended) -> Result<(), String> {
        self.performer.clear();
        let found = verify::read(&self.root);
        let (before, old) = &ended.before;
        let (after, new) = (self.generator.model(), &self.contents);
        let judged = (
            verify::judge(before, old, &found),
            verify::judge(after, new, &found),
        );
        let mut model = match judged {
            (Ok(()), _) => before.clone(),
            (_, Ok(())) => after.clone(),
            (Err(without), Err(with)) => {
                return Err(format!(
                    "{}: after {} had no effect: {without}; after it had its effect: {with}",
                    self.root.display(),
                    ended.interrupted
                ));
            }
        };
        // Nothing is open any more.
        let slots: Vec<Slot> = model.slots().map(|(slot, _)| slot).collect();
        for slot in slots {
            model.apply(&Op::Forget { slot }.into(), Time::default());
        }
        self.contents = verify::settle(&model, &found);
        self.rounds += 1;
        let seed = titan_testkit::mix(self.seed, u64::from(self.rounds));
        self.generator = Generator::on(model, 1_000_000 * self.rounds, seed, Shape::calm());
        Ok(())
    }
}
