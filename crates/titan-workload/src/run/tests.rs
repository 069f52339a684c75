use std::collections::BTreeMap;
use std::sync::Mutex;

use titan::Result;

use super::*;
use crate::keys::Key;
use crate::step::{Amount, Choice, KeyOrder, Operation};
use crate::target::{Batch, Fill, OnEach, OnValue, Visitor};

/// A database in memory.
#[derive(Default)]
struct Map {
    entries: Mutex<BTreeMap<Key, Vec<u8>>>,
    /// The sizes of batches.
    batches: Mutex<Vec<usize>>,
    /// Whether it returns the value of another key.
    confuses: bool,
}

impl Batch<Error> for Vec<(Key, Option<Vec<u8>>)> {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        self.push((*key, Some(value.to_vec())));
        Ok(())
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.push((*key, None));
        Ok(())
    }
}

impl Target for Map {
    type Error = Error;

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.entries.lock().unwrap().insert(*key, value.to_vec());
        Ok(())
    }

    fn get(&self, key: &Key, value: OnValue<'_, Error>) -> Result<bool> {
        let entries = self.entries.lock().unwrap();
        let found = match self.confuses {
            true => entries.values().next(),
            false => entries.get(key),
        };
        found.map(|bytes| value(bytes)).transpose()?;
        Ok(found.is_some())
    }

    fn multi_get(&self, keys: &[Key], value: OnEach<'_, Error>) -> Result<()> {
        for (at, key) in keys.iter().enumerate() {
            self.get(key, &mut |bytes| value(at, bytes))?;
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], entry: Visitor<'_, Error>) -> Result<()> {
        let entries = self.entries.lock().unwrap();
        for (key, value) in entries.iter().filter(|(key, _)| key.as_slice() >= from) {
            if !entry(key, value)? {
                break;
            }
        }
        Ok(())
    }

    fn delete(&self, key: &Key) -> Result<()> {
        self.entries.lock().unwrap().remove(key);
        Ok(())
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<()> {
        let mut entries = self.entries.lock().unwrap();
        entries.retain(|key, _| key < from || key >= to);
        Ok(())
    }

    fn write(&self, fill: Fill<'_, Error>) -> Result<()> {
        let mut batch = Vec::new();
        fill(&mut batch)?;
        self.batches.lock().unwrap().push(batch.len());
        for (key, value) in batch {
            match value {
                Some(value) => self.put(&key, &value)?,
                None => self.delete(&key)?,
            }
        }
        Ok(())
    }
}

fn workload() -> Workload {
    Workload {
        name: "work".to_owned(),
        about: String::new(),
        records: 1000,
        key_order: KeyOrder::Numbered,
        value_sizes: ValueSizes::Fixed(84),
        steps: Vec::new(),
    }
}

fn step(mix: &[(Operation, u32)], operations: u64) -> Step {
    Step {
        name: "step".to_owned(),
        threads: 2,
        mix: mix.to_vec(),
        keys: Choice::Uniform,
        amount: Amount {
            operations: Some(operations),
            seconds: f64::INFINITY,
        },
        rate: None,
        writer_beside: None,
        holds_snapshot: false,
        ends_killed: false,
        fresh: false,
    }
}

/// db_bench's conventions, with batches of this many entries.
fn db_bench(batch: u64) -> Conventions {
    Conventions {
        counts_per_thread: true,
        back_to_back: true,
        checks_values: false,
        batch,
    }
}

fn perform(
    map: &Map,
    live: &LiveKeys,
    step: &Step,
    beside: Option<&Step>,
    conventions: Conventions,
) -> std::result::Result<(Outcome, Option<Outcome>), Failed<Error>> {
    let workload = workload();
    let plan = Plan {
        workload: &workload,
        step,
        conventions,
        seed: 7,
        exact: true,
        live: Some(live),
        target: map,
        before_rate: || Ok(()),
    };
    let sizes = workload.value_sizes;
    let made = Made::new(step, sizes, Contents::Random, 7, beside.is_some());
    run(&plan, beside, made, Duration::from_millis(1), |_| {})
}

