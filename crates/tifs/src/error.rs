//! The error of every operation: the errno for the caller, a text for users.

use std::borrow::Cow;
use std::fmt;

use rustix::io::Errno;
use titan::ErrorKind;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The text of an error of reads that took too long.
const OUTDATED: &str = "the store has dropped the versions that this reads: repeat it";

/// The failure of an operation.
///
/// A program that uses the mount gets only [`Error::errno`]. Context and source are for the log and
/// the `tifs` command. Errors that programs provoke all the time, such as an absent name, have no
/// context and cost no allocation.
#[derive(Clone, Debug)]
pub struct Error {
    errno: Errno,
    context: Cow<'static, str>,
    source: Option<titan::Error>,
    cause: Cause,
}

/// The cause of an error, where the errno does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The one that the errno tells.
    ByErrno,
    /// The store, although the errno may be one of callers.
    Store,
    /// The store has lost what it was to keep.
    Damage,
}

impl Error {
    /// An error with a text. It is the whole message: the errno is not part of it.
    pub fn new(errno: Errno, context: impl Into<Cow<'static, str>>) -> Self {
        Error {
            errno,
            context: context.into(),
            source: None,
            cause: Cause::ByErrno,
        }
    }

    /// An error that is in no way the caller's, though its errno is also one of callers.
    pub fn of_store(errno: Errno, context: impl Into<Cow<'static, str>>) -> Self {
        Error {
            cause: Cause::Store,
            ..Error::new(errno, context)
        }
    }

    /// A store has lost something, and the rest can be read: `EIO`.
    pub fn damage(what: impl Into<Cow<'static, str>>) -> Self {
        Error {
            cause: Cause::Damage,
            ..Error::new(Errno::IO, what)
        }
    }

    /// A stored value that this version cannot have written: `EIO`.
    pub fn corrupt(what: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Errno::IO, what)
    }

    /// Somebody told the operation to end before it was done: `EINTR`.
    pub fn interrupted() -> Self {
        Error::new(Errno::INTR, "interrupted")
    }

    /// The store has dropped values that a transaction reads, which were replaced since: `EAGAIN`.
    /// A new transaction may succeed.
    pub fn outdated() -> Self {
        Error::new(Errno::AGAIN, OUTDATED)
    }

    /// Whether it is [outdated](Self::outdated).
    pub fn is_outdated(&self) -> bool {
        self.errno == Errno::AGAIN && self.context == OUTDATED
    }

    /// The errno for the program that uses the mount.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// The failed action, or the finding; empty for the plain errors of programs.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// The error of the engine that caused this one.
    pub fn engine_error(&self) -> Option<&titan::Error> {
        self.source.as_ref()
    }

    /// Whether the store found damage, in a part of itself.
    pub fn is_damage(&self) -> bool {
        self.cause == Cause::Damage || { self.source.as_ref() }
            .is_some_and(|source| source.kind() == ErrorKind::Corruption)
    }

    /// Whether the volume, not the caller, is the cause: such errors belong in the log.
    pub fn is_failure(&self) -> bool {
        self.source.is_some()
            || self.cause != Cause::ByErrno
            || matches!(
                self.errno,
                Errno::IO | Errno::NOSPC | Errno::DQUOT | Errno::TIMEDOUT
            )
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::new(errno, "")
    }
}

impl From<titan::Error> for Error {
    fn from(source: titan::Error) -> Self {
        Error {
            errno: errno_of(&source),
            context: Cow::Borrowed(advice(&source)),
            source: Some(source),
            cause: Cause::ByErrno,
        }
    }
}

/// The errno for a failure of the engine.
fn errno_of(error: &titan::Error) -> Errno {
    let error = stopped_by(error);
    match error.kind() {
        ErrorKind::NoSpace if error.io_kind() == Some(std::io::ErrorKind::QuotaExceeded) => {
            Errno::DQUOT
        }
        ErrorKind::NoSpace => Errno::NOSPC,
        ErrorKind::TooManyOpenFiles => Errno::NFILE,
        ErrorKind::ReadOnly => Errno::ROFS,
        ErrorKind::Locked | ErrorKind::Busy => Errno::BUSY,
        ErrorKind::Conflict | ErrorKind::LockTimeout | ErrorKind::Deadlock => Errno::AGAIN,
        _ => Errno::IO,
    }
}

