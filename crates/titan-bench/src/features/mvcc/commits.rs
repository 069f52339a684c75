//! Commits of transactions that put four values under random keys, beside write batches of the same
//! rows.

use anyhow::Result;
use titan::{Db, WriteBatch, WriteOptions};
use titan_mvcc::{Error, Store};

use super::super::sides::{Bench, Comparison, Side};
use super::badger::Badger;
use super::rows::{Key, key, plain, store};

const ROWS: u64 = 1_000_000;
const COMMITS: u64 = 200_000;
const PUTS: usize = 4;

/// Commits the rows of one transaction.
trait Commits: Sync {
    fn commit(&self, keys: &[Key; PUTS], value: &[u8]) -> Result<()>;
}

pub(in crate::features) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (dir, extent) = (bench.dir, bench.extent);
    for (size, share) in [(100, 1), (4096, 10)] {
        for threads in [1, 8] {
            let versions = store(&dir.join("versions"))?;
            let engine = plain(&dir.join("plain"))?;
            let work = Work {
                threads,
                commits: (extent.of(COMMITS) / share / threads).max(1),
                rows: extent.of(ROWS),
                size,
            };
            let mut badger = Badger::start_if(extent.badger, &dir.join("badger"))?;
            let mut sides = vec![side("titan-mvcc", &versions, work)];
            if let Some(badger) = &mut badger {
                sides.push(Side::new("badger", move |round| {
                    badger.commit(threads, work.commits, PUTS, size, work.rows, round)?;
                    Ok((work.commits * threads) as usize)
                }));
            }
            sides.push(side("titan, the same as write batches", &engine, work));
            let name = format!("commits of {PUTS} puts of {size} bytes, {threads} threads");
            let comparison = Comparison::new(name, sides).aiming_at(0.85);
            // Badger's time is that of its own process.
            let comparison = match extent.badger {
                true => comparison,
                false => comparison.by_time_of_all_threads(),
            };
            comparison.run(bench)?;
            versions.close()?;
            engine.close()?;
            drop(badger);
            std::fs::remove_dir_all(dir)?;
        }
    }
    Ok(std::fs::create_dir_all(dir)?)
}

/// Work of a round.
#[derive(Clone, Copy)]
struct Work {
    threads: u64,
    /// Of each thread.
    commits: u64,
    rows: u64,
    /// Bytes of a value.
    size: usize,
}

fn side<'a, C: Commits>(name: &'static str, to: &'a C, work: Work) -> Side<'a> {
    let commit = move |seed| commit_all(to, work, seed);
    Side::of_threads(name, work.threads, work.commits, commit)
}

fn commit_all<C: Commits>(to: &C, work: Work, seed: u64) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let value = vec![b'v'; work.size];
    for _ in 0..work.commits {
        let keys = [(); PUTS].map(|()| key(rng.u64(..work.rows)));
        to.commit(&keys, &value)?;
    }
    Ok(())
}

impl Commits for Store {
    fn commit(&self, keys: &[Key; PUTS], value: &[u8]) -> Result<()> {
        loop {
            let mut transaction = self.begin();
            for key in keys {
                transaction.put(key, value);
            }
            match transaction.commit() {
                Ok(_) => return Ok(()),
                // Another thread committed one of the keys.
                Err(Error::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Commits for Db {
    fn commit(&self, keys: &[Key; PUTS], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.put(&**self, key, value)?;
        }
        Ok(self.write(batch, &WriteOptions::default())?)
    }
}
