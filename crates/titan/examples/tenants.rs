//! Many tenants: small ones share a database, with a family each; a large one has its own.
//!
//! Families share the log, the threads and the block cache of their database, and batches go over
//! all of them. A database of its own can be moved, restored and closed by itself.
//!
//! `cargo run -p titandb --example tenants`

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use titan::{ColumnFamily, ColumnFamilyOptions, Db, Error, ErrorKind, Options, Result};

struct Tenants {
    /// Has a directory for each large tenant.
    own: PathBuf,
    shared: Db,
    /// The databases of large tenants that are open.
    open: Mutex<HashMap<String, Db>>,
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no tenant {name}"))
}

/// Fails unless the name can be one of a directory, on every file system.
fn check(name: &str) -> Result<()> {
    let may_be = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match !name.is_empty() && name.len() < 100 && name.chars().all(may_be) {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "a tenant cannot have the name {name:?}"
        ))),
    }
}

impl Tenants {
    fn open(dir: &Path) -> Result<Self> {
        let own = dir.join("own");
        std::fs::create_dir_all(&own)?;
        Ok(Tenants {
            own,
            shared: Db::open(dir.join("shared"), &Options::default())?,
            open: Mutex::default(),
        })
    }

    /// Adds a small tenant; `AlreadyExists` if there is one of the name. A small write buffer:
    /// there are many.
    fn add(&self, name: &str) -> Result<ColumnFamily> {
        if self.own_dir(name)?.exists() {
            let exists = format!("there is a tenant {name}");
            return Err(Error::new(ErrorKind::AlreadyExists, exists));
        }
        let small = ColumnFamilyOptions {
            write_buffer_size: 1 << 20,
            ..ColumnFamilyOptions::default()
        };
        self.shared.create_column_family(name, small)
    }

    /// The family of a small tenant.
    fn small(&self, name: &str) -> Result<ColumnFamily> {
        let family = self.shared.column_family(name);
        family.ok_or_else(|| missing(name))
    }

    /// The database of a large tenant. One that has a family is small, also if a move stopped
    /// half way.
    fn large(&self, name: &str) -> Result<Db> {
        let dir = self.own_dir(name)?;
        if self.shared.column_family(name).is_some() {
            return Err(missing(name));
        }
        let mut open = self.opened()?;
        if let Some(db) = open.get(name) {
            return Ok(db.clone());
        }
        let mut options = limited();
        options.db.create_if_missing = false;
        let db = Db::open(dir, &options)?;
        open.insert(name.to_owned(), db.clone());
        Ok(db)
    }

    /// Makes a small tenant a large one. Nobody writes for it meanwhile. A move that was stopped
    /// begins again.
    fn move_out(&self, name: &str) -> Result<()> {
        let from = self.small(name)?;
        let (dir, copy) = (self.own_dir(name)?, self.own.join(format!("{name}.copy")));
        for unfinished in [&dir, &copy].into_iter().filter(|dir| dir.exists()) {
            std::fs::remove_dir_all(unfinished)?;
        }
        let to = Db::open(&copy, &limited())?;
        for row in from.range(..) {
            let (key, value) = row?;
            to.put(key, value)?;
        }
        to.flush()?; // durable before the original goes
        to.close()?;
        drop(to);
        std::fs::rename(copy, dir)?;
        std::fs::File::open(&self.own)?.sync_all()?;
        self.shared.drop_column_family(&from)
    }

    /// Bytes that a small tenant takes in files and in memory.
    fn bytes(&self, name: &str) -> Result<u64> {
        let metrics = self.small(name)?.metrics();
        let tables: u64 = metrics.levels.iter().map(|level| level.bytes).sum();
        Ok(tables + metrics.blob_bytes + metrics.memtable_bytes)
    }

    /// Removes a large tenant with everything that it has.
    fn remove(&self, name: &str) -> Result<()> {
        let dir = self.own_dir(name)?;
        if let Some(db) = self.opened()?.remove(name) {
            db.close()?;
        }
        Db::destroy(dir, &Options::default())
    }

    /// The directory of a large tenant.
    fn own_dir(&self, name: &str) -> Result<PathBuf> {
        check(name)?;
        Ok(self.own.join(name))
    }

    fn opened(&self) -> Result<MutexGuard<'_, HashMap<String, Db>>> {
        let opened = self.open.lock();
        opened.map_err(|_| Error::internal("another thread panicked"))
    }
}

/// Options of a large tenant. Each has a cache, threads and files of its own, so they are limited.
fn limited() -> Options {
    let mut options = Options::default();
    options.db.block_cache_size = 8 << 20;
    options.db.max_open_files = 100;
    options
}

pub(crate) fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let tenants = Tenants::open(dir.path())?;
    for n in 0..10 {
        let family = tenants.add(&format!("tenant-{n}"))?;
        family.put("name", format!("Tenant {n}"))?;
        family.put("picture", vec![n; 20_000 * usize::from(n)])?;
    }
    tenants.shared.flush_all()?;
    assert!(tenants.bytes("tenant-9")? > 180_000);
    assert!(tenants.bytes("tenant-9")? > tenants.bytes("tenant-1")?);

    tenants.move_out("tenant-9")?;
    let again = tenants.move_out("tenant-9").map_err(|e| e.kind());
    assert_eq!(again, Err(ErrorKind::NotFound)); // it is no small one any more
    let taken = tenants.add("tenant-9").map(drop).map_err(|e| e.kind());
    assert_eq!(taken, Err(ErrorKind::AlreadyExists));
    let large = tenants.large("tenant-9")?;
    assert_eq!(large.get("name")?.as_deref(), Some(&b"Tenant 9"[..]));
    assert_eq!(large.get("picture")?.map(|it| it.len()), Some(180_000));

    // A read makes no tenant, and a name no way out of the directory.
    let unknown = tenants.large("tenant-10").map(drop).map_err(|e| e.kind());
    assert_eq!(unknown, Err(ErrorKind::NotFound));
    let outside = tenants.remove("../shared").map_err(|e| e.kind());
    assert_eq!(outside, Err(ErrorKind::InvalidArgument));

    tenants.remove("tenant-9")?;
    assert!(!tenants.own_dir("tenant-9")?.exists());
    assert_eq!(
        tenants.small("tenant-3")?.get("name")?.as_deref(),
        Some(&b"Tenant 3"[..])
    );
    tenants.shared.close()
}
