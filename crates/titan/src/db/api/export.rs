//! Writing the entries of a range to tables that any database can ingest.

use std::path::Path;
use std::sync::Arc;

use super::checkpoint::refuse_within;
use super::column_family::ColumnFamily;
use crate::db::on_disk::staging::Staging;
use crate::error::Result;
use crate::format::FileNumber;
use crate::format::entity::encode_columns;
use crate::format::file_name::FileKind;
use crate::ingest::{NewSstFile, SstFileInfo, SstFileWriter};
use crate::read::{DbIterator, ReadOptions};

impl ColumnFamily {
    /// Writes the present entries of the keys from `begin` to before `end` to tables in the new
    /// directory `dir`, from which another database can [ingest](ColumnFamily::ingest) them; absent
    /// bounds are infinite. Each key comes once: merged, without deletions, with its value or its
    /// columns in the table itself. Tables do not overlap, and have about
    /// [`target_file_size_base`](crate::ColumnFamilyOptions::target_file_size_base) bytes. Returns
    /// them in the order of their keys; an empty range gives none.
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path().join("db"), &titan::Options::default())?;
    /// # let other = titan::Db::open(dir.path().join("other"), &titan::Options::default())?;
    /// db.put("user/7", "Ada")?;
    /// let tables = db.export(dir.path().join("users"), Some(b"user/"), Some(b"user0"))?;
    /// let paths: Vec<_> = tables.iter().map(|table| &table.path).collect();
    /// other.ingest(&paths, &titan::IngestOptions::default())?;
    /// assert_eq!(other.get("user/7")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The directory appears whole: it is made under another name, `DIR.tmp`, and all of it is
    /// durable on return. Cost: reads the range once, and writes it once. Other calls go on.
    ///
    /// # Errors
    /// `AlreadyExists` if something has one of the names; `Locked` if another export to it is under
    /// way; `InvalidArgument` for a place within a database; those of reads; `NoSpace`, `Io`;
    /// `Closed` if the database is closed meanwhile. Nothing has the name `dir` then.
    pub fn export(
        &self,
        dir: impl AsRef<Path>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<Vec<SstFileInfo>> {
        self.export_with(dir, begin, end, &ReadOptions::default())
    }

    /// The same, read with `options`: of a snapshot, for example. Their bounds are replaced.
    ///
    /// # Errors
    /// As [`ColumnFamily::export`].
    pub fn export_with(
        &self,
        dir: impl AsRef<Path>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &ReadOptions,
    ) -> Result<Vec<SstFileInfo>> {
        let options = ReadOptions {
            lower_bound: begin.map(<[u8]>::to_vec),
            upper_bound: end.map(<[u8]>::to_vec),
            fill_cache: false,
            ..options.clone()
        };
        let exported = self.export_to(dir.as_ref(), &options);
        exported.map_err(|e| e.context(format!("exporting column family {}", self.name())))
    }

    fn export_to(&self, dir: &Path, options: &ReadOptions) -> Result<Vec<SstFileInfo>> {
        let vfs = &*self.core.shared.files.vfs;
        let mut entries = self.iter(options)?;
        refuse_within(vfs, dir)?;
        let staging = Staging::start(vfs, dir)?;
        let mut tables = self.write_tables(staging.path(), &mut entries)?;
        // ORDER: after the tables and their names, which are synced as each is finished.
        staging.publish()?;
        // The future database of a staging has this file, and an export needs none.
        let _ = vfs.remove(&FileKind::Lock.path(dir));
        for (table, nth) in tables.iter_mut().zip(1..) {
            table.path = FileKind::Table(FileNumber(nth)).path(dir);
        }
        Ok(tables)
    }

    fn write_tables(&self, dir: &Path, entries: &mut DbIterator) -> Result<Vec<SstFileInfo>> {
        let shared = &*self.core.shared;
        let family = self.family.options();
        let mut tables: Vec<SstFileInfo> = Vec::new();
        let mut current: Option<SstFileWriter> = None;
        entries.seek_to_first()?;
        while entries.valid() {
            let target = family.target_file_size_base;
            let is_full = |table: &mut SstFileWriter| table.file_size() >= target;
            if let Some(full) = current.take_if(is_full) {
                tables.push(full.finish()?);
                shared.check_open()?;
            }
            let table = match &mut current {
                Some(table) => table,
                none => none.insert(SstFileWriter::start(NewSstFile {
                    path: FileKind::Table(FileNumber(tables.len() as u64 + 1)).path(dir),
                    column_family_name: "",
                    family: &family,
                    vfs: Arc::clone(&shared.files.vfs),
                    clock: &*shared.opening.clock,
                    direct: shared.files.env.direct_io,
                })?),
            };
            match entries.is_entity() {
                true => {
                    let columns = entries.columns()?;
                    let read = columns
                        .iter()
                        .map(|(name, value)| Ok((name, value.fetch()?)));
                    let read: Vec<_> = read.collect::<Result<_>>()?;
                    table.put_encoded_entity(entries.key(), &encode_columns(read)?)?;
                }
                false => match entries.value_in_place() {
                    Some(value) => table.put(entries.key(), value)?,
                    None => table.put(entries.key(), entries.value()?)?,
                },
            }
            entries.next()?;
        }
        if let Some(last) = current {
            tables.push(last.finish()?);
        }
        Ok(tables)
    }
}
