//! Failures of calls to etcd: those that pass, and those after which nothing was done.

use rustix::io::Errno;
use tonic::{Code, Status};

use crate::error::Error;

/// Whether the same call may succeed later, perhaps at another member.
pub(super) fn passes(error: &Status) -> bool {
    match error.code() {
        Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => true,
        // Too many requests.
        Code::ResourceExhausted => !is_full(error),
        // A token that is too old.
        Code::Unauthenticated => error.message().contains("invalid auth token"),
        // The rights of users have changed since the token was given.
        Code::InvalidArgument => error.message().contains("auth store is old"),
        _ => is_behind(error),
    }
}

/// The database has reached its quota.
pub(super) fn is_full(error: &Status) -> bool {
    error.code() == Code::ResourceExhausted && error.message().contains("space exceeded")
}

/// The revision of a read was compacted.
pub(super) fn is_compacted(error: &Status) -> bool {
    error.code() == Code::OutOfRange && error.message().contains("has been compacted")
}

/// The member has not got to the revision of a read.
pub(super) fn is_behind(error: &Status) -> bool {
    error.code() == Code::OutOfRange && error.message().contains("future revision")
}

/// Whether a commit was refused: it has done nothing, and another attempt would not, either. That
/// the database is full does not show it: the commit that fills it gets that answer, too.
pub(super) fn is_refused(error: &Status) -> bool {
    match error.code() {
        Code::PermissionDenied | Code::Unimplemented => true,
        Code::InvalidArgument | Code::Unauthenticated => !passes(error),
        _ => false,
    }
}

/// The error of an operation that failed for good.
pub(super) fn translated(error: &Status, place: &str) -> Error {
    if is_compacted(error) {
        return Error::outdated();
    }
    if is_full(error) {
        let what = format!(
            "etcd at {place} has reached its quota and takes only deletions of keys: compact and defragment \
             it, then disarm its alarm (etcdctl compact, defrag, alarm disarm), or raise the quota \
             (--quota-backend-bytes, up to 8 GiB)"
        );
        return Error::new(Errno::NOSPC, what);
    }
    // Never one of permissions: those of the user of etcd are not those of programs.
    Error::new(Errno::IO, format!("etcd at {place}: {}", text(error)))
}

/// The text of an error: the message of a member.
pub(super) fn text(error: &Status) -> String {
    match error.message() {
        "" => error.code().description().to_owned(),
        said => said.trim_start_matches("etcdserver: ").to_owned(),
    }
}

/// The texts of an error and its causes.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let text = source.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = source.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_database_and_a_compacted_revision_have_errors_of_their_own() {
        let full = Status::new(
            Code::ResourceExhausted,
            "etcdserver: mvcc: database space exceeded",
        );
        assert!(!is_refused(&full) && !passes(&full));
        let error = translated(&full, "h:1");
        assert_eq!(error.errno(), Errno::NOSPC);
        assert!(error.to_string().contains("alarm disarm"), "{error}");
        let busy = Status::new(Code::ResourceExhausted, "etcdserver: too many requests");
        assert!(!is_refused(&busy) && passes(&busy));
        let old = "etcdserver: mvcc: required revision has been compacted";
        let old = Status::new(Code::OutOfRange, old);
        assert!(!passes(&old) && translated(&old, "h:1").is_outdated());
    }

    #[test]
    fn a_commit_that_a_leader_did_not_answer_may_have_happened() {
        for said in [
            "etcdserver: request timed out",
            "etcdserver: leader changed",
        ] {
            let error = Status::unavailable(said);
            assert!(!is_refused(&error) && passes(&error), "{said}");
        }
        let large = Status::invalid_argument("etcdserver: request is too large");
        assert!(is_refused(&large) && !passes(&large));
    }
}
