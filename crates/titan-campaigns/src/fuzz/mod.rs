//! What a fuzzer calls, beside the decoders of `titan::fuzzing`: whole databases.
//!
//! | target | bytes are | holds |
//! |---|---|---|
//! | [`directory`] | damage to the files of a small database | no panic, no hang; what can be read was written once |
//! | [`operations`] | operations, and a crash at their end | the model's answers; a prefix after the crash |
//!
//! Databases to damage are committed in `fuzz/directories`; [`bases::create`] writes them anew.

pub mod bases;
mod certified;
mod checksums;
mod damage;
mod directory;
mod input;
mod operations;
#[cfg(test)]
mod tests;

pub use directory::directory;
pub use operations::operations;

use titan::{Db, Options, ReadOptions, Result};
use titan_testkit::model::{Model, Pairs};

/// Where databases lie in the simulated file system.
const DIR: &str = "/db";

/// Fails with a text unless `$holds`.
macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err(format!($($what)*));
        }
    };
}
use ensure;

fn text(e: titan::Error) -> String {
    format!("error: {e} {e:?}")
}

/// Options of a small database: nothing in it is large, and one thread works in the background.
fn small(vfs: &titan_testkit::sim::SimVfs) -> Options {
    let mut options = Options::default();
    options.db.vfs = std::sync::Arc::new(vfs.clone());
    options.db.max_background_jobs = 1;
    options.db.block_cache_size = 64 << 10;
    options.db.max_open_files = 64;
    options.default.write_buffer_size = 64 << 10;
    options.default.block_size = 256;
    options.default.target_file_size_base = 1 << 10;
    options.default.max_bytes_for_level_base = 4 << 10;
    options.default.max_bytes_for_level_multiplier = 2;
    options
}

/// All pairs of a family, walked forward, or backward.
fn pairs(family: &titan::ColumnFamily, options: &ReadOptions, backward: bool) -> Result<Pairs> {
    let mut found = Pairs::new();
    let mut iter = family.iter(options)?;
    match backward {
        true => iter.seek_to_last()?,
        false => iter.seek_to_first()?,
    }
    while iter.valid() {
        let value = iter.value()?;
        found.insert(iter.key().to_vec(), value.to_vec());
        match backward {
            true => iter.prev()?,
            false => iter.next()?,
        }
    }
    Ok(found)
}

/// Everything in a database.
fn contents(db: &Db) -> Result<Model> {
    let mut model = Model::without_families();
    for family in db.column_families() {
        let found = pairs(&family, &ReadOptions::default(), false)?;
        model.insert_family(family.name(), found);
    }
    Ok(model)
}
