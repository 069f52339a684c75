//! Files made elsewhere: writing them, reading the facts that a database needs of them, and
//! choosing the level that they join.
//!
//! A file for ingestion is a table whose entries have the sequence number 0. The record of the
//! table in the MANIFEST has the one number that all of them have from its ingestion on: RocksDB
//! calls it the global sequence number.
//!
//! | file | owns |
//! |---|---|
//! | [`options`] | options of an ingestion |
//! | [`writer`] | writing a file |
//! | [`external_file`] | the facts that a file states, and the files that are refused |
//! | [`placement`], [`ranges`] | the lowest level at which a file hides nothing newer; ranges of keys |
//!
//! Promises: nothing here changes a database. Assumes that nobody changes a file while it is
//! ingested.

pub(crate) mod external_file;
pub(crate) mod options;
pub(crate) mod placement;
mod ranges;
mod writer;

pub use options::{FileTransfer, IngestOptions};
pub(crate) use writer::{NewSstFile, is_in_a_database};
pub use writer::{SstFileInfo, SstFileWriter};
