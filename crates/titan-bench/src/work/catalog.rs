//! The workloads.

use anyhow::Result;

use titan_workload::keys::KEY_BYTES;
use titan_workload::step::{Amount, Choice, KeyOrder, Operation, Step, ValueSizes, Workload};

use super::profile::Scale;
use crate::catalogue::Suite;

/// The skew of YCSB's distributions.
const SKEW: f64 = 0.99;
/// The size of values unless a workload says otherwise.
const VALUE: u32 = 4096;

/// The workload of this name, with the size given by the scale.
pub(crate) fn workload(name: &str, scale: &Scale) -> Result<Workload> {
    let sized = Sized { scale };
    Ok(match name {
        "db_bench" => sized.db_bench(),
        "ycsb" => sized.ycsb(),
        "pareto" => sized.pareto(),
        "timeseries" => sized.timeseries(),
        "large" => sized.large(),
        "snapshot" => sized.snapshot(),
        "churn" => sized.churn(),
        _ => return Err(Suite::Engines.unknown(name)),
    })
}

struct Sized<'a> {
    scale: &'a Scale,
}

impl Sized<'_> {
    /// The number of records with values of this many bytes that make up the scale's
    /// data.
    fn records(&self, value: u64) -> u64 {
        (self.scale.data / (value + KEY_BYTES as u64)).max(1)
    }

    /// A step with this many operations, cut short if they take too long.
    fn of_operations(&self, name: &str, operation: Operation, operations: u64) -> Step {
        let amount = Amount {
            operations: Some(operations),
            seconds: self.scale.at_most,
        };
        step(name, vec![(operation, 1)], amount)
    }

    /// A step with the duration given by the scale.
    fn timed(&self, name: &str, mix: Vec<(Operation, u32)>) -> Step {
        let amount = Amount {
            operations: None,
            seconds: self.scale.seconds,
        };
        step(name, mix, amount)
    }

    /// Two threads that read.
    fn read(&self, name: &str, operation: Operation) -> Step {
        Step {
            threads: 2,
            ..self.timed(name, vec![(operation, 1)])
        }
    }

    fn load(&self, records: u64) -> Step {
        Step {
            fresh: true,
            ..self.of_operations("load", Operation::Insert, records)
        }
    }

    fn db_bench(&self) -> Workload {
        let records = self.records(u64::from(VALUE));
        Workload {
            name: "db_bench".to_owned(),
            about: "The steps of RocksDB's own benchmark: 4 KiB values, keys drawn uniformly."
                .to_owned(),
            records,
            key_order: KeyOrder::Numbered,
            value_sizes: ValueSizes::Fixed(VALUE),
            steps: vec![
                Step {
                    fresh: true,
                    ..self.of_operations("fillseq", Operation::Insert, records)
                },
                Step {
                    fresh: true,
                    ..self.of_operations("fillrandom", Operation::Put, records)
                },
                Step {
                    ends_killed: true,
                    ..self.of_operations("overwrite", Operation::Put, records)
                },
                self.read("readrandom", Operation::Get),
                self.read("multireadrandom", Operation::MultiGet(16)),
                self.read("seekrandom", Operation::Scan(100)),
                self.timed("readseq", vec![(Operation::ReadNext, 1)]),
                Step {
                    writer_beside: Some(5_000.0),
                    ..self.read("readwhilewriting", Operation::Get)
                },
                Step {
                    rate: Some(4_000.0),
                    ..self.timed("overwrite at a rate", vec![(Operation::Put, 1)])
                },
                self.of_operations("deleterandom", Operation::Delete, records / 2),
            ],
        }
    }

    fn ycsb(&self) -> Workload {
        let records = self.records(1024);
        let part = |name: &str, keys, mix| Step {
            threads: 2,
            keys,
            ..self.timed(name, mix)
        };
        let popular = Choice::Zipf(SKEW);
        let (get, put) = (Operation::Get, Operation::Put);
        Workload {
            name: "ycsb".to_owned(),
            about: "The core workloads of YCSB (Cooper et al., SoCC 2010): 1 KiB values, keys in \
                    hashed order; a few keys are popular (Zipf 0.99), in D the newest are."
                .to_owned(),
            records,
            key_order: KeyOrder::Hashed,
            value_sizes: ValueSizes::Fixed(1024),
            steps: vec![
                self.load(records),
                part("A: half updates", popular, vec![(get, 50), (put, 50)]),
                part("B: 5 % updates", popular, vec![(get, 95), (put, 5)]),
                part("C: reads only", popular, vec![(get, 1)]),
                part(
                    "D: reads of the newest",
                    Choice::Latest(SKEW),
                    vec![(get, 95), (Operation::Insert, 5)],
                ),
                part(
                    "E: short scans",
                    popular,
                    vec![(Operation::ScanUpTo(100), 95), (Operation::Insert, 5)],
                ),
                part(
                    "F: read, modify, write",
                    popular,
                    vec![(get, 50), (Operation::ReadModifyWrite, 50)],
                ),
            ],
        }
    }

    fn pareto(&self) -> Workload {
        let records = self.records(1024);
        Workload {
            name: "pareto".to_owned(),
            about: "Values of mixed sizes as in production: a Pareto distribution with a mean of \
                    1 KiB, so that most are small and most bytes are in large ones."
                .to_owned(),
            records,
            key_order: KeyOrder::Hashed,
            value_sizes: ValueSizes::Pareto {
                mean: 1024.0,
                shape: 0.5,
                max: 1 << 20,
            },
            steps: vec![
                self.load(records),
                Step {
                    keys: Choice::Zipf(SKEW),
                    ..self.of_operations("overwrite, Zipf", Operation::Put, records)
                },
                self.read("readrandom", Operation::Get),
                self.read("seekrandom", Operation::Scan(20)),
            ],
        }
    }

    fn timeseries(&self) -> Workload {
        let records = self.records(512);
        Workload {
            name: "timeseries".to_owned(),
            about: "Points arrive in order of time, readers look at the newest, and what is older \
                    than the window is deleted by ranges: 512-byte values."
                .to_owned(),
            records,
            key_order: KeyOrder::Numbered,
            value_sizes: ValueSizes::Fixed(512),
            steps: vec![
                self.load(records),
                Step {
                    keys: Choice::Latest(SKEW),
                    mix: vec![
                        (Operation::Insert, 9_899),
                        (Operation::Scan(50), 100),
                        (Operation::Expire(records), 1),
                    ],
                    ..self.of_operations("ingest", Operation::Insert, records)
                },
                Step {
                    threads: 2,
                    keys: Choice::Latest(SKEW),
                    ..self.timed("read the newest", vec![(Operation::Scan(50), 1)])
                },
            ],
        }
    }

    fn large(&self) -> Workload {
        let records = self.records(1 << 20);
        Workload {
            name: "large".to_owned(),
            about: "Values of 1 MiB.".to_owned(),
            records,
            key_order: KeyOrder::Hashed,
            value_sizes: ValueSizes::Fixed(1 << 20),
            steps: vec![
                self.load(records),
                self.of_operations("overwrite", Operation::Put, records * 2),
                self.read("readrandom", Operation::Get),
                self.read("seekrandom", Operation::Scan(10)),
            ],
        }
    }

    fn snapshot(&self) -> Workload {
        let records = self.records(u64::from(VALUE)) / 2;
        Workload {
            name: "snapshot".to_owned(),
            about: "A snapshot is held while everything is overwritten four times: 4 KiB values, \
                    half the data of other workloads."
                .to_owned(),
            records,
            key_order: KeyOrder::Numbered,
            value_sizes: ValueSizes::Fixed(VALUE),
            steps: vec![
                self.load(records),
                Step {
                    holds_snapshot: true,
                    ..self.of_operations("overwrite", Operation::Put, records * 4)
                },
                self.read("readrandom after it", Operation::Get),
            ],
        }
    }

    fn churn(&self) -> Workload {
        let records = self.records(u64::from(VALUE)) / 2;
        Workload {
            name: "churn".to_owned(),
            about: "Loaded in order, then overwritten uniformly until space and speed are steady: \
                    4 KiB values, half the data of other workloads."
                .to_owned(),
            records,
            key_order: KeyOrder::Numbered,
            value_sizes: ValueSizes::Fixed(VALUE),
            steps: vec![
                self.load(records),
                {
                    let writes = records * self.scale.churns;
                    let mut churn = self.of_operations("overwrite", Operation::Put, writes);
                    // This step must reach its end.
                    churn.amount.seconds *= 3.0;
                    churn
                },
                self.read("readrandom after it", Operation::Get),
            ],
        }
    }
}

