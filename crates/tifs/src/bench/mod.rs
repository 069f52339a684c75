//! Measures a mounted file system by calls of programs, beside another one.
//!
//! Each round runs every workload on one directory and then on the other, so that both meet the
//! same noise; the result is the median of the rounds. Only the calls that define a workload are
//! timed. Everything is written into a new directory, which is removed at the end.

mod workload;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::error::reason;

pub use workload::{Scale, Workload};

/// The result of one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The workload.
    pub workload: &'static str,
    /// The unit: operations or MiB.
    pub unit: &'static str,
    /// The rate per second on each directory: the median of the rounds.
    pub rates: Vec<f64>,
    /// The rates of each round, on each directory.
    pub rounds: Vec<Vec<f64>>,
}

impl Measured {
    /// The speed of the first directory relative to the second, if there are two: the median of the
    /// rounds' ratios.
    pub fn ratio(&self) -> Option<f64> {
        let [first, second] = &self.rounds[..] else {
            return None;
        };
        Some(median(
            first.iter().zip(second).map(|(a, b)| a / b).collect(),
        ))
    }
}

/// Runs workloads on one or two directories. `progress` is called before each with its name, and
/// ends the run by returning false.
///
/// # Errors
/// Those of the operations; `Interrupted` if `progress` ended the run.
pub fn run(
    directories: &[PathBuf],
    workloads: &[Workload],
    scale: &Scale,
    rounds: usize,
    progress: &mut dyn FnMut(&str) -> bool,
) -> io::Result<Vec<Measured>> {
    let mut measured: Vec<Measured> = workloads
        .iter()
        .map(|workload| Measured {
            workload: workload.name(),
            unit: workload.unit(),
            rates: Vec::new(),
            rounds: vec![Vec::new(); directories.len()],
        })
        .collect();
    for round in 0..rounds {
        for (side, directory) in directories.iter().enumerate() {
            let place = Place::new(directory)?;
            for (workload, result) in workloads.iter().zip(&mut measured) {
                let step = format!("round {}, {}: {}", round + 1, side + 1, workload.name());
                if !progress(&step) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let (amount, time) = workload.run(&place.0, scale)?;
                result.rounds[side].push(rate(amount, time));
            }
        }
    }
    for result in &mut measured {
        result.rates = result.rounds.iter().cloned().map(median).collect();
    }
    Ok(measured)
}

fn rate(amount: u64, time: Duration) -> f64 {
    amount as f64 / time.as_secs_f64().max(1e-9)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A directory of its own, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(directory: &Path) -> io::Result<Place> {
        let place = directory.join(format!("tifs-bench-{}", std::process::id()));
        match std::fs::create_dir(&place) {
            Ok(()) => Ok(Place(place)),
            Err(e) => {
                let what = format!("cannot make {}: {}", place.display(), reason(&e));
                Err(io::Error::new(e.kind(), what))
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The measurement has its result; the user can see files that are left.
        let _: io::Result<()> = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn every_workload_runs_and_leaves_nothing() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directories = [first.path().to_owned(), second.path().to_owned()];
        let scale = Scale {
            files: 20,
            file_bytes: 2 << 20,
            random_writes: 64,
        };
        let mut steps = 0;
        let mut count = |_: &str| {
            steps += 1;
            true
        };
        let measured = run(&directories, &Workload::ALL, &scale, 2, &mut count).unwrap();
        assert_eq!(steps, Workload::ALL.len() * 4);
        for result in &measured {
            assert_eq!(result.rounds[0].len(), 2);
            assert!(result.rates.iter().all(|rate| *rate > 0.0), "{result:?}");
            assert!(result.ratio().unwrap() > 0.0);
        }
        assert_eq!(std::fs::read_dir(first.path()).unwrap().count(), 0);
        let ended = run(&directories, &Workload::ALL, &scale, 1, &mut |_| false);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
