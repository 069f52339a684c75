//! Caches: what was read once and may be read again.
//!
//! The block cache holds data blocks of SSTs, decompressed and verified. Index and filter blocks
//! are not in it; they live as long as the table's reader.

pub(crate) mod block_cache;

pub(crate) use block_cache::BlockCache;