fn step(name: &str, mix: Vec<(Operation, u32)>, amount: Amount) -> Step {
    Step {
        name: name.to_owned(),
        threads: 1,
        mix,
        keys: Choice::Uniform,
        amount,
        rate: None,
        writer_beside: None,
        holds_snapshot: false,
        ends_killed: false,
        fresh: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::profile::Profile;

    #[test]
    fn every_workload_begins_with_an_empty_database_and_has_names_of_its_own() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Long] {
            let scale = profile.scale();
            for name in Suite::Engines.names() {
                let workload = workload(name, &scale).unwrap();
                assert_eq!(workload.name, *name);
                assert!(workload.steps[0].fresh, "{name}");
                let mut names: Vec<_> = workload.steps.iter().map(|step| &step.name).collect();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), workload.steps.len(), "{name}");
                for step in &workload.steps {
                    assert!(!step.mix.is_empty() && step.threads > 0, "{name}");
                    assert!(step.amount.seconds > 0.0, "{name} {}", step.name);
                }
            }
        }
    }

    #[test]
    fn churn_overwrites_everything_at_least_five_times() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Long] {
            let churn = workload("churn", &profile.scale()).unwrap();
            assert!(churn.steps[1].amount.operations.unwrap() >= 5 * churn.records);
        }
    }

    #[test]
    fn an_unknown_workload_is_told_with_those_there_are() {
        let error = workload("tpcc", &Profile::Quick.scale())
            .unwrap_err()
            .to_string();
        assert!(error.contains("tpcc") && error.contains("ycsb"), "{error}");
    }
}
