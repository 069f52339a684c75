//! Failures of calls to a cluster, and repetitions of the calls whose failures pass.

use std::time::{Duration, Instant};

use tikv_client::{Error as ClientError, ProtoKeyError};
use titan::{Error, ErrorKind, Result};
use tonic::{Code, Status};

/// The time between two attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The failure of a call without an answer.
pub(super) const NO_ANSWER: &str = "no answer in time (--patience)";

/// The failure of a call to a cluster.
pub(super) trait Failure {
    /// Whether the same call may succeed later.
    fn passes(&self) -> bool;

    /// The error with which commands end.
    fn translated(&self) -> Error;
}

impl Failure for ClientError {
    fn passes(&self) -> bool {
        match first(self) {
            ClientError::GrpcAPI(_) => code(self).is_some_and(may_pass),
            ClientError::RegionError(error) => error.raft_entry_too_large.is_none(),
            ClientError::Grpc(_)
            | ClientError::Io(_)
            | ClientError::Channel(_)
            | ClientError::Canceled(_)
            | ClientError::LeaderNotFound { .. }
            | ClientError::NoCurrentRegions
            | ClientError::EntryNotFoundInRegionCache
            | ClientError::RegionForKeyNotFound { .. }
            | ClientError::RegionForRangeNotFound { .. }
            | ClientError::RegionNotFoundInResponse { .. }
            | ClientError::InternalError { .. } => true,
            _ => false,
        }
    }

    fn translated(&self) -> Error {
        let (kind, text) = match first(self) {
            ClientError::KeyError(error) => of_key(error),
            ClientError::ResolveLockError(locks) => {
                let key = locks
                    .first()
                    .map(|lock| lock.key.escape_ascii().to_string());
                let key = key.unwrap_or_default();
                let text = format!("key \"{key}\" is locked by a transaction that does not end");
                (ErrorKind::LockTimeout, text)
            }
            ClientError::GrpcAPI(status) => (ErrorKind::Io, status.message().to_owned()),
            ClientError::RegionError(error) => (ErrorKind::Io, error.message.clone()),
            other => (ErrorKind::Io, causes(other)),
        };
        Error::new(kind, format!("the cluster: {text}"))
    }
}

/// Failures of the placement driver.
impl Failure for Status {
    fn passes(&self) -> bool {
        !matches!(
            self.code(),
            Code::Unimplemented | Code::PermissionDenied | Code::Unauthenticated
        )
    }

    fn translated(&self) -> Error {
        let what = format!("the placement driver: {}", self.message());
        Error::new(ErrorKind::Io, what)
    }
}

/// Whether failures of transactions with this code may pass.
fn may_pass(code: Code) -> bool {
    match code {
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Aborted
        | Code::Internal
        | Code::Unknown => true,
        // `ResourceExhausted` among them: a message is larger than a limit.
        _ => false,
    }
}

/// Whether a read may succeed that has a smaller answer.
pub(super) fn is_too_large(error: &ClientError) -> bool {
    match first(error) {
        // The node refused to gather it.
        ClientError::RegionError(error) => error.raft_entry_too_large.is_some(),
        _ => matches!(
            code(error),
            Some(Code::OutOfRange | Code::ResourceExhausted)
        ),
    }
}

/// Whether a transaction whose first attempt to commit failed so has not committed, and will not:
/// one of its keys was refused. After any other failure it may have committed.
pub(super) fn has_surely_failed(error: &ClientError) -> bool {
    match error {
        ClientError::ExtractedErrors(errors) | ClientError::MultipleKeyErrors(errors) => {
            errors.iter().any(has_surely_failed)
        }
        ClientError::KeyError(error) => error.conflict.is_some() || error.locked.is_some(),
        ClientError::ResolveLockError(_) => true,
        _ => false,
    }
}

/// The code of an error of the transport. The client has another version of it, with the same
/// codes.
fn code(error: &ClientError) -> Option<Code> {
    match first(error) {
        ClientError::GrpcAPI(status) => Some(Code::from_i32(status.code() as i32)),
        _ => None,
    }
}

