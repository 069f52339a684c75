//! The contract of `Vfs`, and each clause of the model in the module documentation.

mod bulk_and_log;
mod contents;
mod entries;
mod files;
mod journal;
mod syscalls;
mod trouble;

use std::collections::BTreeSet;
use std::path::Path;

use titan::vfs::{Vfs, WritableFile};

use crate::sim::{Loss, SimVfs};

const ANY: std::ops::Range<u64> = 0..300;

fn p(path: &str) -> &Path {
    Path::new(path)
}

/// `/db`, durable, in a journal that starts here.
fn fresh() -> SimVfs {
    let vfs = SimVfs::new();
    vfs.create_dir_all(p("/db")).unwrap();
    vfs.sync_all().unwrap();
    vfs.restart_journal();
    vfs
}

fn put(vfs: &SimVfs, path: &str, data: &[u8]) -> Box<dyn WritableFile> {
    let mut file = vfs.create(p(path)).unwrap();
    file.append(data).unwrap();
    file
}

/// A file that is durable with its name.
fn settled(vfs: &SimVfs, path: &str, data: &[u8]) -> Box<dyn WritableFile> {
    let mut file = put(vfs, path, data);
    file.sync().unwrap();
    vfs.sync_dir(p("/db")).unwrap();
    file
}

fn crash(vfs: &SimVfs, loss: Loss) -> SimVfs {
    let journal = vfs.journal();
    journal.crash_at(journal.len(), &loss)
}

/// All outcomes of losing a random part now, as `look` sees them.
fn outcomes<T: Ord>(vfs: &SimVfs, look: impl Fn(&SimVfs) -> T) -> BTreeSet<T> {
    let journal = vfs.journal();
    let point = journal.crash_points().last().unwrap();
    ANY.map(|seed| look(&point.crash(&Loss::Random(seed))))
        .collect()
}

fn names(vfs: &SimVfs) -> String {
    vfs.list("/db").unwrap().join(" ")
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}
