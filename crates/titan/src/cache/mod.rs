//! Caches of data that was read and may be read again.
//!
//! The block cache holds data blocks of SSTs, decompressed and verified. Index and filter blocks
//! are not in it; they live as long as the table's reader. Open files are kept up to limits on
//! their number and on their memory, tables and blob files together.

mod block_cache;
mod open_files;

pub(crate) use block_cache::BlockCache;
pub(crate) use open_files::{OpenFiles, OpenFilesLimits};
