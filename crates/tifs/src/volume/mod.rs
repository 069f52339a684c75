//! A volume: the operations of a file system as transactions on a store.
//!
//! Owns the rules of POSIX, which keys an operation reads and writes, and what is deleted later.
//! Promises that each operation is one transaction, and that what a crash leaves needs no repair. Assumes
//! that this process alone uses the volume, which the store's lock sees to.
//!
//! # Order
//!
//! Operations on the same inode take turns, by locks in memory ([`locks`]): the store's conflicts are
//! there for correctness, the locks for speed. All locks of an operation are taken at once and in order.
//! A rename of a directory to another one excludes other such renames, because it checks that no
//! directory becomes its own ancestor.
//!
//! # Deleting later
//!
//! A file whose last name is removed becomes an orphan, in the same transaction, with a key that says
//! so. Once nobody refers to it, a background thread deletes its blocks, piece by piece, and then its
//! inode ([`reclaim`]). The next opening does that for the orphans of a crash. A truncation cuts many
//! blocks in the same way; the inode says up to where old blocks may be left, and whoever makes the file
//! grow deletes them first. So no old byte is ever shown.

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
pub(crate) use self::content::blocks::INLINE_MAX;
pub(crate) use self::names::lookup::check_name;
pub use self::state::options::{AccessTime, HostSpace, VolumeOptions};
pub use self::state::volume::Volume;
