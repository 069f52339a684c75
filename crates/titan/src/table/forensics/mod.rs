//! Reading a table that may be damaged: verifying all of it, showing its parts, saving what is left.

pub(in crate::table) mod dissect;
pub(in crate::table) mod salvage;
mod scan;
pub(in crate::table) mod verify;
