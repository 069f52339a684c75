//! Point reads of the newest of ten versions, beside the engine's gets.

use anyhow::{Result, bail};
use bytes::Bytes;
use titan::{Db, ReadOptions};
use titan_mvcc::Store;

use super::super::sides::{Bench, Comparison, Side};
use super::rows::{key, load, load_plain, plain, store};

const VERSIONS: u64 = 10;
const READS: u64 = 500_000;

pub(in crate::features) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (dir, extent) = (bench.dir, bench.extent);
    for (rows, size) in [(10_000_000, 100), (1_000_000, 4096)] {
        let rows = extent.of(rows);
        let value = vec![b'v'; size];
        let versions = store(&dir.join("versions"))?;
        load(&versions, rows, VERSIONS, &value)?;
        let engine = plain(&dir.join("plain"))?;
        load_plain(&engine, rows, &value)?;
        let newest = newest_entries(versions.db())?;
        let snapshot = versions.snapshot();
        let reads = extent.of(READS);
        let family = versions.db().column_family("versions");
        let sides = vec![
            Side::new("titan-mvcc, get of a snapshot", |round| {
                each(reads, rows, round, |n| Ok(snapshot.get(&key(n))?))
            }),
            Side::new("titan-mvcc, snapshot and get", |round| {
                each(reads, rows, round, |n| {
                    Ok(versions.snapshot().get(&key(n))?)
                })
            }),
            Side::new("titan, get of rows without versions", |round| {
                each(reads, rows, round, |n| Ok(engine.get(&key(n))?))
            }),
            Side::new("titan, get of the same entries", |round| {
                each(reads, rows, round, |n| {
                    let key = newest.get(n as usize);
                    let (Some(family), Some(key)) = (&family, key) else {
                        return Ok(None);
                    };
                    Ok(family.get(key)?)
                })
            }),
        ];
        let name = format!("point reads, {rows} rows of {size} bytes, {VERSIONS} versions");
        let comparison = Comparison::new(name, sides).by_processor_time();
        comparison.aiming_at(0.8).run(bench)?;
        close(versions, engine)?;
        std::fs::remove_dir_all(dir)?;
    }
    Ok(std::fs::create_dir_all(dir)?)
}

fn close(versions: Store, engine: Db) -> Result<()> {
    versions.close()?;
    Ok(engine.close()?)
}

/// The engine's keys of the newest version of each row, in the order of rows.
fn newest_entries(db: &Db) -> Result<Vec<Vec<u8>>> {
    let mut newest = Vec::new();
    if let Some(family) = db.column_family("versions") {
        let mut entries = family.iter(&ReadOptions::default())?;
        entries.seek_to_first()?;
        while entries.valid() {
            newest.push(entries.key().to_vec());
            entries.next_prefix()?;
        }
    }
    Ok(newest)
}

fn each(
    reads: u64,
    rows: u64,
    seed: u64,
    mut get: impl FnMut(u64) -> Result<Option<Bytes>>,
) -> Result<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..reads {
        let n = rng.u64(..rows);
        match get(n)? {
            Some(value) => drop(std::hint::black_box(value)),
            None => bail!("row {n} is not there"),
        }
    }
    Ok(reads as usize)
}
