//! Reading a table that may be damaged: showing its parts, and saving what is left.

pub(crate) mod dissect;
mod entry;
pub(crate) mod salvage;
mod scan;
