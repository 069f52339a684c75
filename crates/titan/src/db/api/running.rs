//! The files of an open database, compared with its state.

use std::collections::BTreeSet;

use super::handle::Db;
use crate::format::file_name::FileKind;
use crate::version::set::recorded::compare_with_manifest;

/// Checks that the MANIFEST describes the versions that run, field by field, and that the directory
/// has exactly the files that they need. Nobody may read or write the database meanwhile.
///
/// # Panics
/// If something differs.
pub fn check_running(db: &Db) {
    assert!(db.wait_idle().is_ok(), "jobs fail");
    let shared = &db.core.shared;
    let versions = shared.versions.lock();
    assert!(compare_with_manifest(&versions).is_ok(), "no MANIFEST");

    let ids: Vec<_> = versions.families().keys().copied().collect();
    let published: Vec<_> = shared.families.load().keys().copied().collect();
    assert_eq!(published, ids, "families");
    let state = shared.state.lock();
    let with_state: Vec<_> = state.families.keys().copied().collect();
    assert_eq!(with_state, ids, "families of the state");

    let vfs = &shared.opening.options.load().vfs;
    let names = vfs.read_dir(&shared.files.dir).unwrap_or_default();
    let found: BTreeSet<FileKind> = names.iter().filter_map(|n| FileKind::parse(n)).collect();
    let wals = found.iter().filter_map(|file| match file {
        FileKind::Wal(number) => Some(*number),
        _ => None,
    });
    let wals: Vec<_> = wals.collect();
    let known: Vec<_> = state.wals.iter().map(|wal| wal.number).collect();
    assert_eq!(wals, known, "WAL files");
    let needed = state.oldest_log_needed(None);
    assert!(
        wals.iter().all(|wal| *wal >= needed),
        "{wals:?}: needed from {needed}"
    );
    let since = versions.oldest_log_needed();
    assert!(
        since <= needed,
        "recovery starts after {needed}, at {since}"
    );

    let is_data = |file: &&FileKind| {
        matches!(
            file,
            FileKind::Table(_) | FileKind::Blob(_) | FileKind::BlobMap(_)
        )
    };
    let data: BTreeSet<FileKind> = found.iter().filter(is_data).copied().collect();
    assert_eq!(data, versions.live_files(), "tables and blob files");
    let others = found.iter().filter(|file| !is_data(file));
    let manifests = others.filter(|file| matches!(file, FileKind::Manifest(_) | FileKind::Temp(_)));
    let current = versions.manifest_number().map(FileKind::Manifest);
    assert!(manifests.copied().eq(current), "MANIFESTs: {names:?}");
}
