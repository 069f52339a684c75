//! Commits in all ways that the protocol has, and clients that die in the middle.

use titan_server::proto::kvrpcpb::prewrite_request::PessimisticAction;
use titan_server::proto::kvrpcpb::{
    BatchRollbackRequest, CommitRequest, KeyError, Mutation, Op, PrewriteRequest, PrewriteResponse,
};
use tonic::Request;

use super::client::{Client, Transaction};
use super::connection::{Called, Trouble, key, wrong};
use super::resolve::{Fate, Question};
use super::shared::Pending;

/// Attempts to pass the locks in the way of a commit.
const ATTEMPTS: u32 = 50;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    TwoPhases,
    Async,
    OnePhase,
}

/// The state in which prewrites have left a transaction.
enum Prewritten {
    /// Committed, with this timestamp.
    Committed(u64),
    Locked,
    /// The error after which it cannot commit.
    Refused(Box<KeyError>),
    /// The connection broke.
    Lost,
}

/// A transaction on its way to a commit.
struct Committing {
    transaction: Transaction,
    /// In the order of their prewrites.
    keys: Vec<u8>,
    primary: u8,
    way: Way,
    max_commit: u64,
    /// Whether an answer got lost that may have committed it.
    may_have_committed: bool,
}

impl Client<'_> {
    /// Commits a transaction, or leaves it.
    pub(super) fn commit(&mut self, transaction: Transaction) -> Called<()> {
        let mut keys: Vec<u8> = transaction.changes.keys().copied().collect();
        self.rng.shuffle(&mut keys);
        let primary = transaction.locked.first().or(keys.first()).copied();
        let Some(primary) = primary else {
            return Ok(());
        };
        let way = [Way::TwoPhases, Way::Async, Way::OnePhase][self.rng.usize(..3)];
        let max_commit = match self.rng.u32(..4) {
            // Reads make it commit later, and so in two phases.
            0 => transaction.start.max(transaction.for_update) + 1,
            _ => 0,
        };
        let mut it = Committing {
            transaction,
            keys,
            primary,
            way,
            max_commit,
            may_have_committed: false,
        };
        match self.prewrite(&mut it)? {
            Prewritten::Committed(commit) => {
                self.acknowledge(&it, commit);
                match way {
                    Way::OnePhase => Ok(()),
                    _ => self.commit_keys(&it, commit, true),
                }
            }
            Prewritten::Locked => self.commit_primary(it),
            Prewritten::Refused(_) if it.may_have_committed => self.leave(it),
            Prewritten::Refused(error) => self.roll_back(&it, &error),
            Prewritten::Lost => self.leave(it),
        }
    }

    /// Leaves a transaction whose fate is found later.
    fn leave(&self, it: Committing) -> Called<()> {
        self.shared.pending.lock().push(Pending {
            start: it.transaction.start,
            primary: it.primary,
            changes: it.transaction.changes,
        });
        Ok(())
    }

    fn acknowledge(&self, it: &Committing, commit: u64) {
        let history = &self.shared.history;
        for insert in &it.transaction.inserts {
            history.read(it.transaction.start, *insert, None);
        }
        history.acknowledged(commit, it.transaction.changes.clone());
    }

    /// Prewrites all keys. Waits for locks in the way.
    fn prewrite(&mut self, it: &mut Committing) -> Called<Prewritten> {
        for _ in 0..ATTEMPTS {
            // Some die before all of their keys are locked.
            let many = match self.rng.u32(..40) {
                0 => self.rng.usize(..it.keys.len()),
                _ => it.keys.len(),
            };
            let answers = match self.prewrite_once(it, many) {
                Ok(answers) if many == it.keys.len() => answers,
                Ok(_) => return Ok(Prewritten::Lost),
                Err(Trouble::Lost) => {
                    it.may_have_committed |= it.way != Way::TwoPhases;
                    match self.rng.bool() {
                        true => continue,
                        false => return Ok(Prewritten::Lost),
                    }
                }
                Err(other) => return Err(other),
            };
            let mut errors = answers.iter().flat_map(|answer| &answer.errors);
            let Some(error) = errors.next() else {
                return Ok(done(it, &answers));
            };
            match &error.locked {
                Some(lock) => drop(self.pass(lock, 0)?),
                None => return Ok(Prewritten::Refused(Box::new(error.clone()))),
            }
        }
        Ok(Prewritten::Refused(Box::default()))
    }

    fn prewrite_once(&mut self, it: &Committing, many: usize) -> Called<Vec<PrewriteResponse>> {
        let transaction = &it.transaction;
        self.connection
            .regions(&it.keys[..many], async |tikv, context, keys| {
                let action = |one: &u8| match transaction.locked.contains(one) {
                    true => PessimisticAction::DoPessimisticCheck,
                    false => PessimisticAction::SkipPessimisticCheck,
                };
                let has_all = keys.len() == it.keys.len();
                let others = it.keys.iter().filter(|one| **one != it.primary);
                let is_async = it.way == Way::Async;
                let request = PrewriteRequest {
                    context: Some(context),
                    mutations: keys.iter().map(|one| mutation(transaction, *one)).collect(),
                    primary_lock: key(it.primary),
                    start_version: transaction.start,
                    lock_ttl: transaction.ttl,
                    pessimistic_actions: match transaction.for_update {
                        0 => Vec::new(),
                        _ => keys.iter().map(|one| action(one).into()).collect(),
                    },
                    txn_size: it.keys.len() as u64,
                    for_update_ts: transaction.for_update,
                    min_commit_ts: transaction.start.max(transaction.for_update) + 1,
                    use_async_commit: is_async,
                    secondaries: match is_async && keys.contains(&it.primary) {
                        true => others.map(|one| key(*one)).collect(),
                        false => Vec::new(),
                    },
                    try_one_pc: it.way == Way::OnePhase && has_all,
                    max_commit_ts: it.max_commit,
                    ..PrewriteRequest::default()
                };
                tikv.kv_prewrite(Request::new(request)).await
            })
    }

    /// The second phase.
    fn commit_primary(&mut self, it: Committing) -> Called<()> {
        if self.rng.u32(..16) == 0 {
            return self.leave(it);
        }
        let mut is_lost = false;
        loop {
            let commit = self.timestamp()?;
            // An answer that got lost is asked for again with the same timestamp.
            loop {
                match self.commit_once(&it, commit, &[it.primary]) {
                    Ok(None) => {
                        self.acknowledge(&it, commit);
                        return self.commit_keys(&it, commit, false);
                    }
                    Ok(Some(error)) if error.commit_ts_expired.is_some() && !is_lost => break,
                    Ok(Some(error)) if error.commit_ts_expired.is_some() => return self.leave(it),
                    Ok(Some(_)) if it.may_have_committed => return self.leave(it),
                    Ok(Some(error)) => return self.rolled_back_by_others(&it, commit, &error),
                    Err(Trouble::Lost) if self.rng.bool() => is_lost = true,
                    Err(Trouble::Lost) => return self.leave(it),
                    Err(other) => return Err(other),
                }
            }
        }
    }

    /// Checks that a prewritten transaction, whose commit was refused, was rolled back by others.
    /// The node must not have lost its primary lock.
    fn rolled_back_by_others(&mut self, it: &Committing, now: u64, error: &KeyError) -> Called<()> {
        let fate = self.connection.fate(Question {
            start: it.transaction.start,
            primary: it.primary,
            reader: 0,
            now,
            // That would make it true.
            gives_up: false,
            is_pessimistic: false,
        })?;
        match fate {
            Fate::RolledBack => Ok(()),
            other => {
                let start = it.transaction.start;
                wrong(format!(
                    "a commit of {start}: {error:?}; its fate: {other:?}"
                ))
            }
        }
    }

    /// Commits the other keys, and the primary one where that is left. Some clients die before.
    fn commit_keys(&mut self, it: &Committing, commit: u64, with_primary: bool) -> Called<()> {
        let keys = it.keys.iter().copied();
        let keys: Vec<u8> = keys
            .filter(|one| with_primary || *one != it.primary)
            .collect();
        let many = match self.rng.u32(..10) {
            0 => self.rng.usize(..=keys.len()),
            _ => keys.len(),
        };
        match self.commit_once(it, commit, &keys[..many])? {
            None => Ok(()),
            Some(error) => wrong(format!("a committed transaction: {error:?}")),
        }
    }

    fn commit_once(
        &mut self,
        it: &Committing,
        commit: u64,
        keys: &[u8],
    ) -> Called<Option<KeyError>> {
        let answers = self.connection.regions(keys, async |tikv, context, keys| {
            let request = CommitRequest {
                context: Some(context),
                start_version: it.transaction.start,
                keys: keys.iter().map(|one| key(*one)).collect(),
                commit_version: commit,
            };
            tikv.kv_commit(Request::new(request)).await
        })?;
        Ok(answers.into_iter().find_map(|answer| answer.error))
    }

    /// Rolls a refused transaction back. Some clients die before.
    fn roll_back(&mut self, it: &Committing, error: &KeyError) -> Called<()> {
        // Others may have released a pessimistic lock.
        let is_aborted = !error.abort.is_empty() && it.transaction.for_update == 0;
        if error.assertion_failed.is_some() || error.commit_ts_expired.is_some() || is_aborted {
            return wrong(format!("a prewrite: {error:?}"));
        }
        if self.rng.u32(..10) == 0 {
            return Ok(());
        }
        let answers = self
            .connection
            .regions(&it.keys, async |tikv, context, keys| {
                let request = BatchRollbackRequest {
                    context: Some(context),
                    start_version: it.transaction.start,
                    keys: keys.iter().map(|one| key(*one)).collect(),
                };
                tikv.kv_batch_rollback(Request::new(request)).await
            })?;
        match answers.into_iter().find_map(|answer| answer.error) {
            Some(error) => wrong(format!("a rollback: {error:?}")),
            None => Ok(()),
        }
    }
}

