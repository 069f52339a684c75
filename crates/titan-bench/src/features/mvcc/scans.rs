//! Scans: over rows with many versions beside rows with one, and over dead rows beside the engine's
//! steps.

use anyhow::{Result, bail};
use titan::ReadOptions;
use titan_mvcc::{Direction, Snapshot, Store};

use super::super::sides::{Bench, Comparison, Side};
use super::badger::Badger;
use super::rows::{delete, key, load, store};

/// Live rows of a scan.
const LIVE: usize = 100;
const ROWS: u64 = 100_000;
const VERSIONS: u64 = 100;
const SCANS: u64 = 20_000;
/// Dead rows of a scan.
const DEAD: u64 = 10_000;
const DEAD_SCANS: u64 = 500;
/// Rows of the scans beside Badger.
const MANY: u64 = 10_000_000;

pub(in crate::features) fn run(bench: &mut Bench<'_>) -> Result<()> {
    for size in [100, 4096] {
        many_versions(bench, size)?;
    }
    dead_rows(bench)?;
    beside_badger(bench)?;
    Ok(std::fs::create_dir_all(bench.dir)?)
}

fn many_versions(bench: &mut Bench<'_>, size: usize) -> Result<()> {
    let (dir, extent) = (bench.dir, bench.extent);
    // 4 KiB a version would be 40 GB.
    let rows = extent
        .of(if size > 1000 { ROWS / 10 } else { ROWS })
        .max(LIVE as u64);
    let value = vec![b'v'; size];
    let (many, one) = (store(&dir.join("many"))?, store(&dir.join("one"))?);
    load(&many, rows, VERSIONS, &value)?;
    load(&one, rows, 1, &value)?;
    let scans = extent.of(SCANS);
    let side = |name, store: &Store| {
        let snapshot = store.snapshot();
        Side::new(name, move |round| {
            let mut rng = fastrand::Rng::with_seed(round);
            for _ in 0..scans {
                let from = rng.u64(..=rows - LIVE as u64);
                scan(&snapshot, from, LIVE)?;
            }
            Ok(scans as usize)
        })
    };
    let sides = vec![side("100 versions", &many), side("1 version", &one)];
    let name = format!("scans of {LIVE} rows of {size} bytes among {rows}");
    let comparison = Comparison::new(name, sides).by_processor_time();
    comparison.aiming_at(0.5).run(bench)?;
    many.close()?;
    one.close()?;
    Ok(std::fs::remove_dir_all(dir)?)
}

fn dead_rows(bench: &mut Bench<'_>) -> Result<()> {
    let (dir, extent) = (bench.dir, bench.extent);
    let dead = DEAD;
    let store = store(&dir.join("dead"))?;
    load(&store, dead, 1, &[b'v'; 100])?;
    delete(&store, dead)?;
    let scans = extent.of(DEAD_SCANS);
    let snapshot = store.snapshot();
    let versions = store.db().column_family("versions");
    let sides = vec![
        Side::new("titan-mvcc, a scan", |_| {
            for _ in 0..scans {
                scan(&snapshot, 0, 0)?;
            }
            Ok(scans as usize)
        }),
        Side::new("titan, next of each entry", |_| {
            for _ in 0..scans {
                let Some(versions) = &versions else {
                    bail!("the family of versions is missing");
                };
                let mut entries = versions.iter(&ReadOptions::default())?;
                entries.seek_to_first()?;
                let mut n = 0;
                while entries.valid() {
                    n += 1;
                    entries.next()?;
                }
                if n != dead * 2 {
                    bail!("{n} entries instead of two for each of {dead} rows");
                }
            }
            Ok(scans as usize)
        }),
    ];
    let name = format!("{dead} dead rows");
    let comparison = Comparison::new(name, sides).by_processor_time();
    // 0.7 of the time.
    comparison.aiming_at(1.0 / 0.7).run(bench)?;
    store.close()?;
    Ok(std::fs::remove_dir_all(dir)?)
}

/// Badger's time is that of its process, so both sides are compared by the clock.
fn beside_badger(bench: &mut Bench<'_>) -> Result<()> {
    let (dir, extent) = (bench.dir, bench.extent);
    let rows = extent.of(MANY).max(LIVE as u64);
    let Some(mut badger) = Badger::start_if(extent.badger, &dir.join("badger"))? else {
        return Ok(());
    };
    let value = [b'v'; 100];
    let store = store(&dir.join("versions"))?;
    load(&store, rows, 1, &value)?;
    badger.load(rows, value.len())?;
    let scans = extent.of(SCANS);
    let snapshot = store.snapshot();
    let sides = vec![
        Side::new("titan-mvcc", |round| {
            let mut rng = fastrand::Rng::with_seed(round);
            for _ in 0..scans {
                scan(&snapshot, rng.u64(..=rows - LIVE as u64), LIVE)?;
            }
            Ok(scans as usize)
        }),
        Side::new("badger", |round| {
            badger.scan(scans, LIVE, rows, round)?;
            Ok(scans as usize)
        }),
    ];
    let name = format!("scans of {LIVE} rows of 100 bytes among {rows}, one version");
    Comparison::new(name, sides).aiming_at(1.5).run(bench)?;
    store.close()?;
    Ok(std::fs::remove_dir_all(dir)?)
}

/// Reads so many rows from one on, all if there are none to be.
fn scan(snapshot: &Snapshot, from: u64, rows: usize) -> Result<()> {
    let from = key(from);
    let mut scan = snapshot.scan(Some(&from), None, Direction::Forward)?;
    for n in 0..rows {
        let Some(row) = scan.next().transpose()? else {
            bail!("only {n} rows instead of {rows}");
        };
        std::hint::black_box(row.value.fetch()?);
    }
    if rows == 0 && scan.next().is_some() {
        bail!("a dead row is alive");
    }
    Ok(())
}
