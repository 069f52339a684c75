//! Prewrites, in one phase or two, and commits.

use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{
    AbsentKey, Assertion, ConflictCheck, Demands, Error, KeyDemand, Mutation, Prewrite, Prewritten,
    Timestamp,
};

use super::call::{Call, Work};
use super::failure::Failure;
use super::key_errors::Caller;
use crate::proto::kvrpcpb::prewrite_request::PessimisticAction;
use crate::proto::kvrpcpb::write_conflict::Reason;
use crate::proto::kvrpcpb::{
    self, AssertionLevel, CommitRequest, CommitResponse, Op, PrewriteRequest, PrewriteResponse,
};
use crate::regions::{KeyForm, Within};

/// The most bytes that the secondary keys of an async commit take in the memory of its lock. It is
/// there until the transaction ends, and an entry of Raft's log has no more in a cluster.
const SECONDARIES: usize = 8 << 20;

/// Refuses too many secondary keys, and those that are too long.
fn check_secondaries(within: &Within, keys: &[Bytes]) -> Result<(), Failure> {
    within.any_keys(keys)?;
    let bytes: usize = keys.iter().map(|key| size_of::<Bytes>() + key.len()).sum();
    if bytes > SECONDARIES {
        let reason = format!(
            "the secondary keys take {bytes} bytes, more than {SECONDARIES}: commit in two phases"
        );
        return Err(Failure::too_large(reason, bytes));
    }
    Ok(())
}

impl Call for PrewriteRequest {
    fn run(self, work: &Work<'_>) -> Result<PrewriteResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        let keys: Vec<&Bytes> = self.mutations.iter().map(|m| &m.key).collect();
        within.keys(&keys)?;
        within.any_keys([&self.primary_lock])?;
        check_secondaries(&within, &self.secondaries)?;
        work.check_room(self.context.as_ref())?;
        let mut bytes = 0;
        for mutation in &self.mutations {
            work.check_value(&mutation.value)?;
            bytes += mutation.key.len() + mutation.value.len();
        }
        let writes = self.writes()?;
        let start = Timestamp(self.start_version);
        let request = Prewrite {
            mutations: &writes.mutations,
            primary: &self.primary_lock,
            start,
            read_at: start,
            ttl: Duration::from_millis(self.lock_ttl),
            txn_size: self.txn_size,
            min_commit: Timestamp(self.min_commit_ts),
            for_update: (self.for_update_ts > 0).then_some(Timestamp(self.for_update_ts)),
            secondaries: self.use_async_commit.then_some(&*self.secondaries),
        };
        let demands = Demands {
            on_keys: &writes.on_keys,
            absent: &writes.absent,
            one_phase: self.try_one_pc,
            max_commit: (self.max_commit_ts > 0).then_some(Timestamp(self.max_commit_ts)),
        };
        let percolator = work.percolator();
        match percolator.prewrite_with(&request, &demands) {
            Ok(done) => {
                work.node.note_written(&within, bytes, self.mutations.len());
                Ok(self.answer(&done))
            }
            // The client resolves all of them before it repeats the call.
            Err(Error::KeyIsLocked(first)) => {
                let mut locks = percolator.locks_of_others(&keys, start);
                if locks.is_empty() {
                    locks.push(*first);
                }
                let errors = locks.iter().map(|lock| work.locked(lock));
                Ok(PrewriteResponse {
                    errors: errors.collect::<Result<_, _>>()?,
                    ..PrewriteResponse::default()
                })
            }
            Err(error) => {
                let caller = Caller {
                    start: self.start_version,
                    primary: &self.primary_lock,
                    reason: self.reason(&error),
                };
                match self.try_one_pc || self.use_async_commit {
                    true => Err(caller.commit_failure(error, work.node.store())),
                    false => Err(caller.failure(error)),
                }
            }
        }
    }
}

/// The mutations of a request in the form of the store.
#[derive(Default)]
struct Writes<'a> {
    mutations: Vec<Mutation<'a>>,
    on_keys: Vec<KeyDemand>,
    absent: Vec<AbsentKey<'a>>,
}

