//! One promise each: what file systems in user space and on stores of keys often get wrong.
//!
//! | module | promises about |
//! |---|---|
//! | `content` | what files contain, and what of it takes space |
//! | `directories` | places in directories, file handles, what the kernel keeps of listings |
//! | `names` | names, renaming, listing |
//! | `attributes` | permissions, times, extended attributes, the accounts |
//! | `locking` | locks |

mod attributes;
mod content;
mod directories;
mod locking;
mod names;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A new file, open for reading and writing.
fn create(path: impl AsRef<Path>) -> File {
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    options.open(path).unwrap()
}

/// Bytes that a file takes, once everything is written.
fn allocated(file: &File) -> u64 {
    file.sync_all().unwrap();
    file.metadata().unwrap().blocks() * 512
}
