//! Workloads: lists of operations with the settings to run them under. Scripts for cases that
//! random operations rarely reach, and random ones of many shapes.

mod scripts;

use titan_testkit::ops::{Generator, Op, Weights};

use crate::settings::Settings;

pub use scripts::{brief, scripts};

/// Operations and their settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// For people to read.
    pub name: String,
    /// Settings under which it runs.
    pub settings: Settings,
    /// Operations for a new database.
    pub ops: Vec<Op>,
}

/// Random operations under random settings.
pub fn random(seed: u64, n: usize) -> Workload {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut generator = Generator::with_seed(rng.u64(..));
    generator.weights = Weights {
        put: 200,
        batch: 120,
        merge: if seed.is_multiple_of(2) { 0 } else { 80 },
        delete_range: [0, 15, 60][rng.usize(..3)],
        single_delete: 40,
        get: 10,
        scan: 5,
        snapshot: 10,
        drop_snapshot: 10,
        flush: [5, 20, 40][rng.usize(..3)],
        compact: [0, 8, 16][rng.usize(..3)],
        collect: [0, 2, 6][rng.usize(..3)],
        checkpoint: [0, 0, 3][rng.usize(..3)],
        reopen: [0, 3, 10][rng.usize(..3)],
        create_cf: 12,
        drop_cf: [0, 3, 8][rng.usize(..3)],
        synced_percent: [0, 10, 50][rng.usize(..3)],
        ..Weights::default()
    };
    generator.keys = [10, 60, 200][rng.usize(..3)];
    generator.batch_size = [3, 8, 20][rng.usize(..3)];
    generator.families = (1..=rng.usize(1..=5)).map(|i| format!("cf{i}")).collect();
    generator.value_sizes = [
        vec![0, 1, 40, 99, 100, 101, 300, 1000, 5000],
        vec![10, 20, 300],
        vec![1, 100, 4096, 33_000],
    ][rng.usize(..3)]
    .clone();
    Workload {
        name: format!("random operations {seed}"),
        settings: Settings::random(&mut rng),
        ops: generator.ops(n).0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_testkit::ops::{Ops, legal};

    #[test]
    fn scripts_can_be_read_and_every_operation_is_legal() {
        let scripts = scripts();
        assert_eq!(scripts.len(), 12);
        for Workload { name, ops, .. } in scripts.into_iter().chain(brief()) {
            assert!(ops.len() > 20, "{name}: {} operations", ops.len());
            assert_eq!(Ops(legal(&ops)).to_string(), Ops(ops).to_string(), "{name}");
        }
    }

    #[test]
    fn random_workloads_follow_from_their_seed() {
        assert_eq!(random(4, 50), random(4, 50));
        assert_ne!(random(4, 50).ops, random(5, 50).ops);
    }
}
