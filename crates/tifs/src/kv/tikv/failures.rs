//! Failures of calls to a cluster: those that pass, and those that show that a commit did nothing.

use rustix::io::Errno;
use tikv_client::Error as ClientError;

use crate::error::Error;

/// Codes of the transport, by their numbers in its protocol.
mod code {
    pub(super) const CANCELLED: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const DEADLINE_EXCEEDED: i32 = 4;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const ABORTED: i32 = 10;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const INTERNAL: i32 = 13;
    pub(super) const UNAVAILABLE: i32 = 14;
}

/// Whether the same call may succeed later.
pub(super) fn passes(error: &ClientError) -> bool {
    match first(error) {
        ClientError::GrpcAPI(status) => matches!(
            status.code() as i32,
            code::CANCELLED
                | code::UNKNOWN
                | code::DEADLINE_EXCEEDED
                | code::RESOURCE_EXHAUSTED
                | code::ABORTED
                | code::INTERNAL
                | code::UNAVAILABLE
        ),
        ClientError::RegionError(error) => {
            error.raft_entry_too_large.is_none() && error.disk_full.is_none()
        }
        ClientError::KeyError(error) => error.locked.is_some() || !error.retryable.is_empty(),
        ClientError::ResolveLockError(_)
        | ClientError::Grpc(_)
        | ClientError::Io(_)
        | ClientError::Channel(_)
        | ClientError::Canceled(_)
        | ClientError::LeaderNotFound { .. }
        | ClientError::NoCurrentRegions
        | ClientError::EntryNotFoundInRegionCache
        | ClientError::RegionForKeyNotFound { .. }
        | ClientError::RegionForRangeNotFound { .. }
        | ClientError::RegionNotFoundInResponse { .. }
        // The primary key of a lock is not written yet.
        | ClientError::TxnNotFound(_)
        | ClientError::JoinError(_)
        | ClientError::InternalError { .. } => true,
        _ => false,
    }
}

/// Whether a read may succeed that has a smaller answer.
pub(super) fn is_too_large(error: &ClientError) -> bool {
    match first(error) {
        ClientError::GrpcAPI(status) => matches!(
            status.code() as i32,
            code::OUT_OF_RANGE | code::RESOURCE_EXHAUSTED
        ),
        _ => false,
    }
}

/// Whether a commit that failed so has done nothing, and will not: another transaction wrote one of
/// its keys. `start` is the version of its own start, which a repeated request may meet. After any
/// other failure it may have committed: a repeated request may also meet a later lock.
pub(super) fn has_surely_failed(error: &ClientError, start: u64) -> bool {
    match error {
        ClientError::ExtractedErrors(errors) | ClientError::MultipleKeyErrors(errors) => {
            errors.iter().any(|error| has_surely_failed(error, start))
        }
        ClientError::KeyError(error) => {
            let conflict = error.conflict.as_ref();
            conflict.is_some_and(|conflict| conflict.conflict_ts != start)
        }
        _ => false,
    }
}

/// Whether another attempt to commit would be refused in the same way: the cluster refused the
/// request, regardless of the values.
pub(super) fn fails_for_good(error: &ClientError) -> bool {
    match first(error) {
        ClientError::RegionError(_) | ClientError::GrpcAPI(_) => !passes(error),
        _ => false,
    }
}

/// The error of an operation that failed for good.
pub(super) fn translated(error: &ClientError, place: &str) -> Error {
    let cause = first(error);
    if let ClientError::RegionError(region) = cause
        && region.disk_full.is_some()
    {
        let what = format!("the disks of the cluster at {place} are full: free some or add a node");
        return Error::new(Errno::NOSPC, what);
    }
    Error::new(
        Errno::IO,
        format!("the cluster at {place}: {}", text(cause)),
    )
}

/// The text of an error: the message of a node, or the causes of the client.
pub(super) fn text(error: &ClientError) -> String {
    match first(error) {
        ClientError::GrpcAPI(status) => status.message().to_owned(),
        ClientError::RegionError(error) => error.message.clone(),
        // It begins with a place in the source of the client.
        ClientError::InternalError { message } => {
            let said = message
                .strip_prefix('[')
                .and_then(|rest| rest.split_once("]: "));
            said.map_or(message.as_str(), |(_, said)| said).to_owned()
        }
        ClientError::KeyError(error) if !error.abort.is_empty() => error.abort.clone(),
        ClientError::ResolveLockError(_) => {
            "a key is locked by a transaction that does not end".to_owned()
        }
        other => {
            let mut said = other.to_string();
            let mut cause = std::error::Error::source(other);
            while let Some(source) = cause {
                let text = source.to_string();
                if !said.contains(&text) {
                    said = format!("{said}: {text}");
                }
                cause = source.source();
            }
            said
        }
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

#[cfg(test)]
mod tests {
    use tikv_client::ProtoKeyError;

    use super::*;

    fn conflict_with(version: u64) -> ClientError {
        let mut error = ProtoKeyError {
            conflict: Some(Default::default()),
            ..ProtoKeyError::default()
        };
        if let Some(conflict) = &mut error.conflict {
            conflict.conflict_ts = version;
        }
        ClientError::KeyError(Box::new(error))
    }

    #[test]
    fn only_a_key_of_another_transaction_shows_that_a_commit_did_nothing() {
        let other = || conflict_with(7);
        for error in [
            other(),
            ClientError::ExtractedErrors(vec![ClientError::NoPrimaryKey, other()]),
            ClientError::MultipleKeyErrors(vec![other()]),
        ] {
            assert!(has_surely_failed(&error, 5), "{error}");
        }
        for error in [
            // It met its own commit.
            conflict_with(5),
            ClientError::UndeterminedError(Box::new(other())),
            ClientError::OnePcFailure,
            ClientError::ResolveLockError(Vec::new()),
            ClientError::RegionError(Box::default()),
            ClientError::Io(std::io::ErrorKind::ConnectionReset.into()),
        ] {
            assert!(!has_surely_failed(&error, 5), "{error}");
        }
    }

    #[test]
    fn no_place_in_the_source_of_the_client_is_said() {
        let error = |message: &str| ClientError::InternalError {
            message: message.to_owned(),
        };
        assert_eq!(
            text(&error("[/src/pd/cluster.rs:209]: no answer")),
            "no answer"
        );
        assert_eq!(text(&error("[no answer")), "[no answer");
    }

    #[test]
    fn a_region_that_moves_passes_and_a_full_disk_does_not() {
        assert!(passes(&ClientError::RegionError(Box::default())));
        assert!(!passes(&conflict_with(7)));
        let full = tikv_client::ProtoRegionError {
            disk_full: Some(Default::default()),
            ..Default::default()
        };
        let full = ClientError::RegionError(Box::new(full));
        assert!(!passes(&full));
        assert_eq!(translated(&full, "h:1").errno(), Errno::NOSPC);
    }
}