fn mutation(transaction: &Transaction, one: u8) -> Mutation {
    let content = transaction
        .changes
        .get(&one)
        .and_then(|change| change.content);
    let op = match content {
        None => Op::Lock,
        Some(None) => Op::Del,
        Some(Some(_)) if transaction.inserts.contains(&one) => Op::Insert,
        Some(Some(_)) => Op::Put,
    };
    let value = content.flatten().map(|number| {
        let mut value = number.to_be_bytes().to_vec();
        // Some are stored apart.
        value.resize(8 + (number % 7) as usize * 300, 0);
        value
    });
    Mutation {
        op: op.into(),
        key: key(one),
        value: value.unwrap_or_default().into(),
        ..Mutation::default()
    }
}

/// The state after answers without an error.
fn done(it: &Committing, answers: &[PrewriteResponse]) -> Prewritten {
    match (it.way, answers) {
        (Way::OnePhase, [answer]) if answer.one_pc_commit_ts > 0 => {
            Prewritten::Committed(answer.one_pc_commit_ts)
        }
        (Way::Async, _) if answers.iter().all(|answer| answer.min_commit_ts > 0) => {
            let commits = answers.iter().map(|answer| answer.min_commit_ts);
            Prewritten::Committed(commits.max().unwrap_or(0))
        }
        _ => Prewritten::Locked,
    }
}
