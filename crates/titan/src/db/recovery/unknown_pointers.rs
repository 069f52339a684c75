//! Refuses to open databases for writing that have tables whose pointers are not understood.

use std::path::Path;
use std::sync::Arc;

use crate::block_cache::BlockCache;
use crate::error::{ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::table::{TableReader, TableReaderOptions};
use crate::version::{TableFile, VersionSet};
use crate::vfs::{Access, Vfs, open_live};

/// Refuses a database with a table in which an entry is not understood, or no pointer to its oldest
/// blob file is found, before anything is written. Tables that Titan wrote or counted are not read.
/// Damage and failures to read are left to the readers of the table: without its pointers no
/// garbage is booked either.
///
/// Cost: reads each table that another program wrote and that points to blob files. This opening
/// counts them, so the next one does not.
///
/// # Errors
/// `Unsupported`, naming the table.
pub fn refuse_unknown_pointers(vfs: &dyn Vfs, dir: &Path, versions: &VersionSet) -> Result<()> {
    // Nothing is read twice, so nothing is cached.
    let cache = Arc::new(BlockCache::new(0));
    for family in versions.families().values() {
        for (_, table) in family.current.tables() {
            match look(vfs, dir, table, &family.comparator, &cache) {
                Err(e) if e.kind() == ErrorKind::Unsupported => return Err(e),
                _ => {}
            }
        }
    }
    Ok(())
}

fn look(
    vfs: &dyn Vfs,
    dir: &Path,
    table: &TableFile,
    comparator: &InternalKeyComparator,
    cache: &Arc<BlockCache>,
) -> Result<()> {
    let Some(oldest) = table.uncounted_blob_file() else {
        return Ok(());
    };
    let path = FileKind::Table(table.number()).path(dir);
    let file = open_live(vfs, &path, Access::Sequential)?;
    let options = TableReaderOptions {
        identity: table.meta.identity(),
        comparator: comparator.clone(),
        block_cache: Arc::clone(cache),
    };
    let reader = Arc::new(TableReader::open(file, &path, options)?);
    let found = reader.points_to(oldest)?;
    table.require_pointer(|_| found)
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::db::jobs::count_rocksdb_tables::{change_first_block, change_manifest};
    use crate::{CompressionType, Db, Options};
    use titan_tools::{RepairTo, check, downgrade, repair};

    fn options() -> Options {
        let mut options = Options::default();
        options.default.min_blob_size = 100;
        options.default.disable_auto_compactions = true;
        options
    }

    /// A database of two tables that do not share keys: one with separated values, and one without,
    /// of which the MANIFEST says that it refers to the same blob file. It is as if another program
    /// had written the tables, and the pointers of the second one had an unknown form.
    fn with_unknown_pointers(dir: &Path) {
        let db = Db::open(dir, &options()).unwrap();
        db.put(b"a", &[7; 500]).unwrap();
        db.flush().unwrap();
        db.put(b"b", b"inline").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        make_pointers_unknown(dir);
    }

    /// Makes the MANIFEST one of another program, by which all tables refer to the first blob file.
    fn make_pointers_unknown(dir: &Path) {
        let mut oldest = None;
        change_manifest(dir, |edit| {
            edit.table_facts.clear();
            for (_, table) in &mut edit.new_files {
                oldest = oldest.or(table.oldest_blob_file);
                table.oldest_blob_file = oldest;
            }
        });
        assert!(oldest.is_some());
    }

    /// A form of an entry that is yet to come.
    #[derive(Clone, Copy, Debug)]
    enum Later {
        Entity,
        ValueType,
    }

    /// A table whose first entry is an ordinary pointer, and whose second one is not understood.
    fn with_an_entry_of_a_later_version(dir: &Path, form: Later) {
        let mut options = options();
        options.default.compression = CompressionType::None;
        let db = Db::open(dir, &options).unwrap();
        db.put(b"a", &[7; 500]).unwrap();
        db.put_entity(b"b", [("column", "value")]).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        change_manifest(dir, |edit| edit.table_facts.clear());
        let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "sst");
        let table = files(dir).into_keys().find(is_table).unwrap();
        let mut bytes = std::fs::read(&table).unwrap();
        change_first_block(&mut bytes, |block, _| {
            let entity = b"\x01\x01\x06column\x05value";
            let at = block.windows(entity.len()).position(|part| part == entity);
            let at = at.unwrap();
            match form {
                Later::Entity => block[at] = 3,
                // The type is the first byte after the user key.
                Later::ValueType => block[at - 8] = 0x1a,
            }
        });
        std::fs::write(&table, bytes).unwrap();
    }

    #[test]
    fn opening_to_write_names_an_entry_that_is_not_understood_wherever_it_is() {
        for form in [Later::Entity, Later::ValueType] {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            with_an_entry_of_a_later_version(dir, form);
            let before = files(dir);
            let error = Db::open(dir, &options()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{form:?}: {error}");
            assert!(error.path().unwrap().to_str().unwrap().ends_with(".sst"));
            let to = tempfile::tempdir().unwrap();
            let to = RepairTo::Directory(to.path().join("repaired"));
            let error = repair(dir, &to, &Default::default(), &mut |_| {}).unwrap_err();
            let kind = error.kind().name();
            assert_eq!(kind, ErrorKind::Unsupported.name(), "{form:?}: {error}");
            assert!(files(dir) == before);
            let db = Db::open_read_only(dir, &options()).unwrap();
            assert_eq!(db.get(b"a").unwrap().unwrap(), [7; 500][..]);
            let error = db.get(b"b").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{form:?}: {error}");
        }
    }

    fn files(dir: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(dir).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|p| (p.clone(), std::fs::read(p).unwrap()))
            .collect()
    }

    #[test]
    fn opening_to_write_names_the_table_and_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        with_unknown_pointers(dir);
        let before = files(dir);
        let error = Db::open(dir, &options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.path().unwrap().to_str().unwrap().ends_with(".sst"));
        assert!(error.message().contains(".blob in a form"), "{error}");
        assert!(files(dir) == before);

        let db = Db::open_read_only(dir, &options()).unwrap();
        assert_eq!(db.get(b"a").unwrap().unwrap(), [7; 500][..]);
        assert_eq!(db.get(b"b").unwrap().unwrap(), "inline");
        db.close().unwrap();
        let report = check(dir, &Default::default(), &mut |_| {}).unwrap();
        let problems = format!("{:?}", report.problems);
        assert!(problems.contains("oldest blob file"), "{problems}");
        let to = tempfile::tempdir().unwrap();
        let to = RepairTo::Directory(to.path().join("repaired"));
        let error = repair(dir, &to, &Default::default(), &mut |_| {}).unwrap_err();
        assert_eq!(
            error.kind().name(),
            ErrorKind::Unsupported.name(),
            "{error}"
        );
        assert!(files(dir) == before);
    }

    #[test]
    fn a_downgrade_names_the_table_and_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let db = Db::open(dir, &options()).unwrap();
        for n in 0..10 {
            db.put(&[b'k', n], &[n; 500]).unwrap();
        }
        db.flush().unwrap();
        for n in 0..5 {
            db.delete(&[b'k', n]).unwrap();
        }
        db.flush().unwrap();
        // The records that are left move.
        db.collect_garbage(None, None, &Default::default()).unwrap();
        db.put(b"b", b"inline").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        make_pointers_unknown(dir);
        let before = files(dir);
        let is_map = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "blobmap");
        assert!(before.keys().any(is_map), "there is something to be undone");
        let error = downgrade(dir, &Default::default(), &mut |_| {}).unwrap_err();
        let kind = error.kind().name();
        assert_eq!(kind, ErrorKind::Unsupported.name(), "{error}");
        assert!(error.message().contains(".blob in a form"), "{error}");
        assert!(files(dir) == before);
    }
}
