//! The directory of a database, as it is on disk while nobody has it open.
//!
//! | file | owns |
//! |---|---|
//! | [`directory`] | whether a directory has a database, whether it may be opened, and its contents |
//! | [`wal_dir`], [`wals`] | where its WAL files are; which of them a replay reads |
//! | [`layout`] | directories and names of its files, if not those that this engine would choose |
//! | [`load_options`], [`options_file`] | loading the options that it has recorded; writing OPTIONS |
//! | [`follower`] | its files of one moment, while another process writes them |
//! | [`destroy`] | deleting a whole database |
//! | [`staging`] | a directory that appears whole |
//! | [`leftovers`], [`lost_files`] | deleting files that a MANIFEST does not name; keeping files that are not used any more |
//!
//! Promises: nothing is changed in a directory that is refused. Assumes: the caller has the lock of
//! the directory wherever it changes something.

pub(super) mod destroy;
pub(super) mod directory;
pub(super) mod follower;
pub(super) mod layout;
pub(super) mod leftovers;
pub(super) mod load_options;
pub(super) mod lost_files;
pub(super) mod options_file;
pub(super) mod staging;
pub(super) mod wal_dir;
pub(super) mod wals;
