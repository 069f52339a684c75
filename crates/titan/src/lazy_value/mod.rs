//! A value that is read when it is asked for, as a whole or in parts.
//!
//! Owns [`LazyValue`] and [`ValueReader`]. Readers of the database return the first, and compaction
//! filters get it. Assumes that the [`ValueSource`] of a separated value pins the file that has it.
//!
//! The checksum of a value in a blob file is over all of it. So before a part of it is given, all
//! of it is verified, in pieces; once, since blob files do not change.

mod reader;
mod value;

pub use reader::ValueReader;
pub(crate) use value::ValueSource;
pub use value::{FindValue, LazyValue};
