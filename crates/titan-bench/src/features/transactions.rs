//! Commits of transactions that put four values of 100 bytes under random keys.

use std::path::Path;

use anyhow::Result;
use titan::{Db, DbOptions, ErrorKind, Options, TransactionOptions, WriteBatch, WriteOptions};

use super::sides::{Bench, Comparison, Side};

const KEYS: u64 = 1_000_000;
const COMMITS: usize = 100_000;
const PUTS: usize = 4;
const VALUE: [u8; 100] = [b'v'; 100];

/// Commits the keys of one transaction; false if the race for one of them was lost.
trait Commits: Sync {
    fn commit(&self, keys: &[[u8; 16]; PUTS]) -> Result<bool>;
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    for (kind, pessimistic) in [("optimistic", false), ("pessimistic", true)] {
        for threads in [1, 8] {
            let dir = bench.dir.join(format!("{kind}-{threads}"));
            let titan = open(&dir.join("titan"))?;
            let batches = Batches(open(&dir.join("batches"))?);
            let options = match pessimistic {
                true => TransactionOptions::pessimistic(),
                false => TransactionOptions::default(),
            };
            let transactions = Transactions(titan, options);
            #[cfg(feature = "rocksdb")]
            let peer = peer::open(&dir.join("rocksdb"), pessimistic)?;
            let commits = COMMITS / bench.extent.divisor;
            let same = "titan, the same as write batches";
            let sides = vec![
                side("titan", &transactions, threads, commits),
                side(same, &batches, threads, commits),
                #[cfg(feature = "rocksdb")]
                side("rocksdb", &*peer, threads, commits),
            ];
            let name = format!("{kind} commits of {PUTS} puts, {threads} threads");
            let comparison = Comparison::new(name, sides).aiming_at(1.0);
            comparison.run(bench)?;
        }
    }
    Ok(())
}

fn open(dir: &Path) -> Result<Db> {
    let options = Options {
        db: DbOptions {
            create_if_missing: true,
            ..DbOptions::default()
        },
        ..Options::default()
    };
    std::fs::create_dir_all(dir)?;
    Ok(Db::open(dir, &options)?)
}

fn side<'a, C: Commits + ?Sized>(
    name: &'static str,
    to: &'a C,
    threads: u64,
    commits: usize,
) -> Side<'a> {
    let each = (commits as u64 / threads).max(1);
    Side::of_threads(name, threads, each, move |seed| commit_all(to, each, seed))
}

fn commit_all<C: Commits + ?Sized>(to: &C, commits: u64, seed: u64) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..commits {
        let keys = [(); PUTS].map(|()| key(rng.u64(..KEYS)));
        while !to.commit(&keys)? {}
    }
    Ok(())
}

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key-............";
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

struct Transactions(Db, TransactionOptions);

impl Commits for Transactions {
    fn commit(&self, keys: &[[u8; 16]; PUTS]) -> Result<bool> {
        let transaction = self.0.begin(&self.1)?;
        let put = |key| transaction.put(&self.0, key, VALUE);
        let done = keys.iter().try_for_each(put);
        match done.and_then(|()| transaction.commit()) {
            Ok(()) => Ok(true),
            Err(e) if is_lost_race(e.kind()) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

fn is_lost_race(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, Deadlock, LockTimeout};
    matches!(kind, Conflict | Deadlock | LockTimeout)
}

struct Batches(Db);

impl Commits for Batches {
    fn commit(&self, keys: &[[u8; 16]; PUTS]) -> Result<bool> {
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.put(&*self.0, key, VALUE)?;
        }
        self.0.write(batch, &WriteOptions::default())?;
        Ok(true)
    }
}

#[cfg(feature = "rocksdb")]
mod peer {
    use std::path::Path;

    use anyhow::Result;
    use rocksdb::{
        ErrorKind, OptimisticTransactionDB, Options, Transaction, TransactionDB,
        TransactionDBOptions,
    };

    use crate::features::transactions::{Commits, PUTS, VALUE};

    pub(super) fn open(dir: &Path, pessimistic: bool) -> Result<Box<dyn Commits>> {
        let mut options = Options::default();
        options.create_if_missing(true);
        std::fs::create_dir_all(dir)?;
        Ok(match pessimistic {
            true => {
                let locks = TransactionDBOptions::default();
                Box::new(TransactionDB::<rocksdb::MultiThreaded>::open(
                    &options, &locks, dir,
                )?)
            }
            false => {
                let db = OptimisticTransactionDB::<rocksdb::MultiThreaded>::open(&options, dir)?;
                Box::new(db)
            }
        })
    }

    fn commit<D>(transaction: Transaction<'_, D>, keys: &[[u8; 16]; PUTS]) -> Result<bool> {
        let done = keys.iter().try_for_each(|key| transaction.put(key, VALUE));
        match done.and_then(|()| transaction.commit()) {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::TimedOut) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    impl Commits for TransactionDB<rocksdb::MultiThreaded> {
        fn commit(&self, keys: &[[u8; 16]; PUTS]) -> Result<bool> {
            commit(self.transaction(), keys)
        }
    }

    impl Commits for OptimisticTransactionDB<rocksdb::MultiThreaded> {
        fn commit(&self, keys: &[[u8; 16]; PUTS]) -> Result<bool> {
            commit(self.transaction(), keys)
        }
    }
}
