//! Counters that merges increment, and gets of them.

use anyhow::Result;
use titan::merge::builtin;
use titan::{ColumnFamilyOptions, Db, Options};

use super::sides::{Bench, Comparison, Side};

const COUNTERS: u64 = 100_000;
const MERGES: usize = 300_000;
const GETS: usize = 100_000;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let options = Options {
        default: ColumnFamilyOptions {
            merge_operator: builtin::by_name("uint64add"),
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let path = bench.dir.join("titan");
    std::fs::create_dir_all(&path)?;
    let titan = Db::open(&path, &options)?;
    #[cfg(feature = "rocksdb")]
    let peer = peer::open(&bench.dir.join("rocksdb"))?;

    let divisor = bench.extent.divisor;
    let (merges, gets) = (MERGES / divisor, GETS / divisor);
    let merging = vec![
        Side::new("titan", |round| {
            each(merges, round, |key| {
                Ok(titan.merge(&key, &1u64.to_le_bytes())?)
            })
        }),
        #[cfg(feature = "rocksdb")]
        Side::new("rocksdb", |round| {
            each(
                merges,
                round,
                |key| Ok(peer.merge(key, 1u64.to_le_bytes())?),
            )
        }),
    ];
    let merged = Comparison::new("merges into counters", merging);
    merged.aiming_at(1.0).run(bench)?;

    let getting = vec![
        Side::new("titan", |round| {
            each(gets, round, |key| {
                titan.get(&key)?;
                Ok(())
            })
        }),
        #[cfg(feature = "rocksdb")]
        Side::new("rocksdb", |round| {
            each(gets, round, |key| {
                peer.get_pinned(key)?;
                Ok(())
            })
        }),
    ];
    let got = Comparison::new("gets of counters", getting);
    got.aiming_at(1.0).run(bench)
}

fn each(n: usize, seed: u64, mut call: impl FnMut([u8; 8]) -> Result<()>) -> Result<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..n {
        call(rng.u64(..COUNTERS).to_be_bytes())?;
    }
    Ok(n)
}

#[cfg(feature = "rocksdb")]
mod peer {
    use std::path::Path;

    use anyhow::Result;
    use rocksdb::{DB, MergeOperands, Options};

    /// The bindings have no built-in operator: this one is called through them.
    pub(super) fn open(dir: &Path) -> Result<DB> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_merge_operator_associative("counters", add);
        std::fs::create_dir_all(dir)?;
        Ok(DB::open(&options, dir)?)
    }

    fn add(_: &[u8], base: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let base = base.map_or(0, number);
        let sum = operands.iter().map(number).fold(base, u64::wrapping_add);
        Some(sum.to_le_bytes().to_vec())
    }
}
