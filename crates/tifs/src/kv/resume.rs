//! Changes after a failure that stopped the engine's writes.
//!
//! If the disk is full, or an operation of it fails, the engine refuses writes until it is asked to
//! resume: then it writes to new files all that the failure left undone. No acknowledged write is
//! lost meanwhile, and reads go on. So a volume on a full disk goes on once there is space, without
//! a new mount. [`Resumption`] decides when to ask.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use titan::{Db, ErrorKind, SystemClock};

/// The shortest time between two attempts. An attempt writes files, and a disk may stay full for
/// hours.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lets a database accept writes again, now and then.
pub(super) struct Resumption {
    db: Db,
    clock: Arc<dyn SystemClock>,
    /// The begin of the last attempt. Locked during an attempt, which may take as long as writing
    /// everything in memory.
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

    /// Tries to resume, if a failure stopped writes that may be over, and the last attempt is long
    /// ago. During another thread's attempt the caller goes on as if nothing had changed. Cost:
    /// without a failure, one lock.
    pub(super) fn try_now_and_then(&self) {
        if self.is_due()
            && let Some(last_attempt) = self.last_attempt.try_lock()
        {
            self.attempt(last_attempt, INTERVAL);
        }
    }

    /// The same at any time. Waits for an attempt of another thread: the caller will make
    /// everything durable.
    pub(super) fn try_now(&self) {
        if self.is_due() {
            self.attempt(self.last_attempt.lock(), Duration::ZERO);
        }
    }

    fn attempt(&self, mut last_attempt: MutexGuard<'_, Option<Duration>>, interval: Duration) {
        let now = self.clock.monotonic();
        let is_early = last_attempt.is_some_and(|last| now.saturating_sub(last) < interval);
        // Another thread may have been here meanwhile.
        let impatient = mutant!(full_disk_tried_at_every_change);
        if (is_early && !impatient) || !self.is_due() {
            return;
        }
        *last_attempt = Some(now);
        // If it fails, the next write says why.
        if !mutant!(full_disk_for_ever) {
            let _: titan::Result<()> = self.db.resume();
        }
    }

    /// Whether writes are stopped by a failure that may be over. After damage or a bug, people must
    /// look first.
    fn is_due(&self) -> bool {
        let failure = self.db.background_error();
        failure.is_some_and(|e| matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Io))
    }
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use titan::Options;
    use titan_testkit::clock::SimClock;
    use titan_testkit::sim::SimVfs;

    use super::*;

    #[test]
    fn changes_do_not_wait_while_another_thread_tries() {
        let (vfs, clock) = (SimVfs::new(), SimClock::with_seed(7));
        let mut options = Options::default();
        options.db.vfs = Arc::new(vfs.clone());
        options.db.create_if_missing = true;
        let db = Db::open("/db", &options).unwrap();
        vfs.set_capacity(Some(100_000));
        let refused = (0..1000u32).find_map(|i| db.put(&i.to_be_bytes(), &[1; 1000]).err());
        assert!(refused.is_some());
        let resumption = Resumption::new(db, Arc::new(clock));
        assert!(resumption.is_due());
        vfs.set_capacity(None);
        let trying = resumption.last_attempt.lock();
        resumption.try_now_and_then();
        assert!(resumption.is_due());
        drop(trying);
        resumption.try_now_and_then();
        assert!(!resumption.is_due());
    }
}
