//! Finds the files to load.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use titan::{Error, Result};
use walkdir::{DirEntry, WalkDir};

/// An item found by the walk.
pub(super) enum Found {
    /// A regular file.
    File(PathBuf),
    /// A symbolic link, socket, device or pipe somewhere under the paths.
    Skipped,
}

/// A walk over the paths that the user named, in the order of names. It follows no symbolic links
/// and does not enter the directories of the load itself.
pub(super) struct Walk<'a> {
    paths: &'a [PathBuf],
    /// Devices and inodes of directories that are left out.
    left_out: Vec<(u64, u64)>,
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl<'a> Walk<'a> {
    /// The directories `left_out` must already exist.
    pub(super) fn new(paths: &'a [PathBuf], left_out: &[&Path]) -> Result<Self> {
        let identities = left_out.iter().map(|dir| {
            let metadata = std::fs::metadata(dir).map_err(|e| Error::io(e, "look at", dir))?;
            Ok(identity(&metadata))
        });
        Ok(Walk {
            paths,
            left_out: identities.collect::<Result<_>>()?,
        })
    }

    /// The files, and an error for each path that cannot be examined, or that the user named and is
    /// not a file.
    pub(super) fn files(&self) -> impl Iterator<Item = Result<Found>> {
        self.entries().filter_map(|entry| match entry {
            Ok(entry) if entry.file_type().is_dir() => None,
            Ok(entry) if entry.file_type().is_file() => Some(Ok(Found::File(entry.into_path()))),
            Ok(entry) if entry.depth() == 0 => {
                let why = "neither a file nor a directory, and links are not followed";
                Some(Err(Error::invalid_argument(why).in_file(entry.path())))
            }
            Ok(_) => Some(Ok(Found::Skipped)),
            Err(error) => Some(Err(walk_error(error))),
        })
    }

    /// Bytes of all files that can be examined.
    pub(super) fn total_bytes(&self) -> u64 {
        let files = self.entries().filter_map(std::result::Result::ok);
        let files = files.filter(|entry| entry.file_type().is_file());
        files
            .filter_map(|entry| entry.metadata().ok())
            .map(|metadata| metadata.len())
            .sum()
    }

    fn entries(&self) -> impl Iterator<Item = walkdir::Result<DirEntry>> {
        let is_left_out = |entry: &DirEntry| {
            entry.file_type().is_dir()
                && entry
                    .metadata()
                    .is_ok_and(|metadata| self.left_out.contains(&identity(&metadata)))
        };
        self.paths.iter().flat_map(move |path| {
            WalkDir::new(path)
                .follow_root_links(false)
                .sort_by_file_name()
                .into_iter()
                .filter_entry(move |entry| !is_left_out(entry))
        })
    }
}

fn walk_error(error: walkdir::Error) -> Error {
    let path = error.path().unwrap_or(Path::new("")).to_owned();
    let error = error
        .into_io_error()
        .unwrap_or_else(|| std::io::Error::other("a loop of links"));
    Error::io(error, "read", &path)
}
