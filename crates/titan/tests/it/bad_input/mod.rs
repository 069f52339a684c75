//! Input that must be refused, and input that must be survived: directories that are missing,
//! locked, foreign or damaged; options, batches and records that are invalid; keys and values of
//! extreme sizes.
//!
//! The rule for damage: either an error of kind `Corruption` that names a file, or the right
//! result; never a panic, never a wrong value, never a new database in place of a damaged one.

mod batches;
mod damage;
mod directories;
mod manifest;
mod option_values;
mod orders;
mod other_database;
mod sizes;
mod wal_damage;
mod wal_dir;

use titan::{ColumnFamilyOptions, Options};

/// Small files, and values of 100 bytes in blob files.
fn small() -> Options {
    Options {
        default: ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            target_file_size_base: 8 << 10,
            max_bytes_for_level_base: 32 << 10,
            block_size: 512,
            min_blob_size: 100,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

fn must_exist() -> Options {
    let mut options = small();
    options.db.create_if_missing = false;
    options
}
