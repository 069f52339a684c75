//! The interface of an open database: the handles, and the operations that they call.
//!
//! | file | owns |
//! |---|---|
//! | [`handle`], [`column_family`], [`secondary`] | the handles |
//! | [`put_reader`] | putting a value that a reader gives |
//! | [`ingest`], [`export`] | adding files made elsewhere; writing such files |
//! | [`delete_files`] | deleting a range with its tables |
//! | [`families`] | creating and dropping families |
//! | [`set_options`] | changing options while the database is open |
//! | [`checkpoint`] | the database of one moment in another directory |
//! | [`compact_files`] | compacting tables by their numbers |
//! | [`collect_range`], [`pause`] | garbage collection as users control it |
//! | [`approximate`], [`table_properties`], [`damaged_block`] | sizes of ranges; reports of collectors; where a scan can go on after damage |
//! | [`own_files`] | files of programs beside those of the database |
//! | `running` | the files of an open database, compared with its state by tests |
//! | [`resume`], [`close`] | accepting writes again after a failure; closing |
//!
//! Promises: every call fails with `Closed` after a close, and changes nothing in a database that
//! is open for reading only. Assumes: handles may be used by any thread, and dropped in any order.

pub(super) mod approximate;
pub(super) mod at_snapshot;
pub(super) mod checkpoint;
pub(super) mod close;
pub(super) mod collect_range;
pub(super) mod column_family;
pub(super) mod compact_files;
pub(super) mod damaged_block;
pub(super) mod delete_files;
pub(super) mod export;
pub(super) mod families;
pub(super) mod handle;
pub(super) mod ingest;
pub(super) mod own_files;
pub(super) mod pause;
pub(super) mod put_reader;
pub(super) mod ranges;
pub(super) mod resume;
#[cfg(debug_assertions)]
pub(super) mod running;
pub(super) mod secondary;
pub(super) mod set_options;
pub(super) mod table_properties;
