//! The trait of calls, and the means of a running call.

use std::time::{Duration, Instant};

use bytes::Bytes;
use titan_mvcc::{KnownLocks, Percolator, Snapshot, Timestamp};

use super::answers::Answered;
use super::failure::Failure;
use super::key_errors::read_failure;
use super::reserved::Reserved;
use crate::node::Shared;
use crate::proto::errorpb;
use crate::proto::kvrpcpb::{Context, DiskFullOpt, IsolationLevel, KvPair};
use crate::regions::{KeyForm, Within};

/// The rows of a scan between two looks at the clock.
const ROWS_BETWEEN_LOOKS: usize = 64;

/// A call of the key-value service.
pub(crate) trait Call: Answered {
    /// Runs the call. May block.
    fn run(self, work: &Work<'_>) -> Result<Self::Answer, Failure>;

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
}

impl Work<'_> {
    /// The region of a call.
    pub(crate) fn within(
        &self,
        context: Option<&Context>,
        form: KeyForm,
    ) -> Result<Within, Failure> {
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

    /// Fails for a key or value beyond the limits.
    pub(crate) fn check_sizes(
        &self,
        within: &Within,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Failure> {
        let limits = &self.node.limits;
        if key.len() > limits.key_bytes {
            let (len, limit) = (key.len(), limits.key_bytes);
            let reason = format!("key of {len} bytes is too large: the limit is {limit}");
            return Err(Failure::abort(reason));
        }
        if value.len() > limits.value_bytes {
            return Err(Failure::from(errorpb::Error {
                message: format!(
                    "value of {} bytes is too large: the limit is {}",
                    value.len(),
                    limits.value_bytes
                ),
                raft_entry_too_large: Some(errorpb::RaftEntryTooLarge {
                    region_id: within.region.id,
                    entry_size: value.len() as u64,
                }),
                ..errorpb::Error::default()
            }));
        }
        Ok(())
    }
}
