//! The directory of a database: whether it is one, whether it is ours to open, and its contents.

use std::path::Path;
use std::sync::Arc;

use crate::blob::BlobFileReader;
use crate::error::{Error, ErrorKind, Result};
use crate::format::CompressionType;
use crate::format::file_name::FileKind;
use crate::options::Options;
use crate::sorting;
use crate::table::{prefetch_head, refuse_unreadable};
use crate::version::{TableFile, VersionSet};
use crate::vfs::{Access, FileLock, Vfs, open_live};

/// Makes sure there is a directory to work in, locks it, and refuses a directory that must be
/// refused.
pub(crate) fn prepare_directory(
    vfs: &dyn Vfs,
    dir: &Path,
    options: &Options,
) -> Result<Box<dyn FileLock>> {
    // Not even a lock file is left in a directory of another program.
    if !options.db.create_if_missing {
        require_database(vfs, dir)?;
    } else if !has_current(vfs, dir)? {
        // Or the WAL files of another database would be taken for what is left of this one.
        if let Some(logs) = &options.db.wal_dir
            && vfs.exists(logs)?
        {
            vfs.lock_directory(logs)?;
        }
        create_dir_durably(vfs, dir)?;
        refuse_headless(vfs, dir)?;
    }
    refuse_other_layouts(vfs, dir)?;
    if let Some(logs) = &options.db.wal_dir {
        // ORDER: the directory's name before a WAL file in it, and before the lock, which is one of
        // this directory too. Only a new database lacks it: no later refusal leaves it behind.
        create_dir_durably(vfs, logs)?;
    }
    let lock = vfs.lock(&FileKind::Lock.path(dir))?;
    if has_current(vfs, dir)? && options.db.error_if_exists {
        return Err(Error::new(ErrorKind::AlreadyExists, "a database exists here").in_file(dir));
    }
    Ok(lock)
}

/// Makes sure that there is a database in `dir`, for callers that must not create one.
///
/// # Errors
/// `NotFound` if there is none; `InvalidArgument` if `dir` is no directory; `Corruption` if there
/// are files of one, and no CURRENT.
pub fn require_database(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    if has_current(vfs, dir)? {
        return Ok(());
    }
    if has_directory(vfs, dir)? {
        refuse_headless(vfs, dir)?;
    }
    Err(Error::new(ErrorKind::NotFound, "no database exists here").in_file(dir))
}

/// Whether `dir` exists.
///
/// # Errors
/// `InvalidArgument` if one of its parents is no directory.
pub fn has_directory(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    vfs.exists(dir).map_err(|e| of_directory(e, dir))
}

/// Whether there is a database in `dir`, or at least the file that names it.
fn has_current(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    let there = vfs.exists(&FileKind::Current.path(dir));
    there.map_err(|e| of_directory(e, dir))
}

/// Error for the user if `dir`, which should be a database's directory, cannot be read.
fn of_directory(error: Error, dir: &Path) -> Error {
    match error.io_kind() {
        Some(std::io::ErrorKind::NotADirectory) => {
            let message = "the directory of a database was expected; this is a file, or below one";
            Error::invalid_argument(message).in_file(dir)
        }
        _ => error,
    }
}

