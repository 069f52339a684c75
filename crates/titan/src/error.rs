//! The one error type of the engine.
//!
//! Every fallible operation returns [`Result`]. An [`Error`] has the kind of the failure
//! ([`ErrorKind`], stable, meant for matching), the action of the engine (text), and, where they
//! apply, the file and the offset. Errors clone cheaply, because a background error is reported to
//! every later write.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an error. Match on this; the text is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Stored bytes differ from those written, or contradict each other.
    Corruption,
    /// The operating system refused an operation; [`Error::io_kind`] has its reason.
    Io,
    /// No space is left on the device (or a quota is exhausted), or less than a job needs.
    NoSpace,
    /// A file could not be opened, since the process or the machine has too many files open.
    /// Nothing was done; retry once some are closed.
    TooManyOpenFiles,
    /// A database, column family or file that was asked for does not exist.
    NotFound,
    /// The database, column family or file exists already.
    AlreadyExists,
    /// The caller's argument cannot be accepted.
    InvalidArgument,
    /// An option is out of its range, unknown, or contradicts another.
    InvalidOption,
    /// Valid data that this version cannot handle, or a request that the file system cannot fulfil.
    Unsupported,
    /// Another process, or another handle of this one, has the database open.
    Locked,
    /// An earlier background failure stopped writes; the source is that failure.
    WritesStopped,
    /// The database was opened for reading only, or by a parent of this process, before a `fork`.
    ReadOnly,
    /// Writes are stalled and the caller asked not to wait; or the files of a database that another
    /// process writes changed faster than they could be read.
    Busy,
    /// A key was written after the moment as of which the caller knows it. Nothing was written;
    /// read again and retry.
    Conflict,
    /// Another transaction has the lock on a key, and did not release it in time.
    LockTimeout,
    /// Transactions wait for each other's locks, and would for ever. Roll back and retry.
    Deadlock,
    /// A transaction would lock more keys than are allowed.
    LockLimit,
    /// A compaction filter of the application failed or panicked. Nothing of its job took effect,
    /// and the database goes on.
    CompactionFilter,
    /// The database was closed.
    Closed,
    /// A bug of the engine or of code that it calls: a thread panicked, or an assumption does not
    /// hold. Files are as good as they were.
    Internal,
}

impl ErrorKind {
    /// A short lower-case name, stable, for logs and `--json`.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Corruption => "corruption",
            ErrorKind::Io => "io error",
            ErrorKind::NoSpace => "no space",
            ErrorKind::TooManyOpenFiles => "too many open files",
            ErrorKind::NotFound => "not found",
            ErrorKind::AlreadyExists => "already exists",
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::InvalidOption => "invalid option",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Locked => "locked",
            ErrorKind::WritesStopped => "writes stopped",
            ErrorKind::ReadOnly => "read only",
            ErrorKind::Busy => "busy",
            ErrorKind::Conflict => "conflict",
            ErrorKind::LockTimeout => "lock timeout",
            ErrorKind::Deadlock => "deadlock",
            ErrorKind::LockLimit => "lock limit",
            ErrorKind::CompactionFilter => "compaction filter",
            ErrorKind::Closed => "closed",
            ErrorKind::Internal => "internal error",
        }
    }

    /// Whether the same work, begun again, may succeed without anything being mended: others were
    /// in the way. `Conflict`, `Deadlock`, `LockTimeout` and `Busy`. A transaction that failed so
    /// is to be dropped and begun again: see [`Db::transaction`](crate::Db::transaction).
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::LockTimeout | ErrorKind::Busy
        )
    }
}

impl fmt::Display for ErrorKind {
    /// [`ErrorKind::name`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Errors of which some mean that the same work, begun again, may succeed: see
/// [`Retry`](crate::Retry).
pub trait Retryable {
    /// Whether the work is to be begun again.
    fn is_retryable(&self) -> bool;
}

impl Retryable for Error {
    fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }
}

