//! Failures of an object store: those that last, their reasons, and their errors.

use object_store::Error as StoreError;
use rustix::io::Errno;

use super::failures::causes;
use crate::error::Error;

/// The most characters of a reason: a store may answer with a whole page.
const REASON: usize = 400;

/// The error of an operation that failed for good. None is the caller's: a store that refuses has
/// other credentials or another address than it wants.
pub(super) fn translated(error: &StoreError, place: &str) -> Error {
    match error {
        error if is_full(error) => {
            let what = format!("the object store at {place} is full");
            Error::new(Errno::NOSPC, what)
        }
        StoreError::NotFound { path, .. } => missing(path, place),
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            let what = format!(
                "the object store at {place} refuses the credentials: {}",
                said(error)
            );
            Error::new(Errno::IO, what)
        }
        error => Error::new(
            Errno::IO,
            format!("the object store at {place}: {}", said(error)),
        ),
    }
}

/// The error of an object that is not there.
pub(super) fn missing(path: &str, place: &str) -> Error {
    Error::damage(format!("the object {path} is missing at {place}"))
}

/// The texts of an error and its causes, in one line.
pub(super) fn said(error: &StoreError) -> String {
    let words = causes(error);
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Whether a store answered that a request is wrong, so that it would answer the same again.
pub(super) fn is_refused(error: &StoreError) -> bool {
    // The crate keeps the status to itself, but says it.
    let said = causes(error);
    let status = said.split_once("status code: ").map(|(_, rest)| rest);
    let status = status.and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
    let is_final = |status| (400..500).contains(&status) && !matches!(status, 408 | 429);
    status.is_some_and(is_final) || said.contains("incorrectly configured region")
}

/// Whether a disk or a quota is full.
pub(super) fn is_full(error: &StoreError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        if matches!(
            io,
            Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
        ) {
            return true;
        }
        cause = error.source();
    }
    false
}
