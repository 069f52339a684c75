//! The failure of a call, before it becomes part of an answer.

use titan::{Db, ErrorKind};
use tonic::Status;

use crate::proto::errorpb;
use crate::proto::kvrpcpb::KeyError;
use crate::regions::STORE_ID;

/// The pause of a client before it repeats a call that found the server busy, in milliseconds.
const BACKOFF_MS: u64 = 100;

/// The failure of a call.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client looks its region up again, or waits, and repeats the call.
    Region(Box<errorpb::Error>),
    /// A key is in the way.
    Key(Box<KeyError>),
    /// The call cannot be answered.
    Status(Box<Status>),
}

impl Failure {
    /// The transaction or call cannot succeed.
    pub(crate) fn abort(reason: impl Into<String>) -> Self {
        Failure::Key(Box::new(KeyError {
            abort: reason.into(),
            ..KeyError::default()
        }))
    }

    /// The server cannot take the call now.
    pub(crate) fn busy(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Failure::Region(Box::new(errorpb::Error {
            message: format!("server is busy: {reason}"),
            server_is_busy: Some(errorpb::ServerIsBusy {
                reason,
                backoff_ms: BACKOFF_MS,
                ..errorpb::ServerIsBusy::default()
            }),
            ..errorpb::Error::default()
        }))
    }

    /// The call did not end in time.
    pub(crate) fn deadline() -> Self {
        Failure::busy("deadline is exceeded")
    }

    /// The call or its answer takes more than a limit. No client repeats a call with this error of
    /// its region, which all answers have a place for; a status of the transport would be repeated.
    pub(crate) fn too_large(message: String, bytes: usize) -> Self {
        Failure::Region(Box::new(errorpb::Error {
            message,
            raft_entry_too_large: Some(errorpb::RaftEntryTooLarge {
                entry_size: bytes as u64,
                ..errorpb::RaftEntryTooLarge::default()
            }),
            ..errorpb::Error::default()
        }))
    }

    /// The failure as one of a region, where its error names that.
    pub(crate) fn in_region(mut self, id: u64) -> Self {
        if let Failure::Region(error) = &mut self
            && let Some(too_large) = &mut error.raft_entry_too_large
        {
            too_large.region_id = id;
        }
        self
    }

    /// The failure of a write to `db` that may commit. One that fails while it is logged is not
    /// visible, but may be there after the next opening. So only some errors say that nothing was
    /// done; they give `None`.
    pub(crate) fn of_commit(error: &titan::Error, db: &Db) -> Option<Self> {
        let is_certain = match error.kind() {
            ErrorKind::Busy
            | ErrorKind::TooManyOpenFiles
            | ErrorKind::WritesStopped
            | ErrorKind::InvalidArgument
            | ErrorKind::ReadOnly => true,
            // One that was not logged for want of room stops nothing. If writes were stopped and go
            // on by now, what had failed will not be there.
            ErrorKind::NoSpace => db.background_error().is_none(),
            _ => false,
        };
        (!is_certain).then(|| undetermined(error.to_string()).into())
    }

    /// The disk has no room for the call.
    pub(crate) fn disk_full(reason: String) -> Self {
        Failure::Region(Box::new(errorpb::Error {
            message: format!("disk full: {reason}"),
            disk_full: Some(errorpb::DiskFull {
                store_id: vec![STORE_ID],
                reason,
            }),
            ..errorpb::Error::default()
        }))
    }
}

/// The region error of a call of which nobody knows what it has done.
pub(super) fn undetermined(message: String) -> errorpb::Error {
    errorpb::Error {
        message: message.clone(),
        undetermined_result: Some(errorpb::UndeterminedResult { message }),
        ..errorpb::Error::default()
    }
}

impl From<errorpb::Error> for Failure {
    fn from(error: errorpb::Error) -> Self {
        Failure::Region(Box::new(error))
    }
}

impl From<Box<errorpb::Error>> for Failure {
    fn from(error: Box<errorpb::Error>) -> Self {
        Failure::Region(error)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Failure::Key(Box::new(error))
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure::Status(Box::new(status))
    }
}

/// For services whose answers have no place for errors.
impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Status(status) => *status,
            Failure::Key(error) => Status::internal(error.abort),
            Failure::Region(error) if error.server_is_busy.is_some() => {
                Status::unavailable(error.message)
            }
            // The disk is full, or the answer too large.
            Failure::Region(error) => Status::resource_exhausted(error.message),
        }
    }
}

impl From<titan::Error> for Failure {
    fn from(error: titan::Error) -> Self {
        match error.kind() {
            ErrorKind::NoSpace => Failure::disk_full(error.to_string()),
            ErrorKind::WritesStopped if led_to(&error, ErrorKind::NoSpace) => {
                Failure::disk_full(error.to_string())
            }
            ErrorKind::Busy
            | ErrorKind::WritesStopped
            | ErrorKind::TooManyOpenFiles
            | ErrorKind::Closed => Failure::busy(error.to_string()),
            _ => Failure::abort(error.to_string()),
        }
    }
}

/// Returns true if an error of this kind led to the error.
fn led_to(error: &titan::Error, kind: ErrorKind) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        let found = deeper.downcast_ref::<titan::Error>();
        if found.is_some_and(|found| found.kind() == kind) {
            return true;
        }
        cause = deeper.source();
    }
    false
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::Engine(error) => error.into(),
            error => Failure::abort(error.to_string()),
        }
    }
}
