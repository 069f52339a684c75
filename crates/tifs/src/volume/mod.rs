//! A volume: the calls of a file system as transactions on a store.
//!
//! Each call is one transaction, and a crash leaves nothing to repair. The volume assumes that only
//! this process uses it, which the store's lock ensures.
//!
//! # Order
//!
//! Operations on one inode take turns, by locks in memory (`state/locks.rs`): the store's conflicts
//! are for correctness, the locks for speed. An operation takes all its locks at once and in order.
//! A rename of a directory into another one excludes other such renames, because it checks that no
//! directory becomes its own ancestor.
//!
//! # Deleting later
//!
//! A file whose last name is removed becomes an orphan, by a key in the same transaction. Once it
//! has no references, a background thread deletes its blocks piece by piece, and then its inode
//! (`content/reclaim.rs`). The next opening does that for orphans of a crash. A
//! truncation cuts many blocks in the same way; the inode has the end of the old blocks, and an
//! operation that makes the file grow deletes them first. So no old byte is ever shown.

mod attributes;
mod background;
mod content;
mod names;
mod operations;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use self::attributes::acl::{
    ACCESS as ACCESS_ACL, DEFAULT as DEFAULT_ACL, permissions_of as acl_permissions,
};
pub use self::attributes::describe::{DESCRIPTION, Description, STATISTICS, Statistics};
pub use self::background::Background;
pub(crate) use self::names::lookup::check_name;
pub use self::state::options::{AccessTime, HostSpace, VolumeOptions};
pub use self::state::volume::Volume;
