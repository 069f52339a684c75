//! Failures of calls to a cluster: those that pass, those of too large answers, others.

use std::time::{Duration, Instant};

use tikv_client::{Error as ClientError, ProtoKeyError};
use titan::{Error, ErrorKind, Result};
use tonic::Code;

/// The time between two attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The failure of a call without an answer.
pub(super) const NO_ANSWER: &str = "no answer in time (--patience)";

/// The fate of a call after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The same call may succeed.
    Again,
    /// A call with a smaller answer may succeed.
    Smaller,
    /// No repetition helps.
    Over,
}

/// The fate of a call that failed so.
pub(super) fn fate(error: &ClientError) -> Fate {
    match first(error) {
        // The client has another version of the transport, with the same codes.
        ClientError::GrpcAPI(status) => match Code::from_i32(status.code() as i32) {
            Code::OutOfRange | Code::ResourceExhausted => Fate::Smaller,
            Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::Internal
            | Code::Unknown => Fate::Again,
            _ => Fate::Over,
        },
        ClientError::RegionError(error) => match error.raft_entry_too_large {
            Some(_) => Fate::Over,
            None => Fate::Again,
        },
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
        | ClientError::InternalError { .. } => Fate::Again,
        _ => Fate::Over,
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

/// Translates an error of the client into one with which commands end.
pub(super) fn translated(error: &ClientError) -> Error {
    let (kind, text) = match first(error) {
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
/// `Io` after a call without an answer; that of the last failure.
pub(super) async fn repeated<T>(
    patience: Duration,
    call: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T> {
    let begun = Instant::now();
    let mut last = None;
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left, call()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if fate(&error) == Fate::Again && begun.elapsed() < patience => {
                last = Some(translated(&error));
                tokio::time::sleep(PAUSE).await;
            }
            Ok(Err(error)) => return Err(translated(&error)),
            Err(_) => return Err(last.unwrap_or_else(no_answer)),
        }
    }
}

/// The error for a call without an answer.
pub(super) fn no_answer() -> Error {
    Error::new(ErrorKind::Io, format!("the cluster: {NO_ANSWER}"))
}