/// The first of several errors, and the cause of an undetermined commit.
fn first(error: &ClientError) -> &ClientError {
    match error {
        ClientError::ExtractedErrors(errors) | ClientError::MultipleKeyErrors(errors) => {
            errors.first().map_or(error, first)
        }
        ClientError::UndeterminedError(cause) => first(cause),
        _ => error,
    }
}

fn of_key(error: &ProtoKeyError) -> (ErrorKind, String) {
    if let Some(conflict) = &error.conflict {
        let key = conflict.key.escape_ascii();
        let text = format!("another client wrote key \"{key}\" at the same time");
        return (ErrorKind::Conflict, text);
    }
    match (error.abort.is_empty(), error.retryable.is_empty()) {
        (false, _) if error.abort.contains("safe point") => {
            (ErrorKind::InvalidArgument, error.abort.clone())
        }
        (false, _) => (ErrorKind::Io, error.abort.clone()),
        (_, false) => (ErrorKind::Conflict, error.retryable.clone()),
        _ => (ErrorKind::Io, format!("{error:?}")),
    }
}

/// The text of an error and of those that led to it, each once.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let said = deeper.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = deeper.source();
    }
    text
}

/// Repeats a call for as long as its failures pass and patience lasts.
///
/// # Errors
/// The error of the last failure; `Io` after a call without an answer.
pub(super) async fn repeated<T, E: Failure>(
    patience: Duration,
    mut call: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T> {
    let begun = Instant::now();
    let mut last = None;
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left, call()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(failure)) if failure.passes() && begun.elapsed() < patience => {
                last = Some(failure.translated());
                tokio::time::sleep(PAUSE).await;
            }
            Ok(Err(failure)) => return Err(failure.translated()),
            Err(_) => return Err(last.unwrap_or_else(no_answer)),
        }
    }
}

/// The error for a call without an answer.
pub(super) fn no_answer() -> Error {
    Error::new(ErrorKind::Io, format!("the cluster: {NO_ANSWER}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict() -> ClientError {
        let error = ProtoKeyError {
            conflict: Some(Default::default()),
            ..ProtoKeyError::default()
        };
        ClientError::KeyError(Box::new(error))
    }

    #[test]
    fn only_a_refused_key_shows_that_a_transaction_has_failed() {
        let aborted = ProtoKeyError {
            abort: "a failure of the node".to_owned(),
            ..ProtoKeyError::default()
        };
        for error in [
            conflict(),
            ClientError::ExtractedErrors(vec![ClientError::NoPrimaryKey, conflict()]),
            ClientError::MultipleKeyErrors(vec![conflict()]),
            ClientError::ResolveLockError(Vec::new()),
        ] {
            assert!(has_surely_failed(&error), "{error}");
        }
        for error in [
            ClientError::UndeterminedError(Box::new(conflict())),
            ClientError::KeyError(Box::new(aborted)),
            ClientError::RegionError(Box::default()),
            ClientError::Io(std::io::ErrorKind::ConnectionReset.into()),
            ClientError::ExtractedErrors(Vec::new()),
        ] {
            assert!(!has_surely_failed(&error), "{error}");
        }
    }

    #[test]
    fn a_full_memory_of_a_node_passes_and_a_wrong_call_does_not() {
        assert!(may_pass(Code::Unavailable));
        // The request is too large.
        assert!(!may_pass(Code::ResourceExhausted) && !may_pass(Code::OutOfRange));
        assert!(!may_pass(Code::InvalidArgument));
        assert!(ClientError::RegionError(Box::default()).passes());
        assert!(!conflict().passes());
    }

    #[test]
    fn calls_are_repeated_while_their_failures_pass() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut answers = vec![
            Ok("done"),
            Err(Status::permission_denied("who are you")),
            Err(Status::unavailable("later")),
        ];
        let patience = Duration::from_secs(3600);
        let mut ask = || runtime.block_on(repeated(patience, async || answers.pop().unwrap()));
        let refused = ask().unwrap_err().to_string();
        assert!(refused.contains("who are you"), "{refused}");
        assert_eq!(ask().unwrap(), "done");
    }
}
