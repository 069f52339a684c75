//! Reading a table that may be damaged: showing its parts, and saving what is left. Only `tools`
//! uses this; it is here because it needs the parts of the format that `table` keeps to itself.

pub(in crate::table) mod dissect;
pub(in crate::table) mod salvage;
mod scan;
