//! The trait of calls, and the means of a running call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use titan_mvcc::{KnownLocks, LockInfo, Percolator, Snapshot, Timestamp};

use super::answers::Answered;
use super::failure::Failure;
use super::key_errors::{lock_info, read_failure};
use super::reserved::Reserved;
use crate::node::Shared;
use crate::proto::kvrpcpb::{
    self, ApiVersion, Context, DiskFullOpt, IsolationLevel, KeyError, KvPair,
};
use crate::regions::{KeyForm, Within};

/// The rows of a scan between two looks at the clock.
const ROWS_BETWEEN_LOOKS: usize = 64;

/// A call of the key-value service.
pub(crate) trait Call: Answered {
    /// Runs the call. May block, even if it is short.
    fn run(self, work: &Work<'_>) -> Result<Self::Answer, Failure>;

    /// Returns true if the call usually takes a few microseconds: it reads a key, and waits for no
    /// commit.
    fn is_short(&self, _node: &Shared) -> bool {
        false
    }

    /// Returns true if the call changes nothing.
    fn is_read(&self) -> bool {
        false
    }

    /// The time for which the call wants to wait for locks of other transactions.
    fn wait(&self) -> Duration {
        Duration::ZERO
    }
}

/// The means of a running call.
pub(crate) struct Work<'a> {
    pub(crate) node: &'a Shared,
    /// The moment at which the client gives up.
    pub(crate) deadline: Option<Instant>,
    /// The time for which the call waits for locks.
    pub(crate) wait: Duration,
    /// The memory of the answer.
    pub(crate) reserved: &'a Reserved,
    pub(crate) abandoned: &'a Abandoned,
}

/// True once nobody waits for the answer of a call any more.
#[derive(Clone)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

/// The one that waits for the answer of a call, until this is dropped.
pub(crate) struct Waiter(Abandoned);

impl Abandoned {
    pub(crate) fn new() -> (Self, Waiter) {
        let abandoned = Abandoned(Arc::default());
        let waiter = Waiter(abandoned.clone());
        (abandoned, waiter)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Work<'_> {
    /// The region of a call.
    pub(crate) fn within(
        &self,
        context: Option<&Context>,
        form: KeyForm,
    ) -> Result<Within, Failure> {
        let version = context.map_or(ApiVersion::default(), Context::api_version);
        if version == ApiVersion::V2 {
            let reason = "api version V2 does not match: this node has no keyspaces";
            return Err(Failure::abort(reason));
        }
        Ok(self.node.regions.check(context, form)?)
    }

    /// The calls of Percolator transactions.
    pub(crate) fn percolator(&self) -> Percolator {
        self.node.store().percolator()
    }

    /// A snapshot at the timestamp of a reader, which resolves locks itself.
    pub(crate) fn snapshot(
        &self,
        version: u64,
        context: Option<&Context>,
    ) -> Result<Snapshot, Failure> {
        let store = self.node.store();
        let snapshot = match Timestamp(version) {
            Timestamp::MAX => store.snapshot(),
            at => store.snapshot_at(at).map_err(read_failure)?,
        };
        let starts = |starts: &[u64]| starts.iter().copied().map(Timestamp).collect();
        let isolation = context.map_or(IsolationLevel::Si, Context::isolation_level);
        if isolation == IsolationLevel::RcCheckTs {
            return Err(Failure::abort("the isolation level RCCheckTS is not known"));
        }
        let mut known = KnownLocks {
            reads_latest: version == u64::MAX,
            reads_committed: isolation == IsolationLevel::Rc,
            ..KnownLocks::default()
        };
        if let Some(context) = context {
            known.resolved = starts(&context.resolved_locks);
            known.committed = starts(&context.committed_locks);
        }
        Ok(snapshot.reporting_locks(known))
    }

    /// Fails if the client has left.
    pub(crate) fn check_client(&self) -> Result<(), Failure> {
        match self.abandoned.0.load(Ordering::Relaxed) {
            true => Err(Failure::busy("the client has left")),
            false => Ok(()),
        }
    }

    /// Fails after the deadline.
    pub(crate) fn check_time(&self) -> Result<(), Failure> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Failure::deadline()),
            _ => Ok(()),
        }
    }

    /// Fails after the deadline, at some of the rows of a scan: the clock takes as long as a row.
    pub(crate) fn check_time_at(&self, row: usize) -> Result<(), Failure> {
        match row % ROWS_BETWEEN_LOOKS {
            0 => self.check_time(),
            _ => Ok(()),
        }
    }

    /// A pair of the answer, with memory for it.
    pub(super) fn pair(&self, key: Bytes, value: Bytes) -> Result<KvPair, Failure> {
        self.reserve(size_of::<KvPair>() + key.len() + value.len())?;
        Ok(KvPair {
            error: None,
            key,
            value,
        })
    }

    /// A lock of the answer, with memory for it.
    pub(super) fn lock(&self, lock: &LockInfo) -> Result<kvrpcpb::LockInfo, Failure> {
        let secondaries = lock.secondaries.iter().flatten();
        let secondaries = secondaries.map(|key| size_of::<Bytes>() + key.len());
        let keys = lock.key.len() + lock.primary.len() + secondaries.sum::<usize>();
        self.reserve(size_of::<KeyError>() + keys)?;
        Ok(lock_info(lock))
    }

    /// The error of a locked key, with memory for it.
    pub(super) fn locked(&self, lock: &LockInfo) -> Result<KeyError, Failure> {
        Ok(KeyError {
            locked: Some(self.lock(lock)?),
            ..KeyError::default()
        })
    }

    /// Reserves memory for a part of the answer.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), Failure> {
        self.reserved.grow(bytes)
    }

    /// Fails a call that begins something while the disk is almost full. Its context may insist.
    pub(crate) fn check_room(&self, context: Option<&Context>) -> Result<(), Failure> {
        let opt = context.map_or(DiskFullOpt::default(), Context::disk_full_opt);
        if opt != DiskFullOpt::NotAllowedOnFull {
            return Ok(());
        }
        match self.node.room.lack() {
            None => Ok(()),
            Some(reason) => Err(Failure::disk_full(reason)),
        }
    }

    /// Fails for a value beyond the limit.
    pub(crate) fn check_value(&self, value: &[u8]) -> Result<(), Failure> {
        let (len, limit) = (value.len(), self.node.limits.value_bytes);
        if len > limit {
            let reason = format!("value of {len} bytes is too large: the limit is {limit}");
            return Err(Failure::too_large(reason, len));
        }
        Ok(())
    }
}