/// The advice for users after a failure of the engine.
fn advice(error: &titan::Error) -> &'static str {
    let stops = error.kind() == ErrorKind::WritesStopped;
    match stopped_by(error).kind() {
        ErrorKind::NoSpace if stops => {
            "the disk below the volume is full; the volume goes on once there is space"
        }
        ErrorKind::NoSpace => "the disk below the volume is full",
        ErrorKind::TooManyOpenFiles => "the volume needs more open files than it may have; retry",
        ErrorKind::Io if stops => {
            "the volume takes no changes, but can be read; it tries again every second"
        }
        _ if stops => {
            "the volume takes no changes, but can be read; unmount it and run `tifs fsck`"
        }
        _ => "",
    }
}

/// The failure that stopped writes, if the error is that writes are stopped, or else the error
/// itself.
fn stopped_by(error: &titan::Error) -> &titan::Error {
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<titan::Error>());
    match source {
        Some(source) if error.kind() == ErrorKind::WritesStopped => stopped_by(source),
        _ => error,
    }
}

/// The operating system's text of an error, without its number.
pub fn reason(error: &std::io::Error) -> String {
    let said = error.to_string();
    let number = said.rfind(" (os error ").filter(|_| said.ends_with(')'));
    number.map_or(said.clone(), |at| said[..at].to_owned())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) if self.context.is_empty() => source.fmt(f),
            Some(source) => write!(f, "{}: {source}", self.context),
            None if self.context.is_empty() => f.write_str(&reason(&self.errno.into())),
            None => f.write_str(&self.context),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_full_device_and_a_quota_have_errors_of_their_own() {
        let errno = |from: Errno| {
            let source = titan::Error::io(from.into(), "write", Path::new("f"));
            let stopped = titan::Error::new(ErrorKind::WritesStopped, "stopped");
            let direct = Error::from(source.clone()).errno();
            (direct, Error::from(stopped.with_source(source)).errno())
        };
        assert_eq!(errno(Errno::NOSPC), (Errno::NOSPC, Errno::NOSPC));
        assert_eq!(errno(Errno::DQUOT), (Errno::DQUOT, Errno::DQUOT));
        assert_eq!(errno(Errno::IO), (Errno::IO, Errno::IO));
    }

    fn stopped_by(kind: ErrorKind) -> Error {
        let stopped = titan::Error::new(ErrorKind::WritesStopped, "writes stopped");
        stopped
            .with_source(titan::Error::new(kind, "the first failure"))
            .into()
    }

    #[test]
    fn the_number_of_an_error_is_no_part_of_its_message() {
        assert_eq!(
            Error::from(Errno::NOENT).to_string(),
            "No such file or directory"
        );
        let described = Error::new(Errno::INVAL, "there is no volume");
        assert_eq!(described.to_string(), "there is no volume");
    }

    #[test]
    fn refused_changes_say_which_failure_refuses_them_and_what_to_do() {
        for (kind, errno, advice) in [
            (
                ErrorKind::NoSpace,
                Errno::NOSPC,
                "goes on once there is space",
            ),
            (ErrorKind::Io, Errno::IO, "tries again every second"),
            (ErrorKind::Corruption, Errno::IO, "run `tifs fsck`"),
            (ErrorKind::Internal, Errno::IO, "run `tifs fsck`"),
        ] {
            let error = stopped_by(kind);
            assert_eq!(error.errno(), errno);
            assert!(error.to_string().contains(advice), "{error}");
        }
        let full = Error::from(titan::Error::new(ErrorKind::NoSpace, "append"));
        assert_eq!(full.errno(), Errno::NOSPC);
        let limited = Error::from(titan::Error::new(ErrorKind::TooManyOpenFiles, "open file"));
        assert_eq!(limited.errno(), Errno::NFILE);
        let damaged = Error::from(titan::Error::new(ErrorKind::Corruption, "a block"));
        assert_eq!((damaged.errno(), damaged.context()), (Errno::IO, ""));
    }
}
