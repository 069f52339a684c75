//! State that the threads of a life share.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use titan::{ColumnFamily, Db, Error, ErrorKind};
use titan_testkit::apply::{Applier, Manner};
use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::ops::Op;
use titan_testkit::reference::Outcome;

use super::space::Space;
use crate::event::Event;
use crate::keys::Family;
use crate::plan::Plan;

/// The pipe to the campaign.
pub(super) struct Out(Mutex<File>);

impl Out {
    pub(super) fn new() -> std::io::Result<Out> {
        let out = std::io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Out(Mutex::new(File::from(out))))
    }

    /// Returns when the line is in the kernel, and so survives this process.
    pub(super) fn tell(&self, event: &Event) {
        let line = format!("{event}\n");
        if self.0.lock().write_all(line.as_bytes()).is_err() {
            // The campaign is gone.
            std::process::abort();
        }
    }
}

/// Reports a panic of the thread that owns it.
pub(super) struct TellPanic<'a>(pub(super) &'a Out);

impl Drop for TellPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .tell(&Event::Violation("a thread panicked".to_owned()));
        }
    }
}

/// State that the threads of a life share.
pub(super) struct World {
    pub(super) db: Db,
    pub(super) plan: Plan,
    pub(super) out: Arc<Out>,
    pub(super) space: Arc<Space>,
    /// By actor, the version of the last operation begun.
    pub(super) begun: Vec<AtomicU64>,
    /// The version of the maintainer's next operation; locked during an operation.
    maintenance: Mutex<u64>,
    /// The database is about to be closed.
    pub(super) closing: AtomicBool,
    stopping: AtomicBool,
}

impl World {
    pub(super) fn new(db: Db, plan: Plan, out: Arc<Out>, space: Arc<Space>) -> Self {
        let begun = plan
            .next
            .iter()
            .map(|next| AtomicU64::new(next.saturating_sub(1)))
            .collect();
        let next = plan.next.get(plan.scale.maintainer()).copied();
        World {
            db,
            out,
            space,
            begun,
            maintenance: Mutex::new(next.unwrap_or(1)),
            plan,
            closing: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Tells every thread to end.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.space.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// The handle of a family, if it exists.
    pub(super) fn family(&self, actor: usize, family: Family) -> Option<ColumnFamily> {
        self.db.column_family(&family.name(actor))
    }

    /// Repeats a step until the life ends or something is wrong.
    pub(super) fn keep_on(&self, mut step: impl FnMut() -> Checked<()>) {
        while !self.is_stopping() {
            match step() {
                Ok(()) => {}
                Err(CheckFailure::Failed(e))
                    if self.plan.may_fill_up && self.is_about_space(&e) =>
                {
                    self.space.wait_until_healed(self);
                }
                Err(problem) => {
                    self.complain(problem);
                    return;
                }
            }
        }
    }

    /// Reports a problem, except that the database is closed after closing began.
    pub(super) fn complain(&self, problem: CheckFailure) {
        match problem {
            CheckFailure::Wrong(what) => self.out.tell(&Event::Violation(what)),
            CheckFailure::Failed(e) if e.kind() == ErrorKind::Closed => {
                if !self.closing.load(Ordering::SeqCst) {
                    self.out
                        .tell(&Event::Violation(format!("closed unexpectedly: {e}")));
                }
            }
            CheckFailure::Failed(e) => self.out.tell(&Event::Failure(e.to_string())),
        }
    }

    /// Whether an error says clearly that the file system is full.
    pub(super) fn is_about_space(&self, e: &Error) -> bool {
        match e.kind() {
            ErrorKind::NoSpace => true,
            // No error is active: it was healed in the meantime.
            ErrorKind::WritesStopped => {
                let cause = self.db.background_error();
                cause.is_none_or(|cause| cause.kind() == ErrorKind::NoSpace)
            }
            _ => false,
        }
    }

    /// Runs an operation, reporting before and after it.
    pub(super) fn record(
        &self,
        actor: usize,
        version: u64,
        op: &Op,
        run: impl FnOnce() -> Checked<Outcome>,
    ) -> Checked<bool> {
        if let Some(begun) = self.begun.get(actor) {
            begun.store(version, Ordering::SeqCst);
        }
        self.out.tell(&Event::Begin {
            actor,
            version,
            op: op.clone(),
        });
        match run() {
            Ok(_) => {
                self.out.tell(&Event::Done { actor, version });
                Ok(true)
            }
            Err(CheckFailure::Failed(e)) if e.kind() == ErrorKind::Busy => {
                self.out.tell(&Event::Undone { actor, version });
                Ok(false)
            }
            Err(e) => {
                self.out.tell(&Event::Unsure {
                    actor,
                    version,
                    why: e.to_string(),
                });
                Err(e)
            }
        }
    }

    /// Performs an operation of the maintainer. Closing is the last one.
    pub(super) fn maintain(&self, op: &Op) -> Checked<()> {
        let mut next = self.maintenance.lock();
        if *op != Op::Close && self.closing.load(Ordering::SeqCst) {
            return Ok(());
        }
        let version = *next;
        *next += 1;
        let actor = self.plan.scale.maintainer();
        let mut applier = Applier::new(&self.plan.dir, &self.plan.options, Manner::default());
        let run = || applier.apply(&self.db, op);
        self.record(actor, version, op, run).map(drop)
    }

    /// The newest version of an actor that any thread can have seen by now.
    pub(super) fn newest(&self, actor: usize) -> u64 {
        self.begun
            .get(actor)
            .map_or(0, |begun| begun.load(Ordering::SeqCst))
    }

    /// Sleeps for a while.
    pub(super) fn rest(&self, at_most: Duration, rng: &mut fastrand::Rng) {
        if !self.is_stopping() {
            std::thread::sleep(at_most.mul_f64(rng.f64()));
        }
    }
}
