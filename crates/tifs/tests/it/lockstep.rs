//! Operations on a volume and on the model, side by side: results and contents are equal.

use tifs_testkit::failure::seeds;
use tifs_testkit::lockstep::run;
use tifs_testkit::ops::{Generator, Shape};
use tifs_testkit::place::Place;
use tifs_testkit::regression::{Regression, Trial};

/// Runs lists of operations, and prints a reduced one that fails.
pub fn survive(first: u64, usual: u64, shape: Shape, count: usize, trial: fn(u64) -> Trial) {
    let mut passed = 0;
    for seed in seeds(first, usual) {
        let ops = Generator::with_seed(seed, shape).ops(count);
        let trial = trial(seed);
        let regression = Regression { trial, ops };
        match regression.run() {
            Ok(now) => passed += now,
            Err(failure) => {
                eprintln!("seed {seed}: {failure}\nreducing");
                let reduced = regression.reduced(|| true);
                panic!("seed {seed}: {failure}\n\nIt fails with this, maybe otherwise:\n{reduced}");
            }
        }
    }
    println!("{passed} passed");
}

#[test]
fn a_volume_in_memory_does_what_the_model_does() {
    survive(0, 60, Shape::default(), 400, |_| Trial::Memory);
}

#[test]
fn a_volume_in_the_engine_does_what_the_model_does() {
    survive(1000, 20, Shape::default(), 400, |_| Trial::Engine);
}

#[test]
fn a_volume_on_disk_does_what_the_model_does() {
    for seed in seeds(2000, 4) {
        let dir = tempfile::tempdir().unwrap();
        let ops = Generator::with_seed(seed, Shape::default()).ops(400);
        run(Place::on_disk(dir.path()), &ops).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{ops}"));
    }
}

#[test]
fn large_files_are_cut_and_grow_as_in_the_model() {
    survive(3000, 15, Shape::large_files(), 400, |_| Trial::Memory);
}
