//! Many tenants: small ones share a database, with a family each; a large one has its own.
//!
//! Families share the log, the threads and the block cache of their database, and batches go over
//! all of them. A database of its own can be moved, restored and closed by itself.
//!
//! `cargo run -p titandb --example tenants`

use std::collections::HashMap;
use std::path::PathBuf;

use parking_lot::Mutex;
use titan::{ColumnFamily, ColumnFamilyOptions, Db, Options, Result};

struct Tenants {
    dir: PathBuf,
    shared: Db,
    own: Mutex<HashMap<String, Db>>,
}

impl Tenants {
    fn open(dir: PathBuf) -> Result<Self> {
        let shared = Db::open(dir.join("shared"), &Options::default())?;
        let own = Mutex::default();
        Ok(Tenants { dir, shared, own })
    }

    /// The family of a small tenant. A small write buffer: there are many.
    fn small(&self, name: &str) -> Result<ColumnFamily> {
        let small = ColumnFamilyOptions {
            write_buffer_size: 1 << 20,
            ..ColumnFamilyOptions::default()
        };
        self.shared.open_or_create_column_family(name, small)
    }

    /// The database of a large tenant. Each has a cache, threads and files of its own, so they are
    /// limited.
    fn large(&self, name: &str) -> Result<Db> {
        let mut own = self.own.lock();
        if let Some(db) = own.get(name) {
            return Ok(db.clone());
        }
        let mut options = Options::default();
        options.db.block_cache_size = 8 << 20;
        options.db.max_open_files = 100;
        let db = Db::open(self.dir.join(name), &options)?;
        own.insert(name.to_owned(), db.clone());
        Ok(db)
    }

    /// Makes a small tenant a large one. Nobody writes for it meanwhile.
    fn move_out(&self, name: &str) -> Result<()> {
        let (from, to) = (self.small(name)?, self.large(name)?);
        for row in from.range(..) {
            let (key, value) = row?;
            to.put(key, value)?;
        }
        to.flush()?; // durable before the original goes
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
        if let Some(db) = self.own.lock().remove(name) {
            db.close()?;
        }
        Db::destroy(self.dir.join(name), &Options::default())
    }
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let tenants = Tenants::open(dir.path().to_owned())?;
    for n in 0..10 {
        let family = tenants.small(&format!("tenant {n}"))?;
        family.put("name", format!("Tenant {n}"))?;
        family.put("picture", vec![n; 20_000 * usize::from(n)])?;
    }
    tenants.shared.flush_all()?;
    assert!(tenants.bytes("tenant 9")? > 180_000);
    assert!(tenants.bytes("tenant 9")? > tenants.bytes("tenant 1")?);

    tenants.move_out("tenant 9")?;
    assert_eq!(
        tenants.shared.column_family("tenant 9").map(|it| it.id()),
        None
    );
    let large = tenants.large("tenant 9")?;
    assert_eq!(large.get("name")?.as_deref(), Some(&b"Tenant 9"[..]));
    assert_eq!(large.get("picture")?.map(|it| it.len()), Some(180_000));

    tenants.remove("tenant 9")?;
    assert!(!dir.path().join("tenant 9").exists());
    assert_eq!(
        tenants.small("tenant 3")?.get("name")?.as_deref(),
        Some(&b"Tenant 3"[..])
    );
    tenants.shared.close()?;
    Ok(())
}
