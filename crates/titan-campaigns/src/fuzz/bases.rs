//! The databases whose directories are damaged: how they are created and loaded.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use titan::vfs::Vfs;
use titan::{ColumnFamily, CompressionType, Db, Options, Result, WriteBatch, WriteOptions};
use titan_testkit::sim::SimVfs;

use super::checksums::{self, Piece};
use super::{certified, small};
use crate::store::{DIR, file};

/// The family that each base has besides the default one.
const OTHER: &str = "other";

/// A directory, in memory.
pub(super) struct Base {
    pub(super) name: String,
    /// Whether all values are those of [`certified`]; otherwise RocksDB wrote the directory.
    pub(super) certified: bool,
    /// By name.
    pub(super) files: Vec<BaseFile>,
}

/// A file of it.
pub(super) struct BaseFile {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    /// The parts that have a checksum.
    pub(super) pieces: Vec<Piece>,
}

/// Recipe for one of the bases.
struct Recipe {
    name: &'static str,
    set: fn(&mut Options),
    fill: fn(&Db) -> Result<()>,
}

const RECIPES: &[Recipe] = &[
    Recipe {
        name: "inline",
        set: |o| {
            o.default.enable_blob_files = false;
            o.default.compression = CompressionType::None;
        },
        fill,
    },
    Recipe {
        name: "separated",
        set: |o| {
            o.default.min_blob_size = 30;
            o.default.compression = CompressionType::None;
        },
        fill,
    },
    Recipe {
        name: "compressed",
        set: |o| {
            o.default.min_blob_size = 100;
            o.default.compression = CompressionType::Lz4;
            o.default.blob_compression_type = CompressionType::Zstd;
        },
        fill,
    },
];

/// Has relocated records and holes. It was added after all others and stays at the end: inputs name
/// bases by number.
const COLLECTED: Recipe = Recipe {
    name: "collected",
    set: |o| {
        o.default.min_blob_size = 30;
        o.default.compression = CompressionType::None;
        o.default.blob_file_size = 1 << 20;
        o.default.enable_blob_garbage_collection = true;
        o.default.blob_garbage_collection_punch_holes = true;
        // The garbage left beside holes is no reason to relocate the rest.
        o.default.blob_garbage_collection_low_threshold = 0.4;
        o.default.blob_garbage_collection_high_threshold = 0.5;
        o.default.max_space_amp = 3.0;
    },
    fill: fill_collected,
};

/// The small ones of RocksDB's fixtures: files of other writers, features that Titan only reads.
const FIXTURES: &[&str] = &["rocksdb-7.8-deletes", "rocksdb-9.8-partitioned"];

/// Writes the bases to a directory of the operating system, each into its own subdirectory.
///
/// # Errors
/// Those of the database, and of the operating system.
pub fn create(to: &Path) -> Result<()> {
    for recipe in RECIPES.iter().chain([&COLLECTED]) {
        let vfs = SimVfs::new();
        let mut options = small(&vfs);
        options.default.disable_auto_compactions = true;
        (recipe.set)(&mut options);
        let db = Db::open(DIR, &options)?;
        db.create_column_family(OTHER, options.default.clone())?;
        (recipe.fill)(&db)?;
        db.close()?;
        drop(db);
        vfs.remove(&file("LOCK"))?;
        vfs.copy_out_to(DIR, to.join(recipe.name))?;
    }
    Ok(())
}

/// Overwrites, deletions of every kind, tables in two levels, and a WAL with the rest.
fn fill(db: &Db) -> Result<()> {
    for version in certified::VERSIONS {
        for family in db.column_families() {
            put(&family, version)?;
        }
        match version {
            0 | 1 => db.flush_all()?,
            2 => {
                for family in db.column_families() {
                    family.compact_range(None, None, &Default::default())?;
                    family.delete_range(&certified::key(3), &certified::key(5))?;
                    family.delete(&certified::key(7))?;
                }
                db.flush_all()?;
            }
            _ => {}
        }
    }
    let mut batch = WriteBatch::new();
    for family in db.column_families() {
        batch.delete(&family, certified::key(9))?;
        batch.delete_range(&family, certified::key(15), certified::key(17))?;
    }
    db.write(batch, &WriteOptions::synced())
}

/// Of some values every second one is deleted, and the others are relocated; of the later ones
/// adjacent values are deleted, and become holes.
fn fill_collected(db: &Db) -> Result<()> {
    let (moved, punched): (Vec<u32>, Vec<u32>) = (0..16).partition(|n| *n < 6);
    let neighbours = punched.get(1..8).unwrap_or_default();
    let seconds: Vec<u32> = moved.iter().copied().step_by(2).collect();
    for family in db.column_families() {
        for (all, dying) in [(&moved, &seconds[..]), (&punched, neighbours)] {
            for (keys, version) in [(&all[..], certified::LONG), (dying, 0)] {
                for key in keys.iter().copied().map(certified::key) {
                    family.put(&key, &certified::value(family.name(), &key, version))?;
                }
                family.flush()?;
            }
            family.compact_range(None, None, &Default::default())?;
            db.wait_idle()?;
        }
    }
    Ok(())
}

/// Writes a version of some of the keys: other keys for each version.
fn put(family: &ColumnFamily, version: u32) -> Result<()> {
    let keys = certified::KEYS.filter(|n| !(n + version).is_multiple_of(3));
    for key in keys.map(certified::key) {
        family.put(&key, &certified::value(family.name(), &key, version))?;
    }
    Ok(())
}

/// The committed bases, RocksDB's directories, and later additions. Unreadable ones are omitted;
/// without any there is nothing to damage.
pub(super) fn all() -> &'static [Base] {
    static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let own = root.join("fuzz/directories");
        let foreign = root.join("crates/titan/tests/fixtures");
        let first = RECIPES.iter().map(|r| load(own.join(r.name), r.name, true));
        let foreign = FIXTURES.iter().map(|n| load(foreign.join(n), n, false));
        let collected = [&COLLECTED].into_iter();
        let collected = collected.map(|r| load(own.join(r.name), r.name, true));
        let all = first.chain(foreign).chain(collected);
        all.filter_map(std::io::Result::ok).collect()
    });
    &BASES
}

fn load(dir: PathBuf, name: &str, certified: bool) -> std::io::Result<Base> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(entry.path())?;
        files.push(BaseFile {
            pieces: checksums::pieces(&name, &bytes),
            name,
            bytes,
        });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Base {
        name: name.to_owned(),
        certified,
        files,
    })
}