impl PrewriteRequest {
    fn writes(&self) -> Result<Writes<'_>, Failure> {
        let mut writes = Writes::default();
        for (at, mutation) in self.mutations.iter().enumerate() {
            let (key, value) = (&*mutation.key, &*mutation.value);
            let demand = self.demand(at, mutation);
            // The getter of the field would take an unknown operation for a put.
            let write = match Op::try_from(mutation.op) {
                Ok(Op::Put | Op::Insert) => Mutation::Put { key, value },
                Ok(Op::Del) => Mutation::Delete { key },
                Ok(Op::Lock) => Mutation::Lock { key },
                Ok(Op::CheckNotExists) => {
                    let check = demand.check;
                    writes.absent.push(AbsentKey { key, check });
                    continue;
                }
                Ok(Op::Rollback | Op::PessimisticLock) | Err(_) => {
                    let reason = format!("operation {} is none of a prewrite", mutation.op);
                    return Err(Failure::abort(reason));
                }
            };
            writes.mutations.push(write);
            writes.on_keys.push(demand);
        }
        Ok(writes)
    }

    /// The reason of a conflict: a pessimistic transaction may have put a check off.
    fn reason(&self, error: &Error) -> Reason {
        let Error::Conflict { key, .. } = error else {
            return Reason::Optimistic;
        };
        let at = self.mutations.iter().position(|m| m.key == *key);
        match at.and_then(|at| self.action(at)) {
            Some(PessimisticAction::DoConstraintCheck) if self.for_update_ts > 0 => {
                Reason::LazyUniquenessCheck
            }
            _ => Reason::Optimistic,
        }
    }

    fn action(&self, at: usize) -> Option<PessimisticAction> {
        let action = self.pessimistic_actions.get(at)?;
        PessimisticAction::try_from(*action).ok()
    }

    fn demand(&self, at: usize, mutation: &kvrpcpb::Mutation) -> KeyDemand {
        let is_asserted = self.assertion_level() != AssertionLevel::Off;
        let constraints = self.for_update_ts_constraints.iter();
        let mut own = constraints.filter(|constraint| constraint.index as usize == at);
        KeyDemand {
            locked_at: own
                .next()
                .map(|constraint| Timestamp(constraint.expected_for_update_ts)),
            absent: mutation.op() == Op::Insert,
            assertion: match mutation.assertion() {
                kvrpcpb::Assertion::Exist if is_asserted => Some(Assertion::Exists),
                kvrpcpb::Assertion::NotExist if is_asserted => Some(Assertion::Absent),
                _ => None,
            },
            check: match self.action(at) {
                Some(PessimisticAction::DoConstraintCheck) => ConflictCheck::Versions,
                Some(PessimisticAction::SkipPessimisticCheck) if self.for_update_ts > 0 => {
                    ConflictCheck::Nothing
                }
                _ => ConflictCheck::Usual,
            },
        }
    }

    fn answer(&self, done: &Prewritten) -> PrewriteResponse {
        let mut answer = PrewriteResponse::default();
        match done.committed {
            Some(commit) if self.try_one_pc => answer.one_pc_commit_ts = commit.0,
            Some(commit) if self.use_async_commit => answer.min_commit_ts = commit.0,
            None if self.use_async_commit && done.is_async => {
                answer.min_commit_ts = done.min_commit.0;
            }
            _ => {}
        }
        answer
    }
}

impl Call for CommitRequest {
    fn run(self, work: &Work<'_>) -> Result<CommitResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(&self.keys)?;
        let (start, commit) = (self.start_version, self.commit_version);
        work.percolator()
            .commit(&self.keys, Timestamp(start), Timestamp(commit))
            .map_err(|error| Caller::of(start).commit_failure(error, work.node.store()))?;
        Ok(CommitResponse {
            commit_version: commit,
            ..CommitResponse::default()
        })
    }
}
