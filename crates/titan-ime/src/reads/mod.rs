//! The path of reads: admission, point reads, parts of scans.

pub(crate) mod admission;
pub(crate) mod scan;
pub(crate) mod source;
