//! The error type of the crate: failures of a node to start, to serve or to stop.
//!
//! Failures of calls are values of the protocol (`failure`).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The failure of a node to start, to serve or to stop.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The directory contains something that is not a node. Nothing was changed.
    NotANode {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        found: String,
    },
    /// An operation of the operating system failed.
    Io {
        /// The attempted operation and its file or address.
        doing: String,
        /// The failure.
        source: io::Error,
    },
    /// The address can be reached from other machines, but there is no TLS.
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The node listens at all addresses, and does not know which one to tell clients.
    NoAddress {
        /// The address.
        address: SocketAddr,
    },
    /// The address that clients are to be told is no host with a port.
    NoHostAndPort {
        /// The address.
        address: String,
    },
    /// Certificates or keys cannot be used.
    Tls {
        /// The reason.
        reason: String,
    },
    /// The transport ended.
    Transport(tonic::transport::Error),
    /// An error of the store of versions.
    Store(titan_mvcc::Error),
    /// An error of the range cache.
    Cache(titan_ime::Error),
    /// An error of the engine, from the database of records and raw keys.
    Engine(titan::Error),
}

impl Error {
    pub(crate) fn not_a_node(dir: &Path, found: impl Into<String>) -> Self {
        Error::NotANode {
            dir: dir.to_owned(),
            found: found.into(),
        }
    }

    /// Makes the error for a failed operation, for `map_err`.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Error::Io { doing, source }
    }

    pub(crate) fn tls(reason: impl fmt::Display) -> Self {
        Error::Tls {
            reason: reason.to_string(),
        }
    }
}

impl From<titan::Error> for Error {
    fn from(source: titan::Error) -> Self {
        Error::Engine(source)
    }
}

impl From<titan_mvcc::Error> for Error {
    fn from(source: titan_mvcc::Error) -> Self {
        Error::Store(source)
    }
}

impl From<titan_ime::Error> for Error {
    fn from(source: titan_ime::Error) -> Self {
        Error::Cache(source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotANode { dir, found } => {
                write!(
                    f,
                    "{} is not the directory of a node: {found}",
                    dir.display()
                )
            }
            Error::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
            Error::Exposed { address } => write!(
                f,
                "{address} can be reached from other machines, and there is no TLS: give a \
                 certificate, or allow it with --insecure"
            ),
            Error::NoAddress { address } => write!(
                f,
                "clients cannot connect to {address}: tell them an address with --advertise"
            ),
            Error::NoHostAndPort { address } => {
                write!(
                    f,
                    "clients cannot connect to \"{address}\": it is no HOST:PORT"
                )
            }
            Error::Tls { reason } => write!(f, "TLS: {reason}"),
            Error::Transport(source) => {
                write!(f, "the transport failed: {source}")?;
                let mut cause = std::error::Error::source(source);
                while let Some(deeper) = cause {
                    write!(f, ": {deeper}")?;
                    cause = deeper.source();
                }
                Ok(())
            }
            Error::Store(source) => source.fmt(f),
            Error::Cache(source) => source.fmt(f),
            Error::Engine(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Transport(source) => Some(source),
            Error::Store(source) => Some(source),
            Error::Cache(source) => Some(source),
            Error::Engine(source) => Some(source),
            _ => None,
        }
    }
}
