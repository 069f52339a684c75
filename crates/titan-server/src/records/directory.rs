//! The directory of a node and its databases.
//!
//! ```text
//! DIR/versions   the store of versions, for calls with transactions
//! DIR/node       records of the node, and raw keys
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::vfs::Vfs;
use titan::{ColumnFamily, ColumnFamilyOptions, Db, DbOptions, Options};

use super::numbers;
use crate::error::{Error, Result};
use crate::raw::DropExpired;

/// The format of records that this version reads and writes.
const FORMAT: u64 = 1;
/// The key of the format among the records. Only a node has it.
const FORMAT_KEY: &[u8] = b"titan serve: format";
/// The key of the number of the cluster.
const CLUSTER_KEY: &[u8] = b"cluster";

/// An open directory.
pub(crate) struct Directory {
    /// The directory of the store of versions.
    pub(crate) versions: PathBuf,
    /// The database of records and raw keys.
    pub(crate) db: Db,
    /// Regions by their numbers.
    pub(crate) regions: ColumnFamily,
    /// Raw keys.
    pub(crate) raw: ColumnFamily,
    /// The number of the cluster, which clients compare.
    pub(crate) cluster_id: u64,
}

impl Directory {
    /// Opens the directory of a node, or makes one of an empty or missing directory.
    ///
    /// # Errors
    /// `NotANode`; those of [`Db::open`].
    pub(crate) fn open(dir: &Path, options: &DbOptions) -> Result<Self> {
        let (records, versions) = (dir.join("node"), dir.join("versions"));
        let vfs = &options.vfs;
        refuse_foreign(&**vfs, dir, &records)?;
        vfs.create_dir_all(dir)?;
        let clock = Arc::clone(&options.clock);
        let mut options = Options {
            db: options.clone(),
            ..Options::default()
        };
        options
            .families
            .insert("regions".to_owned(), ColumnFamilyOptions::default());
        let raw = ColumnFamilyOptions {
            compaction_filter: Some(Arc::new(DropExpired { clock })),
            ..ColumnFamilyOptions::default()
        };
        options.families.insert("raw".to_owned(), raw);
        let db = Db::open(&records, &options)?;
        let cluster_id = match (
            numbers::get(&db, FORMAT_KEY)?,
            numbers::get(&db, CLUSTER_KEY)?,
        ) {
            (Some(FORMAT), Some(_)) if !has_database(&*options.db.vfs, &versions)? => {
                return Err(Error::not_a_node(dir, "its store of versions is missing"));
            }
            (Some(FORMAT), Some(cluster)) => cluster,
            (Some(format), _) if format != FORMAT => {
                let found = format!("its format is {format}; this version knows {FORMAT}");
                return Err(Error::not_a_node(dir, found));
            }
            (_, found) => {
                let cluster = found.unwrap_or_else(new_cluster_id);
                numbers::set(&db, CLUSTER_KEY, cluster)?;
                cluster
            }
        };
        let family = |name| {
            let missing = || Error::not_a_node(dir, format!("no column family {name}"));
            db.column_family(name).ok_or_else(missing)
        };
        Ok(Directory {
            versions,
            regions: family("regions")?,
            raw: family("raw")?,
            db,
            cluster_id,
        })
    }
}

impl Directory {
    /// Notes that the store of versions was made. From then on it must be there.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn confirm(&self) -> Result<()> {
        if numbers::get(&self.db, FORMAT_KEY)?.is_none() {
            numbers::set(&self.db, FORMAT_KEY, FORMAT)?;
        }
        Ok(())
    }
}

/// Refuses a directory that has files and no records. The records of a first start that was cut off
/// may be without their head.
fn refuse_foreign(vfs: &dyn Vfs, dir: &Path, records: &Path) -> Result<()> {
    let mut names = match vfs.read_dir(dir) {
        Ok(names) => names,
        Err(e) if e.is_not_found() => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    if has_database(vfs, records)? {
        return Ok(());
    }
    names.sort();
    let own = records.file_name().unwrap_or_default();
    let is_cut_off = names.iter().all(|name| **name == *own) && is_begun(vfs, records)?;
    match names.first() {
        None => Ok(()),
        Some(_) if is_cut_off => Ok(()),
        Some(_) if names.iter().any(|name| name == "CURRENT") => {
            Err(Error::not_a_node(dir, "it is a database"))
        }
        Some(first) => Err(Error::not_a_node(
            dir,
            format!("it has {first} and no records"),
        )),
    }
}

/// Returns true for a directory in which a database may have been begun: a lock comes first.
fn is_begun(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    match vfs.read_dir(dir) {
        Ok(names) => Ok(names.is_empty() || names.iter().any(|name| name == "LOCK")),
        Err(e) if e.is_not_found() => Ok(true),
        Err(e) => Err(e.into()),
    }
}

/// Returns true for a directory with a database.
fn has_database(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    Ok(vfs.exists(&dir.join("CURRENT"))?)
}

/// A number that no other cluster has, probably: clients refuse a cluster with another number
/// than before.
fn new_cluster_id() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The state of each hasher is random.
    let random = std::hash::RandomState::new().build_hasher().finish();
    // Some clients take it for a signed number; 0 means unknown.
    (random >> 1).max(1)
}
