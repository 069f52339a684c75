//! Prewrites, in one phase or two, and commits.

use std::time::Duration;

use titan_mvcc::{Mutation, Prewrite, Timestamp};

use super::call::{Call, Work};
use super::failure::Failure;
use super::key_errors::Caller;
use crate::proto::kvrpcpb::write_conflict::Reason;
use crate::proto::kvrpcpb::{
    self, CommitRequest, CommitResponse, Op, PrewriteRequest, PrewriteResponse,
};
use crate::regions::KeyForm;

impl Call for PrewriteRequest {
    fn run(self, work: &Work<'_>) -> Result<PrewriteResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(self.mutations.iter().map(|mutation| &mutation.key))?;
        for mutation in &self.mutations {
            work.check_sizes(&mutation.key, &mutation.value)?;
        }
        let mutations: Vec<_> = self.mutations.iter().map(mutation).collect::<Result<_, _>>()?;
        let start = Timestamp(self.start_version);
        let request = Prewrite {
            mutations: &mutations,
            primary: &self.primary_lock,
            start,
            read_at: start,
            ttl: Duration::from_millis(self.lock_ttl),
            txn_size: self.txn_size,
            min_commit: Timestamp(self.min_commit_ts),
            for_update: (self.for_update_ts > 0).then_some(Timestamp(self.for_update_ts)),
            secondaries: self.use_async_commit.then_some(&*self.secondaries),
        };
        let caller = Caller {
            start: self.start_version,
            primary: &self.primary_lock,
            reason: Reason::Optimistic,
        };
        let done = work
            .percolator()
            .prewrite(&request)
            .map_err(|error| caller.failure(error))?;
        let bytes = self.mutations.iter().map(|m| m.key.len() + m.value.len());
        let keys = self.mutations.len();
        work.node.note_written(&within, bytes.sum(), keys);
        let commit = done.committed.unwrap_or(done.min_commit);
        Ok(PrewriteResponse {
            min_commit_ts: if self.use_async_commit { commit.0 } else { 0 },
            ..PrewriteResponse::default()
        })
    }
}

fn mutation(mutation: &kvrpcpb::Mutation) -> Result<Mutation<'_>, Failure> {
    let (key, value) = (&*mutation.key, &*mutation.value);
    Ok(match mutation.op() {
        Op::Put => Mutation::Put { key, value },
        Op::Del => Mutation::Delete { key },
        Op::Lock => Mutation::Lock { key },
        op => {
            let reason = format!("a prewrite of {op:?} is not possible");
            return Err(Failure::abort(reason));
        }
    })
}

impl Call for CommitRequest {
    fn run(self, work: &Work<'_>) -> Result<CommitResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(&self.keys)?;
        let (start, commit) = (self.start_version, self.commit_version);
        work.percolator()
            .commit(&self.keys, Timestamp(start), Timestamp(commit))
            .map_err(|error| Caller::of(start).failure(error))?;
        Ok(CommitResponse {
            commit_version: commit,
            ..CommitResponse::default()
        })
    }
}
