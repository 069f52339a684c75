//! TiFS: a POSIX file system on the Titan storage engine.
//!
//! A volume is a database. Its directory entries, inodes and blocks are keys, and each operation of the
//! file system is one transaction, so that it has all of its effect or none, also after a crash.
//!
//! The modules, the lowest first; each uses only those above it:
//!
//! | module | owns |
//! |---|---|
//! | [`error`] | the error type: an errno, and what happened |
//! | [`log`] | messages of a process that serves a mount |
//! | [`mounts`] | the kernel's table of mounts |
//! | [`kv`] | the store beneath a volume, as a trait; the engine and a store in memory behind it |
//! | [`schema`] | keys and values of a volume |
//! | [`file_system`] | the operations of a file system, as a trait |
//! | [`volume`] | the file system itself: operations as transactions on a store |
//! | [`subtree`] | a directory of a file system, as a file system |
//! | [`observed`] | counts and times of operations |
//! | [`fuse`] | serves a file system to the kernel |
//! | [`mod@check`] | what must hold in a volume, and finding what does not |
//! | [`dump`] | a volume as a stream of bytes |
//! | [`bench`] | measuring a mounted file system |

#[macro_use]
extern crate titan_mutants;

pub mod bench;
pub mod check;
pub mod dump;
pub mod error;
pub mod file_system;
pub mod fuse;
pub mod kv;
pub mod log;
pub mod mounts;
pub mod observed;
pub mod schema;
pub mod subtree;
pub mod volume;

pub use error::{Error, Result};
