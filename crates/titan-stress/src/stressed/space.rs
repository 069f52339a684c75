//! Behaviour on a full file system: writes stop with an error that says so, reads continue, and
//! when the campaign has freed space, `resume` allows writes again. Then everything is replaced and
//! compacted, which frees enough for the next time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use titan::{CompactRangeOptions, Error, ErrorKind, EventListener};
use titan_testkit::failure::{CheckFailure, Checked};

use super::world::World;
use crate::event::Event;

/// The interval at which waiting threads check for the end of the life.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Space {
    state: Mutex<Waiting>,
    changed: Condvar,
    renewals_wanted: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    /// Writes have stopped, and that was not reported yet.
    stopped: bool,
    /// The campaign has freed space.
    may_resume: bool,
    /// Between the stop and the end of the repair.
    scarce: bool,
    /// Number of writers that have replaced everything for the current repair.
    renewed: usize,
}

impl EventListener for Space {
    fn writes_stopped(&self, _: &Error) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.scarce = true;
        self.changed.notify_all();
    }
}

impl Space {
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Notes that space was freed.
    pub(super) fn allow_resume(&self) {
        self.state.lock().may_resume = true;
        self.changed.notify_all();
    }

    /// Whether pinned files should be given up.
    pub(super) fn is_scarce(&self) -> bool {
        self.state.lock().scarce
    }

    /// Number of times that a writer should have replaced everything by now.
    pub(super) fn renewals_wanted(&self) -> u64 {
        self.renewals_wanted.load(Ordering::SeqCst)
    }

    /// Notes that a writer has replaced everything.
    pub(super) fn renewed(&self) {
        self.state.lock().renewed += 1;
        self.changed.notify_all();
    }

    /// Waits until writes are possible, or the life ends.
    pub(super) fn wait_until_healed(&self, world: &World) {
        let mut state = self.state.lock();
        while !world.is_stopping() && world.db.background_error().is_some() {
            self.changed.wait_for(&mut state, LOOK);
        }
    }

    /// Waits until `is_so`, or the life ends; then it returns false.
    fn wait(&self, world: &World, mut is_so: impl FnMut(&mut Waiting) -> bool) -> bool {
        let mut state = self.state.lock();
        while !world.is_stopping() {
            if is_so(&mut state) {
                return true;
            }
            self.changed.wait_for(&mut state, LOOK);
        }
        false
    }
}

/// Repairs whenever writes have stopped, until the life ends.
pub(super) fn heal(world: &World) {
    let space = &world.space;
    world.keep_on(|| {
        if !space.wait(world, |state| std::mem::take(&mut state.stopped)) {
            return Ok(());
        }
        let Some(cause) = world.db.background_error() else {
            return Ok(());
        };
        if cause.kind() != ErrorKind::NoSpace {
            return Err(cause.into());
        }
        world.out.tell(&Event::Stopped(cause.to_string()));
        if !space.wait(world, |state| std::mem::take(&mut state.may_resume)) {
            return Ok(());
        }
        world.db.resume().map_err(|e| {
            CheckFailure::Wrong(format!("writes do not resume though space was freed: {e}"))
        })?;
        space.changed.notify_all();
        match give_back(world) {
            // Full again: repeats from the start.
            Err(CheckFailure::Failed(e)) if world.is_about_space(&e) => return Ok(()),
            given_back => given_back?,
        }
        space.state.lock().scarce = false;
        world.out.tell(&Event::Resumed);
        Ok(())
    });
}

/// Waits until everything is replaced, and compacts.
fn give_back(world: &World) -> Checked<()> {
    let space = &world.space;
    space.state.lock().renewed = 0;
    space.renewals_wanted.fetch_add(1, Ordering::SeqCst);
    let writers = world.plan.scale.writers + 1;
    if !space.wait(world, |state| state.renewed == writers || state.stopped) {
        return Ok(());
    }
    for handle in world.db.column_families() {
        let options = CompactRangeOptions {
            force_bottommost: true,
        };
        match handle.compact_range(None, None, &options) {
            // Dropped in the meantime by its owner.
            Err(e) if e.kind() == ErrorKind::InvalidArgument => {}
            compacted => compacted?,
        }
    }
    Ok(world.db.wait_idle()?)
}
