//! The entry point of the fuzzer of tables, and the cutting of files of a database into inputs of
//! all fuzz targets. Only compiled for fuzzing and for this crate's tests.

mod seeds;
mod table;

pub use seeds::{Seed, seeds};
pub use table::table;
