//! The cost of a commit hook that does nothing, for puts.

use std::sync::Arc;

use anyhow::Result;
use titan::{BypassedRange, CommitHook, CommittedOps, Db, DbOptions, Options, SequenceNumber};

use super::sides::{Bench, Comparison, Side};

const KEYS: u64 = 1_000_000;
const PUTS: usize = 300_000;
const VALUE: [u8; 100] = [b'v'; 100];

struct Empty;

impl CommitHook for Empty {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {}

    fn on_bypass(&self, _: &BypassedRange<'_>, _: SequenceNumber) {}
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let open = |name: &str, hook: Option<Arc<dyn CommitHook>>| -> Result<Db> {
        let options = Options {
            db: DbOptions {
                commit_hook: hook,
                ..DbOptions::default()
            },
            ..Options::default()
        };
        let dir = bench.dir.join(name);
        std::fs::create_dir_all(&dir)?;
        Ok(Db::open(&dir, &options)?)
    };
    let with = open("with", Some(Arc::new(Empty)))?;
    let without = open("without", None)?;
    let puts = PUTS / bench.extent.divisor;
    let side = |name, db| Side::new(name, move |round| put(db, puts, round));
    let sides = vec![side("an empty hook", &with), side("no hook", &without)];
    let comparison = Comparison::new("puts of 100 bytes", sides);
    comparison.aiming_at(0.99).run(bench)
}

fn put(db: &Db, puts: usize, seed: u64) -> Result<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..puts {
        db.put(&rng.u64(..KEYS).to_be_bytes(), &VALUE)?;
    }
    Ok(puts)
}
