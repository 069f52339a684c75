//! TiFS: a POSIX file system on the Titan storage engine.
//!
//! A volume is a database. Its directory entries, inodes and blocks are keys, and each operation of
//! the file system is one transaction, so that it has all of its effect or none, also after a
//! crash.
//!
//! A [`volume`] implements the trait of [`file_system`] on a store ([`kv`]); [`fuse`] serves it to
//! the kernel. `docs/tifs.md` is for users, `docs/architecture.md` has the modules.

// A call of `FileSystem` for which a volume has no method would call itself.
#![deny(unconditional_recursion)]

#[macro_use(mutant)]
extern crate titan;

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