/// Creates `dir` and its missing parents so that they survive the machine.
pub fn create_dir_durably(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    // The missing ones, and the first that exists: it may be from a process that died before it
    // made the name durable.
    let mut chain = Vec::new();
    for path in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        chain.push(path);
        if vfs.exists(path)? {
            break;
        }
    }
    for path in chain.into_iter().rev() {
        vfs.create_dir_all(path)?;
        // ORDER: a directory's name before its contents. If its parent is not ours to open, another
        // program made it.
        match path.parent().map(|parent| vfs.sync_dir(parent)) {
            Some(Err(e)) if e.io_kind() != Some(std::io::ErrorKind::PermissionDenied) => {
                return Err(e);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses databases that keep part of their data elsewhere: they would open with that part
/// missing.
pub(crate) fn refuse_other_layouts(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    for (name, whose) in [
        ("titandb", "the TiKV project's Titan"),
        ("blob_dir", "stacked BlobDB"),
    ] {
        if vfs.exists(&dir.join(name))? {
            return Err(
                Error::unsupported(format!("a database with blob files of {whose}"))
                    .in_file(&dir.join(name)),
            );
        }
    }
    Ok(())
}

/// Files of a database without CURRENT are a damaged database, not an empty directory. A crash
/// during creation leaves a MANIFEST alone.
fn refuse_headless(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    if holds_data(vfs, dir)? {
        return Err(
            Error::corruption("CURRENT is missing, but files of a database are here").in_file(dir),
        );
    }
    Ok(())
}

fn holds_data(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    let mut files = files_of(vfs, dir)?.into_iter();
    let is_data = |f| matches!(f, FileKind::Table(_) | FileKind::Blob(_) | FileKind::Wal(_));
    Ok(files.any(is_data))
}

/// Whether there is a database in `dir`, even one without CURRENT.
pub(super) fn holds_database(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    Ok(has_directory(vfs, dir)? && (has_current(vfs, dir)? || holds_data(vfs, dir)?))
}

/// The files in `dir` that have names of database files, by kind and number.
pub fn files_of(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<FileKind>> {
    let names = names_in(vfs, dir)?;
    let mut files: Vec<_> = names.iter().filter_map(|n| FileKind::parse(n)).collect();
    sorting::sort(&mut files);
    Ok(files)
}

/// All names in `dir`.
///
/// # Errors
/// `InvalidArgument` if `dir` is no directory; failures to list it.
pub(crate) fn names_in(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<String>> {
    vfs.read_dir(dir).map_err(|e| of_directory(e, dir))
}

/// RocksDB can keep tables in other directories, and does not record in which. If none of the
/// tables of a family that it wrote is here, they are assumed to be there.
///
/// # Errors
/// `Unsupported` naming the family.
pub fn refuse_tables_elsewhere(vfs: &dyn Vfs, dir: &Path, versions: &VersionSet) -> Result<()> {
    for family in versions.families().values() {
        let mut tables = family.current.tables().map(|(_, table)| table);
        let path = |table: &TableFile| FileKind::Table(table.number()).path(dir);
        let Some(first) = tables.next() else {
            continue;
        };
        // Titan records facts about the tables that it writes.
        let is_here = |table: &TableFile| match table.facts() {
            Some(_) => Ok(true),
            None => vfs.exists(&path(table)),
        };
        let mut any_is_here = is_here(first)?;
        while let Some(table) = tables.next().filter(|_| !any_is_here) {
            any_is_here = is_here(table)?;
        }
        if !any_is_here {
            let message = format!(
                "no table of column family {} is in this directory: where RocksDB's db_paths or \
                 cf_paths lead elsewhere, move its files here",
                family.name
            );
            return Err(Error::unsupported(message).in_file(&path(first)));
        }
    }
    Ok(())
}

/// Every live file must be there and have the recorded size; its contents are checked when read.
///
/// # Errors
/// `Corruption` naming the file; as [`refuse_tables_elsewhere`].
pub fn check_files_exist(vfs: &dyn Vfs, dir: &Path, versions: &VersionSet) -> Result<()> {
    refuse_tables_elsewhere(vfs, dir, versions)?;
    let size_of = |file: FileKind| {
        let path = file.path(dir);
        vfs.size(&path).map_err(|e| e.of_live_file(&path))
    };
    for family in versions.families().values() {
        for (_, table) in family.current.tables() {
            let file = FileKind::Table(table.number());
            let size = size_of(file)?;
            if size != table.size() {
                return Err(Error::corruption(format!(
                    "the table has {size} bytes where the MANIFEST says {}",
                    table.size()
                ))
                .in_file(&file.path(dir)));
            }
        }
        for (physical, _) in family.current.physical_blob_files().values() {
            let file = FileKind::Blob(physical.number);
            let (size, content) = (size_of(file)?, physical.total_bytes);
            if let Some(map) = physical.map {
                size_of(FileKind::BlobMap(map))?;
            }
            if size < content {
                return Err(Error::corruption(format!(
                    "the blob file has {size} bytes where the MANIFEST says at least {content}"
                ))
                .in_file(&file.path(dir)));
            }
        }
    }
    Ok(())
}

/// Tables checked together.
const LOOKED_AT_TOGETHER: usize = 32;

/// Refuses a database with tables or blob files that this build cannot read, before anything is
/// written. Tables that Titan wrote or counted are readable where all codecs are compiled in, and
/// are not read; blob files are only read where one is missing. Damage and failures to read are
/// left to the readers of the file.
///
/// Cost: an open and three reads for each table that another program wrote, 32 at a time in flight.
/// In a build that lacks a codec, for an opening that will write: the same for all tables, and an
/// open and a read for each blob file.
///
/// # Errors
/// `Unsupported`, or `InvalidOption` for a comparator, naming the file; `TooManyOpenFiles`.
pub fn refuse_unreadable_tables(
    vfs: &dyn Vfs,
    dir: &Path,
    versions: &VersionSet,
    will_write: bool,
) -> Result<()> {
    let refusals = [
        ErrorKind::Unsupported,
        ErrorKind::InvalidOption,
        // A table that could not be opened for a moment has not been looked at.
        ErrorKind::TooManyOpenFiles,
    ];
    // Readers can do without files that they do not meet; a compaction that meets one stops writes.
    let lacks_codec = will_write && !CompressionType::are_all_compiled_in();
    for family in versions.families().values() {
        let tables = family.current.tables().map(|(_, table)| table);
        let looked_at: Vec<_> = tables
            .filter(|table| lacks_codec || table.facts().is_none())
            .collect();
        for tables in looked_at.chunks(LOOKED_AT_TOGETHER) {
            let open = |table: &&Arc<TableFile>| {
                let path = FileKind::Table(table.number()).path(dir);
                let identity = table.meta.identity();
                let file = open_live(vfs, &path, Access::Random)?;
                prefetch_head(&*file, &identity);
                Ok((file, path, identity))
            };
            // All reads are announced before the first one.
            let opened: Vec<Result<_>> = tables.iter().map(open).collect();
            for (table, opened) in tables.iter().zip(opened) {
                let said = opened.and_then(|(file, path, identity)| {
                    refuse_unreadable(file, &path, &identity, &family.comparator)
                });
                match said {
                    Ok(Some(counts)) => table.learn_counts(counts),
                    Err(e) if refusals.contains(&e.kind()) => return Err(e),
                    _ => {}
                }
            }
        }
        let blob_files = family.current.physical_blob_files().into_values();
        for (physical, _) in blob_files.filter(|_| lacks_codec) {
            let path = FileKind::Blob(physical.number).path(dir);
            let file = open_live(vfs, &path, Access::Random);
            let opened = file.and_then(|file| BlobFileReader::open(file, &path, physical.number));
            match opened {
                Err(e) if refusals.contains(&e.kind()) => return Err(e),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::error::ErrorKind;

    #[test]
    fn wal_files_of_another_database_are_not_taken_for_damage() {
        let place = tempfile::tempdir().unwrap();
        let (logs, other) = (place.path().join("logs"), place.path().join("other"));
        let mut options = Options::default();
        options.db.wal_dir = Some(logs.clone());
        let db = Db::open(place.path().join("db"), &options).unwrap();
        let refused = Db::open(&other, &options).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
        assert_eq!(refused.path(), Some(&*logs), "{refused}");
        assert!(!other.exists());
        drop(db);
    }

    #[test]
    fn a_file_is_not_taken_for_a_directory() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("notes.txt");
        std::fs::write(&file, "no database").unwrap();
        let options = Options::default();
        for path in [file.clone(), file.join("db")] {
            for error in [
                Db::open(&path, &options).err(),
                Db::open_read_only(&path, &options).err(),
                Db::destroy(&path, &options).err(),
            ] {
                let error = error.unwrap();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                assert!(error.message().contains("was expected"), "{error}");
            }
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"no database");
    }
}