#[test]
fn threads_count_together_or_each_for_itself_and_the_live_keys_are_those_in_the_database() {
    let (map, live) = (Map::default(), LiveKeys::none(2000, workload().value_sizes));
    let run = |step: &Step, conventions| perform(&map, &live, step, None, conventions).unwrap().0;
    let load = run(
        &step(&[(Operation::Insert, 1)], 1000),
        Conventions::default(),
    );
    assert_eq!((load.tally.operations, live.entries()), (1000, 1000));
    assert_eq!(load.tally.bytes_written, 100_000);
    assert_eq!(load.latencies["insert"].len(), 1000);
    assert!(!load.fell_behind);

    let again = run(&step(&[(Operation::PutInOrder, 1)], 1500), db_bench(1));
    assert_eq!((again.tally.operations, live.entries()), (3000, 1000));

    let read = run(&step(&[(Operation::ReadNext, 1)], 600), db_bench(1));
    assert_eq!((read.tally.operations, read.tally.found), (1200, 1200));
    let read = run(
        &step(&[(Operation::ReadNext, 1)], 600),
        Conventions::default(),
    );
    assert_eq!(read.tally.operations, 600, "of both threads together");

    let mixed = run(
        &step(
            &[
                (Operation::Get, 3),
                (Operation::MultiGet(4), 1),
                (Operation::Delete, 1),
            ],
            2000,
        ),
        Conventions::default(),
    );
    assert!(mixed.tally.operations >= 2000 && mixed.tally.deleted > 0);
    assert!(mixed.tally.found < mixed.tally.looked_up);
    assert_eq!(map.entries.lock().unwrap().len() as u64, live.entries());
    let bytes: usize = map.entries.lock().unwrap().values().map(Vec::len).sum();
    assert_eq!(bytes as u64 + 16 * live.entries(), live.bytes());
}

#[test]
fn entries_are_written_and_deleted_in_batches_and_the_last_one_is_shorter() {
    let (map, live) = (Map::default(), LiveKeys::none(1000, workload().value_sizes));
    for operation in [Operation::PutInOrder, Operation::Delete] {
        let step = Step {
            threads: 1,
            ..step(&[(operation, 1)], 1005)
        };
        let done = perform(&map, &live, &step, None, db_bench(10)).unwrap().0;
        assert_eq!(done.tally.operations, 1005);
        let mut sizes = std::mem::take(&mut *map.batches.lock().unwrap());
        assert_eq!(sizes.pop(), Some(5));
        assert_eq!(sizes, [10; 100]);
        assert_eq!(done.latencies[operation.name()].len(), 101);
        assert_eq!(map.entries.lock().unwrap().len() as u64, live.entries());
    }
    assert!(live.entries() < 1000);
}

#[test]
fn a_lost_key_and_a_value_of_another_key_end_the_step() {
    let live = LiveKeys::none(1000, workload().value_sizes);
    let mut map = Map::default();
    let convention = Conventions::default();
    let load = step(&[(Operation::Insert, 1)], 1000);
    perform(&map, &live, &load, None, convention).unwrap();
    let get = step(&[(Operation::Get, 1)], 10_000);
    perform(&map, &live, &get, None, convention).unwrap();

    map.entries.lock().unwrap().pop_last();
    for lookup in [Operation::Get, Operation::MultiGet(10), Operation::ReadNext] {
        let reads = Step {
            threads: 1,
            ..step(&[(lookup, 1)], 100_000)
        };
        let failed = perform(&map, &live, &reads, None, convention).unwrap_err();
        let said = failed.error.to_string();
        assert!(said.contains("written"), "{lookup:?}: {said}");
    }
    map.confuses = true;
    let failed = perform(&map, &live, &get, None, convention).unwrap_err();
    assert!(failed.doing.starts_with("get number"), "{}", failed.doing);
    assert!(failed.error.to_string().contains("of another key"));
}

#[test]
fn operations_with_a_rate_begin_when_they_are_due_and_a_writer_beside_ends_with_the_step() {
    let (map, live) = (Map::default(), LiveKeys::none(1000, workload().value_sizes));
    for conventions in [Conventions::default(), db_bench(1)] {
        let each = if conventions.counts_per_thread { 1 } else { 2 };
        let paced = Step {
            rate: Some(2000.0),
            ..step(&[(Operation::Put, 1)], 20 * each)
        };
        let beside = Step {
            threads: 1,
            amount: Amount {
                operations: None,
                seconds: f64::INFINITY,
            },
            ..step(&[(Operation::Put, 1)], 0)
        };
        let done = perform(&map, &live, &paced, Some(&beside), conventions).unwrap();
        assert_eq!(done.0.tally.operations, 40);
        // The last is due 39 or, counted by each thread, 38 intervals after the first.
        assert!(done.0.seconds >= 0.019, "{}", done.0.seconds);
        assert!(done.1.unwrap().tally.operations > 0);
    }
}

#[test]
fn operations_that_were_due_and_never_sent_count_with_their_delay() {
    let (map, live) = (Map::default(), LiveKeys::none(1000, workload().value_sizes));
    let hopeless = Step {
        rate: Some(1e9),
        amount: Amount {
            operations: Some(1_000_000),
            seconds: 0.02,
        },
        ..step(&[(Operation::Put, 1)], 0)
    };
    let done = perform(&map, &live, &hopeless, None, Conventions::default()).unwrap();
    assert!(done.0.fell_behind);
    assert_eq!(done.0.latencies["put"].len(), 1_000_000);
    assert!(done.0.tally.operations < 1_000_000);
}