/// An error: its kind, place and cause. One word wide and cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    io_kind: Option<std::io::ErrorKind>,
    lacks_codec: bool,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` described by `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Arc::new(Inner {
            kind,
            message: message.into(),
            path: None,
            offset: None,
            io_kind: None,
            lacks_codec: false,
            source: None,
        }))
    }

    /// Stored bytes are wrong. Add file and offset with [`Error::at`] or [`Error::in_file`].
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }

    /// A bug: something that no input and no device can cause.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The caller's argument cannot be accepted.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// An option's value cannot be accepted.
    pub fn invalid_option(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidOption, message)
    }

    /// Valid data or a valid request that this version cannot handle.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Data in a codec that this program was built without.
    pub(crate) fn missing_codec(message: impl Into<String>) -> Self {
        let mut error = Self::unsupported(message);
        Arc::make_mut(&mut error.0).lacks_codec = true;
        error
    }

    /// An operating system error while opening the file or directory `path` for `action`, before
    /// anything was done to it: `TooManyOpenFiles` if no file descriptor is left. An error of
    /// anything but an opening is never of that kind, so it always means that nothing has happened.
    pub fn opening(error: std::io::Error, action: &str, path: &Path) -> Self {
        let errno = error.raw_os_error();
        let mut opening = Self::io(error, action, path);
        if errno.is_some_and(is_out_of_descriptors) {
            Arc::make_mut(&mut opening.0).kind = ErrorKind::TooManyOpenFiles;
        }
        opening
    }

    /// An operating system error while doing `action` to `path`.
    pub fn io(error: std::io::Error, action: &str, path: &Path) -> Self {
        Self::of_system(error, action).in_file(path)
    }

    /// The error of a reader of the application that gives a value. That of a value of a database,
    /// which became an `io::Error` in between, is itself again.
    pub(crate) fn of_reader(error: std::io::Error) -> Self {
        let doing = "reading the value to be put";
        let own = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
        if let Some(own) = own {
            return own.clone().context(doing);
        }
        let mut reading = Self::new(ErrorKind::Io, doing);
        let inner = Arc::make_mut(&mut reading.0);
        inner.io_kind = Some(error.kind());
        inner.source = Some(Arc::new(error));
        reading
    }

    fn of_system(error: std::io::Error, action: &str) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            std::io::ErrorKind::Unsupported
            | std::io::ErrorKind::CrossesDevices
            | std::io::ErrorKind::TooManyLinks => ErrorKind::Unsupported,
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::NoSpace
            }
            _ => ErrorKind::Io,
        };
        Error(Arc::new(Inner {
            kind,
            message: action.to_owned(),
            path: None,
            offset: None,
            io_kind: Some(error.kind()),
            lacks_codec: false,
            source: Some(Arc::new(error)),
        }))
    }

    /// Names the file, unless a deeper layer already has.
    #[must_use]
    pub fn in_file(mut self, path: &Path) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// Names the byte offset in the file, unless a deeper layer already has.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.offset.get_or_insert(offset);
        self
    }

    /// Names file and offset, unless a deeper layer already has.
    #[must_use]
    pub fn at(self, path: &Path, offset: u64) -> Self {
        self.in_file(path).at_offset(offset)
    }

    /// Prepends the action of the engine to the message.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.message = format!("{doing}: {}", inner.message);
        self
    }

    /// Converts a failure to open or stat the file `path`, which the database needs: a missing file
    /// is damage, not a caller's mistake.
    #[must_use]
    pub(crate) fn of_live_file(self, path: &Path) -> Self {
        if !self.is_not_found() {
            return self.in_file(path);
        }
        Self::corruption("a file the database needs is missing")
            .in_file(path)
            .with_source(self)
    }

    /// Records the error that led to this one.
    #[must_use]
    pub fn with_source(mut self, source: Error) -> Self {
        Arc::make_mut(&mut self.0).source = Some(Arc::new(source));
        self
    }

    /// Kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text without kind, file, offset and source.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file concerned, if one is.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The byte offset in [`Error::path`], if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The operating system's classification, for errors that came from it.
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        self.0.io_kind
    }

    /// Whether this is [`ErrorKind::Corruption`].
    pub fn is_corruption(&self) -> bool {
        self.kind() == ErrorKind::Corruption
    }

    /// Whether a file has something that cannot be understood: damage, or a form that is not
    /// supported, since damage may look like one.
    pub fn is_unreadable(&self) -> bool {
        self.is_corruption() || self.kind() == ErrorKind::Unsupported
    }

    /// Whether this is [`ErrorKind::Unsupported`] because the program was built without the codec
    /// of the data, which are whole: the error names the feature that has it.
    pub fn lacks_codec(&self) -> bool {
        self.0.lacks_codec
    }

    /// Whether the same work, begun again, may succeed: see [`ErrorKind::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }

    /// The same error for a step that came after others, which have changed something: it is not
    /// `TooManyOpenFiles`, which says that nothing was done.
    #[must_use]
    pub(crate) fn after_a_change(mut self) -> Self {
        if self.is_out_of_descriptors() {
            Arc::make_mut(&mut self.0).kind = ErrorKind::Io;
        }
        self
    }

    /// Whether this is [`ErrorKind::TooManyOpenFiles`].
    pub(crate) fn is_out_of_descriptors(&self) -> bool {
        self.kind() == ErrorKind::TooManyOpenFiles
    }

    /// Whether this is [`ErrorKind::NotFound`].
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }
}

