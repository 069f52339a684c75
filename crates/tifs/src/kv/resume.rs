//! Changes after a failure that stopped the engine's writes.
//!
//! If the disk is full, or an operation of it fails, the engine refuses writes until somebody asks it to
//! resume: then it writes to new files whatever the failure left undone. Nothing that it acknowledged is
//! lost meanwhile, and reads go on. So a volume that found the disk full goes on once there is space,
//! without being mounted again. [`Resumption`] decides when to ask.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use titan::{Db, ErrorKind, SystemClock};

/// The shortest time between two attempts. An attempt writes files, and a disk may stay full for hours.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lets a database accept writes again, now and then.
pub(super) struct Resumption {
    db: Db,
    clock: Arc<dyn SystemClock>,
    last_attempt: Mutex<Option<Duration>>,
}

impl Resumption {
    pub(super) fn new(db: Db, clock: Arc<dyn SystemClock>) -> Self {
        Resumption {
            db,
            clock,
            last_attempt: Mutex::new(None),
        }
    }

    /// Tries to resume, if a failure stopped writes that may be over and the last attempt is long ago.
    /// Cost: without a failure, one lock.
    pub(super) fn try_now_and_then(&self) {
        self.attempt(INTERVAL);
    }

    /// The same, however long ago the last attempt is.
    pub(super) fn try_now(&self) {
        self.attempt(Duration::ZERO);
    }

    fn attempt(&self, interval: Duration) {
        if !self.is_due() {
            return;
        }
        let mut last_attempt = self.last_attempt.lock();
        let now = self.clock.monotonic();
        let is_early = last_attempt.is_some_and(|last| now.saturating_sub(last) < interval);
        // Another thread may have been here meanwhile.
        // MUTANT: a full disk is tried again by every change.
        let impatient = mutant!(
            "full-disk-tried-at-every-change",
            "-p tifs --test it faults::once"
        );
        if (is_early && !impatient) || !self.is_due() {
            return;
        }
        *last_attempt = Some(now);
        // If it fails, the next write says why.
        // MUTANT: a volume whose disk was full takes no changes until it is mounted again.
        if !mutant!("full-disk-for-ever", "-p tifs --test it faults::") {
            let _: titan::Result<()> = self.db.resume();
        }
    }

    /// Whether writes are stopped, by what may be over. After damage or a bug, people must look first.
    fn is_due(&self) -> bool {
        let failure = self.db.background_error();
        failure.is_some_and(|e| matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Io))
    }
}