/// Whether an error number says that the process (EMFILE) or the machine (ENFILE) has too many
/// files open.
fn is_out_of_descriptors(errno: i32) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE]
        .map(Errno::raw_os_error)
        .contains(&errno)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.name(), self.0.message)?;
        if let Some(path) = &self.0.path {
            write!(f, ": {}", path.display())?;
            if let Some(offset) = self.0.offset {
                write!(f, " at offset {offset}")?;
            }
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Errors of the same kind, with the same text, file and offset are equal, regardless of their
/// causes.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        let parts = |e: &Error| {
            let Inner { kind, offset, .. } = *e.0;
            (kind, offset)
        };
        parts(self) == parts(other)
            && self.message() == other.message()
            && self.path() == other.path()
    }
}

impl Eq for Error {}

/// The source of the result is the error itself.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            ErrorKind::Corruption => Io::InvalidData,
            ErrorKind::NoSpace => Io::StorageFull,
            ErrorKind::NotFound => Io::NotFound,
            ErrorKind::AlreadyExists => Io::AlreadyExists,
            ErrorKind::InvalidArgument | ErrorKind::InvalidOption => Io::InvalidInput,
            ErrorKind::Unsupported => Io::Unsupported,
            ErrorKind::Locked | ErrorKind::Busy => Io::ResourceBusy,
            ErrorKind::ReadOnly => Io::ReadOnlyFilesystem,
            ErrorKind::LockTimeout => Io::TimedOut,
            ErrorKind::Deadlock => Io::Deadlock,
            _ => error.io_kind().unwrap_or(Io::Other),
        };
        std::io::Error::new(kind, error)
    }
}

/// For programs, whose functions may return [`Result`] and read files of their own. An [`Error`]
/// that became an `io::Error` here, as in a read by
/// [`LazyValue::reader`](crate::LazyValue::reader), is itself again; any other error has the kind
/// that the engine gives it, and says that it is one of the application's I/O.
///
/// The engine names the file that failed, by [`Error::io`], which a `?` would forget. So its own
/// modules do without this: it is left out where their unit tests are built, and there such a `?`
/// does not compile.
#[cfg(not(test))]
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let own = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
        let own = own.cloned();
        own.unwrap_or_else(|| Self::of_system(error, "I/O of the application"))
    }
}

/// For reports: `{kind, message, file, offset}`. The message includes that of the source.
#[cfg(feature = "serde")]
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = match &self.0.source {
            Some(source) => format!("{}: {source}", self.message()),
            None => self.message().to_owned(),
        };
        let file = self.path().map(|path| path.to_string_lossy());
        let mut object = serializer.serialize_struct("Error", 4)?;
        object.serialize_field("kind", self.kind().name())?;
        object.serialize_field("message", &message)?;
        object.serialize_field("file", &file)?;
        object.serialize_field("offset", &self.offset())?;
        object.end()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

/// Fails with `InvalidOption`, which names the option, the rule and the value, unless `ok`.
pub(crate) fn require(ok: bool, option: &str, rule: &str, value: impl fmt::Display) -> Result<()> {
    if ok {
        return Ok(());
    }
    Err(Error::invalid_option(format!(
        "{option} must be {rule}, not {value}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_place_wins_and_the_text_tells_all() {
        let e = Error::corruption("bad block").at(Path::new("/db/000007.sst"), 4096);
        let e = e.at(Path::new("/db/other"), 1).context("reading the index");
        assert_eq!(
            e.to_string(),
            "corruption: reading the index: bad block: /db/000007.sst at offset 4096"
        );
    }

    #[test]
    fn errors_are_compared_and_become_those_of_io() {
        let damaged = || Error::corruption("bad block").at(Path::new("/db/1"), 7);
        assert_eq!(damaged(), damaged().with_source(Error::internal("why")));
        assert_ne!(damaged(), Error::corruption("bad block"));
        let io = std::io::Error::from(damaged());
        assert_eq!(io.kind(), std::io::ErrorKind::InvalidData);
        let back = io.get_ref().and_then(|e| e.downcast_ref::<Error>());
        assert_eq!(back, Some(&damaged()));
        let refused = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let refused = Error::io(refused, "open", Path::new("/db"));
        let kind = std::io::Error::from(refused).kind();
        assert_eq!(kind, std::io::ErrorKind::PermissionDenied);
        assert_eq!(ErrorKind::NoSpace.to_string(), "no space");
    }

    #[test]
    fn io_errors_keep_their_kind() {
        let os = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let e = Error::io(os, "append", Path::new("/db/000001.log"));
        assert_eq!(e.kind(), ErrorKind::NoSpace);
        assert_eq!(e.io_kind(), Some(std::io::ErrorKind::StorageFull));
    }

    #[test]
    fn only_an_opening_can_be_out_of_descriptors() {
        for errno in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE] {
            let path = Path::new("/db/000001.sst");
            let e = Error::opening(errno.into(), "open file", path);
            assert_eq!(e.kind(), ErrorKind::TooManyOpenFiles, "{e}");
            assert_eq!(Error::io(errno.into(), "sync", path).kind(), ErrorKind::Io);
        }
        let os = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert!(Error::opening(os, "open file", Path::new("/db/1")).is_not_found());
    }
}
